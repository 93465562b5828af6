using a = open();
await using b = open();
