/** `Executor.codeTool`: a tool with which a model runs code that calls tools. */

import type { ScriptOptions } from "./options.js";
import type { Result } from "./results.js";
import type { JsonSchema } from "./schemas.js";

/** The options of `codeTool`: those of `run`, for each script, and how models see the tool. `maxTextChars` is 24 000 by default. */
export interface CodeToolOptions extends Omit<ScriptOptions, "tools" | "signal" | "events"> {
  /** The name of the tool. Default: `run_code`. */
  name?: string;
  /**
   * The length of the types in the description, in characters: if all do not fit, names and parameters are shown, or else as many
   * names as fit. Default: 20 000.
   */
  maxTypeChars?: number;
}

/** A tool with which a model runs scripts that call tools. `codeTool` makes it. */
export interface CodeTool {
  readonly name: string;
  /** How code is written, and the TypeScript declarations of the tools that it can call. */
  readonly description: string;
  /** The JSON Schema of the input: an object with the member `code`. */
  readonly inputSchema: JsonSchema;
  /**
   * Executes a script of the model. `text` of the result is what the model reads, also if the script failed.
   *
   * If the signal is aborted, the program is cancelled, and the reason is thrown.
   */
  run<Value = unknown>(code: string, options?: { signal?: AbortSignal }): Promise<Result<Value> & { text: string }>;
}
