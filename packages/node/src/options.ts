/** The options of an execution, and their form in messages. */

import { checkMembers, isRecord, nameOfType } from "./checks.js";
import type { CodeToolOptions } from "./code-tool.js";
import { EVENT_TYPES, type EventType } from "./events.js";
import type { Effect, Tools } from "./tools.js";

/** A rule about the calls of tools. The first that matches decides; calls that match none are allowed. */
export interface Rule {
  /** `ask` calls `approve`. Meanwhile, the clock of the program is paused. */
  decision: "allow" | "deny" | "ask";
  /** A pattern for `PROVIDER.TOOL`: `bank.pay`, `*.delete_*`. Default: all. */
  tools?: string;
  /** The effect of the tool. Default: any. */
  effect?: Effect;
  /** Why calls are denied, for the program. */
  reason?: string;
}

/** Asks whether a call may be made. */
export interface Question {
  provider: string;
  /** The name of the tool in programs. */
  tool: string;
  input: unknown;
  effect: Effect;
  /** The number of the call in its execution. */
  call: number;
  /** The first lines of the script that name the tool, each with its number. */
  lines: string[];
}

/** The answer to a question: `true` is `approve`, and `false` is `refuse`. */
export type Answer =
  | boolean
  | {
      /**
       * `approve_tool` also approves all later calls of the tool in this execution; `refuse_all` refuses all later calls that
       * need approval.
       */
      answer: "approve" | "approve_tool" | "refuse" | "refuse_all";
      /** Why the call is refused, for the program. */
      reason?: string;
    };

/** The limits of an execution that are set. The page on limits has their defaults. */
export interface Limits {
  timeoutMs?: number;
  memoryLimitBytes?: number;
  /** The memory that the host may hold for the program: calls, answers, reports. */
  hostMemoryBytes?: number;
  cpuTimeMs?: number;
  /** How long the program may wait for its calls. */
  hostWaitMs?: number;
  maxCalls?: number;
  maxCallsInFlight?: number;
  /** The size of the answers to its calls, together. */
  maxBytesIn?: number;
  /** The size of the inputs of its calls, its reports and its result, together. */
  maxBytesOut?: number;
  maxLogLines?: number;
  maxLogChars?: number;
  maxSourceBytes?: number;
}

/** What an execution is granted. Nothing is granted by default. */
export interface Options {
  /** The tools that the program may call, by the names of their providers. */
  tools?: Tools;
  /** The namespaces of MCP servers of the executor that the program may call. */
  servers?: Iterable<string>;
  /** In milliseconds. Default: 5000 for scripts, 300 000 for modules. */
  timeout?: number;
  /** The memory limit: bytes, or a size such as `"64MiB"`. Default: 64 MiB. */
  memory?: number | string;
  /** Further limits. */
  limits?: Limits;
  /** Decides about each call of a tool. */
  policy?: Iterable<Rule>;
  /** Answers the questions of the policy. If it throws, the execution is cancelled and throws the same. */
  approve?: (question: Question) => Answer | Promise<Answer>;
  /** The types of events that the execution iterates over; `true` stands for all. Default: none. */
  events?: true | Iterable<EventType>;
  /** Cancels the execution, which throws the reason of the signal. */
  signal?: AbortSignal;
}

/** The options of `run`. */
export interface ScriptOptions extends Options {
  /** Functions in JavaScript that the script may call as `NAMESPACE.NAME(input)`: `{ lib: { twice: "2 * input" } }`. */
  functions?: Record<string, Record<string, string>>;
  /** Whether a script that has returned ends only when the calls that it did not await are answered. Default: true. */
  waitForCalls?: boolean;
  /** Whether the script has `Intl`, `TextEncoder`, `TextDecoder`, `atob`, `btoa` and `self`. Default: true. */
  commonGlobals?: boolean;
  /** Whether the script has timers, such as `setTimeout`. Default: false. */
  timers?: boolean;
  /** The length of `text` in the result, in characters. Default: there is no `text`. */
  maxTextChars?: number;
}

/** The options of `runCode`. */
export interface CodeOptions extends Options {
  /** The export to execute: a function is called, another value is the result. Default: `default`. */
  function?: string;
  /** The arguments of the function. */
  args?: readonly unknown[];
  /** Modules of values and functions, by the names with which they are imported. */
  imports?: Record<string, Record<string, unknown>>;
  /** Modules of source text, by their paths: `{ "./stats.ts": "export …" }`. */
  modules?: Record<string, string>;
  /** Constants that every module sees. */
  globals?: Record<string, unknown>;
  /** Default: `typescript`. */
  language?: "typescript" | "javascript";
  /** The name of the module, in errors and for its imports. */
  filename?: string;
  /** Whether the module has the function `report`, whose values are in the result. Default: false. */
  report?: boolean;
}

const OPTIONS = ["tools", "servers", "timeout", "memory", "limits", "policy", "approve", "events", "signal"];
const SCRIPT = ["functions", "waitForCalls", "commonGlobals", "timers", "maxTextChars"];
const KNOWN = {
  run: [...OPTIONS, ...SCRIPT],
  runCode: [...OPTIONS, "function", "args", "imports", "modules", "globals", "language", "filename", "report"],
  codeTool: [
    ...["name", "maxTypeChars"],
    ...OPTIONS.filter((name) => !["tools", "signal", "events"].includes(name)),
    ...SCRIPT,
  ],
  "CodeTool.run": ["signal"],
};

/** Fails with a `TypeError` if there is no such option, the source is no text, or an option cannot be what it is. @internal */
export function check(source: unknown, options: unknown, of: keyof typeof KNOWN): void {
  if (typeof source !== "string") throw new TypeError(`${of}() takes a program as a string, not ${nameOfType(source)}`);
  checkOptions(options, of);
}

function checkOptions(options: unknown, of: keyof typeof KNOWN): asserts options is Record<string, any> {
  if (!isRecord(options)) throw new TypeError(`the options of ${of}() must be an object, not ${nameOfType(options)}`);
  checkMembers(options, KNOWN[of], `${of}()`, "option");
  checkKinds(options);
  for (const name of ["imports", "functions"]) {
    for (const [key, members] of Object.entries(options[name] ?? {})) {
      if (!isRecord(members)) throw new TypeError(`${name}.${key} must be an object, not ${nameOfType(members)}`);
    }
  }
  const { signal } = options as Options;
  if (signal && typeof signal.addEventListener !== "function") {
    throw new TypeError(`signal must be an AbortSignal, not ${nameOfType(signal)}`);
  }
}

function checkKinds(options: Record<string, unknown>): void {
  for (const [name, what] of Object.entries(KINDS)) {
    const value = options[name];
    if (value == null || (name === "events" && value === true)) continue;
    const isList = typeof value === "object" && Symbol.iterator in value;
    const fits =
      name === "args" ? Array.isArray(value) : what.startsWith("a list") ? isList : isRecord(value) && !isList;
    if (!fits) throw new TypeError(`${name} must be ${what}, not ${nameOfType(value)}`);
  }
}

const KINDS = {
  tools: "an object such as { shop: { listOrders } }",
  limits: "an object such as { maxCalls: 10 }",
  functions: "an object of objects of texts",
  imports: "an object such as { files: { read } }",
  globals: "an object such as { today }",
  modules: "an object of sources",
  servers: "a list of namespaces",
  policy: "a list of rules",
  events: "a list of types, or true",
  args: "an array",
};

/** The parameters of `execute`. @internal */
export function scriptParams(
  code: string,
  options: ScriptOptions,
  providers: number[],
  of: keyof typeof KNOWN = "run",
): object {
  checkCount("maxTextChars", options.maxTextChars);
  const functions = Object.entries(options.functions ?? {}).flatMap(([namespace, members]) =>
    Object.entries(members).map(([name, code]) => ({ namespace, name, code })),
  );
  return {
    code,
    functions: functions.length > 0 ? functions : undefined,
    waitForCalls: options.waitForCalls ?? undefined,
    commonGlobals: options.commonGlobals ?? undefined,
    timers: options.timers ?? undefined,
    maxTextChars: options.maxTextChars ?? undefined,
    ...grants(options, providers, of),
  };
}

/** The options of a code tool, read once, with the defaults. Fails with a `TypeError` if one is not valid. @internal */
export function codeToolOptions(tools: unknown, options: CodeToolOptions) {
  checkOptions(options, "codeTool");
  if (tools == null) throw new TypeError(`tools must be ${KINDS.tools}, not ${tools}`);
  checkKinds({ tools });
  const { name = "run_code", maxTypeChars, ...given } = withoutNull(options);
  const script = { maxTextChars: 24_000, ...given };
  if (typeof name !== "string" || !name)
    throw new TypeError(`invalid name ${shown(name)}: expected such as "run_code"`);
  checkCount("maxTypeChars", maxTypeChars);
  // Each program gets the same, also if the application has passed iterators.
  for (const key of ["policy", "servers"] as const) if (script[key]) Object.assign(script, { [key]: [...script[key]] });
  scriptParams("", script, [], "codeTool");
  return { name, maxTypeChars, script };
}

function checkCount(name: string, count: unknown): void {
  if (count != null && !(Number.isSafeInteger(count) && (count as number) >= 0)) {
    throw new TypeError(`invalid ${name} ${shown(count)}: expected a whole number`);
  }
}

/** The options that are set. */
function withoutNull<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value != null)) as T;
}

/** The parameters of `run_code`. `encode` writes values as tagged JSON. @internal */
export function codeParams(
  source: string,
  options: CodeOptions,
  providers: number[],
  encode: (value: unknown) => unknown,
): object {
  const values = (members: Record<string, unknown>) => mapValues(members, encode);
  const execute = { fn: options.function ?? undefined, args: options.args?.map(encode) };
  return {
    source,
    options: {
      execute: execute.fn !== undefined || execute.args ? execute : undefined,
      imports: options.imports ? mapValues(options.imports, values) : undefined,
      globals: options.globals ? values(options.globals) : undefined,
      modules: options.modules ?? undefined,
      language: options.language ?? undefined,
      filename: options.filename ?? undefined,
    },
    report: options.report ?? false,
    ...grants(options, providers, "runCode"),
  };
}

/** The parameters that both contracts have. */
function grants(options: Options, providers: number[], of: keyof typeof KNOWN): object {
  const limits = {
    ...options.limits,
    ...(options.timeout != null ? { timeoutMs: milliseconds(options.timeout) } : {}),
    ...(options.memory != null ? { memoryLimitBytes: bytes(options.memory) } : {}),
  };
  const granted = [...providers, ...(options.servers ?? [])];
  return {
    providers: granted.length > 0 ? granted : undefined,
    limits: Object.keys(limits).length > 0 ? limits : undefined,
    policy: options.policy ? { rules: rules(options, of) } : undefined,
    events: options.events === true ? EVENT_TYPES : options.events ? [...options.events] : undefined,
  };
}

/** The rules of the policy. They are read once, as they can be an iterator. */
function rules(options: Options, of: string): Rule[] {
  const rules = [...options.policy!];
  for (const rule of rules) {
    if (!isRecord(rule)) throw new TypeError(`a rule of the policy must be an object, not ${nameOfType(rule)}`);
    checkMembers(rule, ["decision", "tools", "effect", "reason"], "a rule of the policy");
  }
  if (!options.approve && rules.some(({ decision }) => decision === "ask")) {
    throw new TypeError(`a rule of the policy asks, and ${of}() has no approve to answer`);
  }
  return rules;
}

const SIZE = /^\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*$/i;
const PREFIXES = ["", "k", "m", "g", "t"];

/** A size in bytes: a number, or a text such as `64MiB`, `1.5GB` or `512k`. @internal */
export function bytes(size: number | string): number {
  if (typeof size === "number" && size >= 0 && Number.isSafeInteger(size)) return size;
  const match = typeof size === "string" ? SIZE.exec(size) : null;
  if (!match) {
    throw new TypeError(
      `invalid size ${shown(size)}: expected bytes, or a number and a unit, such as "64MiB" or "1GB"`,
    );
  }
  const unit = (match[2] ?? "").toLowerCase();
  const factor = (unit.endsWith("i") ? 1024 : 1000) ** PREFIXES.indexOf(unit.charAt(0));
  return Math.floor(Number(match[1]) * factor);
}

function milliseconds(timeout: number): number {
  if (typeof timeout !== "number" || !(timeout >= 0 && timeout < 1e12)) {
    throw new TypeError(`invalid timeout ${shown(timeout)}: expected milliseconds, at least 0`);
  }
  return Math.max(1, Math.round(timeout));
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

function mapValues<T>(members: Record<string, T>, map: (value: T) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).map(([key, value]) => [key, map(value)]));
}
