const text = "x".repeat(1024 * 1024);
for (;;) echo(text);
