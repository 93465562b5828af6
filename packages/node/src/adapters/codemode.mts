/**
 * An executor for `@cloudflare/codemode`, version 0.5, in Node.js:
 *
 * ```js
 * import { CodemodeExecutor } from "execbox/codemode";
 *
 * const executor = new CodemodeExecutor(box, { timeout: 10_000, memory: "64MiB" });
 * const tool = createCodeTool({ tools, executor }); // of `@cloudflare/codemode/tanstack-ai`
 * ```
 */

import { inspect, types } from "node:util";

import { checkMembers, isRecord, nameOfType, nearest } from "../checks.js";
import { isError, messageOf } from "../errors.js";
import {
  type CodeOptions,
  type CodeResult,
  type Executor,
  type Frame,
  hostFunction,
  type ProgramError,
} from "../index.js";
import { check, codeParams } from "../options.js";

const TIMEOUT_MS = 60_000;
/** The length of the last statement, and the places where it is looked for. */
const MAX_LAST_CHARS = 20_000;
const MAX_SPLITS = 10;
const MAX_ERROR_CHARS = 10_000;
/** The limits of the service are less, apart from parts that are repeated. */
const MAX_LINE_CHARS = 200_000;
const MAX_RESULT_CHARS = 64 << 20;
const MAX_PLACES = 10;
const TOO_LARGE = "the result is too large: it repeats the same objects too often; return less";
const PRELUDE = ".prelude.js";
const OPTIONS = ["timeout", "memory", "limits", "modules"];

/** The options of a `CodemodeExecutor`: those of `runCode`, for each execution. */
export interface CodemodeOptions extends Pick<CodeOptions, "memory" | "limits" | "modules"> {
  /** In milliseconds. Default: 60 000. */
  timeout?: number;
}

/** The functions that programs call. */
export type CodemodeFunctions = Record<string, (...args: any[]) => unknown>;

/** Functions under one name, as `@cloudflare/codemode` resolves them. */
export interface CodemodeProvider {
  name: string;
  fns: CodemodeFunctions;
  /** JavaScript that is executed before the program, and can add members to the object of the provider. */
  prelude?: string;
}

/** The options of `execute`. */
export interface CodemodeExecuteOptions {
  /** Bindings of the runtime of Cloudflare: an error. */
  connectors?: unknown[];
}

/** The result of an execution. */
export interface CodemodeResult {
  result: unknown;
  /** What the program has thrown, with the line in its code. */
  error?: string;
  /** The lines of the console. */
  logs?: string[];
}

/**
 * The `Executor` of `@cloudflare/codemode`: executes programs in the sandboxes of an executor of this package.
 *
 * Arguments and results keep their types, as with `structuredClone`. Functions are called in the asynchronous context of the
 * caller of `execute`.
 */
export class CodemodeExecutor {
  private readonly options: CodemodeOptions;

  constructor(
    private readonly box: Executor,
    options: CodemodeOptions = {},
  ) {
    const given: unknown = options;
    if (typeof box?.runCode !== "function") throw new TypeError("CodemodeExecutor takes an Executor, and options");
    if (!isRecord(given))
      throw new TypeError(`the options of CodemodeExecutor must be an object, not ${nameOfType(given)}`);
    checkMembers(options, OPTIONS, "CodemodeExecutor", "option");
    this.options = { ...options, timeout: options.timeout ?? options.limits?.timeoutMs ?? TIMEOUT_MS };
    check("", this.options, "runCode");
    codeParams("", this.options, [], () => {});
  }

  /**
   * Executes code: a function without parameters, an expression, or statements whose last expression, or what they return, is the
   * result. Functions instead of providers are those of `codemode`.
   *
   * Never throws: what fails is the `error` of the result.
   */
  async execute(
    code: string,
    providersOrFns: CodemodeProvider[] | CodemodeFunctions,
    options: CodemodeExecuteOptions = {},
  ): Promise<CodemodeResult> {
    try {
      if (options?.connectors?.length)
        throw new TypeError("connectors need the runtime of Cloudflare; use functions instead");
      const providers = Array.isArray(providersOrFns) ? providersOrFns : [{ name: "codemode", fns: providersOrFns }];
      const globals = globalsOf(providers);
      const result = await this.run(withoutFence(code), globals, preludes(providers));
      const logs = [...result.logs.map(line), ...notes(result)];
      if (!result.ok) return { result: undefined, error: describe(result.error, globals), logs };
      if (isLonger(result.value, MAX_RESULT_CHARS)) return { result: undefined, error: TOO_LARGE, logs };
      return { result: result.value, logs };
    } catch (error) {
      return { result: undefined, error: messageOf(error), logs: [] };
    }
  }

  /** Runs the first of the modules that the code can be which has no syntax error. The others have not run. */
  private async run(code: string, globals: Globals, preludes: Record<string, string>): Promise<CodeResult> {
    const imports = Object.keys(preludes).map((path) => `import ${JSON.stringify(path)}; `);
    const options = { ...this.options, globals, modules: { ...this.options.modules, ...preludes } };
    const failed: CodeResult[] = [];
    for (const source of sources(code)) {
      const result = await this.box.runCode(imports.join("") + source, options);
      if (result.status !== "link_error" || result.error.errorName !== "SyntaxError") return result;
      failed.push(result);
    }
    // The function or expression, and the statements: the error is that of which more was read.
    const [expression, statements] = [failed[0]!, failed.at(-1)!];
    return place(expression) > place(statements) ? expression : statements;
  }
}

const IDENTIFIER = /^[a-zA-Z_$][a-zA-Z0-9_$]*$/;

type Globals = Record<string, Record<string, unknown>>;

/** The objects that programs see, with the checks and the names of `@cloudflare/codemode`. */
function globalsOf(providers: CodemodeProvider[]): Globals {
  const names = new Set<string>();
  const globals = providers.map(({ name, fns }) => {
    if (!IDENTIFIER.test(name)) throw new TypeError(`Provider name "${name}" is not a valid JavaScript identifier`);
    if (names.has(name)) throw new TypeError(`Duplicate provider name "${name}"`);
    names.add(name);
    return [name, functionsOf(name, fns)] as const;
  });
  return Object.fromEntries(globals);
}

function functionsOf(provider: string, fns: CodemodeFunctions): Record<string, unknown> {
  if (!isRecord(fns)) throw new TypeError(`the functions of ${provider} must be an object, not ${nameOfType(fns)}`);
  const names = new Map<string, string>();
  const functions = Object.entries(fns).map(([name, fn]) => {
    if (typeof fn !== "function") throw new TypeError(`${provider}.${name} is not a function`);
    const safe = sanitizeToolName(name);
    const other = names.get(safe);
    if (other !== undefined) {
      throw new TypeError(`Tool names "${other}" and "${name}" both sanitize to "${safe}" in provider "${provider}"`);
    }
    names.set(safe, name);
    return [safe, hostFunction(fn, "async")];
  });
  return Object.fromEntries(functions);
}

/** The name of a function in programs, by the rule of `@cloudflare/codemode`. */
function sanitizeToolName(name: string): string {
  const safe = name.replace(/[-.\s]/g, "_").replace(/[^a-zA-Z0-9_$]/g, "");
  if (!safe) return "_";
  if (/^[0-9]/.test(safe)) return `_${safe}`;
  return RESERVED.has(safe) ? `${safe}_` : safe;
}

const RESERVED = new Set(
  (
    "abstract arguments await boolean break byte case catch char class const continue debugger default delete do double else " +
    "enum eval export extends false final finally float for function goto if implements import in instanceof int interface let " +
    "long native new null package private protected public return short static super switch synchronized this throw throws " +
    "transient true try typeof undefined var void volatile while with yield"
  ).split(" "),
);

/** Modules with the preludes, by their paths. The objects of the providers are the same in each module. */
function preludes(providers: CodemodeProvider[]): Record<string, string> {
  const given = providers.filter(({ prelude }) => prelude);
  return Object.fromEntries(given.map(({ name, prelude }) => [`./${name}${PRELUDE}`, prelude!]));
}

/** The code without the fence that models put around it. */
function withoutFence(code: string): string {
  if (typeof code !== "string") throw new TypeError(`execute() takes code as a string, not ${nameOfType(code)}`);
  const text = code.trim();
  const end = text.indexOf("\n");
  const isFenced = text.endsWith("```") && /^```(?:js|javascript|typescript|ts|tsx|jsx)?\s*$/.test(text.slice(0, end));
  const program = isFenced ? text.slice(end, -3).trim() : text;
  return program.replace(/^export\s+default\s+/, "") || "undefined";
}

/**
 * The modules that the code can be: a function or an expression; statements of which the last is an expression; statements. Lines
 * keep their numbers.
 */
function* sources(code: string): Generator<string> {
  yield `export default (${withoutEnd(code)}\n)`;
  const start = Math.max(0, code.length - MAX_LAST_CHARS);
  for (const { index } of [...code.slice(start).matchAll(STATEMENT_ENDS)].reverse().slice(0, MAX_SPLITS)) {
    const end = start + index;
    const last = withoutEnd(code.slice(end));
    if (last) yield `export default async () => { ${code.slice(0, end)};return (${last}\n) }`;
  }
  yield `export default async () => { ${code}\n}`;
}

function withoutEnd(code: string): string {
  let end = code.length;
  while (end > 0 && /[;\s]/.test(code[end - 1]!)) end -= 1;
  return code.slice(0, end);
}

/**
 * Where statements can end: after a semicolon, and before the end of a line if the next line cannot continue an expression. If this
 * is in a comment or a text, what `sources` inserts is a syntax error, because of its parentheses.
 */
const STATEMENT_ENDS = /(?<=;)|(?<=[\w$}\]'"`])(?<!\belse)(?=[ \t]*\n\s*[\w$'"])/g;

function place({ error }: CodeResult): number {
  return (error?.position?.line ?? 0) * 1e6 + (error?.position?.column ?? 0);
}

/** A call of the console, as a line. */
function line({ level, args }: CodeResult["logs"][number]): string {
  const depth = isLonger(args, MAX_LINE_CHARS) ? 0 : 4;
  const show = (arg: unknown) => {
    if (typeof arg === "string" || isError(arg)) return String(arg);
    return inspect(arg, { depth, breakLength: Number.POSITIVE_INFINITY, compact: true });
  };
  const text = args.map(show).join(" ");
  return level === "warn" || level === "error" ? `[${level}] ${text}` : text;
}

/** Whether a value is longer as text, approximately. A program can make it long with parts that it repeats. */
function isLonger(value: unknown, chars: number): boolean {
  const known = new Map<object, number>();
  const lengthOf = (value: unknown): number => {
    if (typeof value === "string") return value.length;
    if (typeof value !== "object" || value === null) return 8;
    if (ArrayBuffer.isView(value)) return value.byteLength;
    const length = known.get(value);
    if (length !== undefined) return length;
    known.set(value, 0); // for cycles
    const sum = members(value).reduce<number>((sum, member) => sum + lengthOf(member), 2);
    known.set(value, sum);
    return sum;
  };
  return lengthOf(value) > chars;
}

function members(value: object): readonly unknown[] {
  if (Array.isArray(value)) return Array.from(value); // with its holes
  if (types.isSet(value)) return [...value];
  return (types.isMap(value) ? [...value] : Object.entries(value)).flat();
}

/** What the model should know about a program that has ended: lines that the limits dropped, and calls without an effect. */
function notes({ ok, unawaited, droppedLogs }: CodeResult): string[] {
  const dropped = droppedLogs > 0 ? [`… ${droppedLogs} more lines`] : [];
  if (!ok || !unawaited?.unanswered) return dropped;
  const places = unawaited.places as { tool: string; at?: Frame }[];
  const calls = places.slice(0, MAX_PLACES).map(({ tool, at }) => tool + lineOf(at));
  return [...dropped, `[warn] these calls were not awaited: ${calls.join(", ")}`];
}

/** The error, for the model: `TypeError: cannot read property 'x' of null (line 3)`. */
function describe(error: ProgramError, globals: Globals): string {
  const { data, errorName, message, frames, position } = error;
  if (data?.limit === "timeoutMs") return `Execution timed out after ${data.allowed} ms`;
  const what = cut([errorName, message].filter(Boolean).join(": ")) + hint(error, globals);
  return what + lineOf(frames.length > 0 ? frames.find(({ file }) => !file?.endsWith(PRELUDE)) : position);
}

/** The line in the code. */
function lineOf(frame: Frame | undefined): string {
  return frame?.line === undefined || frame.file?.endsWith(PRELUDE) ? "" : ` (line ${frame.line})`;
}

/** Which function was meant, if there is none with this name. */
function hint({ data }: ProgramError, globals: Globals): string {
  const [provider, name, ...more] = data?.kind === "not_a_function" ? (data.path as string[]) : [];
  if (name === undefined || more.length > 0 || !Object.hasOwn(globals, provider!)) return "";
  const near = nearest(name, Object.keys(globals[provider!]!));
  return near ? `; did you mean ${provider}.${near}?` : "";
}

function cut(text: string): string {
  return text.length > MAX_ERROR_CHARS ? `${text.slice(0, MAX_ERROR_CHARS)}…` : text;
}
