/**
 * An agent: a model answers a question with programs that call your functions.
 *
 *     node agent.mjs                 the model is a script: no key, no network
 *     node agent.mjs --model NAME    a model with the chat completions API, at $OPENAI_BASE_URL with $OPENAI_API_KEY
 */

import { parseArgs } from "node:util";

import { Executor, tool } from "execbox";
import { z } from "zod";

const listOrders = tool({
  description: "Lists orders.",
  inputSchema: z.object({ status: z.enum(["open", "shipped"]) }),
  outputSchema: z.array(z.object({ id: z.string(), customerId: z.number(), total: z.number() })),
  async execute({ status }) {
    if (status === "shipped") return [];
    return [
      { id: "A-7", customerId: 1, total: 60 },
      { id: "A-8", customerId: 2, total: 40 },
      { id: "A-9", customerId: 1, total: 25.5 },
    ];
  },
});

const getCustomer = tool({
  description: "Returns a customer.",
  inputSchema: z.object({ id: z.number() }),
  outputSchema: z.object({ name: z.string() }),
  async execute({ id }) {
    return { name: id === 1 ? "Ada Lovelace" : "Lin Wei" };
  },
});

/** Asks the model, runs the programs that it writes, and asks again, until it answers with a text. */
async function answer(question, model) {
  const box = new Executor();
  const runCode = await box.codeTool({ shop: { listOrders, getCustomer } }, { timeout: 60_000 });
  const { name, description, inputSchema: parameters } = runCode;
  const tools = [{ type: "function", function: { name, description, parameters } }];
  const messages = [{ role: "user", content: question }];
  for (let turn = 0; turn < 10; turn++) {
    const message = await model(messages, tools);
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const call of message.tool_calls) {
      const content = await run(call.function.arguments, runCode);
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
  throw new Error("the model has not answered after 10 turns");
}

/** What the model reads after a call of the tool: the result of its program, or what is wrong. */
async function run(args, runCode) {
  let code;
  try {
    ({ code } = JSON.parse(args));
  } catch {}
  if (typeof code !== "string") return 'The arguments must be a JSON object with the member "code".';
  console.log(`--- the model runs\n${code}`);
  const { text } = await runCode.run(code);
  console.log(`--- and reads\n${text}`);
  return text;
}

/** A model that always says the same. Its first program has a mistake, whose message tells it what to correct. */
async function scripted(messages, tools) {
  const programs = [
    `const orders = await shop.listOrders({ status: "open" });
const customers = await Promise.all(orders.map((order) => shop.getCustomer({ id: order.customer })));
return customers;`,
    `const totals: Record<string, number> = {};
for (const order of await shop.listOrders({ status: "open" })) {
  const { name } = await shop.getCustomer({ id: order.customerId });
  totals[name] = (totals[name] ?? 0) + order.total;
}
console.log(Object.keys(totals).length, "customers");
return totals;`,
  ];
  const turn = messages.filter(({ role }) => role === "assistant").length;
  if (turn === programs.length) {
    return { role: "assistant", content: "Ada Lovelace has open orders for 85.50, Lin Wei for 40.00." };
  }
  const call = { name: tools[0].function.name, arguments: JSON.stringify({ code: programs[turn] }) };
  return { role: "assistant", content: null, tool_calls: [{ id: `call-${turn}`, type: "function", function: call }] };
}

/** A model behind the chat completions API, which OpenAI, Ollama, vLLM and others have. */
function atUrl(model) {
  const { OPENAI_BASE_URL: base = "https://api.openai.com/v1", OPENAI_API_KEY: key = "" } = process.env;
  return async (messages, tools) => {
    const response = await fetch(`${base.replace(/\/$/, "")}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages, tools }),
    });
    if (!response.ok) throw new Error(`the model answers ${response.status}: ${await response.text()}`);
    return (await response.json()).choices[0].message;
  };
}

const { values } = parseArgs({ options: { model: { type: "string" } } });
const model = values.model ? atUrl(values.model) : scripted;
console.log(`--- the answer\n${await answer("What do our customers owe for open orders?", model)}`);
