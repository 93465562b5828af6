let sum = 0;
for (let i = 0; i < 200; i++) sum += await echo(i);
return sum;
