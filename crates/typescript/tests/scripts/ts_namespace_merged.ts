namespace A.B { export let n = 1; export class C {} }
namespace A.B { n++; export const { c, ...rest } = { c: new C() }; export function f() { return n + c } }
namespace A { export enum E { X = 1 } export enum E { Y = X } const A = 2; B.f() }
A.B.n
