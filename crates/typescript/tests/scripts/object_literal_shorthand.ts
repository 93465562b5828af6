{ a, b }
