/// <reference lib="esnext.disposable" preserve="true" />
/** The executor: the service of an application, its executions and their results. */

import { findBinary } from "./binary.js";
import { checkMembers, isRecord, nameOfType } from "./checks.js";
import type { CodeTool, CodeToolOptions } from "./code-tool.js";
import { ExecutorClosedError } from "./errors.js";
import { type Execution, RunningExecution } from "./execution.js";
import { toJson } from "./lines.js";
import {
  bytes,
  type CodeOptions,
  check,
  codeParams,
  codeToolOptions,
  type ScriptOptions,
  scriptParams,
} from "./options.js";
import { type CodeResult, codeResult, type Result, scriptResult } from "./results.js";
import type { Address, Answer } from "./service.js";
import { Session } from "./session.js";
import { type NamedProvider, namedProvider, type Tools } from "./tools.js";
import { decoder, encode } from "./values.js";

/** The options of an executor. */
export interface ExecutorOptions {
  /** Where programs run: `process` (default), `inline`, `worker` or `remote=ADDRESS`. */
  executor?: string;
  /**
   * How many programs run at once; further ones wait. Default: the number of cores, at most 4; `inline` and `remote`: 64.
   */
  maxPrograms?: number;
  /** The most that `memory` of a program can be. Default: 1 GiB. */
  maxMemory?: number | string;
  /** `quickjs` (default), or `v8` if the binary has it. */
  engine?: string;
  /** Files with MCP servers, as MCP clients write them. */
  config?: string | Iterable<string>;
  /** MCP servers: commands or URLs, by their names. */
  servers?: Record<string, string>;
  /** Further options of `execbox serve`. */
  arguments?: Iterable<string>;
  /** The program to start. Default: `$EXECBOX_BIN`, that of the package for this platform, or `execbox` on the `PATH`. */
  binary?: string;
  /** The path of the socket of a service that runs already, in place of all the others. */
  socket?: string;
}

/** An MCP server in the configuration of an executor. */
export interface Server {
  name: string;
  /** The name of its provider, for `servers` of an execution. */
  namespace: string;
  /** Why it cannot be used. */
  problem?: string;
  /** The TypeScript declarations of its tools. */
  types?: string;
  /** The names of its tools, with their names in programs. */
  tools: { name: string; safeName: string }[];
}

/** A check of `selfTest`. */
export interface Check {
  check: string;
  outcome: "passed" | "failed" | "skipped";
  reason?: string;
}

/** What an executor has used since its service was started. */
export interface TotalUsage {
  /** The executions that run, or wait for a runner. */
  running: number;
  ended: number;
  failed: number;
  calls: number;
  cpuMs: number;
  bytesIn: number;
  bytesOut: number;
  /** The providers that are added. */
  providers: number;
  droppedEvents: number;
}

/**
 * Executes programs in sandboxes, which call the tools that they are granted.
 *
 * The first execution starts the service, `execbox serve`. A service that has died fails what ran, and is started again for the
 * next execution. It ends with the application, which it does not keep alive; `close` and `await using` end it at once, with
 * everything that runs.
 *
 * It takes any number of programs at once: `maxPrograms` run, and further ones wait. A program that waits for its tools keeps its
 * place.
 */
export class Executor implements AsyncDisposable {
  private readonly address: () => Address;
  private session: Session | undefined;
  private isClosed = false;

  constructor(options: ExecutorOptions = {}) {
    this.address = addressOf(options);
  }

  // ---- Executions ------------------------------------------------------------------------------------------------------

  /**
   * Executes a script: code in JavaScript or TypeScript whose last expression, or what it returns, is the result.
   *
   * A program that fails is a result with an `error`. If the signal is aborted, the program is cancelled, and `run` throws the
   * reason.
   */
  run<Value = unknown>(code: string, options: ScriptOptions = {}): Execution<Result<Value>> {
    return new RunningExecution(options, async (execution) => {
      check(code, options, "run");
      const { result } = await this.execute(execution, "execute", (numbers) => scriptParams(code, options, numbers));
      return this.readScript(execution, result) as Result<Value>;
    });
  }

  /**
   * Runs an ES module in JavaScript or TypeScript, with values, functions and promises of the application. The result is one of
   * its exports.
   *
   * Values keep their types, as with `structuredClone`: dates, bytes, sets, maps, bigints, cycles.
   */
  runCode<Value = unknown>(source: string, options: CodeOptions = {}): Execution<CodeResult<Value>> {
    return new RunningExecution(options, async (execution) => {
      check(source, options, "runCode");
      ignoreRejections(options);
      const { result, attachments } = await this.execute(execution, "run_code", (numbers, attachments) =>
        codeParams(source, options, numbers, (value) => encode(value, execution, attachments)),
      );
      const read = codeResult(result, decoder(execution, attachments), execution.droppedEvents);
      execution.explain(read.error);
      return read as CodeResult<Value>;
    });
  }

  private async execute(
    execution: RunningExecution<any>,
    method: string,
    params: (numbers: number[], attachments: Uint8Array[]) => object,
    given?: NamedProvider[],
  ): Promise<Answer> {
    const { signal, tools } = execution.options;
    const abort = () => execution.fail(signal!.reason);
    if (signal?.aborted) throw signal.reason;
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const providers = given ?? (await namedProviders(tools ?? {}));
      const session = await this.ready();
      return await session.execute(execution, method, providers, params);
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  private readScript(execution: RunningExecution<any>, json: any): Result {
    const read = scriptResult(json, execution.droppedEvents);
    execution.explain(read.error);
    return read;
  }

  // ---- Tools for models ------------------------------------------------------------------------------------------------

  /**
   * A tool with which a model runs code that calls these tools. Waits for the MCP servers among `servers`.
   *
   * The tools are read once, and the options hold for each program. Functions are called in the asynchronous context of the call of
   * `run` of the tool.
   */
  async codeTool(tools: Tools, options: CodeToolOptions = {}): Promise<CodeTool> {
    const { name, maxTypeChars, script } = codeToolOptions(tools, options);
    const providers = await namedProviders(tools);
    const session = await this.ready();
    const { description, inputSchema } = await session.granted(providers, async (added) => {
      const granted = [...added.map(({ number }) => number), ...(script.servers ?? [])];
      const params = { providers: granted, timers: script.timers, maxTypeChars };
      return (await session.service.request("describe_code", toJson(params))).result;
    });
    const run: CodeTool["run"] = (code, given = {}) =>
      new RunningExecution({ ...script, signal: given?.signal }, async (execution) => {
        check(code, given, "CodeTool.run");
        const params = (numbers: number[]) => scriptParams(code, script, numbers);
        const { result } = await this.execute(execution, "execute", params, providers);
        return this.readScript(execution, result) as Result<any> & { text: string };
      });
    return Object.freeze({ name, description, inputSchema, run });
  }

  // ---- Descriptions ----------------------------------------------------------------------------------------------------

  /** The TypeScript declarations of tools, for the prompt of a model. */
  async types(tools: Tools): Promise<string> {
    const providers = await namedProviders(tools);
    const session = await this.ready();
    return session.granted(providers, async (added) => added.map(({ types }) => types.trim()).join("\n"));
  }

  /** The MCP servers of the executor. Waits until each is ready or has failed. */
  async servers(): Promise<Server[]> {
    return (await this.request("servers")).servers;
  }

  // ---- The service -----------------------------------------------------------------------------------------------------

  /** Starts runners, so that the first programs need not wait for them. */
  async prewarm(count: number): Promise<void> {
    if (!Number.isSafeInteger(count) || count < 0)
      throw new TypeError(`invalid count ${count}: expected a whole number`);
    await this.request("prewarm", `{"count":${count}}`);
  }

  /** Tries what limits and the jail must prevent. */
  async selfTest(): Promise<Check[]> {
    return (await this.request("self_test")).checks;
  }

  /** What this executor has used. */
  async usage(): Promise<TotalUsage> {
    return this.request("usage");
  }

  private async request(method: string, params?: string): Promise<any> {
    return (await (await this.ready()).service.request(method, params)).result;
  }

  /** The connection to the service, which is started if there is none. */
  private async ready(): Promise<Session> {
    if (this.isClosed) throw new ExecutorClosedError("the executor is closed");
    if (!this.session || this.session.service.error) this.session = new Session(this.address());
    const { session } = this;
    await session.service.ready;
    return session;
  }

  /** Ends the service. What runs fails with `ExecutorClosedError`. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.session?.service.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A promise can be rejected before the program awaits it, and also if the program never begins. */
function ignoreRejections({ args, globals, imports }: CodeOptions): void {
  const members = [globals, ...Object.values(imports ?? {})].flatMap((each) => Object.values(each ?? {}));
  for (const value of [...(args ?? []), ...members]) if (value instanceof Promise) value.catch(() => {});
}

function namedProviders(tools: Tools): Promise<NamedProvider[]> {
  return Promise.all(Object.entries(tools).map(([name, given]) => namedProvider(name, given)));
}

const OPTIONS = [
  "executor",
  "maxPrograms",
  "maxMemory",
  "engine",
  "config",
  "servers",
  "arguments",
  "binary",
  "socket",
];

/** How the service is reached. The binary is looked for when it is started. */
function addressOf(options: ExecutorOptions): () => Address {
  const given: unknown = options;
  if (!isRecord(given)) throw new TypeError(`the options of Executor must be an object, not ${nameOfType(given)}`);
  checkMembers(options, OPTIONS, "Executor", "option");
  const { executor = "process", maxPrograms, maxMemory, engine, config = [], servers = {}, binary, socket } = options;
  if (socket !== undefined) return () => ({ socket });
  const args = ["serve", "--executor", executor];
  if (maxPrograms !== undefined) args.push("--max-programs", String(maxPrograms));
  if (maxMemory !== undefined) args.push("--max-memory", `${bytes(maxMemory)}B`);
  if (engine !== undefined) args.push("--engine", engine);
  for (const file of typeof config === "string" ? [config] : config) args.push("--config", file);
  for (const [name, server] of Object.entries(servers)) args.push("--server", `${name}=${server}`);
  args.push(...(options.arguments ?? []));
  return () => ({ command: [binary ?? findBinary(), ...args] });
}
