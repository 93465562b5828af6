/**
 * Execbox executes JavaScript and TypeScript that language models write, in sandboxes that call exactly the tools they are
 * granted.
 *
 * ```js
 * import { Executor } from "execbox";
 *
 * const box = new Executor();
 * const shop = { listOrders: async ({ status }) => [{ id: "A-7", status }] };
 * const result = await box.run("(await shop.listOrders({ status: 'open' })).length", { tools: { shop } });
 * console.log(result.value);
 * ```
 */

export type { CodeTool, CodeToolOptions } from "./code-tool.js";
export {
  BinaryNotFoundError,
  ExecboxError,
  ExecutorClosedError,
  type Frame,
  InvalidInputError,
  type Position,
  ProgramError,
  SerializationError,
  ServiceEndedError,
  ServiceError,
  ToolError,
} from "./errors.js";
export type { Event, EventType } from "./events.js";
export type { Execution } from "./execution.js";
export { type Check, Executor, type ExecutorOptions, type Server, type TotalUsage } from "./executor.js";
export { type McpClient, mcpTools } from "./mcp.js";
export type { Answer, CodeOptions, Limits, Options, Question, Rule, ScriptOptions } from "./options.js";
export type { CodeResult, LogCall, Result, Usage } from "./results.js";
export {
  type InputOf,
  type JsonSchema,
  type OutputOf,
  type Schema,
  type StandardSchema,
  withJsonSchema,
} from "./schemas.js";
export {
  type Call,
  type Effect,
  Provider,
  type Tool,
  type ToolDefinition,
  type ToolFunction,
  type ToolSet,
  type Tools,
  tool,
} from "./tools.js";
export { type HostFunction, hostFunction, Tagged } from "./values.js";
