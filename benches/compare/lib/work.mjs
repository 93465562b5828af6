// The work: programs in programs/, with their expected results.
import { readFileSync } from "node:fs";
import { tools } from "../hosts/tools.mjs";

/** Each program of `table` is a column there. */
export const work = [
  { name: "one-plus-one", title: "`1+1`", table: "calls" },
  { name: "one-call", title: "one call", table: "calls" },
  { name: "calls-in-sequence", title: "200 calls in sequence", table: "calls" },
  { name: "calls-at-once", title: "1 000 calls at once", table: "calls" },
  { name: "fib", title: "`fib(27)`", table: "data" },
  { name: "loop", title: "loop of 10⁷", table: "data" },
  { name: "json", title: "JSON, 1 MB both ways", table: "data" },
  { name: "big-result", title: "result of 1 MB", table: "data" },
  { name: "big-tool-result", title: "tool result of 1 MB", table: "data" },
  { name: "big-tool-input", title: "tool input of 1 MB", table: "data" },
];

export const hostile = [
  { name: "endless-loop", short: "loop", title: "endless loop" },
  { name: "loop-after-await", short: "loop after call", title: "endless loop after a call" },
  { name: "endless-promises", short: "promises", title: "endless promises" },
  { name: "array-of-objects", short: "array", memory: true, title: "array without end" },
  { name: "string-doubling", short: "string", memory: true, title: "string doubled without end" },
  { name: "typed-arrays", short: "typed arrays", memory: true, title: "typed arrays without end" },
  { name: "deep-recursion", short: "recursion", memory: true, title: "deep recursion" },
  { name: "flood-of-calls", short: "calls, 1 MB", title: "calls with 1 MB each, not awaited" },
  { name: "escape", short: "constructor", title: "`constructor.constructor`" },
];

export const source = (name, language = "js") => readFileSync(new URL(`../programs/${name}.${language}`, import.meta.url), "utf8");

/** The result of a program in this node, without a sandbox. */
export async function resultOf(source) {
  const AsyncFunction = (async () => {}).constructor;
  return await new AsyncFunction(...Object.keys(tools), source)(...Object.values(tools));
}

export const workLimits = { timeoutMs: 10_000, memoryBytes: 64 * 1024 * 1024 };
export const hostileLimits = { timeoutMs: 1000, memoryBytes: 64 * 1024 * 1024 };
export const HOSTILE_PATIENCE_MS = 10_000;
