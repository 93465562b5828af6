let a: number = 1, b!: string;
function f<T extends object>(this: Window, x: T, y?: number, ...rest: string[]): x is T { return true; }
export const g = async <T,>(x: T): Promise<T> => x;
export { a, b, f };
