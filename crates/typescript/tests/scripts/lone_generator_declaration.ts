function* numbers() { yield 1; }
