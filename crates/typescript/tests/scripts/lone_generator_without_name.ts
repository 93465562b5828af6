function* () { yield 1; }
