/** The errors of this package, all of them `ExecboxError`. */

import { types } from "node:util";

/** The base class of the errors of this package. */
export class ExecboxError extends Error {
  static {
    named(ExecboxError, "ExecboxError");
  }
}

/** There is no `execbox` binary. */
export class BinaryNotFoundError extends ExecboxError {
  static {
    named(BinaryNotFoundError, "BinaryNotFoundError");
  }
}

/** The executor was closed before the request was answered. */
export class ExecutorClosedError extends ExecboxError {
  static {
    named(ExecutorClosedError, "ExecutorClosedError");
  }
}

/** The service refused a request: invalid options, or a provider that cannot be added. */
export class ServiceError extends ExecboxError {
  /** The code of JSON-RPC. */
  readonly code: number;

  constructor(message: string, code = 0) {
    super(message);
    this.code = code;
  }

  static {
    named(ServiceError, "ServiceError");
  }
}

/** The service ended before it answered a request. The next request starts another one. */
export class ServiceEndedError extends ExecboxError {
  static {
    named(ServiceEndedError, "ServiceEndedError");
  }
}

/** A value cannot cross between the application and a program. */
export class SerializationError extends ExecboxError {
  readonly reason: string;
  /** Where in the value: `.rows[3].price`. */
  readonly path: string;

  constructor(reason: string, path = "") {
    super(path ? `${path}: ${reason}` : reason);
    this.reason = reason;
    this.path = path;
  }

  static {
    named(SerializationError, "SerializationError");
  }
}

/**
 * Thrown by a tool: the program gets the message as the error of its call, with the code `tool_error`. Every other error does
 * the same.
 */
export class ToolError extends ExecboxError {
  static {
    named(ToolError, "ToolError");
  }
}

/** Thrown by a tool: the program can correct its input. The error of its call has the code `validation_error`. */
export class InvalidInputError extends ToolError {
  static {
    named(InvalidInputError, "InvalidInputError");
  }
}

/** A place in the source, counted from 1. */
export interface Position {
  line: number;
  column: number;
}

/** A frame of a stack. */
export interface Frame {
  function?: string;
  file?: string;
  line?: number;
  column?: number;
}

/** @internal */
export interface ProgramErrorParts {
  name?: string | null;
  position?: Position | null;
  frames?: Frame[] | null;
  data?: Record<string, unknown> | null;
}

/**
 * Why a program failed. It is part of a result, and is thrown by `orThrow`.
 *
 * `cause` is what a tool has thrown, if the program failed because it did not catch that.
 */
export class ProgramError extends ExecboxError {
  /**
   * Of a script `timeout`, `memory_limit`, `validation_error`, `tool_error`, `runtime_error`, `serialization_error` or
   * `internal_error`; of a module `error`, `link_error`, `memory` or `terminated`.
   */
  readonly code: string;
  /** The name of the program's error, such as `TypeError`. */
  readonly errorName: string | undefined;
  /** Where in the source. */
  readonly position: Position | undefined;
  /** The frames of the program, innermost first. */
  readonly frames: Frame[];
  /** What happened, as data: `{ kind: "limit", limit: "timeoutMs", … }`. */
  readonly data: Readonly<Record<string, unknown>> | undefined;

  /** @internal */
  constructor(code: string, message: string, parts: ProgramErrorParts) {
    super(message);
    this.code = code;
    this.errorName = parts.name ?? undefined;
    this.position = parts.position ? { line: parts.position.line, column: parts.position.column } : undefined;
    this.frames = parts.frames ?? [];
    this.data = parts.data ?? undefined;
    // The stack of the application at this point says nothing about the program.
    Object.defineProperty(this, "stack", { value: stack(this), writable: true, configurable: true });
  }

  /** The code, the message and the place: `runtime_error: TypeError: … (line 1, column 22)`. */
  override toString(): string {
    const name = this.errorName === undefined ? "" : `${this.errorName}: `;
    const place = this.position ? ` (line ${this.position.line}, column ${this.position.column})` : "";
    return `${this.code}: ${name}${this.message}${place}`;
  }

  static {
    named(ProgramError, "ProgramError");
  }
}

function stack(error: ProgramError): string {
  const frames = error.frames.map(({ function: name, file, line, column }) => {
    const place = [file ?? "program", line, column].filter((part) => part !== undefined).join(":");
    return `\n    at ${name ? `${name} (${place})` : place}`;
  });
  return `ProgramError: ${error}${frames.join("")}`;
}

/** Sets the name of a class of errors, as the classes of the language have it. @internal */
export function named(error: { prototype: Error }, name: string): void {
  Object.defineProperty(error.prototype, "name", { value: name, writable: true, configurable: true });
}

/** The message of what was thrown, for a program: without a stack. @internal */
export function messageOf(thrown: unknown): string {
  try {
    if (isError(thrown)) return String(thrown.message) || nameOf(thrown);
    return typeof thrown === "object" ? JSON.stringify(thrown) : String(thrown);
  } catch {
    return "the tool has thrown what has no message";
  }
}

/** The name of what was thrown, for a program. @internal */
export function nameOf(thrown: unknown): string {
  try {
    return isError(thrown) && typeof thrown.name === "string" && thrown.name ? thrown.name : "Error";
  } catch {
    return "Error";
  }
}

/** Whether it is an error, also one of another realm. @internal */
export function isError(value: unknown): value is Error {
  return value instanceof Error || types.isNativeError(value);
}
