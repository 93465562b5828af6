#!/usr/bin/env node
/** The command `execbox`: the binary, with the arguments, the streams and the signals of this process. */

import { spawn } from "node:child_process";

import { findBinary } from "./binary.js";
import { messageOf } from "./errors.js";

function main(): void {
  const child = spawn(findBinary(), process.argv.slice(2), { stdio: "inherit" });
  child.on("error", failed);
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function failed(error: unknown): void {
  process.stderr.write(`error: ${messageOf(error)}\n`);
  process.exitCode = 1;
}

try {
  main();
} catch (error) {
  failed(error);
}
