const base = 'b', two = 2;
enum E { A = +"3", B = -"3", C = ~"3", D = base, F = two, G, H = `${base}!`, I = D + 1, J = (two + 1) * 2, K = 'k'.length, L }
enum E { M = A, N = I }
E.N
