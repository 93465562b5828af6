/** `run`: results, errors, limits and options. */

import { after, test } from "node:test";

import { Executor, ProgramError } from "execbox";

import { assert, boxForTests, failure, sleep, value } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

const echo = async ({ value }: { value: unknown }) => value;

test("the value of the last expression is the result", async () => {
  const result = await box.run("console.log('hello'); ({ a: [1, 'é', null], ['__proto__']: 1 })");
  assert(result.ok);
  assert.deepEqual(result.value, JSON.parse('{ "a": [1, "é", null], "__proto__": 1 }'));
  assert.deepEqual(result.logs, ["hello"]);
  assert.equal(result.error, undefined);
  assert.equal(result.usage.calls, 0);
  assert(result.durationMs > 0);
  assert.equal(result.orThrow(), result);
  assert.deepEqual([await value(box, "undefined"), await value(box, "null")], [undefined, null]);
});

test("a failed program is a result with an error", async () => {
  const result = await box.run("const f = () => null.x;\nf()");
  assert(!result.ok);
  const { error } = result;
  assert(error instanceof ProgramError && error instanceof Error);
  assert.deepEqual([error.code, error.errorName], ["runtime_error", "TypeError"]);
  assert.equal(error.message, "cannot read property 'x' of null");
  assert.deepEqual(error.position, { line: 1, column: 22 });
  assert.equal(error.frames[0]?.function, "f");
  assert.deepEqual(error.data, { kind: "property_of_nothing", path: [] });
  const text = "runtime_error: TypeError: cannot read property 'x' of null (line 1, column 22)";
  assert.equal(String(error), text);
  assert.equal(error.stack, `ProgramError: ${text}\n    at f (<script>:1:22)\n    at <script>:2:1`);
  assert.throws(
    () => result.orThrow(),
    (thrown) => thrown === error,
  );
});

test("limits stop a program", async () => {
  for (const [options, limit] of [
    [{ timeout: 50 }, "timeoutMs"],
    [{ limits: { cpuTimeMs: 20 } }, "cpuTimeMs"],
  ] as const) {
    const error = await failure(box, "for (;;);", options);
    assert.deepEqual([error.code, error.data?.limit], ["timeout", limit]);
  }
  const code = "const all = []; for (;;) all.push('x'.repeat(1e5) + all.length)";
  assert.equal((await failure(box, code, { memory: "8MiB" })).code, "memory_limit");
});

test("mistakes are explained", async () => {
  const mistakes: [any, string][] = [
    [{ timeuot: 1 }, "run() has no option timeuot; did you mean timeout?"],
    [{ imports: {} }, "run() has no option imports; expected one of tools, servers, timeout"],
    [{ memory: "64 megs" }, 'invalid size "64 megs": expected bytes, or a number and a unit, such as "64MiB" or "1GB"'],
    [{ memory: -1 }, "invalid size -1"],
    [{ timeout: -1 }, "invalid timeout -1: expected milliseconds, at least 0"],
    [{ timeout: "5s" }, 'invalid timeout "5s"'],
    [{ limits: { calls: 1 } }, "unknown limit `calls`"],
    [{ events: ["logs"] }, "logs"],
    [{ events: "log" }, "events must be a list of types, or true, not a string"],
    [{ limits: [] }, "limits must be an object such as { maxCalls: 10 }, not Array"],
    [
      { tools: { shop: echo } },
      "the tools of shop must be an object such as { listOrders }, or a Provider, not a function",
    ],
    [
      { tools: { shop: [echo] } },
      "the tools of shop must be an object such as { listOrders }, or a Provider, not Array",
    ],
    [
      { tools: { shop: { echo: "echo" } } },
      "shop.echo is not a tool: expected a function, or an object with the function",
    ],
    [
      { tools: { shop: { echo: { inputSchemas: {}, execute: echo } } } },
      "shop.echo has no member inputSchemas; did you mean inputSchema?",
    ],
    [
      { tools: { shop: { echo: { inputSchema: "string", execute: echo } } } },
      "the inputSchema of shop.echo must be a schema, not a string",
    ],
    [{ tools: { "my shop": { echo } } }, "my shop"],
    [{ tools: [echo] }, "tools must be an object such as { shop: { listOrders } }, not Array"],
    [{ tools: new Map() }, "not Map"],
    [
      {
        tools: {
          shop: new (class Shop {
            list() {}
          })(),
        },
      },
      "the tools of shop must be members of the object itself, not of its class",
    ],
    [{ servers: "github" }, "servers must be a list of namespaces, not a string"],
    [{ servers: ["github"] }, "github"],
    [{ memory: "2GiB" }, "this service permits at most"],
    [{ policy: [{ decision: "ask" }] }, "a rule of the policy asks, and run() has no approve to answer"],
    [{ policy: ["deny"] }, "a rule of the policy must be an object, not a string"],
    [{ policy: "deny" }, "policy must be a list of rules, not a string"],
    [
      { policy: [{ decision: "deny", tool: "t.echo" }] },
      "a rule of the policy has no member tool; did you mean tools?",
    ],
    [{ policy: [{ decision: "refuse" }] }, "refuse"],
    [{ functions: { lib: "2" } }, "functions.lib must be an object, not a string"],
    [{ signal: {} }, "signal must be an AbortSignal, not Object"],
    [5, "the options of run() must be an object, not a number"],
  ];
  for (const [options, message] of mistakes) {
    await assert.rejects(
      box.run("1", options),
      (error: Error) => {
        assert(error.message.includes(message), `${error.message}\n${message}`);
        return true;
      },
      message,
    );
  }
  await assert.rejects(box.run(Buffer.from("1") as any), /run\(\) takes a program as a string, not Uint8Array/);
  for (const [options, message] of [
    [{ global: {} }, /did you mean globals\?/],
    [{ globals: new Map() }, /globals must be an object such as \{ today \}, not Map/],
    [{ args: "abc" }, /args must be an array, not a string/],
    [{ imports: { read: echo } }, /imports\.read must be an object, not a function/],
    [{ modules: [] }, /modules must be an object of sources, not Array/],
  ] as const) {
    await assert.rejects(box.runCode("1", options as any), message);
  }
  assert.throws(
    () => new Executor({ maxProgram: 1 } as any),
    /Executor has no option maxProgram; did you mean maxPrograms\?/,
  );
  assert.equal(await value(box, "1 + 1"), 2);
});

test("options that are undefined or null are not set", async () => {
  const names = ["tools", "servers", "timeout", "memory", "limits", "policy", "approve", "events", "signal"];
  const scripts = [...names, "functions", "waitForCalls", "commonGlobals", "timers"];
  const modules = [...names, "function", "args", "imports", "modules", "globals", "language", "filename", "report"];
  for (const nothing of [undefined, null]) {
    const none = (names: string[]): any => Object.fromEntries(names.map((name) => [name, nothing]));
    assert.equal((await box.run("1", none(scripts))).value, 1);
    assert.equal((await box.runCode("export default 1", none(modules))).value, 1);
  }
});

test("a script has what its options give", async () => {
  assert.equal(await value(box, "await lib.twice(4)", { functions: { lib: { twice: "2 * input" } } }), 8);
  const globals = "[typeof setTimeout, typeof atob]";
  assert.deepEqual(await value(box, globals, { timers: true }), ["function", "function"]);
  assert.deepEqual(await value(box, globals, { commonGlobals: false }), ["undefined", "undefined"]);
  const result = await box.run("t.echo({ value: 1 }); 2", { tools: { t: { echo } }, waitForCalls: false });
  assert.equal(result.unawaited?.unanswered, 1);
});

test("many programs run at once", async () => {
  const slow = async ({ n }: { n: number }) => sleep(50).then(() => n);
  const programs = Array.from({ length: 20 }, (_, n) =>
    value(box, `await t.slow({ n: ${n} })`, { tools: { t: { slow } } }),
  );
  assert.deepEqual(await Promise.all(programs), [...programs.keys()]);
});

test("an execution is a promise", async () => {
  const execution = box.run("1");
  assert.equal(Object.prototype.toString.call(execution), "[object Execution]");
  let settled = 0;
  const counted = execution.finally(() => {
    settled += 1;
  });
  assert.equal((await counted).value, 1);
  assert.equal((await execution.then(({ ok }) => ok)) && settled, 1);
  assert.match(String(await box.run("1", { timeout: -1 }).catch(String)), /invalid timeout/);
});
