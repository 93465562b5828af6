/** The results of executions. */

import { ProgramError } from "./errors.js";
import type { Message } from "./service.js";
import type { Decode } from "./values.js";

/** What an execution used. What is not known is `undefined`; of a program that did not start, most is not. */
export interface Usage {
  cpuMs?: number;
  hostWaitMs?: number;
  calls: number;
  peakCallsInFlight: number;
  /** The size of the answers to its calls. */
  bytesIn: number;
  /** The size of the inputs of its calls, its reports and its result. */
  bytesOut: number;
  sourceBytes: number;
  peakMemoryBytes?: number;
  peakHostMemoryBytes?: number;
}

/** What the results of both contracts have. */
interface Outcome {
  /** Wall time from acceptance to result. */
  readonly durationMs: number;
  /** How many calls of the console the log limits dropped. */
  readonly droppedLogs: number;
  /** How many events were dropped because the application did not read them in time. */
  readonly droppedEvents: number;
  /** The calls that the program did not await. */
  readonly unawaited: Readonly<Record<string, unknown>> | undefined;
  readonly usage: Usage;
}

interface ScriptOutcome extends Outcome {
  /** The lines of the console. */
  readonly logs: string[];
  /** What a model reads: the value or the error, the log, and what is missing of them. `undefined` without `maxTextChars`. */
  readonly text: string | undefined;
}

interface CodeOutcome extends Outcome {
  readonly logs: LogCall[];
  /** What the module has reported. */
  readonly reports: unknown[];
  readonly memoryUsedBytes: number | undefined;
}

/** A call of the console in a module. */
export interface LogCall {
  level: string;
  args: unknown[];
  /** In milliseconds since 1970. */
  timestamp: number;
}

/** What a program that succeeded has. */
interface Success<Value> {
  readonly ok: true;
  /** The value of the program. */
  readonly value: Value;
  readonly error: undefined;
  /** Returns the result, or throws its error. */
  orThrow(): this;
}

/** What a program that failed has. */
interface Failure {
  readonly ok: false;
  readonly value: undefined;
  /** Why the program failed. */
  readonly error: ProgramError;
  /** Returns the result, or throws its error. */
  orThrow(): never;
}

/** The result of a script. */
export type Result<Value = unknown> = ScriptOutcome & (Success<Value> | Failure);

/** The result of a module. */
export type CodeResult<Value = unknown> = CodeOutcome &
  (
    | (Success<Value> & { readonly status: "success" })
    | (Failure & { readonly status: "error" | "link_error" | "memory" | "terminated" })
  );

class ScriptResult {
  readonly ok: boolean;
  readonly value: unknown;
  readonly error: ProgramError | undefined;
  readonly logs: unknown[];
  readonly usage: Usage;
  readonly durationMs: number;
  readonly droppedLogs: number;
  readonly droppedEvents: number;
  readonly unawaited: unknown;
  /** Of scripts that were asked for it. */
  declare readonly text?: string;

  constructor(json: Message, value: unknown, error: ProgramError | undefined, logs: unknown[], dropped: number) {
    this.ok = error === undefined;
    this.value = value;
    this.error = error;
    this.logs = logs;
    this.usage = { calls: 0, peakCallsInFlight: 0, bytesIn: 0, bytesOut: 0, sourceBytes: 0, ...json.usage };
    this.durationMs = json.durationMs;
    this.droppedLogs = json.droppedLogs ?? 0;
    this.droppedEvents = (json.droppedEvents ?? 0) + dropped;
    this.unawaited = json.unawaited ?? undefined;
    if (json.text !== undefined) this.text = json.text;
  }

  orThrow(): this {
    if (this.error) throw this.error;
    return this;
  }
}

class ModuleResult extends ScriptResult {
  readonly status: string;
  readonly reports: unknown[];
  readonly memoryUsedBytes: number | undefined;

  constructor(json: Message, decode: Decode, error: ProgramError | undefined, dropped: number) {
    const logs = json.logs.map((log: Message) => ({
      level: log.level,
      args: decode(log.args),
      timestamp: log.timestamp,
    }));
    super(json, "result" in json ? decode(json.result) : undefined, error, logs, dropped);
    this.status = json.status;
    this.reports = json.reports.map(decode);
    this.memoryUsedBytes = json.memoryUsedBytes ?? undefined;
  }
}

/** Reads the result of a script. `dropped` is the number of events that were dropped here. @internal */
export function scriptResult(json: Message, dropped: number): Result {
  const { error } = json;
  const parts = error && { name: error.name, position: error.position, frames: error.stack, data: error.cause };
  const failure = error ? new ProgramError(error.code, error.message, parts) : undefined;
  return new ScriptResult(json, json.result, failure, json.logs, dropped) as unknown as Result;
}

/** Reads the result of a module. `decode` reads its values. @internal */
export function codeResult(json: Message, decode: Decode, dropped: number): CodeResult {
  const { error } = json;
  const position = error && "line" in error ? error : undefined;
  const parts = error && { name: error.name, position, frames: error.frames, data: error.cause };
  const failure = error ? new ProgramError(json.status, error.message, parts) : undefined;
  return new ModuleResult(json, decode, failure, dropped) as unknown as CodeResult;
}
