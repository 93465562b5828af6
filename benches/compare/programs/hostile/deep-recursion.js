const deeper = (n) => deeper(n + 1) + 1;
return deeper(0);
