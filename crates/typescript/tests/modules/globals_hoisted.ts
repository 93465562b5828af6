if (a) { var input = 1; }
input;
