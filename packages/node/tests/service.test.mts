/** The service: its start, its end and what goes wrong between. */

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { BinaryNotFoundError, Executor, ExecutorClosedError, ServiceEndedError, ServiceError } from "execbox";

import { assert, boxForTests, children, deferred, exits, failure, pidOf, sleep, value } from "./support.mjs";

const binary = process.env.EXECBOX_BIN!;
const place = mkdtempSync(join(tmpdir(), "execbox-"));
const box = boxForTests();
after(async () => {
  await box.close();
  rmSync(place, { recursive: true });
  assert.deepEqual(children(), []);
});

const hang = () => new Promise<never>(() => {});

test("a service that dies fails what runs, and is started again", async () => {
  for (let n = 0; n < 3; n++) {
    const began = deferred();
    const aborted = deferred<unknown>();
    const t = {
      wait: (_: unknown, { signal }: { signal: AbortSignal }) => {
        signal.addEventListener("abort", () => aborted.resolve(signal.reason));
        began.resolve();
        return hang();
      },
    };
    const runs = [1, 2, 3].map(() =>
      box.run("await t.wait()", { tools: { t }, timeout: 60_000 }).catch((error) => error),
    );
    await began.promise;
    process.kill(pidOf(box), "SIGKILL");
    for (const error of await Promise.all(runs)) {
      assert(error instanceof ServiceEndedError);
      assert.equal(error.message, "the execbox service ended, killed by SIGKILL");
    }
    assert((await aborted.promise) instanceof ServiceEndedError);
    assert.equal(await value(box, "await t.one()", { tools: { t: { one: () => 1 } } }), 1);
  }
  assert.equal(children().length, 1);
});

test("closing ends what runs", async () => {
  const mine = new Executor();
  const began = deferred();
  const t = {
    wait: () => {
      began.resolve();
      return hang();
    },
  };
  const run = mine.run("await t.wait()", { tools: { t }, timeout: 60_000 });
  mine.run("for (;;);"); // nobody awaits it, which is no mistake
  await began.promise;
  const pid = pidOf(mine);
  await mine.close();
  await assert.rejects(run, new ExecutorClosedError("the executor was closed"));
  await assert.rejects(mine.run("1"), new ExecutorClosedError("the executor is closed"));
  await mine.close();
  await exits(pid);
  {
    await using disposed = new Executor();
    assert.equal(await value(disposed, "1"), 1);
  }
});

test("a service that does not start is explained", async () => {
  for (const [options, kind, message] of [
    [{ executor: "nowhere" }, ServiceEndedError, "nowhere"],
    [{ binary: "/bin/false" }, ServiceEndedError, "the execbox service ended with the exit code 1"],
    [
      { binary: "/bin/cat" },
      ServiceEndedError,
      "the execbox service ended with the exit code 1: /bin/cat: unrecognized option",
    ],
    [{ binary: "/nonexistent/execbox" }, BinaryNotFoundError, "cannot start /nonexistent/execbox: ENOENT"],
    [{ binary: place }, BinaryNotFoundError, `cannot start ${place}: EACCES`],
    [{ socket: "/nonexistent/socket" }, ServiceError, "cannot connect to the service at /nonexistent/socket: ENOENT"],
  ] as const) {
    const mine = new Executor(options);
    await assert.rejects(mine.run("1"), (error: Error) => {
      assert(error instanceof kind && error.message.includes(message), error.stack);
      return true;
    });
    await mine.close();
  }
});

test("another program is no service", async () => {
  const script = join(place, "other");
  for (const answer of [
    "hello",
    "[]",
    "null",
    '{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {}}',
    "*9999999999",
    '{"id": 1}',
    "*x",
    "\\0",
  ]) {
    writeFileSync(script, `#!/bin/sh\nprintf '%b\\n' '${answer}'\nsleep 0.2\n`);
    chmodSync(script, 0o700);
    const mine = new Executor({ binary: script });
    await assert.rejects(mine.run("1"), ServiceEndedError, answer);
    await mine.close();
  }
});

test("a missing binary is explained", async () => {
  const { PATH } = process.env;
  const mine = new Executor();
  const missing = (message: RegExp) => assert.rejects(mine.run("1"), { name: "BinaryNotFoundError", message });
  try {
    process.env.EXECBOX_BIN = "/nonexistent/execbox";
    await missing(/EXECBOX_BIN is "\/nonexistent\/execbox", which is not a program/);
    delete process.env.EXECBOX_BIN;
    // What npm puts on the PATH starts this package.
    process.env.PATH = place;
    writeFileSync(join(place, "execbox"), "#!/usr/bin/env node\n", { mode: 0o700 });
    await missing(new RegExp(`no binary for ${process.platform} on ${process.arch}: .*cargo install .*EXECBOX_BIN`));
  } finally {
    Object.assign(process.env, { EXECBOX_BIN: binary, PATH });
  }
  assert.equal(await value(mine, "1"), 1);
  await mine.close();
});

test("a socket serves many", async () => {
  const socket = join(place, "socket");
  const service = spawn(binary, ["serve", "--listen", `unix:${socket}`], { stdio: "ignore" });
  try {
    while (!existsSync(socket)) await sleep(10);
    const [one, two] = [new Executor({ socket }), new Executor({ socket })] as const;
    assert.deepEqual(await Promise.all([value(one, "1 + 1"), value(two, "1 + 1")]), [2, 2]);
    await two.close();
    const began = deferred();
    const t = {
      wait: () => {
        began.resolve();
        return hang();
      },
    };
    const run = one.run("await t.wait()", { tools: { t }, timeout: 60_000 });
    await began.promise;
    service.kill("SIGKILL");
    await assert.rejects(run, new ServiceEndedError("the execbox service ended"));
    await one.close();
  } finally {
    service.kill("SIGKILL");
  }
});

test("large messages cross", async () => {
  const echo = ({ text }: { text: string }) => text;
  const length = 1 << 20;
  const code = `(await t.echo({ text: 'é'.repeat(${length}) })).length`;
  const lengths = await Promise.all([1, 2, 3, 4].map(() => value(box, code, { tools: { t: { echo } } })));
  assert.deepEqual(lengths, [length, length, length, length]);
  const data = new Uint8Array(randomBytes(20 << 20));
  const result = await box.runCode<Uint8Array>("export default x => x", {
    args: [data],
    memory: "256MiB",
    timeout: 60_000,
  });
  assert(Buffer.compare(result.orThrow().value!, data) === 0);
  await assert.rejects(box.run(`/*${"x".repeat(17 << 20)}*/`), /a message of 18 MiB is too long: at most 16 MiB/);
  await assert.rejects(
    box.runCode("1", { args: [new Uint8Array(65 << 20)] }),
    /the byte strings of a message have 65 MiB/,
  );
  assert.equal(await value(box, "1"), 1);
});

test("the service tells about itself", async () => {
  const mine = new Executor();
  await mine.prewarm(1);
  const checks = await mine.selfTest();
  assert(checks.length > 0 && checks.every(({ outcome }) => outcome !== "failed"));
  await value(mine, "1");
  const { ended, failed, running } = await mine.usage();
  assert.deepEqual([ended, failed, running, await mine.servers()], [1, 0, 0, []]);
  await assert.rejects(mine.prewarm(-1), /invalid count -1/);
  await mine.close();
});

test("servers of a configuration are granted", async () => {
  const server = join(place, "server.mjs");
  writeFileSync(
    server,
    `import { createInterface } from "node:readline";
    for await (const line of createInterface({ input: process.stdin })) {
      const { id, method } = JSON.parse(line);
      if (id === undefined) continue;
      const result = {
        initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } },
        "tools/list": { tools: [{ name: "get-time", inputSchema: { type: "object" } }] },
        "tools/call": { content: [{ type: "text", text: "noon" }] },
      }[method] ?? {};
      console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
    }`,
  );
  const config = join(place, "servers.json");
  writeFileSync(config, JSON.stringify({ mcpServers: { watch: { command: process.execPath, args: [server] } } }));
  const servers = { clock: `${process.execPath} ${server}`, broken: "/nonexistent/server" };
  const mine = new Executor({ servers, config, maxPrograms: 2, maxMemory: "128MiB" });
  const found = new Map((await mine.servers()).map((each) => [each.name, each]));
  assert.deepEqual(found.get("clock")?.tools, [{ name: "get-time", safeName: "get_time" }]);
  assert.match(found.get("watch")?.types ?? "", /get_time/);
  assert(found.get("broken")?.problem);
  assert.equal(await value(mine, "await clock.get_time()", { servers: ["clock"] }), "noon");
  await assert.rejects(mine.run("1", { memory: "129MiB" }), /at most/);
  await mine.close();
});

/** Runs a small part of a benchmark, which fails if anything is left. */
function bench(program: string, ...args: string[]): void {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: `${process.env.EXECBOX_PAGES}/../benches`,
    encoding: "utf8",
  });
  assert.equal(status, 0, stdout + stderr);
}

test("many executions leave nothing", () => bench(process.execPath, "--expose-gc", "node/soak.mjs", binary, "240"));

test("kills leave no process", () => bench("python3", "kills", binary, "9", "node"));

test("the version is that of the binary", async () => {
  const { createRequire } = await import("node:module");
  const { version } = createRequire(import.meta.url)("execbox/package.json");
  assert.equal(execFileSync(binary, ["--version"], { encoding: "utf8" }).split(" ")[1]?.trim(), version);
  assert.match((await failure(box, "throw 1")).message, /1/);
});
