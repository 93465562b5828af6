import asyncio

answers = await asyncio.gather(*[echo(i) for i in range(1000)])
sum(answers)
