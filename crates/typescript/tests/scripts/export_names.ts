export const x = 1;
export function f() { return x; }
export class C {}
export { x as y };
f();
