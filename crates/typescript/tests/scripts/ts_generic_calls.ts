const s = new Set<string>(["a"]), m = new Map<string, number[]>([["a", [1]]]);
const p = new Promise<Array<Map<string, Set<number>>>>((resolve) => resolve([]));
const sum = [1, 2].reduce<number>((a, b) => a + b, 0);
const rows = a?.b<string>(c), tagged = sql<Row>`select`, made = id<{ a: string; b: number }>(d);
const spaced = new Map < string, number > (xs), union = find<"a" | "b">(xs), chain = of<1>(2)<3>(4);
const old = (async<T>(x), x ? (a) : b => c);
first < second > (third)
