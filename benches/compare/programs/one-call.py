await echo(1)
