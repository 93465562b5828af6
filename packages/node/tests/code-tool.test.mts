/** `codeTool`: what models read, and what they run. */

import { AsyncLocalStorage } from "node:async_hooks";
import { after, test } from "node:test";

import { Executor, ProgramError, Provider, ServiceEndedError, tool } from "execbox";
import { z } from "zod";

import { assert, boxForTests, deferred, ended, pidOf } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

const hang = () => new Promise<never>(() => {});

const listOrders = tool({
  description: "Lists orders.",
  inputSchema: z.object({ status: z.string(), limit: z.number().default(50) }),
  outputSchema: z.array(z.object({ id: z.string() })),
  execute: async ({ status, limit }) => [{ id: `${status} ${limit}` }],
});

test("a model reads the declarations of the tools", async () => {
  const { name, description, inputSchema } = await box.codeTool({ shop: { listOrders } });
  assert.equal(name, "run_code");
  assert.match(description, /`await` tools, compute, and `return` a JSON value/);
  assert.match(description, /function listOrders\(input: \{\s*status: string;[\s\S]*limit\?: number/);
  assert.deepEqual(inputSchema.required, ["code"]);

  const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`tool${n}`, listOrders]));
  const short = await box.codeTool({ shop: new Provider(many) }, { name: "code", maxTypeChars: 3000, timers: true });
  assert.equal(short.name, "code");
  assert(short.description.length < 5000, short.description);
  assert.doesNotMatch(short.description, /no timers|or timers/);
});

test("a result has what the model reads", async () => {
  const { run } = await box.codeTool({ shop: { listOrders } }, { timeout: 60_000 });
  const answer = await run<string[]>("console.log('now'); return await shop.listOrders({ status: 'open' })");
  assert.equal(answer.text, '[{"id":"open 50"}]\n\nLogs:\nnow');
  assert.deepEqual([answer.value, answer.logs, answer.usage.calls], [[{ id: "open 50" }], ["now"], 1]);

  const failed = await run("const orders = null;\norders.length");
  assert.equal(failed.ok, false);
  assert.match(failed.text, /TypeError: cannot read property 'length' of null\n {4}at <script>:2/);
  assert(failed.error instanceof ProgramError);

  assert.equal((await box.run("1")).text, undefined);
  assert.equal((await box.run("[1, 2]", { maxTextChars: 100 })).text, "[1,2]");
  await assert.rejects(box.run("1", { maxTextChars: -1 }), /invalid maxTextChars -1: expected a whole number/);
});

test("what a tool throws is the cause of the error", async () => {
  const cause = new RangeError("no order A-7");
  const fail = () => {
    throw cause;
  };
  const { run } = await box.codeTool({ shop: { fail } });
  const { text, error } = await run("await shop.fail()");
  assert.match(text, /tool_error: no order A-7/);
  assert.equal(error?.cause, cause);
});

test("a result that is too long is shown in part", async () => {
  const { run } = await box.codeTool({}, { maxTextChars: 1000, timeout: 60_000 });
  const { text, ok, value } = await run<number[]>("Array.from({ length: 1e5 }, (_, n) => n)");
  assert(text.length < 1500, text);
  assert.match(text, /the result has \d+ characters: return less/);
  assert(ok);
  assert.equal(value.length, 1e5);
});

test("the options hold for each program", async () => {
  function* rules() {
    yield { decision: "ask", tools: "shop.*" } as const;
  }
  const asked: unknown[] = [];
  const { run } = await box.codeTool(
    { shop: { listOrders } },
    {
      policy: rules(),
      approve: ({ input }) => {
        asked.push(input);
        return { answer: "refuse", reason: "not today" };
      },
      limits: { maxCalls: 1 },
      timers: true,
    },
  );
  for (let n = 1; n <= 3; n++) {
    assert.match((await run("await shop.listOrders({ status: 'open' })")).text, /not approved: not today/);
    assert.equal(asked.length, n);
  }
  assert.equal((await run("await new Promise((resolve) => setTimeout(resolve, 1, 5))")).value, 5);
});

test("tools are read once, and see the context of the call of run", async () => {
  const user = new AsyncLocalStorage<string>();
  const shop: Record<string, () => unknown> = { user: () => user.getStore() };
  const { run } = await box.codeTool({ shop });
  shop.user = () => "changed";
  shop.other = () => "added";
  const answers = await Promise.all(["ann", "bob"].map((name) => user.run(name, () => run("await shop.user()"))));
  assert.deepEqual(
    answers.map(({ text }) => text),
    ["ann", "bob"],
  );
  assert.match((await run("await shop.other()")).text, /other is not a function|shop.other/);
});

test("an aborted signal cancels the program", async () => {
  const began = deferred();
  const aborted = deferred<unknown>();
  const wait = (_: unknown, { signal }: { signal: AbortSignal }) => {
    signal.addEventListener("abort", () => aborted.resolve(signal.reason));
    began.resolve();
    return hang();
  };
  const { run } = await box.codeTool({ shop: { wait } }, { timeout: 60_000 });
  const controller = new AbortController();
  const answer = run("await shop.wait()", { signal: controller.signal });
  await began.promise;
  const mine = new Error("mine");
  controller.abort(mine);
  controller.abort();
  await assert.rejects(answer, (error) => error === mine);
  assert.equal(await aborted.promise, mine);
  await assert.rejects(run("1", { signal: AbortSignal.abort(mine) }), (error) => error === mine);
  await ended(box);
  assert.equal((await run("1")).text, "1");
});

test("a tool outlives its service", async () => {
  await using own = new Executor();
  const { run } = await own.codeTool({ shop: { listOrders, hang } }, { timeout: 60_000 });
  const lost = run("await shop.hang()");
  while ((await own.usage()).running === 0);
  process.kill(pidOf(own), "SIGKILL");
  await assert.rejects(lost, ServiceEndedError);
  assert.match((await run("await shop.listOrders({ status: 'open' })")).text, /open 50/);
});

test("mistakes are explained", async () => {
  const ask = [{ decision: "ask" }] as const;
  for (const [tools, options, message] of [
    [{}, { timeuot: 1 }, /codeTool\(\) has no option timeuot; did you mean timeout\?/],
    [{}, { tools: {} }, /codeTool\(\) has no option tools; expected one of name, maxTypeChars, servers/],
    [{}, { events: true }, /codeTool\(\) has no option events/],
    [{}, { signal: AbortSignal.timeout(1) }, /codeTool\(\) has no option signal/],
    [{}, { timeout: "5s" }, /invalid timeout "5s"/],
    [{}, { memory: "64 megs" }, /invalid size "64 megs"/],
    [{}, { policy: ask }, /a rule of the policy asks, and codeTool\(\) has no approve to answer/],
    [{}, { policy: [{ decision: "deny", tool: "x" }] }, /did you mean tools\?/],
    [{}, { maxTypeChars: -1 }, /invalid maxTypeChars -1: expected a whole number/],
    [{}, { maxTextChars: "1000" }, /invalid maxTextChars "1000": expected a whole number/],
    [{}, { name: 7 }, /invalid name 7: expected such as "run_code"/],
    [{}, { servers: ["github"] }, /server "github" cannot be granted/],
    [{}, 5, /the options of codeTool\(\) must be an object, not a number/],
    [undefined, {}, /tools must be an object such as \{ shop: \{ listOrders \} \}, not undefined/],
    [[listOrders], {}, /tools must be an object such as \{ shop: \{ listOrders \} \}, not Array/],
    [{ shop: listOrders.execute }, {}, /the tools of shop must be an object such as \{ listOrders \}/],
    [{ shop: { listOrders: {} } }, {}, /shop\.listOrders is not a tool/],
  ] as [any, any, RegExp][]) {
    await assert.rejects(box.codeTool(tools, options), message);
  }
  const { run } = await box.codeTool({}, {
    name: undefined,
    policy: null,
    timeout: null,
    maxTextChars: undefined,
  } as any);
  assert.equal((await run("1")).text, "1");
  await assert.rejects(run(undefined as any), /CodeTool\.run\(\) takes a program as a string, not undefined/);
  await assert.rejects(
    run("1", { timeout: 1 } as any),
    /CodeTool\.run\(\) has no option timeout; expected one of signal/,
  );
  await assert.rejects(run("1", null as any), /the options of CodeTool\.run\(\) must be an object, not null/);
  await assert.rejects(run("1", { signal: {} } as any), /signal must be an AbortSignal, not Object/);
});
