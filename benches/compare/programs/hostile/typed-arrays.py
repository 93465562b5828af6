all = []
while True:
    all.append(b'x' * (16 * 1024 * 1024))
