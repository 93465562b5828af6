/** The code of a user, which is compiled strictly and not run. */

import { createBrowserCodeTool } from "@cloudflare/codemode/browser";
import { generateText, type LanguageModel, tool as sdkTool } from "ai";
import {
  type Answer,
  type Call,
  type CodeResult,
  type CodeTool,
  type Event,
  type Execution,
  Executor,
  type LogCall,
  type ProgramError,
  Provider,
  type Question,
  type Result,
  type Tools,
  tool,
} from "execbox";
import { codeTool } from "execbox/ai-sdk";
import { CodemodeExecutor } from "execbox/codemode";
import { z } from "zod";

const Order = z.object({ id: z.string(), total: z.number().default(0) });

const listOrders = tool({
  description: "Lists orders.",
  inputSchema: z.object({ status: z.string(), limit: z.number().default(50) }),
  outputSchema: z.array(Order),
  effect: "read_only",
  async execute({ status, limit }, call: Call) {
    const text: string = status;
    const count: number = limit;
    // @ts-expect-error: the input has no such member
    void ({} as Parameters<typeof Order.parse>[0] & { status: string }).limit;
    call.reportProgress(1, count, text);
    return [{ id: "A-7" }];
  },
});

tool({
  inputSchema: z.object({ n: z.number() }),
  outputSchema: z.string(),
  // @ts-expect-error: the result is no text
  execute: ({ n }) => n,
});

const json = tool({ inputSchema: { type: "object", properties: {} }, execute: (input) => input.anything });

function show(event: Event): string | undefined {
  switch (event.type) {
    case "log":
      return event.text;
    case "call_ended":
      return `${event.name} ${event.durationMs}`;
    default:
      return undefined;
  }
}

async function approve(question: Question): Promise<Answer> {
  return { answer: "refuse", reason: `${question.tool} is not for programs` };
}

export async function main(): Promise<void> {
  const tools: Tools = {
    shop: { listOrders, json, plain: async ({ id }: { id: string }) => id },
    more: new Provider({ json }),
  };
  await using box = new Executor({ executor: "inline", maxPrograms: 4 });
  const execution: Execution<Result<number>> = box.run<number>("1 + 1", {
    tools,
    timeout: 5000,
    memory: "64MiB",
    limits: { maxCalls: 20 },
    policy: [{ decision: "ask", effect: "destructive" }],
    approve,
    events: ["log", "call_ended"],
    signal: AbortSignal.timeout(1000),
  });
  for await (const event of execution) show(event);
  execution.terminate("enough");
  const result = await execution;
  const logs: string[] = result.logs;
  const sure: number = result.orThrow().value;
  const error: ProgramError | undefined = result.error;
  if (result.ok) {
    const value: number = result.value;
    void value;
  } else {
    const failed: ProgramError = result.error;
    void failed;
  }
  const run: CodeResult = await box.runCode("export default load", {
    globals: { load: show },
    function: "default",
    report: true,
  });
  const first: LogCall | undefined = run.logs[0];
  if (run.status === "success") run.value;
  // @ts-expect-error: there is no such option
  await box.run("1", { timeuot: 1 });
  void [logs, sure, error, first];
}

export async function models(box: Executor, model: LanguageModel): Promise<void> {
  const made: CodeTool = await box.codeTool(
    { shop: { listOrders } },
    { timeout: 1000, policy: [], maxTextChars: 1000 },
  );
  const answer = await made.run<number>("1", { signal: AbortSignal.timeout(1000) });
  const parts: [string, boolean, number] = [answer.text, answer.ok, answer.orThrow().value];
  // @ts-expect-error: the model has its tools already
  await box.codeTool({}, { tools: {} });
  // @ts-expect-error: the options hold for each program
  await made.run("1", { timeout: 1 });

  const cancelOrder = sdkTool({
    inputSchema: z.object({ id: z.string() }),
    contextSchema: z.object({ user: z.string() }),
    execute: async ({ id }, { context }) => `${id} ${context.user}`,
  });
  const run_code = await codeTool(
    box,
    { shop: { listOrders, cancelOrder, plain: async () => 1 } },
    { memory: "64MiB" },
  );
  const { toolResults } = await generateText({ model, tools: { run_code }, prompt: "" });
  for (const { output } of toolResults) void (output satisfies string | unknown);
  // @ts-expect-error: there is no such option
  await codeTool(box, {}, { timeuot: 1 });

  const executor = new CodemodeExecutor(box, { timeout: 1000 });
  createBrowserCodeTool({ tools: {}, executor });
  void parts;
}
