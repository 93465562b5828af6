class A { #x = 1; static { this.y = 2; } has(o) { return #x in o; } }
a ??= b?.c ** 2n;
label: for await (const x of y) { continue label; }
/(?<year>\d+)/v;
