function f(this: Window, a: number) { return a }
