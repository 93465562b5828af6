const a: number = 1;
let b!: string;
function f<T>(x?: T, ...rest: T[]): x is T { return x!; }
(f<string>('a') as unknown) satisfies unknown;
