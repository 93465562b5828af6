/**
 * A tool of the AI SDK (package `ai`, versions 5 to 7) with which a model runs code that calls tools:
 *
 * ```js
 * import { codeTool } from "execbox/ai-sdk";
 *
 * const tools = { run_code: await codeTool(box, { shop: { listOrders, cancelOrder } }, { timeout: 10_000 }) };
 * const { text } = await generateText({ model, tools, prompt, stopWhen: stepCountIs(5) });
 * ```
 */

import { AsyncLocalStorage } from "node:async_hooks";

import type * as ai from "ai";
import { asSchema, jsonSchema } from "ai";

import { isRecord } from "../checks.js";
import { messageOf, named } from "../errors.js";
import {
  type Call,
  type CodeToolOptions,
  ExecboxError,
  type Executor,
  type JsonSchema,
  Provider,
  type Schema,
  type Tool,
  ToolError,
  type ToolFunction,
  type ToolSet,
} from "../index.js";
import { describe, isStandard, type Validated, withJsonSchema } from "../schemas.js";

/** Tools by their names: those of the AI SDK, functions, and tools of this package. */
export type AnyToolSet = Readonly<Record<string, ai.ToolSet[string] | Tool | ToolFunction>>;

/** The tools of a program, by the names of their providers. */
export type AnyTools = Readonly<Record<string, AnyToolSet | Provider>>;

/** The input of the tool, which the model writes. */
export interface CodeInput {
  code: string;
}

/** A program has failed. The message is what the model reads, and `cause` is the error of the program. */
export class CodeError extends ExecboxError {
  /** The message: the AI SDK gives it to the model. */
  override toString(): string {
    return this.message;
  }

  static {
    named(CodeError, "CodeError");
  }
}

/**
 * A tool of the AI SDK with which a model runs code that calls these tools. It returns `text` of the result. A program that
 * fails throws a `CodeError`, whose message the AI SDK gives to the model.
 *
 * Tools of the AI SDK are called with the options of the call that runs the program, such as its messages and its context, but
 * for `toolCallId`, which ends with the number of the call in the program, and `abortSignal`, which is aborted when nobody waits
 * for the result any more.
 *
 * Fails with a `TypeError` if a program cannot call a tool of the AI SDK: one without `execute`, with `needsApproval`, or with a
 * function as its description.
 */
export async function codeTool(
  box: Executor,
  tools: AnyTools,
  options: Omit<CodeToolOptions, "name"> = {},
): Promise<ai.Tool<CodeInput, string>> {
  if (typeof box?.codeTool !== "function") throw new TypeError("codeTool() takes an Executor, tools and options");
  const { description, inputSchema, run } = await box.codeTool(await converted(tools), options);
  return {
    description,
    inputSchema: jsonSchema<CodeInput>(inputSchema as object, { validate: checkInput }),
    async execute({ code }, call) {
      const { ok, text, error } = await outer.run(call, () => run(code, { signal: call?.abortSignal }));
      if (!ok) throw new CodeError(text, { cause: error });
      return text;
    },
  };
}

/** Checks what the model has passed. */
function checkInput(value: any): { success: true; value: CodeInput } | { success: false; error: Error } {
  if (typeof value?.code === "string") return { success: true, value };
  return { success: false, error: new TypeError("expected an object with the member code, a string") };
}

/** The second argument of `execute` of a tool of the AI SDK. */
type SdkCall = Parameters<NonNullable<ai.Tool["execute"]>>[1];

/** The call that runs the program. */
const outer = new AsyncLocalStorage<SdkCall>();

async function converted(tools: AnyTools): Promise<Record<string, ToolSet | Provider>> {
  if (!isRecord(tools)) return tools;
  return mapValues(tools, async (given, name) => {
    const set: unknown = given instanceof Provider ? given.tools : given;
    if (!isRecord(set) || !Object.values(set).some(isSdkTool)) return given as ToolSet | Provider;
    const all = await mapValues(set, (tool, each) => (isSdkTool(tool) ? convert(`${name}.${each}`, tool) : tool));
    if (!(given instanceof Provider)) return all as ToolSet;
    return new Provider(all as ToolSet, { description: given.description, nameFailedCalls: given.nameFailedCalls });
  });
}

async function mapValues<T, U>(
  members: Readonly<Record<string, T>>,
  map: (value: T, name: string) => U | Promise<U>,
): Promise<Record<string, U>> {
  const entries = Object.entries(members).map(async ([name, value]) => [name, await map(value, name)]);
  return Object.fromEntries(await Promise.all(entries));
}

/** Whether it is a tool of the AI SDK, or one of this package with the schema of a library, which is called in the same way. */
function isSdkTool(tool: unknown): tool is ai.Tool {
  if (!isRecord(tool) || "effect" in tool || "lenient" in tool) return false;
  return isStandard(tool.inputSchema) || isSdkSchema(tool.inputSchema);
}

/** Whether it is a schema of the AI SDK: `jsonSchema()`, `zodSchema()`, or a function that returns one. */
function isSdkSchema(schema: unknown): boolean {
  if (typeof schema === "function") return !isStandard(schema);
  return isRecord(schema) && (schema as any)[Symbol.for("vercel.ai.schema")] === true;
}

async function convert(name: string, tool: ai.Tool): Promise<Tool> {
  check(name, tool);
  const { inputSchema, outputSchema } = tool;
  return {
    description: tool.description as string | undefined,
    inputSchema: await schemaOf(inputSchema, `the inputSchema of ${name}`),
    outputSchema: outputSchema && (await schemaOf(outputSchema, `the outputSchema of ${name}`)),
    lenient: isSdkSchema(inputSchema) || isSdkSchema(outputSchema), // which the AI SDK does not check itself
    execute: async (input, call) => {
      const options = await optionsOf(name, tool, call);
      await tool.onInputStart?.(options);
      await tool.onInputAvailable?.({ ...options, input });
      const result = tool.execute!(input, options);
      return isAsyncIterable(result) ? last(result) : result;
    },
  };
}

/** Fails with a `TypeError` if a program cannot call the tool. */
function check(name: string, { type, execute, needsApproval, description }: ai.Tool): void {
  if (typeof execute !== "function") {
    const who = type?.startsWith("provider") ? "the provider of the model" : "the client";
    throw new TypeError(
      `${name} has no execute: ${who} executes it, and a program cannot call it; add execute, or leave it out`,
    );
  }
  if (needsApproval) {
    throw new TypeError(
      `${name} has needsApproval, for which a program cannot be suspended; leave it out, and use the options policy and approve`,
    );
  }
  if (typeof description === "function") {
    throw new TypeError(`the description of ${name} is a function, which programs have no context for; pass a string`);
  }
}

/** A schema as this package reads it: the AI SDK also reads those of Zod 3 itself. */
async function schemaOf(schema: any, name: string): Promise<Schema> {
  const isZod3 = isStandard(schema) && schema["~standard"].vendor === "zod" && !("_zod" in schema);
  if (isStandard(schema) && !isZod3) return schema;
  try {
    const { jsonSchema, validate } = asSchema(schema);
    const json = (await jsonSchema) as JsonSchema;
    if (!validate) return json;
    const check = async (value: unknown) => validated(await validate(value));
    return withJsonSchema({ "~standard": { version: 1, vendor: "ai", validate: check } }, json);
  } catch (error) {
    throw new TypeError(`${name} has no JSON Schema: ${messageOf(error)}`);
  }
}

/** The result of the validation of a schema of the AI SDK. */
function validated(result: { success: true; value: unknown } | { success: false; error: any }): Validated<unknown> {
  if (result.success) return { value: result.value };
  const { issues, cause, message } = result.error;
  return { issues: [issues, cause].find(Array.isArray) ?? [{ message }] };
}

/** The options of a call: those of the call that runs the program, and what tools of this package read of a call. */
async function optionsOf(name: string, { contextSchema }: ai.Tool, call: Call): Promise<any> {
  const { provider, tool, number, signal, reportProgress } = call;
  const options: any = { ...outer.getStore() };
  if (contextSchema) options.context = await contextOf(name, contextSchema, options.context);
  const toolCallId = `${options.toolCallId ?? "run_code"}.${number}`;
  return { ...options, provider, tool, number, signal, reportProgress, toolCallId, abortSignal: signal };
}

/** What the schema of the context of a tool makes of the context of the call that runs the program. */
async function contextOf(name: string, schema: any, context: unknown): Promise<unknown> {
  const result = await asSchema(schema).validate?.(context);
  if (!result) return context;
  const { value, issues } = validated(result) as any;
  if (issues)
    throw new ToolError(
      `the tool that runs the program has another context than ${name}: ${describe(issues, "context")}`,
    );
  return value;
}

function isAsyncIterable(value: any): value is AsyncIterable<unknown> {
  return typeof value?.[Symbol.asyncIterator] === "function";
}

/** The last value: those before it are preliminary. */
async function last(values: AsyncIterable<unknown>): Promise<unknown> {
  let last: unknown;
  for await (const value of values) last = value;
  return last;
}
