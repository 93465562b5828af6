/** `execbox/codemode`: the executor for `@cloudflare/codemode`, with its entries that work in Node.js. */

import { AsyncLocalStorage } from "node:async_hooks";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { createBrowserCodeTool } from "@cloudflare/codemode/browser";
import { codeMcpServer, openApiMcpServer } from "@cloudflare/codemode/mcp";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { Executor } from "execbox";
import { CodemodeExecutor } from "execbox/codemode";
import { z } from "zod";

import { assert, boxForTests, ended, sleep } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

const executor = new CodemodeExecutor(box, { memory: "64MiB" });

const fns = {
  add: (a: any, b: any) => a + b,
  "list-orders": async ({ status }: any) => [{ id: "A-7", status }],
  fail: async () => {
    throw new RangeError("no order A-7");
  },
  hang: () => new Promise(() => {}),
};

const execute = (code: string, functions: Record<string, (...args: any[]) => unknown> = fns) =>
  executor.execute(code, [{ name: "codemode", fns: functions }]);

async function errorOf(code: string, within = executor): Promise<string | undefined> {
  const { result, error } = await within.execute(code, [{ name: "codemode", fns }]);
  assert.equal(result, undefined);
  return error;
}

test("createBrowserCodeTool runs its code", async () => {
  const schema = { type: "object", properties: { status: { type: "string" } } } as const;
  const tool = createBrowserCodeTool({
    tools: {
      "list-orders": { description: "Lists orders.", inputSchema: schema, execute: fns["list-orders"] },
      fail: { description: "Fails.", inputSchema: schema, execute: fns.fail },
    },
    executor,
  });
  assert.match(tool.description, /list_orders: \(input: ListOrdersInput\)/);
  const code = "async () => { console.log('now'); return codemode.list_orders({ status: 'open' }) }";
  assert.deepEqual(await tool.execute({ code }), { result: [{ id: "A-7", status: "open" }], logs: ["now"] });
  await assert.rejects(tool.execute({ code: "async () => {\n  console.warn('now');\n  await codemode.fail({});\n}" }), {
    message: "Code execution failed: RangeError: no order A-7 (line 3)\n\nConsole output:\n[warn] now",
  });
});

async function connected(server: McpServer): Promise<Client> {
  const [clientTransport, serverTransport] = InMemoryTransport.createLinkedPair();
  await server.connect(serverTransport);
  const client = new Client({ name: "tests", version: "1" });
  await client.connect(clientTransport);
  return client;
}

test("codeMcpServer and openApiMcpServer run code as models write it", async () => {
  const server = new McpServer({ name: "shop", version: "1" });
  server.registerTool(
    "list-orders",
    { description: "Lists orders.", inputSchema: { status: z.string() } },
    ({ status }) => ({
      content: [{ type: "text", text: JSON.stringify([{ id: "A-7", status }]) }],
    }),
  );
  const client = await connected(await codeMcpServer({ server, executor }));
  const call = async (code: string) => {
    const { content, isError = false } = (await client.callTool({ name: "code", arguments: { code } })) as any;
    return [content[0].text, isError];
  };
  for (const code of [
    "async () => (await codemode.list_orders({ status: 'open' }))[0].id",
    "```js\nasync () => (await codemode.list_orders({ status: 'open' }))[0].id\n```",
    "const orders = await codemode.list_orders({ status: 'open' });\nreturn orders[0].id;",
    "const orders = await codemode.list_orders({ status: 'open' });\norders[0].id;",
  ]) {
    assert.deepEqual(await call(code), ["A-7", false]);
  }
  assert.deepEqual(await call("async () => null.x"), [
    "Error: TypeError: cannot read property 'x' of null (line 1)",
    true,
  ]);
  const [message] = await call("async () => codemode.list_orders({ status: 7 })");
  assert.match(message, /^Error: Error: MCP error -32602: Input validation error/);
  await client.close();

  const spec = { openapi: "3.1.0", paths: { "/orders": { get: { summary: "Lists orders." } } } };
  const request = async ({ method, path }: any) => ({ method, path });
  const api = await connected(openApiMcpServer({ spec, executor, request }));
  const code = `async () => {
    const { paths } = await codemode.spec();
    return [Object.keys(paths), await codemode.request({ method: "GET", path: "/orders" })];
  }`;
  const { content } = (await api.callTool({ name: "execute", arguments: { code } })) as any;
  assert.deepEqual(JSON.parse(content[0].text), [["/orders"], { method: "GET", path: "/orders" }]);
  await api.close();
});

test("arguments are positional, and values keep their types", async () => {
  const files = new Map<string, Uint8Array>();
  const state = {
    writeFile: async (path: string, bytes: Uint8Array, options?: object) =>
      void files.set(`${path} ${!!options}`, bytes),
    now: () => new Date(0),
    all: () => files,
    nothing: () => undefined,
    same: (...args: unknown[]) => args,
  };
  const code = `async () => {
    await state.writeFile("a.bin", new Uint8Array([1, 2]));
    await state.writeFile("b.bin", new Uint8Array(1000), {});
    return [await state.now(), await state.all(), await state.nothing(), await state.same(1n, undefined, new Set([1]))];
  }`;
  const { result, error } = await executor.execute(code, [{ name: "state", fns: state }]);
  assert.equal(error, undefined);
  assert.deepEqual(result, [new Date(0), files, undefined, [1n, undefined, new Set([1])]]);
  assert.deepEqual([...files.keys()], ["a.bin false", "b.bin true"]);
  assert.deepEqual(files.get("a.bin false"), new Uint8Array([1, 2]));
});

test("functions are asynchronous for the program, and see the context of the caller", async () => {
  const user = new AsyncLocalStorage<string>();
  const run = (name: string) =>
    user.run(name, () =>
      execute("async () => [codemode.user() instanceof Promise, await codemode.user()]", {
        user: () => user.getStore(),
      }),
    );
  const results = await Promise.all(["ann", "bob"].map(run));
  assert.deepEqual(
    results.map(({ result }) => result),
    [
      [true, "ann"],
      [true, "bob"],
    ],
  );
  const all = "async () => Promise.all(Array.from({ length: 20 }, (_, n) => codemode.slow(n)))";
  const { result } = await execute(all, { slow: (n: number) => sleep(20).then(() => n) });
  assert.deepEqual(result, [...Array(20).keys()]);
});

test("the log has lines that can be read", async () => {
  const code = `async () => {
    console.log("%d of", 1, { a: [1, { b: { c: 1 } }] }, new Map([["k", new Date(0)]]));
    console.warn("careful", null); console.error(new TypeError("x")); console.info("i"); console.debug([undefined]);
    console.log(Array.from({ length: 20 }, (_, n) => n));
  }`;
  const { logs } = await execute(code);
  assert.deepEqual(logs?.slice(0, 5), [
    "%d of 1 { a: [ 1, { b: { c: 1 } } ] } Map(1) { 'k' => 1970-01-01T00:00:00.000Z }",
    "[warn] careful null",
    "[error] TypeError: x",
    "i",
    "[ undefined ]",
  ]);
  assert.match(logs?.[5] ?? "", /^\[\s+0,.*19\s+\]$/s);
});

test("errors help the model", async () => {
  for (const [code, error] of [
    ["async () => {\n  const a = null;\n  return a.x;\n}", "TypeError: cannot read property 'x' of null (line 3)"],
    ["async () => codemode.fail()", "RangeError: no order A-7 (line 1)"],
    [
      "async () => codemode.list_order({})",
      "TypeError: codemode.list_order is not a function; did you mean codemode.list_orders? (line 1)",
    ],
    ["async () => codemode.drop()", "TypeError: codemode.drop is not a function (line 1)"],
    ["async () => codemode.toString.x.y", "TypeError: cannot read property 'y' of undefined (line 1)"],
    ["async () => { throw new Error('') }", "Error (line 1)"],
    ["async () => { throw undefined }", "Error: undefined (line 1)"],
    ["async () => { throw { a: 1 } }", 'Error: {"a":1} (line 1)'],
    ["async () => {\n  let a = ;\n}", "SyntaxError: unexpected `;` (line 2)"],
    ["const a = 1;\nconst b = ;\nreturn a", "SyntaxError: unexpected `;` (line 2)"],
    [
      "async () => () => 1",
      "SerializationError: result is a function of the program, which cannot be copied; pass the value that it returns",
    ],
    [
      "async () => fetch('http://a')",
      "ReferenceError: fetch is not available in this sandbox, which has the ECMAScript built-ins and what the program imports (line 1)",
    ],
    [
      "async () => { await new Promise(() => {}) }",
      "Error: The program waits for a promise that nothing can settle: no call and no promise of the host is pending",
    ],
  ]) {
    assert.equal(await errorOf(code!), error);
  }
  const long = await errorOf("async () => { throw new Error('x'.repeat(1e6)) }");
  assert.equal(long?.length, 10_000 + "… (line 1)".length);
});

test("limits end programs", async () => {
  const short = new CodemodeExecutor(box, { limits: { timeoutMs: 300 } });
  const timedOut = "Execution timed out after 300 ms";
  assert.equal(await errorOf("async () => { for (;;); }", short), timedOut);
  assert.equal(await errorOf("async () => codemode.hang()", short), timedOut);
  assert.equal(await errorOf("for (;;) await codemode.add(1, 1);", short), timedOut);
  const memory = "const all = []; for (;;) all.push('x'.repeat(1e5) + all.length)";
  const small = new CodemodeExecutor(box, { memory: "8MiB", limits: { maxCalls: 2 } });
  assert.match((await errorOf(`async () => { ${memory} }`, small))!, /exceeded its memory limit of 8 MiB/);
  assert.match((await errorOf("async () => { for (;;) await codemode.add(1, 1) }", small))!, /2 calls|maxCalls|limit/);
  const { result, logs } = await execute("async () => {\n  codemode.hang();\n  return 1;\n}");
  assert.deepEqual([result, logs], [1, ["[warn] these calls were not awaited: codemode.hang (line 2)"]]);
  const many = await execute("async () => { for (let n = 0; n < 1000; n++) console.log(n) }");
  assert.match(many.logs!.at(-1)!, /^… \d+ more lines$/);
  await ended(box);
});

test("code can be a function, an expression, or statements", async () => {
  let sent = 0;
  const functions = { add: fns.add, send: () => ++sent };
  for (const [code, result] of [
    ["async () => codemode.add(1, 2);", 3],
    ["async () => { const n: number = 7; return n as any }", 7],
    ["// a comment\nasync () => 1 // and another", 1],
    ["() => 1", 1],
    ["async function main() { return codemode.add(1, 2) }", 3],
    ["function () { return 4 }", 4],
    ["async (a, b) => [a, b]", [undefined, undefined]],
    ["codemode.add(1, 2)", 3],
    ["await codemode.add(1, 2);", 3],
    ["({ a: 1 })", { a: 1 }],
    ["(async () => 6)()", 6],
    ["const a = await codemode.add(1, 2);\nreturn a", 3],
    ["let n = 0; if (n) n = 1; else\nn = 2;\nreturn n", 2],
    ["export default async () => 5", 5],
    ["```ts\nasync () => { const n: number = 7; return n as any }\n```", 7],
    ["const a = await codemode.add(1, 2);\na", 3],
    ["const a = 1; ({ a })", { a: 1 }],
    ["const f = async () => {\n  return 8;\n}\nf()", 8],
    ["const f = () => 1;\nconst s = 'x;y';\n`;` + s;", ";x;y"],
    ["class A { x = 1; y = 2 }\nnew A().y", 2],
    ["let n = 0;\nfor (const a of [1, 2]) // b;\n  n += a\nn", 3],
    ["let n = 0;\nfor (const a of [1, 2]) { n += a }\nn", 3],
    ["", undefined],
    [";", undefined],
  ] as const) {
    const { result: found, error } = await execute(code, functions);
    assert.deepEqual([found, error], [result, undefined], code);
  }
  for (const code of [
    "async function main() { await codemode.send() }\nmain()",
    "async function main() { await codemode.send() }\nawait main();",
    "const main = async () => { await codemode.send() };\nawait main();",
    "await codemode.send();\nconst b = 1;",
    "if (true)\n  await codemode.send()",
    "await codemode.send();\nconst a = null;\na.x;",
  ]) {
    sent = 0;
    await execute(code, functions);
    assert.equal(sent, 1, code);
  }
});

test("names have the rules of codemode", async () => {
  const names = ["get-order", "a.b c", "1st", "class", "await", "", "$x", "constructor", "__proto__", "then", "x!y"];
  const sanitize = await realSanitizeToolName();
  const functions = Object.fromEntries(names.map((name) => [name, () => name]));
  const code = "async () => Promise.all(Object.keys(codemode).map(async (name) => [name, await codemode[name]()]))";
  const { result } = await execute(code, functions);
  assert.deepEqual(new Map(result as any), new Map(Object.keys(functions).map((name) => [sanitize(name), name])));
  assert.equal((await execute("async () => codemode.__proto__()", functions)).result, "__proto__");
  assert.equal(({} as any).polluted, undefined);

  const refused: [any, string | RegExp][] = [
    [[{ name: "my tools", fns }], 'Provider name "my tools" is not a valid JavaScript identifier'],
    [
      [
        { name: "a", fns },
        { name: "a", fns },
      ],
      'Duplicate provider name "a"',
    ],
    [
      [{ name: "a", fns: { "x-y": fns.add, x_y: fns.add } }],
      'Tool names "x-y" and "x_y" both sanitize to "x_y" in provider "a"',
    ],
    [[{ name: "class", fns }], /invalid global name 'class'/],
    [[{ name: "a", fns: { x: 1 } }], "a.x is not a function"],
    [[{ name: "a", fns: [] }], "the functions of a must be an object, not Array"],
    [null, "the functions of codemode must be an object, not null"],
    [[null], /./],
    [
      {
        get add() {
          throw new Error("boom");
        },
      },
      "boom",
    ],
  ];
  for (const [providers, message] of refused) {
    const { result, error, logs } = await executor.execute("async () => 1", providers);
    assert.deepEqual([result, logs], [undefined, []]);
    assert(typeof message === "string" ? error === message : message.test(error!), `${error} ${message}`);
  }
  for (const name of ["__proto__", "constructor", "Promise", "$x"]) {
    const found = await executor.execute(`async () => ${name}.add(1, 2)`, [{ name, fns }]);
    assert.deepEqual(found, { result: 3, logs: [] });
  }
  assert.equal(
    (await executor.execute("async () => codemode.add(1, 2)", fns)).result,
    3,
    "functions are those of codemode",
  );
});

/** The rule of the package, whose main entry does not work in Node.js. */
async function realSanitizeToolName(): Promise<(name: string) => string> {
  const place = dirname(fileURLToPath(import.meta.resolve("@cloudflare/codemode/browser")));
  const file = readdirSync(place).find((name) => /^json-schema-types-.*\.js$/.test(name))!;
  const [, exported] = [...readFileSync(join(place, file), "utf8").matchAll(/sanitizeToolName as (\w+)/g)][0]!;
  return (await import(join(place, file)))[exported!];
}

test("a prelude adds functions of the sandbox", async () => {
  const prelude = `
    const prefix = "step";
    codemode.step = async (name, fn) => {
      await codemode.began(name);
      return [prefix, name, await fn()];
    };
    codemode.fails = async () => codemode.add(null.x);`;
  const began: string[] = [];
  const providers = [
    { name: "codemode", fns: { ...fns, began: (name: string) => void began.push(name) }, prelude },
    { name: "state", fns: { add: fns.add }, prelude: "state.twice = (n) => state.add(n, n)" },
    { name: "plain", fns: { add: fns.add } },
  ];
  const run = (code: string) => executor.execute(code, providers);
  const { result } = await run("async () => [await codemode.step('one', () => plain.add(1, 2)), await state.twice(4)]");
  assert.deepEqual([result, began], [[["step", "one", 3], 8], ["one"]]);
  assert.deepEqual((await run("codemode.step('two', () => 2)")).result, ["step", "two", 2]);
  assert.equal(
    (await run("async () => {\n\n  await codemode.fails();\n}")).error,
    "TypeError: cannot read property 'x' of null (line 3)",
  );
  assert.equal(
    (await run("async () => {\n\n  null.x;\n}")).error,
    "TypeError: cannot read property 'x' of null (line 3)",
  );
  assert.equal((await run("const a = 1;\n\nnull.x;")).error, "TypeError: cannot read property 'x' of null (line 3)");
});

test("modules can be imported", async () => {
  const within = new CodemodeExecutor(box, {
    modules: { "./stats.ts": "export const sum = (xs: number[]) => xs.reduce((a, b) => a + b)" },
  });
  const code = "async () => { const { sum } = await import('./stats.ts'); return sum([1, 2, 3]) }";
  assert.deepEqual(await within.execute(code, []), { result: 6, logs: [] });
});

test("it never throws", async () => {
  const connectors = [{ name: "github", binding: {} }];
  const { error } = await executor.execute("async () => 1", [], { connectors });
  assert.equal(error, "connectors need the runtime of Cloudflare; use functions instead");
  assert.equal((await executor.execute(undefined as any, [])).error, "execute() takes code as a string, not undefined");
  assert.deepEqual(await executor.execute("async () => 1", [], { connectors: [] }), { result: 1, logs: [] });
  assert.deepEqual(await executor.execute("async () => 1", [], null as any), { result: 1, logs: [] });
  const cyclic: any = {};
  cyclic.self = cyclic;
  const results: Record<string, () => unknown> = {
    cyclic: () => cyclic,
    symbol: () => Symbol("x"),
    large: () => "x".repeat(17 << 20),
    getter: () => ({
      get a() {
        throw new Error("boom");
      },
    }),
    rejects: () => Promise.reject(null),
  };
  const code = `async () => {
    const got = {};
    for (const name of Object.keys(codemode)) try { got[name] = await codemode[name]() } catch (e) { got[name] = e.message }
    return got;
  }`;
  const { result } = (await execute(code, results)) as any;
  assert.equal(result.cyclic.self, result.cyclic);
  assert.match(result.symbol, /symbol is not supported/);
  assert.match(result.large, /too long/);
  assert.equal(result.getter, "boom");

  const own = new Executor();
  const closed = new CodemodeExecutor(own);
  await own.close();
  assert.deepEqual(await closed.execute("async () => 1", []), {
    result: undefined,
    error: "the executor is closed",
    logs: [],
  });
});

test("hostile programs cost the application little", async () => {
  const shared = "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = Array(100).fill(a);";
  for (const code of [
    `async () => { ${shared} return a }`,
    "async () => { let a = { s: 'x'.repeat(1e6) }; return Array(1e5).fill(a) }",
    "async () => { let a = new Map([['a', 1]]); for (let i = 0; i < 90; i++) a = new Map([[1, a], [2, a]]); return a }",
    "async () => { const b = new ArrayBuffer(1e6); return Array.from({ length: 1e4 }, () => new Int16Array(b)) }",
    "async () => { const a = []; a.length = 1e4; return Array(1e5).fill(a) }",
  ]) {
    const { error } = await execute(code);
    assert.equal(error, "the result is too large: it repeats the same objects too often; return less", code);
  }
  const { logs } = await execute(`async () => { ${shared} console.log(a); console.log([a, { a }], "%o %j", a); }`);
  for (const line of logs!) assert(line.length < 100_000 && /^\[.*\]$/s.test(line), line.slice(0, 100));
  const object = "const o = Object.fromEntries(Array.from({ length: 300 }, (_, n) => ['k' + n, 1]))";
  const wide = `async () => { ${object}; for (const k in o) o[k] = { ...o }; console.log(o); return Object.keys(o).length }`;
  assert.equal((await execute(wide)).result, 300);

  const space = " ".repeat(1e5);
  for (const code of [
    `\`\`\`js${"\n".repeat(1e5)}x`,
    `\`\`\`js${space}x`,
    `${space}1;${space}x y`,
    `const a = 1;${`${space}\n;`.repeat(3)}x y`,
    `export${space}x`,
    "a\n".repeat(1e5),
    "(".repeat(1e5),
  ]) {
    const { result } = await execute(code, {});
    assert.equal(result, undefined, code.slice(0, 20));
  }
  await ended(box);
});

test("mistakes are explained", () => {
  assert.throws(
    () => new CodemodeExecutor(box, { timeuot: 1 } as any),
    /CodemodeExecutor has no option timeuot; did you mean timeout\?/,
  );
  assert.throws(
    () => new CodemodeExecutor(box, 5 as any),
    /the options of CodemodeExecutor must be an object, not a number/,
  );
  assert.throws(() => new CodemodeExecutor({ timeout: 5 } as any), /CodemodeExecutor takes an Executor, and options/);
  assert.throws(() => new CodemodeExecutor(box, { timeout: -1 }), /invalid timeout -1/);
  assert.throws(() => new CodemodeExecutor(box, { memory: "64 megs" }), /invalid size "64 megs"/);
  assert.throws(
    () => new CodemodeExecutor(box, { modules: [] } as any),
    /modules must be an object of sources, not Array/,
  );
  assert.throws(() => new CodemodeExecutor(box, { limits: 5 } as any), /limits must be an object/);
});
