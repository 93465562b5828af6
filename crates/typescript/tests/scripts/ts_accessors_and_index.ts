class A { [key: string]: unknown; static { 1 } }
new A()
