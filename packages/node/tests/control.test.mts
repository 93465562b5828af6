/** Policies, events, cancellation and termination. */

import { getEventListeners } from "node:events";
import { after, test } from "node:test";

import { type Answer, type Event, type Question, tool } from "execbox";

import { all, assert, boxForTests, deferred, ended, failure, sleep, value } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

const echo = async ({ value }: { value: unknown }) => value;
const hang = () => new Promise<never>(() => {});

test("a policy decides and asks", async () => {
  const asked: Question[] = [];
  const options = {
    tools: { t: { pay: tool({ effect: "destructive", execute: () => "paid" }), echo } },
    policy: [
      { decision: "deny", tools: "t.echo", reason: "not now" },
      { decision: "ask", effect: "destructive" },
    ] as const,
    approve: async (question: Question): Promise<Answer> => {
      asked.push(question);
      return (question.input as any).amount < 10 || { answer: "refuse", reason: "too much" };
    },
  };
  assert.equal(await value(box, "await t.pay({ amount: 5 })", options), "paid");
  assert.match((await failure(box, "await t.pay({ amount: 50 })", options)).message, /too much/);
  assert.match((await failure(box, "await t.echo({ value: 1 })", options)).message, /not now/);
  assert.deepEqual(asked[0], {
    provider: "t",
    tool: "pay",
    input: { amount: 5 },
    effect: "destructive",
    call: 1,
    lines: ["1: await t.pay({ amount: 5 })"],
  });
});

test("a policy can be an iterator", async () => {
  function* rules() {
    yield { decision: "deny", tools: "t.*" } as const;
  }
  const error = await failure(box, "await t.echo({ value: 1 })", { tools: { t: { echo } }, policy: rules() });
  assert.match(error.message, /not allowed/);
});

test("an execution iterates over its events in order", async () => {
  const execution = box.run("console.warn('a'); await t.echo({ value: 1 })", { tools: { t: { echo } }, events: true });
  const seen: Event[] = [];
  for await (const event of execution) {
    await sleep(1);
    seen.push(event);
  }
  const types = ["accepted", "started", "log", "call_began", "call_ended", "ended"];
  assert.deepEqual(
    seen.map(({ type }) => type),
    types,
  );
  assert.deepEqual(seen[2], { type: "log", level: "warn", text: "a" });
  assert.equal((await execution).ok, true);
  assert.deepEqual(await all(execution), [], "they are given once");
  assert.throws(() => box.run("1")[Symbol.asyncIterator](), /an execution has events with the option `events`/);
});

test("events that nobody reads are dropped and counted", async () => {
  const calls = 1500;
  const code = `for (let n = 0; n < ${calls}; n++) await t.echo({ value: n })`;
  const options = { tools: { t: { echo } }, events: ["call_began"] as const, timeout: 60_000 };
  const execution = box.run(code, options);
  const { droppedEvents } = await execution;
  const seen = await all(execution);
  assert.equal(seen.length, 1024);
  assert.equal(seen.length + droppedEvents, calls);

  const read = box.run(code, options);
  assert.equal((await all(read)).length, calls);
  assert.equal((await read).droppedEvents, 0);

  const left = box.run(code, options);
  for await (const _ of left) break;
  assert.equal((await left).droppedEvents, 0, "nobody wants them");
});

test("what approve throws ends the execution", async () => {
  const tools = { t: { echo } };
  const policy = [{ decision: "ask" }] as const;
  const mine = new Error("mine");
  const now = () => {
    throw mine;
  };
  for (const approve of [now, async () => now()]) {
    const execution = box.run("try { await t.echo({ value: 1 }) } catch {} for (;;);", {
      tools,
      policy,
      approve,
      timeout: 60_000,
    });
    await assert.rejects(execution, (error) => error === mine);
  }
  for (const wrong of ["yes", { answer: "maybe" }, { answer: "refuse", reason: 7 }, undefined]) {
    const approve: any = () => wrong;
    await assert.rejects(
      box.run("await t.echo({ value: 1 })", { tools, policy, approve }),
      /approve must return a boolean or \{ answer/,
    );
  }
  await ended(box);
});

test("an aborted signal cancels the program and its tools", async () => {
  const began = deferred();
  const aborted = deferred<unknown>();
  const tools = {
    t: {
      hang: (_: unknown, { signal }: { signal: AbortSignal }) => {
        signal.addEventListener("abort", () => aborted.resolve(signal.reason));
        began.resolve();
        return hang();
      },
    },
  };
  const controller = new AbortController();
  const execution = box.run("await t.hang()", { tools, signal: controller.signal, timeout: 60_000, events: true });
  const events = all(execution).then(
    () => "ended",
    (error) => error.name,
  );
  await began.promise;
  controller.abort();
  await assert.rejects(execution, { name: "AbortError" });
  assert.equal(((await aborted.promise) as Error).name, "AbortError");
  assert.equal(await events, "AbortError");
  await ended(box);

  const mine = new Error("mine");
  await assert.rejects(box.run("1", { signal: AbortSignal.abort(mine) }), (error) => error === mine);
  await assert.rejects(box.run("for (;;);", { signal: AbortSignal.timeout(50), timeout: 60_000 }), {
    name: "TimeoutError",
  });
  const soon = new AbortController();
  const never = box.run("for (;;);", { signal: soon.signal, timeout: 60_000 });
  soon.abort(mine); // before it is sent
  await assert.rejects(never, (error) => error === mine);
  await ended(box);
  assert.equal(await value(box, "1 + 1", { signal: new AbortController().signal }), 2);
});

test("a signal that is used often keeps nothing", async () => {
  const { signal } = new AbortController();
  for (let n = 0; n < 20; n++) await box.run("1", { signal });
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

test("tools end with their program", async () => {
  const aborted = deferred<Error>();
  const wait = (_: unknown, { signal }: { signal: AbortSignal }) => {
    signal.addEventListener("abort", () => aborted.resolve(signal.reason));
    return hang();
  };
  assert.equal((await failure(box, "await t.wait()", { tools: { t: { wait } }, timeout: 200 })).code, "timeout");
  assert.match((await aborted.promise).message, /nobody waits for the result of this call any more/);
});

test("what a tool does after its program has ended is ignored", async () => {
  const call = deferred<any>();
  const late = async (_: unknown, each: unknown) => {
    call.resolve(each);
    await sleep(100);
    throw new Error("too late");
  };
  await failure(box, "await t.late()", { tools: { t: { late } }, timeout: 50 });
  const { signal, reportProgress } = await call.promise;
  assert(signal.aborted);
  assert.equal(typeof reportProgress, "function");
  (await call.promise).reportProgress(1);
  await sleep(120);
  assert.equal(await value(box, "1"), 1);
});

test("an execution can be terminated", async () => {
  const began = deferred();
  const stop = () => {
    began.resolve();
    return hang();
  };
  const script = box.run("console.log('a'); await t.stop()", { tools: { t: { stop } }, timeout: 60_000 });
  await began.promise;
  script.terminate("enough");
  const { error, logs } = await script;
  assert.equal(String(error), "timeout: Execution was cancelled: enough");
  assert.deepEqual([error?.data, logs], [{ kind: "cancelled", reason: "enough" }, ["a"]]);

  const module = box.runCode("report(1); for (;;);", { report: true, timeout: 60_000 });
  module.terminate("before it has begun");
  module.terminate("again");
  assert.equal((await module).status, "terminated");
  module.terminate("after its end");
});
