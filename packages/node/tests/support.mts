/** What the tests share. */

import { strict as assert } from "node:assert";
import { readdirSync, readFileSync } from "node:fs";
import { afterEach } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Executor, type ExecutorOptions, type ScriptOptions } from "execbox";

export { assert, sleep };

/** An executor for the tests of a file. After each test, nothing runs. */
export function boxForTests(options: ExecutorOptions = {}): Executor {
  const box = new Executor(options);
  afterEach(() => ended(box));
  return box;
}

/** Waits until no program runs. */
export async function ended(box: Executor): Promise<void> {
  while ((await box.usage()).running > 0) await sleep(5);
}

/** The value of a script, which succeeds. */
export async function value(box: Executor, code: string, options: ScriptOptions = {}): Promise<any> {
  return (await box.run(code, { timeout: 60_000, ...options })).orThrow().value;
}

/** The error of a script, which fails. */
export async function failure(box: Executor, code: string, options: ScriptOptions = {}) {
  const result = await box.run(code, { timeout: 60_000, ...options });
  assert(!result.ok, `${code} succeeds`);
  return result.error;
}

/** The process of the service. */
export function pidOf(box: Executor): number {
  return (box as any).session.service.process.pid;
}

/** The processes below a process. */
export function children(parent = process.pid): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => statOf(pid)?.parent === parent);
}

/** Waits until a process has ended. */
export async function exits(pid: number): Promise<void> {
  for (let tries = 0; tries < 3000; tries++) {
    const stat = statOf(pid);
    if (!stat || stat.state === "Z") return;
    await sleep(10);
  }
  assert.fail(`${pid} runs`);
}

function statOf(pid: number): { state: string; parent: number } | undefined {
  try {
    const [state, parent] = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return { state: state!, parent: Number(parent) };
  } catch {
    return undefined;
  }
}

/** A promise, and the function that fulfills it. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((each) => {
    resolve = each;
  });
  return { promise, resolve };
}

/** What an iteration gives. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}
