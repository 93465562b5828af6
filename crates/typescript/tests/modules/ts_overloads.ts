export function f(a: string): void;
export function f(a: number): void;
export function f(a: unknown) { return a; }
export default function (a: string): void;
export default function (a: unknown) { return a; }
