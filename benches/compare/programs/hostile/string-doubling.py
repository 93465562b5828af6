text = '0123456789abcdef'
while True:
    text += text
