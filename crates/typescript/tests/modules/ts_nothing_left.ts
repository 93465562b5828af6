type A = 1;
interface B {}
