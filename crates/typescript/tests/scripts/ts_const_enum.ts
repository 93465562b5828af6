const enum E { A = 1, B = A * 2 }
E.B
