sum = 0
for i in range(10_000_000):
    sum = (sum + i * 3) % 1000003
sum
