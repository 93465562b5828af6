await echo(1);
for (;;) {}
