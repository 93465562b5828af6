type A<T> = T extends infer U extends string ? U : never;
type B<T> = T extends C | infer U extends string | number ? U : never;
type D<T> = T extends keyof infer U extends infer V extends string ? U extends infer W extends "a" ? 1 : 2 : 3;
type E<T> = T extends (infer U extends string ? 1 : 2) ? 3 : 4;
type F<T> = T extends [infer U extends string, ...infer V extends any[]] ? 3 : 4;
type G<T> = T extends (x: T extends string ? 1 : 2) => infer R ? R : never;
type H<T> = T extends { a: infer U extends string ? 1 : 2 } ? `${infer V extends number}` : 4;
function f<T>(x: T): T extends infer U extends string ? U : never { return x as any }
const g = (x: number): (null) => null, h = (x: number): (void | null) => null;
let a: import("m").X<<T>() => T>;
f(1)
