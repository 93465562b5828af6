if (a) if (b) 1; else 2
