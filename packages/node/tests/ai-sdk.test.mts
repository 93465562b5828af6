/** `execbox/ai-sdk`: code that calls tools of the AI SDK, with a model that follows a script. */

import { after, test } from "node:test";

import { dynamicTool, generateText, isStepCount, jsonSchema, streamText, tool, zodSchema } from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { tool as boxTool, InvalidInputError, ProgramError, Provider } from "execbox";
import { CodeError, codeTool } from "execbox/ai-sdk";
import { z } from "zod";
import { z as z3 } from "zod-3";

import { assert, boxForTests, deferred, ended } from "./support.mjs";

const box = boxForTests();
after(() => box.close());

const options = { timeout: 60_000 };
const stopWhen = isStepCount(10);
const prompt = "How many orders are open?";
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** What a model says in one step: the input of a call of `run_code`, or a text. */
type Step = { code: unknown } | string;

function content(step: Step, n: number) {
  return typeof step === "string"
    ? ({ type: "text", text: step } as const)
    : ({ type: "tool-call", toolCallId: `call-${n}`, toolName: "run_code", input: JSON.stringify(step) } as const);
}

function finishReason(step: Step) {
  const unified = typeof step === "string" ? "stop" : "tool-calls";
  return { unified, raw: undefined } as const;
}

/** A model that says what it is told, step by step. */
function scripted(...steps: Step[]): MockLanguageModelV4 {
  let n = 0;
  return new MockLanguageModelV4({
    async doGenerate() {
      const step = steps[n++]!;
      return { content: [content(step, n)], finishReason: finishReason(step), usage, warnings: [] };
    },
    async doStream() {
      const step = steps[n++]!;
      const part = content(step, n);
      const parts =
        part.type === "text"
          ? [
              { type: "text-start", id: "t" } as const,
              { type: "text-delta", id: "t", delta: part.text } as const,
              { type: "text-end", id: "t" } as const,
            ]
          : [part];
      const end = { type: "finish", finishReason: finishReason(step), usage } as const;
      return {
        stream: simulateReadableStream({ chunks: [...parts, end], initialDelayInMs: null, chunkDelayInMs: null }),
      };
    },
  });
}

/** What the model reads in a step: the output of the last call. */
function read(model: MockLanguageModelV4, step: number): { type: string; value: unknown } {
  const { prompt } = model.doGenerateCalls[step] ?? model.doStreamCalls[step]!;
  return (prompt.at(-1)!.content.at(-1) as any).output;
}

const listOrders = tool({
  description: "Lists orders.",
  inputSchema: z.object({ status: z.string().transform((text) => text.toUpperCase()), limit: z.number().default(50) }),
  outputSchema: z.array(z.object({ id: z.string() })),
  execute: async ({ status, limit }) => [{ id: `${status} ${limit}`, secret: 1 }],
});

test("a model writes code that calls tools of the AI SDK", async () => {
  const shop = {
    list_orders: listOrders,
    "count-orders": tool({
      inputSchema: jsonSchema<{ n: number }>({
        type: "object",
        properties: { n: { type: "number" } },
        required: ["n"],
      }),
      execute: ({ n }) => n + 1,
    }),
    report: tool({
      inputSchema: z.object({}),
      async *execute() {
        yield "half";
        yield "whole";
      },
    }),
    lazy: tool({ inputSchema: () => zodSchema(z.object({ n: z.number().default(2) })), execute: ({ n }) => n }),
    old: tool({ inputSchema: z3.object({ n: z3.number().default(3) }), execute: ({ n }) => n }),
    both: tool({
      inputSchema: z.intersection(z.object({ a: z.number() }), z.object({ b: z.number() })),
      execute: ({ a, b }) => a + b,
    }),
    dynamic: dynamicTool({ inputSchema: z.object({}), execute: async () => "dynamic" }),
  };
  const run_code = await codeTool(box, { shop }, options);
  const code = `const orders = await shop.list_orders({ status: 'open' });
    console.log(orders.length);
    return [orders, await shop.count_orders({ n: 1 }), await shop.report({}), await shop.lazy(), await shop.old(),
      await shop.both({ a: 1, b: 2 }), await shop.dynamic()]`;
  const model = scripted({ code }, "one");
  const { text, steps } = await generateText({ model, tools: { run_code }, prompt, stopWhen });
  assert.deepEqual([text, steps.length], ["one", 2]);

  const [declared] = model.doGenerateCalls[0]!.tools!;
  assert(declared?.type === "function" && declared.name === "run_code");
  assert.match(
    declared.description!,
    /\/\*\* Lists orders\. \*\/\n {2}function list_orders\(input: \{\s*status: string;/,
  );
  assert.match(declared.description!, /\}\): Promise<\{ id: string;? \}\[\]>/);
  assert.deepEqual(declared.inputSchema.required, ["code"]);
  const value = '[[{"id":"OPEN 50"}],2,"whole",2,3,3,"dynamic"]\n\nLogs:\n1';
  assert.deepEqual(read(model, 1), { type: "text", value });
});

test("functions, tools of this package and providers can stand beside them", async () => {
  const double = (n: number) => 2 * n;
  const twice = boxTool({
    inputSchema: z.object({ n: z.number() }),
    execute: ({ n }, call) => [2 * n, `${call.provider}.${call.tool} ${call.number} ${call.signal.aborted}`],
  });
  const json = boxTool({
    inputSchema: { type: "number" },
    effect: "read_only",
    execute: (n, call) => [n, call.number],
  });
  const tools = {
    mixed: { listOrders, double, twice, json },
    plain: { double },
    shop: new Provider({ listOrders } as any, { description: "All about orders" }),
  };
  const { execute, description } = await codeTool(box, tools, options);
  assert.match(description as string, /All about orders/);
  const code = `[await mixed.double(2), await mixed.twice({ n: 3 }), await mixed.json(4), await plain.double(5),
    (await shop.listOrders({ status: "a" })).length]`;
  const value = '[4,[6,"mixed.twice 2 false"],[4,3],10,1]';
  assert.equal(await execute!({ code }, { toolCallId: "1", messages: [], context: {} }), value);
  assert.equal(await execute!({ code }, undefined as any), value, "without the options of a call");
});

test("tools get the options of the call that runs the program", async () => {
  const seen: any[] = [];
  const steps: string[] = [];
  const see = tool({
    inputSchema: z.object({ n: z.number() }),
    contextSchema: z.object({ user: z.string() }),
    onInputStart: ({ toolCallId }) => void steps.push(`start ${toolCallId}`),
    onInputAvailable: ({ toolCallId, input }) => void steps.push(`available ${toolCallId} ${input.n}`),
    execute: async ({ n }, { toolCallId, messages, context, abortSignal }) => {
      steps.push(`execute ${toolCallId}`);
      seen.push({ n, toolCallId, messages: messages.length, context, aborted: abortSignal?.aborted });
      return n;
    },
  });
  const contextSchema = z.object({ user: z.string(), secret: z.number() });
  const run_code = tool({ ...(await codeTool(box, { shop: { see } }, options)), contextSchema });
  const model = scripted({ code: "await shop.see({ n: 7 }); await shop.see({ n: 8 })" }, "done");
  const toolsContext = { run_code: { user: "ada", secret: 1 } };
  await generateText({ model, tools: { run_code }, toolsContext, prompt, stopWhen });
  const common = { messages: 1, context: { user: "ada" }, aborted: false };
  assert.deepEqual(seen, [
    { n: 7, toolCallId: "call-1.1", ...common },
    { n: 8, toolCallId: "call-1.2", ...common },
  ]);
  assert.deepEqual(steps.slice(0, 3), ["start call-1.1", "available call-1.1 7", "execute call-1.1"]);

  const without = scripted({ code: "await shop.see({ n: 7 })" }, "done");
  const tools = { run_code: await codeTool(box, { shop: { see } }, options) };
  await generateText({ model: without, tools, prompt, stopWhen });
  assert.match(String(read(without, 1).value), /the tool that runs the program has another context than shop\.see: /);
  assert.equal(seen.length, 2);
});

test("programs that run at once have their own calls", async () => {
  const ids = tool({ inputSchema: z.object({}), execute: async (_, { toolCallId }) => toolCallId });
  const { execute } = await codeTool(box, { shop: { ids } }, options);
  const calls = Array.from({ length: 10 }, (_, n) =>
    execute!({ code: "await shop.ids({})" }, { toolCallId: `c${n}`, messages: [], context: {} }),
  );
  assert.deepEqual(
    await Promise.all(calls),
    calls.map((_, n) => `c${n}.1`),
  );
});

test("the errors of programs are texts for the model", async () => {
  const cause = new RangeError("no order A-7");
  const even = z.object({ n: z.number().refine((n) => n % 2 === 0, "must be even") });
  const checked = jsonSchema<{ n: number }>(
    { type: "object" },
    {
      validate: (value: any) =>
        value.n < 10 ? { success: true, value } : { success: false, error: new Error("n is too large") },
    },
  );
  const shop = {
    fail: tool({
      inputSchema: z.object({}),
      execute: async (): Promise<number> => {
        throw cause;
      },
    }),
    late: tool({
      inputSchema: z.object({}),
      async *execute() {
        yield 1;
        throw cause;
      },
    }),
    correct: tool({
      inputSchema: z.object({}),
      execute: (): number => {
        throw new InvalidInputError("a later date, please");
      },
    }),
    even: tool({ inputSchema: even, execute: ({ n }) => n }),
    old: tool({ inputSchema: z3.object({ n: z3.number().max(3, "too many") }), execute: ({ n }) => n }),
    checked: tool({ inputSchema: checked, execute: ({ n }) => n }),
    output: tool({
      inputSchema: z.object({}),
      outputSchema: z.object({ id: z.string() }),
      execute: () => ({ id: 7 }) as any,
    }),
  };
  const run_code = await codeTool(box, { shop }, options);
  const errors: [Step, RegExp][] = [
    [
      { code: "const orders = null;\norders.length" },
      /^runtime_error: TypeError: cannot read property 'length' of null\n/,
    ],
    [{ code: "await shop.fail({})" }, /^tool_error: no order A-7\n/],
    [{ code: "await shop.late({})" }, /^tool_error: no order A-7\n/],
    [{ code: "await shop.correct({})" }, /^validation_error: a later date, please\n/],
    [{ code: "await shop.even({ n: 1 })" }, /^validation_error: input\.n: must be even\n/],
    [
      { code: "await shop.even({ n: '1' })" },
      /^validation_error: Invalid input for shop\.even: input\.n: "1" is not of type/,
    ],
    [{ code: "await shop.old({ n: 4 })" }, /^validation_error: .*(too many|maximum)/],
    [{ code: "await shop.checked({ n: 12 })" }, /^validation_error: input: n is too large\n/],
    [{ code: "await shop.output({})" }, /^tool_error: the tool has returned output\.id: /],
    [{ code: 7 }, /expected an object with the member code, a string/],
  ];
  const model = scripted(...errors.map(([step]) => step), "I give up");
  const { steps } = await generateText({ model, tools: { run_code }, prompt, stopWhen: isStepCount(20) });
  for (const [index, [, expected]] of errors.entries()) {
    const { type, value } = read(model, index + 1);
    assert.equal(type, "error-text");
    assert.match(String(value), expected);
    assert.doesNotMatch(String(value), /node_modules|\.m?js/);
  }
  const part = steps[1]!.content.find(({ type }) => type === "tool-error") as { error: CodeError };
  assert(part.error instanceof CodeError && part.error.cause instanceof ProgramError);
  assert.equal(part.error.cause.cause, cause);
});

test("an abort ends the program and its tools", async () => {
  const began = deferred();
  const aborted = deferred<unknown>();
  const hang = tool({
    inputSchema: z.object({}),
    execute: (_, { abortSignal }) => {
      abortSignal!.addEventListener("abort", () => aborted.resolve(abortSignal!.reason));
      began.resolve();
      return new Promise<number>(() => {});
    },
  });
  const run_code = await codeTool(box, { shop: { hang } }, options);
  const controller = new AbortController();
  const model = scripted({ code: "await shop.hang({})" }, "never");
  const generated = generateText({ model, tools: { run_code }, prompt, stopWhen, abortSignal: controller.signal });
  generated.then(
    () => {},
    () => {},
  );
  await began.promise;
  const mine = new Error("mine");
  controller.abort(mine);
  controller.abort();
  assert.equal(await aborted.promise, mine);
  await generated.catch((error) => assert.equal(error, mine));
  await ended(box);

  const before = { toolCallId: "1", messages: [], context: {}, abortSignal: AbortSignal.abort(mine) };
  const execute = run_code.execute!;
  await assert.rejects(
    async () => execute({ code: "1" }, before),
    (error) => error === mine,
  );
});

test("a timeout of the program aborts its tools", async () => {
  const aborted = deferred();
  const hang = tool({
    inputSchema: z.object({}),
    async *execute(_, { abortSignal }) {
      abortSignal!.addEventListener("abort", () => aborted.resolve());
      yield 1;
      await new Promise(() => {});
    },
  });
  const run_code = await codeTool(box, { shop: { hang } }, { timeout: 1000 });
  const model = scripted({ code: "await shop.hang({})" }, "done");
  await generateText({ model, tools: { run_code }, prompt, stopWhen });
  assert.match(String(read(model, 1).value), /^timeout: Execution timed out after 1000 ms/);
  await aborted.promise;
});

test("it works with streamText", async () => {
  const run_code = await codeTool(box, { shop: { listOrders } }, options);
  const model = scripted({ code: "(await shop.listOrders({ status: 'open' })).length" }, { code: "null.x" }, "one");
  const result = streamText({ model, tools: { run_code }, prompt, stopWhen });
  let text = "";
  const outputs: unknown[] = [];
  for await (const part of result.stream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "tool-result") outputs.push(part.output);
    if (part.type === "tool-error") outputs.push(String(part.error).split("\n")[0]);
  }
  assert.deepEqual([text, outputs], ["one", ["1", "runtime_error: TypeError: cannot read property 'x' of null"]]);
  assert.equal(read(model, 2).type, "error-text");
});

test("what cannot be mapped is refused", async () => {
  const inputSchema = z.object({});
  const execute = () => 1;
  const refused: [any, RegExp][] = [
    [
      { inputSchema },
      /^shop\.get has no execute: the client executes it, and a program cannot call it; add execute, or/,
    ],
    [
      tool({ type: "provider", id: "openai.search", args: {}, inputSchema, isProviderExecuted: true } as any),
      /^shop\.get has no execute: the provider of the model executes it/,
    ],
    [
      { inputSchema, execute, needsApproval: true },
      /^shop\.get has needsApproval, .*; leave it out, and use the options policy and/,
    ],
    [{ inputSchema, execute, needsApproval: async () => false }, /^shop\.get has needsApproval/],
    [{ inputSchema, execute, description: () => "" }, /^the description of shop\.get is a function, .*; pass a string/],
    [{ inputSchema: z.object({ at: z.date() }), execute }, /^shop\.get, input: the schema of zod has no JSON Schema/],
    [
      {
        inputSchema: () => {
          throw new Error("boom");
        },
        execute,
      },
      /^the inputSchema of shop\.get has no JSON Schema: boom/,
    ],
    [
      { inputSchema: jsonSchema(() => Promise.reject(new Error("boom"))), execute },
      /^the inputSchema of shop\.get has no JSON Schema: boom/,
    ],
    [
      { inputSchema, outputSchema: jsonSchema(async () => Promise.reject(new Error("boom"))), execute },
      /^the outputSchema of shop\.get has/,
    ],
    [{ parameters: inputSchema, execute }, /^shop\.get has no member parameters/],
    [
      {
        get inputSchema() {
          throw new Error("boom");
        },
      },
      /boom/,
    ],
  ];
  for (const [get, message] of refused) {
    await assert.rejects(codeTool(box, { shop: { get } }), ({ message: text }: Error) => {
      assert.match(text, message);
      return true;
    });
  }
  await assert.rejects(codeTool(box, { shop: listOrders.execute } as any), /the tools of shop must be an object/);
  await assert.rejects(codeTool({ listOrders } as any, {}), /codeTool\(\) takes an Executor, tools and options/);
  await assert.rejects(codeTool(box, [listOrders] as any), /tools must be an object such as/);
  await assert.rejects(
    codeTool(box, {}, { timeuot: 1 } as any),
    /codeTool\(\) has no option timeuot; did you mean timeout\?/,
  );
  const fine = { inputSchema, execute, needsApproval: false };
  assert.equal(await (await codeTool(box, { shop: { fine } })).execute!({ code: "await shop.fine()" }, {} as any), "1");
});

test("hostile names and results do no harm", async () => {
  const inputSchema = z.object({});
  const names = ["__proto__", "constructor", "toString", "then", "class"];
  const named = (name: string) => [name, tool({ inputSchema, execute: () => name })] as const;
  const odd: Record<string, () => unknown> = {
    large: () => "x".repeat(17 << 20),
    getter: () => ({
      get a() {
        throw new Error("boom");
      },
    }),
    iterable: () => ({ [Symbol.asyncIterator]: 5 }),
    nothing: () => undefined,
  };
  const tools = Object.entries(odd).map(([name, execute]) => [name, tool({ inputSchema, execute })] as const);
  const { execute } = await codeTool(box, { shop: Object.fromEntries([...names.map(named), ...tools]) }, options);
  const code = `const got = [];
    for (const name of Object.keys(shop)) try { got.push(String(await shop[name]({})).slice(0, 99)) } catch (e) { got.push(e.message) }
    return got`;
  const got = JSON.parse((await execute!({ code }, {} as any)) as string);
  assert.equal(({} as any).polluted, undefined);
  for (const part of ["__proto__", "constructor", "too long", "boom"])
    assert(
      got.some((each: string) => each.includes(part)),
      `${part}: ${got}`,
    );
});
