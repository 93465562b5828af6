class A { [key: string]: unknown; accessor x = 1; static { 1 } }
new A()
