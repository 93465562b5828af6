/** Tools: functions of the application that programs may call, and providers, which are tools under one name. */

import { types } from "node:util";

import { checkMembers, isRecord, nameOfType } from "./checks.js";
import { InvalidInputError, isError, messageOf, ToolError } from "./errors.js";
import { toJson } from "./lines.js";
import { isThenable } from "./promises.js";
import {
  describe,
  type InputOf,
  isStandard,
  type JsonSchema,
  jsonSchemaOf,
  type OutputOf,
  type Schema,
  type StandardSchema,
} from "./schemas.js";

/** What calls of a tool do, as its author states it. Policies can decide by it. */
export type Effect = "read_only" | "unstated" | "additive" | "destructive";

/** The call of a tool: the second argument of its function. */
export interface Call {
  /** The name of the provider. */
  readonly provider: string;
  /** The name of the tool. */
  readonly tool: string;
  /** The number of the call in its execution, as in events. */
  readonly number: number;
  /** Aborted when nobody waits for the result any more: the program has ended, or was cancelled. */
  readonly signal: AbortSignal;
  /** Reports how far the call has come, to those who observe the execution. `total` has the unit of `done`. */
  reportProgress(done: number, total?: number, message?: string): void;
}

/** A function that is called with the input of a call. Its result is anything that can be JSON. */
export type ToolFunction = (input: any, call: Call) => unknown;

/** A tool. `tool` makes one whose function has the types of the schemas. */
export interface Tool {
  /** For models. */
  readonly description?: string;
  /** A schema of a library, or a JSON Schema: checked before each call. The function gets what it gives. */
  readonly inputSchema?: Schema;
  /** The schema of the result, checked after each call. The program gets what a schema of a library makes of the result. */
  readonly outputSchema?: Schema;
  /** Default: `unstated`. */
  readonly effect?: Effect;
  /** Leaves out parts of the schemas that cannot be checked, with a warning: for schemas from elsewhere. Default: false. */
  readonly lenient?: boolean;
  readonly execute: ToolFunction;
}

/** Tools by their names, from which their names in programs are derived. */
export type ToolSet = Readonly<Record<string, Tool | ToolFunction>>;

/** The tools of an execution, by the names of their providers: `{ shop: { listOrders } }`. */
export type Tools = Readonly<Record<string, ToolSet | Provider>>;

/** The definition of a tool whose function has the types of its schemas. */
export interface ToolDefinition<I extends Schema | undefined, O extends Schema | undefined> {
  description?: string;
  inputSchema?: I;
  outputSchema?: O;
  effect?: Effect;
  lenient?: boolean;
  execute(
    input: I extends Schema ? OutputOf<I> : any,
    call: Call,
  ): O extends Schema ? InputOf<O> | Promise<InputOf<O>> : unknown;
}

/** A tool with its schemas, which give its function the types. */
export function tool<const I extends Schema | undefined = undefined, const O extends Schema | undefined = undefined>(
  definition: ToolDefinition<I, O>,
): Tool {
  checkTool(definition, "the argument of tool()");
  return definition as Tool;
}

/** Tools, with what else the service learns of their provider. */
export class Provider {
  readonly tools: ToolSet;
  /** For models. */
  readonly description: string | undefined;
  /** Whether the message of a failed call begins with the call: `shop.get_order failed: …`. */
  readonly nameFailedCalls: boolean;

  constructor(tools: ToolSet, options: { description?: string; nameFailedCalls?: boolean } = {}) {
    checkMembers(options, ["description", "nameFailedCalls"], "Provider");
    this.tools = tools;
    this.description = options.description;
    this.nameFailedCalls = options.nameFailedCalls ?? false;
  }
}

/** A provider as an execution has it. @internal */
export interface NamedProvider {
  name: string;
  tools: Map<string, CompiledTool>;
  /** The parameters of `add_provider`, as JSON. Providers with the same are added once. */
  spec: string;
}

/** A tool that can be called: what its definition says, read once. */
interface CompiledTool {
  /** What the service learns of the tool beside its name, as JSON: `,"description":…`. */
  spec: string;
  isLenient: boolean;
  /** Calls the function. The result is JSON that is written already, or a promise of it. */
  call(input: unknown, call: Call): string | PromiseLike<string>;
}

/** Reads the tools of a provider. Fails with a `TypeError` if one is none. @internal */
export async function namedProvider(name: string, given: ToolSet | Provider): Promise<NamedProvider> {
  const provider = given instanceof Provider ? given : undefined;
  const set: unknown = provider ? provider.tools : given;
  if (!isRecord(set)) {
    throw new TypeError(
      `the tools of ${name} must be an object such as { listOrders }, or a Provider, not ${nameOfType(set)}`,
    );
  }
  const entries = Object.entries(set);
  const prototype = Object.getPrototypeOf(set);
  if (entries.length === 0 && prototype && Object.getPrototypeOf(prototype)) {
    throw new TypeError(`the tools of ${name} must be members of the object itself, not of its class`);
  }
  const tools = new Map<string, CompiledTool>();
  const specs: string[] = [];
  let isLenient = false;
  for (const [each, definition] of entries) {
    const compiled = await compiledTool(`${name}.${each}`, definition);
    tools.set(each, compiled);
    specs.push(`{"name":${toJson(each)}${compiled.spec}}`);
    isLenient ||= compiled.isLenient;
  }
  const members = {
    name,
    description: provider?.description,
    lenient: isLenient || undefined,
    nameFailedCalls: provider?.nameFailedCalls || undefined,
  };
  return { name, tools, spec: `${toJson(members).slice(0, -1)},"tools":[${specs.join(",")}]}` };
}

const GENERATORS = [function* () {}.constructor, async function* () {}.constructor];

const compiled = new WeakMap<object, CompiledTool>();

async function compiledTool(name: string, definition: unknown): Promise<CompiledTool> {
  const known = compiled.get(definition as object);
  if (known) return known;
  const read = await compile(name, definition);
  compiled.set(definition as object, read);
  return read;
}

const MEMBERS = ["description", "inputSchema", "outputSchema", "effect", "lenient", "execute"];

function checkTool(definition: unknown, name: string): asserts definition is Tool {
  if (!isRecord(definition) || typeof definition.execute !== "function") {
    throw new TypeError(`${name} is not a tool: expected a function, or an object with the function \`execute\``);
  }
  checkFunction(name, definition.execute as ToolFunction);
  checkMembers(definition, MEMBERS, name);
  for (const member of ["inputSchema", "outputSchema"]) {
    const schema = definition[member];
    if (schema !== undefined && !isRecord(schema) && !isStandard(schema)) {
      throw new TypeError(`the ${member} of ${name} must be a schema, not ${nameOfType(schema)}`);
    }
  }
}

function checkFunction(name: string, execute: ToolFunction): ToolFunction {
  if (!GENERATORS.includes(execute.constructor)) return execute;
  throw new TypeError(`${name} is a generator; a tool returns one value, such as an array`);
}

/** Whether a schema checks values itself: the others are JSON Schemas, or only say theirs. */
function validates(schema: Schema | undefined): schema is StandardSchema {
  return isStandard(schema) && typeof schema["~standard"].validate === "function";
}

async function compile(name: string, definition: unknown): Promise<CompiledTool> {
  if (typeof definition === "function") {
    const execute = checkFunction(name, definition as ToolFunction);
    return { spec: "", isLenient: false, call: (input, call) => finish(execute(input, call), undefined) };
  }
  checkTool(definition, name);
  const { description, inputSchema, outputSchema, effect, lenient = false } = definition;
  const spec = toJson({
    description,
    inputSchema: inputSchema && (await named(name, inputSchema, "input")),
    outputSchema: outputSchema && (await named(name, outputSchema, "output")),
    effect,
  });
  const [input, output] = [inputSchema, outputSchema].map((schema) => (validates(schema) ? schema : undefined));
  return {
    spec: spec === "{}" ? "" : `,${spec.slice(1, -1)}`,
    isLenient: lenient,
    call: input
      ? async (value, call) => finish(definition.execute(await parsed(input, value), call), output)
      : (value, call) => finish(definition.execute(value, call), output),
  };
}

async function named(name: string, schema: Schema, direction: "input" | "output"): Promise<JsonSchema> {
  try {
    return await jsonSchemaOf(schema, direction);
  } catch (error) {
    throw new TypeError(`${name}, ${direction}: ${messageOf(error)}`);
  }
}

/** What a schema gives for an input. */
async function parsed(schema: StandardSchema, value: unknown): Promise<unknown> {
  const validated = await schema["~standard"].validate(value);
  if (validated.issues) throw new InvalidInputError(describe(validated.issues, "input"));
  return validated.value;
}

/** The result of a call, as JSON. */
function finish(value: unknown, schema: StandardSchema | undefined): string | PromiseLike<string> {
  if (schema) return checked(value, schema);
  return isThenable(value) ? Promise.resolve(value).then(resultToJson) : resultToJson(value);
}

async function checked(value: unknown, schema: StandardSchema): Promise<string> {
  const validated = await schema["~standard"].validate(await value);
  if (validated.issues) throw new ToolError(`the tool has returned ${describe(validated.issues, "output")}`);
  return resultToJson(validated.value);
}

function resultToJson(value: unknown): string {
  if (value === undefined) return "{}";
  try {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`a ${typeof value} is not JSON`);
    return `{"value":${toJson(value, plain)}}`;
  } catch (error) {
    throw new ToolError(`the tool has returned what is not JSON: ${messageOf(error)}`, { cause: error });
  }
}

/** What stands for a value that JSON lacks, and that `JSON.stringify` would lose. */
function plain(this: any, key: string, value: unknown): unknown {
  switch (typeof value) {
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${value} is no number of JSON`);
      return value;
    case "bigint":
      throw new TypeError("a bigint is no number of JSON; return a string");
    case "object": {
      if (value === null || Array.isArray(value) || Object.getPrototypeOf(value) === PLAIN) {
        const original = this[key]; // before its `toJSON`
        return Buffer.isBuffer(original) ? original.toString("base64") : value;
      }
      return special(value);
    }
    default:
      return value;
  }
}

const PLAIN = Object.prototype;

/** What stands for an object of a class. */
function special(value: object): unknown {
  if (types.isMap(value)) return Object.fromEntries(value);
  if (ArrayBuffer.isView(value)) return base64(value.buffer, value.byteOffset, value.byteLength);
  if (types.isAnyArrayBuffer(value)) return base64(value, 0, value.byteLength);
  if (isError(value)) return { name: value.name, message: value.message };
  if (Symbol.iterator in value && !types.isBoxedPrimitive(value)) return [...(value as Iterable<unknown>)];
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  if (kind !== "Object" && !types.isBoxedPrimitive(value) && Object.keys(value).length === 0) {
    throw new TypeError(`${kind} is not JSON${kind === "Promise" ? "; await it" : ""}`);
  }
  return value;
}

function base64(buffer: ArrayBufferLike, offset: number, length: number): string {
  return Buffer.from(buffer as ArrayBuffer, offset, length).toString("base64");
}
