{ a: 1 as number, b: <string>x }
