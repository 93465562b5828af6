(class A { static x = 1 })
