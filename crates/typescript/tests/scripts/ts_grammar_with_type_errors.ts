class A { static private a?: number = 1; readonly public b!: string; abstract c(): void { } constructor(a?: number, private b2: string) {} }
function f(a?: number, b: string, public c = 1) {}
new A(1, '') as any
(f)
