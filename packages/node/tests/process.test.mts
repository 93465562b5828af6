/** Whole applications: how they end, how they import the package, and what the pages show. */

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { assert, exits } from "./support.mjs";

const binary = process.env.EXECBOX_BIN!;
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const place = mkdtempSync(join(tmpdir(), "execbox-"));
mkdirSync(join(place, "node_modules"));
symlinkSync(root, join(place, "node_modules/execbox"));
after(() => rmSync(place, { recursive: true }));

/** Runs a program to its end. */
function run(code: string, name = "program.mjs"): { status: number | null; stdout: string; stderr: string } {
  writeFileSync(join(place, name), code);
  return spawnSync(process.execPath, [name], { cwd: place, encoding: "utf8", timeout: 120_000 });
}

/** Starts a program, and reads the pid that it prints once its programs run. */
async function started(code: string): Promise<{ child: ChildProcess; pid: number; stderr: () => string }> {
  writeFileSync(join(place, "program.mjs"), code);
  const child = spawn(process.execPath, ["program.mjs"], { cwd: place });
  let stderr = "";
  child.stderr.on("data", (data) => {
    stderr += data;
  });
  const [line] = await new Promise<[Buffer]>((resolve) => child.stdout.once("data", (data) => resolve([data])));
  return { child, pid: Number(line), stderr: () => stderr };
}

const status = (child: ChildProcess) =>
  new Promise<[number | null, string | null]>((resolve) => child.on("exit", (code, signal) => resolve([code, signal])));

test("an application ends when it has nothing to do, also if it closes nothing", async () => {
  const { status, stdout, stderr } = run(`import { Executor } from "execbox";
    const box = new Executor();
    const { value } = await box.run("1 + 1");
    console.log(box.session.service.process.pid, value);`);
  assert.deepEqual([status, stderr], [0, ""]);
  const [pid, value] = stdout.trim().split(" ");
  assert.equal(value, "2");
  await exits(Number(pid));
});

const APPLICATION = (then: string) => `import { Executor } from "execbox";
  const box = new Executor();
  const t = { tool: () => {
    console.log(box.session.service.process.pid);
    ${then}
    return new Promise(() => {});
  } };
  await box.run("await t.tool(); for (;;);", { tools: { t }, timeout: 60000 });`;

test("an application that ends while programs run", async () => {
  for (const [statement, code, message] of [
    ["process.exit(3)", 3, ""],
    ["setImmediate(() => { throw new Error('mine') })", 1, "Error: mine"],
    ["setImmediate(() => box.close().catch(() => {}))", 1, "ExecutorClosedError: the executor was closed"],
  ] as const) {
    const ended = run(APPLICATION(statement));
    assert.equal(ended.status, code, ended.stderr);
    assert(ended.stderr.includes(message), ended.stderr);
    await exits(Number(ended.stdout));
  }
});

test("an application that is killed", async () => {
  for (const signal of ["SIGKILL", "SIGTERM", "SIGINT"] as const) {
    const { child, pid } = await started(APPLICATION("process.on('SIGINT', () => process.exit(130));"));
    child.kill(signal);
    await status(child);
    await exits(pid);
  }
});

test("import and require give the same", () => {
  const code = `import * as imported from "execbox";
    import { createRequire } from "node:module";
    const required = createRequire(import.meta.url)("execbox");
    const { default: _, "module.exports": __, __esModule, ...names } = imported;
    for (const name of Object.keys(required)) if (imported[name] !== required[name]) throw new Error(name);
    console.log(Object.keys(names).join(), Object.keys(required).sort().join());`;
  const { stdout, stderr } = run(code);
  const [imported, required] = stdout.trim().split(" ");
  assert.equal(imported, required, stderr);
  assert(imported?.includes("Executor") && imported.includes("mcpTools"));
  const { stdout: value } = run(
    `const { Executor } = require("execbox"); new Executor().run("6 * 7").then(({ value }) => console.log(value));`,
    "program.cjs",
  );
  assert.equal(value, "42\n");
});

test("the command is the binary", async () => {
  const main = join(root, "dist/main.js");
  for (const args of [["run", "-e", "1 + 1"], ["--version"], ["run", "-e", "null.x"]]) {
    const here = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
    const there = spawnSync(binary, args, { encoding: "utf8" });
    assert.deepEqual([here.stdout, here.stderr, here.status], [there.stdout, there.stderr, there.status]);
  }
  const env = { ...process.env, EXECBOX_BIN: "/nonexistent/execbox" };
  const missing = spawnSync(process.execPath, [main], { encoding: "utf8", env });
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /^error: EXECBOX_BIN is "\/nonexistent\/execbox", which is not a program; .*\n$/);

  const child = spawn(process.execPath, [main, "serve"], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
  await new Promise((resolve) => child.stdout.once("data", resolve));
  const pids = execFileSync("ps", ["-o", "pid=", "--ppid", String(child.pid)], { encoding: "utf8" });
  child.kill("SIGTERM");
  await status(child);
  for (const pid of pids.trim().split(/\s+/)) await exits(Number(pid));
});
