/** Hostile programs, and what they cost the application: memory of its process, beyond their timeout. */

import { after, test } from "node:test";

import { hostFunction } from "execbox";

import { assert, boxForTests, ended, sleep, value } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

const MIB = 1 << 20;
const BOUND = 200 * MIB;

const nested = (depth: number) => `let a = []; for (let i = 0; i < ${depth}; i++) a = [a];`;

const scripts: Record<string, string> = {
  "calls without an end": "for (;;) t.echo(1)",
  "calls that are never answered": "for (;;) t.hang(1)",
  "calls that are answered late": "for (;;) t.slow(1)",
  "calls that fail": "for (;;) t.fail(1).catch(() => {})",
  "large inputs": "for (;;) t.echo('x'.repeat(1e6))",
  "large inputs that wait": "await Promise.all(Array.from({ length: 256 }, () => t.hang('x'.repeat(1e6))))",
  "deep inputs": `${nested(98)} for (;;) await t.echo(a)`,
  "a long log": "for (;;) console.log('x'.repeat(1e5))",
  "a result that JSON makes six times as long": "'\\u0001'.repeat(2e6)",
};

const modules: Record<string, string> = {
  "a result that nests deeply": `${nested(100_000)} export default a`,
  "a result that nests deeply in maps":
    "let a = 1; for (let i = 0; i < 5e4; i++) a = new Map([[i, a]]); export default a",
  "a result that is shared often": "let a = ['x']; for (let i = 0; i < 60; i++) a = [a, a]; export default a",
  "an array that is nearly empty": "const a = []; a[4e9] = 1; export default a",
  "many arrays with holes":
    "export default Array.from({ length: 5e3 }, () => { const a = []; a.length = 1e4; return a })",
  "many views of one buffer":
    "const b = new ArrayBuffer(1e6); export default Array.from({ length: 3e4 }, () => new Int16Array(b))",
  "many resizable buffers":
    "export default Array.from({ length: 1e5 }, () => new ArrayBuffer(1, { maxByteLength: 2 ** 30 }))",
  "a regular expression that is slow": "export default /(a+)+$/",
  "reports with holes": "for (let i = 0; i < 4e3; i++) { const a = []; a.length = 1e4; report(a) } export default 1",
  "reports without an end": "for (;;) report('x'.repeat(1e4))",
  "arguments of functions":
    "const b = new ArrayBuffer(1e6); for (;;) await give(Array.from({ length: 99 }, () => new Int8Array(b)))",
  "functions without an end": "const all = []; for (;;) all.push(await make())",
  "names of objects":
    "export default { __proto__: null, ['__proto__']: { polluted: 1 }, constructor: { prototype: 1 }, toString: 1, then: 1 }",
  "errors with odd names":
    "const e = new Error('x'); e.name = '__proto__'; const f = new Error('x'); f.name = 7; export default [e, f]",
};

const tools = {
  t: {
    echo: async (value: unknown) => value,
    hang: () => new Promise(() => {}),
    slow: () => sleep(10),
    fail: async () => {
      throw new Error("no");
    },
  },
};
const make = hostFunction(() => () => 1, "async");
const give = hostFunction(() => {}, "async");

for (const [what, code] of [...Object.entries(scripts), ...Object.entries(modules)]) {
  test(what, async () => {
    await value(box, "1", { tools });
    const before = process.memoryUsage().rss;
    let peak = before;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss);
    }, 5);
    try {
      if (what in modules) {
        const result = await box.runCode(code, { timeout: 300, report: true, globals: { give, make }, events: true });
        if (result.ok) void `${String(Object.keys(result.value as object))}`;
      } else {
        await box.run(code, { timeout: 300, tools, events: true });
      }
    } finally {
      clearInterval(watch);
    }
    peak = Math.max(peak, process.memoryUsage().rss);
    assert(peak - before < BOUND, `${(peak - before) / MIB} MiB`);
    assert.equal(({} as any).polluted, undefined);
    await ended(box);
    assert.equal(await value(box, "1 + 1"), 2);
  });
}
