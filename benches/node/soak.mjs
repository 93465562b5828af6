// Executes programs whose tools throw, are cancelled, return rich values and never answer, and fails if anything is left of them.
//
//     node --expose-gc benches/node/soak.mjs EXECBOX [COUNT [EXECUTOR...]]
//
// COUNT is 10 000 by default, EXECUTORs are `process` and `inline`. The package is that of `packages/node/check`, which must have
// run. Prints after each tenth what the application and the service, with its children, have.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

const AT_ONCE = 16;
const PLACES = 2;
// What is counted, and by how much it may grow from the second sample to the last. A child that has been stopped is replaced, with
// two open files of the service. V8 gives the memory of a heap back to the system late.
const COUNTED = {
  "application MiB": 48,
  "heap MiB": 2,
  "service MiB": 32,
  handles: 0,
  files: 0,
  "files of service": 8,
  children: 4,
};

const target = process.env.CARGO_TARGET_DIR ?? join(dirname(fileURLToPath(import.meta.url)), "../../target");
const { Executor } = await import(pathToFileURL(join(target, "node/dist/index.mjs")));

const give = async (value) => value;
const tools = {
  t: {
    give,
    fail: async ({ n }) => {
      throw new Error(`no order ${n}`);
    },
    hang: () => new Promise(() => {}),
    rich: async () => ({ at: new Date(), bytes: new Uint8Array(1000), map: new Map([["a", 1]]) }),
  },
};

/** The kinds of executions: each runs one, and checks how it ends. */
const kinds = [
  async (box) => {
    const code = "const all = await Promise.all([t.give([1, 'é', null, { a: [] }]), t.rich({})]); all[1].bytes.length";
    assert.equal((await box.run(code, { tools, timeout: 60_000 })).orThrow().value, 1336);
  },
  async (box) => {
    const { error } = await box.run("await t.fail({ n: 1 })", { tools, timeout: 60_000 });
    assert.equal(error.cause.message, "no order 1");
  },
  async (box, n) => {
    const programs = ["await t.hang()", "t.hang(); 1", "for (;;) await t.give()", "for (;;) t.hang()"];
    const { error } = await box.run(programs[n % programs.length], { tools, timeout: 20 });
    assert(["timeout", "memory_limit"].includes(error.code), String(error));
  },
  async (box, n) => {
    const controller = new AbortController();
    const run = box.run("await t.hang()", { tools, timeout: 60_000, signal: controller.signal });
    setTimeout(() => controller.abort(), n % 5);
    await assert.rejects(run, { name: "AbortError" });
  },
  async (box) => {
    const source = "export default async (f: any) => [await f(new Map([[1, new Date(0)]])), new Set([1n]), give, new Uint8Array(1000)]";
    const options = { args: [give], globals: { give, later: give(1) }, timeout: 60_000 };
    const { value } = (await box.runCode(source, options)).orThrow();
    assert.deepEqual(value, [new Map([[1, new Date(0)]]), new Set([1n]), give, new Uint8Array(1000)]);
  },
  async (box) => {
    const source = "for (let i = 0; i < 20; i++) { report(i); console.log(i) } throw new Error('end')";
    const execution = box.runCode(source, { report: true, events: ["log", "reported"], timeout: 60_000 });
    let events = 0;
    for await (const _ of execution) events += 1;
    const { error, reports } = await execution;
    assert.deepEqual([error.message, reports.length, events], ["end", 20, 40]);
  },
];

async function some(box, count) {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const n = next++;
      await kinds[n % kinds.length](box, Math.floor(n / kinds.length));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  while ((await box.usage()).running > 0) await sleep(10);
  await box.prewarm(PLACES); // the same number of children for each sample
  gc();
}

function sample(box) {
  const service = box.session.service.process.pid;
  const below = children(service);
  return [
    memory(process.pid),
    process.memoryUsage().heapUsed / 2 ** 20,
    [service, ...below].map(memory).reduce((sum, each) => sum + each, 0),
    process.getActiveResourcesInfo().filter((name) => name !== "Timeout").length,
    readdirSync("/proc/self/fd").length,
    readdirSync(`/proc/${service}/fd`).length,
    below.length,
  ];
}

/** The memory of a process, in MiB: pages that processes share count in part for each. */
function memory(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8").match(/^Pss: +(\d+) kB$/m)[1]) / 1024;
  } catch {
    return 0; // a child has ended meanwhile
  }
}

function children(parent) {
  return readdirSync("/proc").filter((entry) => {
    try {
      return Number(readFileSync(`/proc/${entry}/stat`, "utf8").replace(/^.*\) /s, "").split(" ")[1]) === parent;
    } catch {
      return false;
    }
  });
}

async function soak(executor, count) {
  const box = new Executor({ executor, maxPrograms: PLACES });
  const names = Object.keys(COUNTED);
  const row = (first, cells) => console.log([first.padStart(20), ...cells.map((cell, at) => cell.padStart(names[at].length))].join("  "));
  row(`${executor} executions`, names);
  const samples = [];
  for (let tenth = 1; tenth <= 10; tenth++) {
    await some(box, Math.floor(count / 10));
    samples.push(sample(box));
    row(String(tenth * Math.floor(count / 10)), samples.at(-1).map((cell, at) => cell.toFixed(names[at].endsWith("MiB") ? 1 : 0)));
  }
  const { executions, open, providers, service } = box.session;
  assert.deepEqual([executions.size, open.size, providers.size, service.requests.size], [0, 0, 1, 0], "this is left");
  assert.deepEqual([service.unsent, service.waiters], [[], []], "this is left");
  await box.close();
  for (const [at, name] of names.entries()) {
    const grown = samples.at(-1)[at] - samples[1][at];
    assert(grown <= COUNTED[name], `${name} has grown by ${grown} since the second sample`);
  }
  assert.deepEqual(children(process.pid), [], "a child is left");
}

const [binary, count = "10000", ...executors] = process.argv.slice(2);
if (!binary || !globalThis.gc) throw new Error("usage: node --expose-gc soak.mjs EXECBOX [COUNT [EXECUTOR...]]");
process.env.EXECBOX_BIN = resolve(binary);
for (const executor of executors.length > 0 ? executors : ["process", "inline"]) await soak(executor, Number(count));
