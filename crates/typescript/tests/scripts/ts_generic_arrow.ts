const id = <T,>(x: T): T => x;
id<number>(1)
