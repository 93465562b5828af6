all = []
while True:
    all.append({'number': len(all)})
