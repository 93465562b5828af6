let a, b;
({ a, b } = { a: 1, b: 2 });
[a, b] = [b, a]
