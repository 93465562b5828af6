/** `runCode`: values of all kinds, functions, promises, modules and errors. */

import { after, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { runInNewContext } from "node:vm";

import { hostFunction, SerializationError, Tagged } from "execbox";

import { all, assert, boxForTests } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

async function returned(source: string, ...args: unknown[]): Promise<any> {
  return (await box.runCode(source, { args, timeout: 60_000 })).orThrow().value;
}

const values: [code: string, value: unknown][] = [
  ["null", null],
  ["undefined", undefined],
  ["[undefined, true, 'é😀\\u0000']", [undefined, true, "é😀\u0000"]],
  [
    "[0, -0, 1.5, 2 ** 53, 1e300, NaN, Infinity, -Infinity]",
    [0, -0, 1.5, 2 ** 53, 1e300, Number.NaN, Infinity, -Infinity],
  ],
  ["[7n, -(10n ** 400n), 2n ** 4000n, -(2n ** 4000n)]", [7n, -(10n ** 400n), 2n ** 4000n, -(2n ** 4000n)]],
  ["[new Date(1), new Date(-1), new Date(8.64e15)]", [new Date(1), new Date(-1), new Date(8.64e15)]],
  ["new Uint8Array([1, 2])", new Uint8Array([1, 2])],
  ["new Uint8Array(300)", new Uint8Array(300)],
  ["new Uint8Array([1, 2]).buffer", new Uint8Array([1, 2]).buffer],
  ["new Float32Array([0.5])", new Float32Array([0.5])],
  ["new BigInt64Array([-1n])", new BigInt64Array([-1n])],
  ["new Uint8ClampedArray(400)", new Uint8ClampedArray(400)],
  ["new DataView(new Uint8Array([1]).buffer)", new DataView(new Uint8Array([1]).buffer)],
  // biome-ignore lint/suspicious/noSparseArray: holes are values
  ["[1, , 2]", [1, , 2]],
  ["({ $a: 1, $$b: { $map: 2 }, c: 3, 1: 4 })", { $a: 1, $$b: { $map: 2 }, c: 3, 1: 4 }],
  [
    "new Map([[1, 2], ['a', [3]], [{}, new Map()]])",
    new Map<unknown, unknown>([
      [1, 2],
      ["a", [3]],
      [{}, new Map()],
    ]),
  ],
  ["new Set([1, true, 'a', [1]])", new Set([1, true, "a", [1]])],
  ["/a\\/+/gi", /a\/+/gi],
  ["[Object(1), Object('a'), Object(true), Object(1n)]", [Object(1), Object("a"), Object(true), Object(1n)]],
];

test("values return as they were", async () => {
  const back = await returned("export default (...values) => values", ...values.map(([, value]) => value));
  for (const [index, [code, value]] of values.entries()) same(back[index], value, code);
});

test("values are what the program has", async () => {
  const back = await returned(`export default [${values.map(([code]) => code).join(", ")}]`);
  for (const [index, [code, value]] of values.entries()) same(back[index], value, code);
});

function same(got: unknown, expected: unknown, code: string): void {
  assert.deepEqual(got, expected, code);
  assert.equal(Object.prototype.toString.call(got), Object.prototype.toString.call(expected), code);
}

test("errors are errors", async () => {
  const given = new RangeError("far", { cause: new Error("deep") });
  for (const error of [
    await returned("export default e => e", given),
    await returned("export default new RangeError('far', { cause: new Error('deep') })"),
  ]) {
    assert(error instanceof RangeError);
    assert.deepEqual([error.name, error.message, (error.cause as Error).message], ["RangeError", "far", "deep"]);
    assert(!error.stack?.includes(import.meta.url) && !error.stack?.includes("node:"), error.stack);
  }
  const kinds = await returned("export default e => [e instanceof RangeError, e.name, e.stack]", given);
  assert.deepEqual(kinds, [true, "RangeError", undefined], "no path of this machine");
  class HttpError extends Error {
    override name = "HttpError";
  }
  const named = await returned("export default e => [e, e.name]", new HttpError("x"));
  assert.deepEqual([named[0].name, named[0].message, named[1]], ["HttpError", "x", "HttpError"]);
});

test("what is written differently is the same", async () => {
  class Point {
    x = 1;
    #y = 2;
    get y() {
      return this.#y;
    }
  }
  const given = [Buffer.from("ab"), new Point(), Object.assign(Object.create(null), { a: 1 }), new Proxy({ a: 1 }, {})];
  const kind = "v => v.constructor.name + ' ' + JSON.stringify(v)";
  const kinds = await returned(`export default (...all) => all.map(${kind})`, ...given);
  assert.deepEqual(kinds, ['Uint8Array {"0":97,"1":98}', 'Object {"x":1}', 'Object {"a":1}', 'Object {"a":1}']);
  const other = runInNewContext(
    "[new Date(0), new Map([[1, [2]]]), new Set([1]), /a/g, new RangeError('far'), new Uint8Array(1)]",
  );
  const names = "export default all => all.map(v => v.constructor.name)";
  assert.deepEqual(await returned(names, other), ["Date", "Map", "Set", "RegExp", "RangeError", "Uint8Array"]);
  assert.deepEqual(await returned("export default v => v", "\ud800 \\ud800"), "\ufffd \\ud800");
  const proto = await returned("export default v => [v, Object.keys(v)]", JSON.parse('{"__proto__": {"a": 1}}'));
  assert.deepEqual([Object.keys(proto[0]), proto[1], proto[0].a], [["__proto__"], ["__proto__"], undefined]);
});

test("the rest of a buffer does not cross", async () => {
  const pool = new Uint8Array(1000).fill(7);
  const [bytes, view] = await returned(
    "export default (...all) => all.map(v => v.buffer.byteLength)",
    pool.subarray(1, 3),
    new Int16Array(pool.buffer, 4, 2),
  );
  assert.deepEqual([bytes, view], [2, 4]);
  const small = await returned("export default new Uint8Array(300)");
  assert.equal(small.buffer.byteLength, 300);
});

test("objects stay shared, and part of themselves", async () => {
  const shared = [1];
  const cyclic: any = { shared, again: shared, map: new Map(), set: new Set(), error: new Error("e") };
  cyclic.self = cyclic;
  cyclic.map.set("c", cyclic);
  cyclic.set.add(cyclic.set);
  cyclic.error.cause = cyclic.error;
  const checks =
    "[c.self === c, c.shared === c.again, c.map.get('c') === c, c.set.has(c.set), c.error.cause === c.error]";
  const [seen, c] = await returned(`export default c => [${checks}, c]`, cyclic);
  assert.deepEqual(seen, [true, true, true, true, true]);
  assert.deepEqual(
    [c.self === c, c.shared === c.again, c.map.get("c") === c, c.set.has(c.set), c.error.cause === c.error],
    seen,
  );
  const views = await returned(
    "const b = new ArrayBuffer(8); export default [new Uint8Array(b), new Int16Array(b, 2, 1), b]",
  );
  assert(views[0].buffer === views[1].buffer && views[2] === views[0].buffer);
  const sparse = await returned("const a = []; a[3] = a; a.x = a; export default a");
  assert(sparse[3] === sparse && sparse.x === sparse);
  assert.deepEqual(await returned("const a = [1]; export default [a, new Map([[1, a]])]"), [[1], new Map([[1, [1]]])]);
});

test("what is not copied is tagged, and can be passed back", async () => {
  const tagged = await returned("export default new Array(4e9)");
  assert(tagged instanceof Tagged);
  assert.deepEqual(tagged.json, { $sparse: 4e9, items: {} });
  assert.equal(await returned("export default a => a.length", tagged), 4e9);
  const buffer = await returned("export default new ArrayBuffer(1, { maxByteLength: 8 })");
  assert.deepEqual([buffer.byteLength, buffer.maxByteLength], [1, 8]);
  assert.equal(await returned("export default b => b.maxByteLength", buffer), 8);
  assert((await returned("export default new ArrayBuffer(1, { maxByteLength: 2 ** 30 })")) instanceof Tagged);
});

test("values that cannot cross are explained", async () => {
  let deep: unknown = 1;
  for (let n = 0; n < 200; n++) deep = [deep];
  for (const [value, message] of [
    [{ rows: [1, { price: Symbol("x") }] }, ".rows[1].price: symbol is not supported"],
    [new Map([[1, new WeakMap()]]), "[1]: WeakMap is not supported"],
    [new Set([new URL("http://a")]), ".(key): URL is not supported"],
    [deep, "the value is nested deeper than 100 levels"],
    [new SharedArrayBuffer(8), "SharedArrayBuffer is not supported"],
    [new Uint8Array(new SharedArrayBuffer(8)), "SharedArrayBuffer is not supported"],
  ] as const) {
    await assert.rejects(box.runCode("export default 1", { args: [value] }), (error: Error) => {
      assert(error instanceof SerializationError && error.message.endsWith(message), error.message);
      return true;
    });
  }
  await assert.rejects(
    box.runCode("export default 1", { globals: { bad: { x: 1n, y: Symbol() }, p: Promise.reject(new Error("lost")) } }),
  );
});

test("functions and promises", async () => {
  const read = (path: string) => {
    if (path !== "a") throw new RangeError(path);
    return new Uint8Array(300);
  };
  const make = async (name: string) => async (count: number) => name.repeat(count);
  const source = `
    import { read, make, later } from 'files';
    let failed; try { read('b') } catch (error) { failed = error.name + ' ' + error.message }
    let raised; try { await broken } catch (error) { raised = error.name + ' ' + error.message }
    export default async () => [read('a').length, failed, raised, await (await make('x'))(3), await soon, read, await soon === await soon,
                                later() instanceof Promise, await later()];`;
  const broken = Promise.reject(new TypeError("bad"));
  const value = await (
    await box.runCode(source, {
      imports: { files: { read, make, later: hostFunction(() => new Date(0), "async") } },
      globals: {
        soon: new Promise((resolve) => setTimeout(() => resolve(new Set([1])), 10)),
        broken,
        never: new Promise(() => {}),
      },
    })
  ).orThrow().value;
  assert.deepEqual(value, [300, "RangeError b", "TypeError bad", "xxx", new Set([1]), read, true, true, new Date(0)]);
});

test("modules, reports and logs", async () => {
  const execution = box.runCode<number>(
    "import { price } from 'shop'; import { twice } from './twice.ts'; export const main = async (n: number) => " +
      "{ report(n); console.warn('n', 1n, new Set([1])); return twice(await price({ n })) }",
    {
      function: "main",
      args: [3],
      modules: { "./twice.ts": "export const twice = (n: number) => 2 * n" },
      tools: { shop: { price: async ({ n }) => 7 * n } },
      report: true,
      events: ["reported", "log"],
    },
  );
  const events = await all(execution);
  const result = await execution;
  assert.deepEqual([result.value, result.status, result.reports], [42, "success", [3]]);
  assert.deepEqual([result.logs[0]?.level, result.logs[0]?.args], ["warn", ["n", 1n, new Set([1])]]);
  assert.deepEqual(events, [
    { type: "reported", value: 3 },
    { type: "log", level: "warn", args: ["n", 1n, new Set([1])] },
  ]);
});

test("what is passed together is shared", async () => {
  const execution = box.runCode(
    "const a = [1]; report([a, a]); report(a); console.log([a, a], a, a); export default () => same(a, a)",
    { globals: { same: (a: unknown, b: unknown) => a === b }, report: true, events: ["reported", "log"] },
  );
  const events = await all(execution);
  const result = await execution;
  assert.deepEqual([result.value, result.reports], [true, [[[1], [1]], [1]]]);
  const args = result.logs[0]?.args as [any, any, any];
  assert.deepEqual(args, [[[1], [1]], [1], [1]]);
  assert(args[1] === args[2] && args[0][0] === args[1]);
  const [first, second, third] = events as [any, any, any];
  assert.deepEqual([first.value, second.value, third.args], [...result.reports, args]);
});

test("errors of modules", async () => {
  for (const [source, status, name] of [
    ["export default () => { throw new TypeError('x') }", "error", "TypeError"],
    ["import 'nothing'", "link_error", undefined],
    ["const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)", "memory", undefined],
  ] as const) {
    const result = await box.runCode(source, { memory: "8MiB", timeout: 60_000 });
    assert(!result.ok);
    assert.deepEqual([result.error.code, result.status], [status, status]);
    if (name) assert.deepEqual([result.error.errorName, result.error.position?.line], [name, 1]);
  }
});

test("random values return as they were", async () => {
  let state = 7;
  const random = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
  const keys = ["a", "$a", "$$", "$map", "", "é", "0", "length"];
  const leaves = [
    () => null,
    () => undefined,
    () => random(2) === 0,
    () => random(1000) - 500,
    () => Math.fround(random(1 << 20) / 7) * 10 ** (random(60) - 30),
    () => Array.from({ length: random(6) }, () => 'ab"\\\n\u2028é$'[random(8)]).join(""),
    () => new Uint8Array([0, 3, 256, 257, 1000][random(5)]!).fill(random(256)),
    () => new Date(random(1 << 22) * 1e6),
    () => BigInt(random(1 << 22)) ** BigInt(random(40)),
    () => new Int16Array(random(200)).fill(-2),
    () => /a+/g,
  ];
  const make = (depth: number): unknown => {
    const items = () => Array.from({ length: random(4) }, () => make(depth - 1));
    const entries = () => items().map((item): [string, unknown] => [keys[random(keys.length)]!, item]);
    const nodes = [items, () => Object.fromEntries(entries()), () => new Map(entries()), () => new Set(items())];
    const kinds = depth > 0 && random(2) === 0 ? nodes : leaves;
    return kinds[random(kinds.length)]!();
  };
  const given = Array.from({ length: 300 }, () => make(4));
  const back = await returned("export default x => x", given);
  for (const [index, value] of given.entries()) assert(isDeepStrictEqual(back[index], value), String(index));
});
