await echo(1)
while True:
    pass
