/** Tools: their schemas, their inputs and results, and what they throw. */

import { AsyncLocalStorage } from "node:async_hooks";
import { after, test } from "node:test";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import { type Call, InvalidInputError, Provider, type Schema, ToolError, tool, withJsonSchema } from "execbox";
import * as valibot from "valibot";
import { z } from "zod";
import { z as z3 } from "zod-3";

import { all, assert, boxForTests, failure, value } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

test("schemas of libraries and JSON Schemas are declared and checked", async () => {
  const schemas: Record<string, Schema> = {
    json: {
      type: "object",
      properties: { status: { type: "string" }, limit: { type: "number" } },
      required: ["status"],
    },
    zod: z.object({ status: z.string(), limit: z.number().optional() }),
    zod3: z3.object({ status: z3.string(), limit: z3.number().optional() }),
    valibot: valibot.object({ status: valibot.string(), limit: valibot.optional(valibot.number()) }),
    valibotItself: toStandardJsonSchema(
      valibot.object({ status: valibot.string(), limit: valibot.optional(valibot.number()) }),
    ),
    arktype: type({ status: "string", "limit?": "number" }),
  };
  for (const [library, inputSchema] of Object.entries(schemas)) {
    const t = { list: { inputSchema, outputSchema: inputSchema, execute: (input: unknown) => input } };
    const types = await box.types({ t });
    const members = /status: string;?\s+limit\?: number/g;
    assert.equal(types.match(members)?.length, 2, `${library}: ${types}`);
    assert.deepEqual(await value(box, "await t.list({ status: 'open', limit: 1 })", { tools: { t } }), {
      status: "open",
      limit: 1,
    });
    assert.equal(
      (await failure(box, "await t.list({ status: 1 })", { tools: { t } })).code,
      "validation_error",
      library,
    );
  }
});

test("a schema gives its function what it makes of the input, and the program what it makes of the result", async () => {
  const t = {
    list: tool({
      inputSchema: z.object({
        since: z.iso.datetime().pipe(z.transform((text) => new Date(text))),
        limit: z.number().default(50),
      }),
      outputSchema: z.object({ id: z.string() }),
      execute: ({ since, limit }) => ({ id: `${since.getTime()} ${limit}`, secret: 1 }),
    }),
    even: tool({
      inputSchema: z.object({ n: z.number().refine((n) => n % 2 === 0, "must be even") }),
      outputSchema: z.object({ n: z.number().refine((n) => n < 10, "too large") }),
      execute: async ({ n }) => ({ n }),
    }),
  };
  assert.deepEqual(await value(box, "await t.list({ since: '1970-01-01T00:00:01Z' })", { tools: { t } }), {
    id: "1000 50",
  });
  const odd = await failure(box, "await t.even({ n: 1 })", { tools: { t } });
  assert.deepEqual([odd.code, odd.message], ["validation_error", "input.n: must be even"]);
  const large = await failure(box, "await t.even({ n: 12 })", { tools: { t } });
  assert.deepEqual([large.code, large.message], ["tool_error", "the tool has returned output.n: too large"]);
});

test("a program gets what the library keeps of a result", async () => {
  const secret = { id: "A-7", secret: 1 };
  for (const [outputSchema, got] of [
    [z.object({ id: z.string() }), { id: "A-7" }],
    [z3.object({ id: z3.string() }), { id: "A-7" }],
    [valibot.object({ id: valibot.string() }), { id: "A-7" }],
    [type({ id: "string", "+": "delete" }), { id: "A-7" }],
    [type({ id: "string" }), secret],
  ] as const) {
    const t = { get: { outputSchema, execute: () => ({ ...secret }) } };
    assert.deepEqual(await value(box, "await t.get()", { tools: { t } }), got);
  }
});

test("parts of schemas that cannot be checked are left out with a warning, if they may be", async () => {
  const get = { inputSchema: { type: "nope" }, execute: () => 1 };
  await assert.rejects(
    box.run("1", { tools: { t: { get } } }),
    /the input schema of tool "get" is not a valid JSON Schema/,
  );
  const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
  assert.equal(await value(box, "await t.get()", { tools: { t: { get: { ...get, lenient: true } } } }), 1);
  const { name, message } = await warned;
  assert.equal(name, "ExecboxWarning");
  assert.match(message, /the input schema of tool "get" is not checked at "\/type"/);
});

test("a schema without a JSON Schema is explained", async () => {
  const standard = { version: 1, vendor: "mine", validate: (value: unknown) => ({ value }) } as const;
  const mine = { "~standard": standard };
  const run = (inputSchema: Schema) =>
    box.run("await t.f(1)", { tools: { t: { f: { inputSchema, execute: (n) => n } } } });
  await assert.rejects(
    run(mine),
    /t\.f, input: the schema of mine has no JSON Schema; pass withJsonSchema\(schema, jsonSchema\)/,
  );
  await assert.rejects(
    run(z.object({ at: z.date() })),
    /t\.f, input: the schema of zod has no JSON Schema: Date cannot be represented/,
  );
  assert.equal((await run(withJsonSchema(mine, { type: "number" }))).value, 1);
  const { validate: _, ...described } = withJsonSchema(mine, { type: "number" })["~standard"];
  assert.equal((await run({ "~standard": described } as any)).value, 1, "it only says its JSON Schema");
});

test("functions without a schema get what the program passes", async () => {
  class Times {
    factor = 3;
    execute(n: number) {
      return n * this.factor;
    }
  }
  const t = {
    times: tool(Object.defineProperty(new Times(), "factor", { enumerable: false })),
    "get-all": (input: unknown) => [input, "all"],
    none: (...args: unknown[]) => args.length,
  };
  const code = "[await t.times(2), await t.get_all([1]), await t.get_all(), await t.none(1, 2)]";
  assert.deepEqual(await value(box, code, { tools: { t } }), [6, [[1], "all"], [null, "all"], 2]);
});

test("results are JSON, and nothing that it lacks is lost silently", async () => {
  const rows = () => [
    new Date(0),
    new Map([["a", 1]]),
    new Set([1, 2]),
    new Uint8Array([1]),
    Buffer.from([1]),
    new Uint8Array([7, 1]).subarray(1).buffer,
    new RangeError("far"),
    { toJSON: () => "mine" },
    { a: undefined, b: () => 1, $c: 1 },
    new URLSearchParams("a=1"),
    new URL("http://a/b"),
    [1, 2].values(),
    Object(1),
    new (class Point {
      x = 1;
    })(),
    Object.assign(Object.create(null), { a: 1 }),
    "\ud800 \\ud800 \udc00\ud800",
  ];
  assert.deepEqual(await value(box, "await t.rows()", { tools: { t: { rows } } }), [
    "1970-01-01T00:00:00.000Z",
    { a: 1 },
    [1, 2],
    "AQ==",
    "AQ==",
    "BwE=",
    { name: "RangeError", message: "far" },
    "mine",
    { $c: 1 },
    [["a", "1"]],
    "http://a/b",
    [1, 2],
    1,
    { x: 1 },
    { a: 1 },
    "\ufffd \\ud800 \ufffd\ufffd",
  ]);
  assert.equal(
    await value(box, "(await t.nothing()) ?? 'nothing'", { tools: { t: { nothing: () => {} } } }),
    "nothing",
  );
});

test("results that are not JSON fail their calls", async () => {
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);
  let deep: unknown = 1;
  for (let n = 0; n < 100_000; n++) deep = [deep];
  for (const [result, message] of [
    [Number.NaN, "NaN is no number of JSON"],
    [{ rows: Promise.resolve([]) }, "Promise is not JSON; await it"],
    [/a/, "RegExp is not JSON"],
    [[new WeakMap()], "WeakMap is not JSON"],
    [Symbol("x"), "a symbol is not JSON"],
    [() => 1, "a function is not JSON"],
    [{ n: 7n }, "a bigint is no number of JSON; return a string"],
    [cyclic, "circular"],
    [deep, "stack"],
    ["x".repeat(17 << 20), "a message of 18 MiB is too long: at most 16 MiB, apart from byte strings"],
  ] as const) {
    const error = await failure(box, "await t.f()", { tools: { t: { f: () => result } } });
    assert.equal(error.code, "tool_error");
    assert(error.message.includes(message), error.message);
  }
  const t = { f: tool({ outputSchema: { type: "string" }, execute: () => 1 }) };
  assert.match((await failure(box, "await t.f()", { tools: { t } })).message, /1 is not of type "string"/);
});

test("a query that begins when it is awaited begins once", async () => {
  let begun = 0;
  const query = () => ({
    // biome-ignore lint/suspicious/noThenProperty: as query builders have it
    then(resolve: (rows: number[]) => void) {
      begun += 1;
      resolve([1]);
    },
  });
  assert.deepEqual(await value(box, "await t.query()", { tools: { t: { query } } }), [1]);
  const result = await box.runCode("export default async () => [await rows, query()]", {
    globals: { rows: query(), query },
  });
  assert.deepEqual([result.value, begun], [[[1], [1]], 3]);
});

test("a generator is no tool", async () => {
  async function* rows() {
    yield 1;
  }
  for (const t of [{ rows }, { rows: { execute: rows } }]) {
    await assert.rejects(
      box.run("1", { tools: { t } }),
      /t\.rows is a generator; a tool returns one value, such as an array/,
    );
  }
});

test("what is thrown crosses as a message", async () => {
  const cause = new Error("no such order");
  class Odd extends Error {
    override get message(): string {
      throw new Error("never");
    }
  }
  const thrown: Record<string, () => unknown> = {
    error: () => cause,
    tool: () => new ToolError("closed"),
    text: () => "a text",
    object: () => ({ reason: 1 }),
    nothing: () => undefined,
    empty: () => new RangeError(),
    odd: () => new Odd(),
    null: () => Object.create(null),
  };
  const fail = async ({ how }: { how: string }) => {
    throw thrown[how]!();
  };
  const now = ({ how }: { how: string }) => {
    throw thrown[how]!();
  };
  const code = (name: string) => `const all = [];
    for (const how of ${JSON.stringify(Object.keys(thrown))})
      try { await t.${name}({ how }) } catch (error) { all.push(error.message) }
    all`;
  const messages = [
    "no such order",
    "closed",
    "a text",
    '{"reason":1}',
    "undefined",
    "RangeError",
    "the tool has thrown what has no message",
    "{}",
  ];
  for (const name of ["fail", "now"])
    assert.deepEqual(await value(box, code(name), { tools: { t: { fail, now } } }), messages);

  const error = await failure(box, "await t.fail({ how: 'error' })", { tools: { t: { fail } } });
  assert.deepEqual([error.code, error.message], ["tool_error", "no such order"]);
  assert.equal(error.cause, cause);
  assert(!JSON.stringify({ ...error, cause: undefined }).includes(import.meta.dirname ?? "tools.test"));
  const correct = () => {
    throw new InvalidInputError("a later date, please");
  };
  const invalid = await failure(box, "await t.correct()", { tools: { t: { correct } } });
  assert.deepEqual([invalid.code, invalid.message], ["validation_error", "a later date, please"]);
});

test("tools see the asynchronous context of their caller", async () => {
  const user = new AsyncLocalStorage<string>();
  const t = { name: async () => user.getStore(), now: () => user.getStore() };
  const run = (who: string) => user.run(who, () => value(box, "[await t.name(), await t.now()]", { tools: { t } }));
  assert.deepEqual(await Promise.all([run("ann"), run("bob")]), [
    ["ann", "ann"],
    ["bob", "bob"],
  ]);
});

test("a tool has its call, and reports progress", async () => {
  const t = {
    writeRows: async ({ rows }: { rows: number }, call: Call) => {
      const { reportProgress } = call;
      reportProgress(rows / 2, rows, "half");
      assert.throws(() => reportProgress(Number.NaN), /progress must be finite numbers, not NaN of undefined/);
      return `${call.provider}.${call.tool} ${call.number} ${call.signal.aborted}`;
    },
  };
  const execution = box.run("await t.writeRows({ rows: 4 })", { tools: { t }, events: ["call_progress"] });
  const seen = await all(execution);
  assert.deepEqual(seen, [
    { type: "call_progress", call: 1, provider: "t", name: "writeRows", done: 2, total: 4, message: "half" },
  ]);
  assert.equal((await execution).value, "t.writeRows 1 false");
});

test("providers are added once", async () => {
  const fresh = () => ({ tool: async ({ n }: { n: number }) => n });
  for (let n = 0; n < 300; n++) {
    assert.equal(await value(box, `await t${n % 2}.tool({ n: ${n} })`, { tools: { [`t${n % 2}`]: fresh() } }), n);
  }
  const before = (await box.usage()).providers;
  for (let n = 0; n < 300; n++) await box.types({ [`other${n}`]: fresh() });
  assert(before < 30 && (await box.usage()).providers <= 257);
});

test("a provider says more", async () => {
  const fail = () => {
    throw new Error("no");
  };
  const shop = new Provider({ fail }, { description: "All about orders", nameFailedCalls: true });
  assert.match(await box.types({ shop }), /All about orders/);
  assert.equal((await failure(box, "await shop.fail()", { tools: { shop } })).message, "shop.fail failed: no");
  assert.throws(() => new Provider({}, { name: "x" } as any), /Provider has no member name/);
  assert.throws(
    () => tool({ description: "x" } as any),
    /^TypeError: the argument of tool\(\) is not a tool: expected a/,
  );
});
