function f(a: string): string;
function f(a: number): number;
function f(a: any) { return a; }
