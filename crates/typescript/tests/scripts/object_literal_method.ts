{ greet() { return 'hi' } }
