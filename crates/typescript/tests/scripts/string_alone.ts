'hello'
