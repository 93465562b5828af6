import asyncio

text = 'x' * (1024 * 1024)
calls = []
while True:
    calls.append(echo(text))
