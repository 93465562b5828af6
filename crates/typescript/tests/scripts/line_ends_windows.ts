const a = `x
y`;
a;
