function F() { return new.target }
new F()
