sum = 0
for i in range(200):
    sum += await echo(i)
sum
