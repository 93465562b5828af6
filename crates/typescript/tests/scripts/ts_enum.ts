enum Color { Red, Green = 'g', Blue = 1 << 2, Next }
Color.Red
