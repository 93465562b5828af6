f(a < b, c > (d), x < 0 | y > (h - 1))
