// The process in which one peer runs: loads an adapter, carries out commands, and times them.
//
//   node hosts/host.mjs ADAPTER [OPTION]
//
// Reads commands from standard input and writes replies to file descriptor 3, one JSON object per line. Text that a peer or a
// guest writes to standard output is not read. The separate process lets the benchmark continue when a guest harms its host.
import { writeSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { tools } from "./tools.mjs";

const [name, option] = process.argv.slice(2);
let adapter;
let release; // resumes the programs that wait
let arrived = 0; // the number of programs that wait
let announce; // called when one more program waits

const commands = {
  /** Makes the peer ready. */
  async start() {
    adapter = (await import(`../adapters/${name}.mjs`)).create(option);
    await adapter.start();
    return { version: adapter.version, pid: process.pid };
  },

  /** Runs a program once in a fresh sandbox. */
  async run({ source, limits }) {
    const started = performance.now();
    try {
      const result = await adapter.run(source, tools, limits);
      return { ms: performance.now() - started, result };
    } catch (error) {
      return { ms: performance.now() - started, error: describe(error) };
    }
  },

  /** Runs a program repeatedly, each time in a fresh sandbox. */
  async count({ source, limits, seconds }) {
    const started = performance.now();
    let count = 0;
    for (; performance.now() - started < seconds * 1000; count++) await adapter.run(source, tools, limits);
    return { perSecond: count / ((performance.now() - started) / 1000) };
  },

  /** The time from the start of a process to the first result, for peers with a process of their own. */
  async cold({ source, limits }) {
    const another = (await import(`../adapters/${name}.mjs`)).create(option);
    const started = performance.now();
    await another.start();
    const result = await another.run(source, tools, limits);
    const ms = performance.now() - started;
    await another.stop();
    return { ms, result };
  },

  /** Runs a program in `count` sandboxes at once; replies when all of them wait for their call. */
  async hold({ source, limits, count }) {
    arrived = 0;
    const released = new Promise((resolve) => (release = resolve));
    const full = new Promise((resolve) => (announce = () => ++arrived === count && resolve()));
    const waiting = { ...tools, wait: async (input) => (announce(), await released, input) };
    commands.held = Promise.all(Array.from({ length: count }, () => adapter.run(source, waiting, limits)));
    await Promise.race([full, commands.held.then(() => Promise.reject(new Error("the programs did not wait")))]);
    return {};
  },

  /** Lets the programs of `hold` finish. */
  async release() {
    release();
    await commands.held;
    return {};
  },

  async stop() {
    await adapter?.stop();
    return {};
  },
};

/** The error of a peer: its code or the name of its error, and the message. */
function describe(error) {
  const message = String(error?.message ?? error).split("\n")[0].slice(0, 200);
  const label = typeof error?.code === "string" ? error.code : String(error?.name ?? "Error");
  return { label, message };
}

function reply(value) {
  const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
  for (let at = 0; at < bytes.length; ) at += writeSync(3, bytes, at);
}

// Beats show that this process is not blocked.
let lastBeat = performance.now();
let longestGap = 0; // between two beats, during a command
function beat() {
  const now = performance.now();
  longestGap = Math.max(longestGap, now - lastBeat);
  lastBeat = now;
  reply({ beat: true });
}
if (process.env.PEERS_BEAT) setInterval(beat, Number(process.env.PEERS_BEAT)).unref();
process.on("unhandledRejection", () => {}); // a guest may leave rejected promises behind

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, ...details } = JSON.parse(line);
  try {
    lastBeat = performance.now();
    longestGap = 0;
    const answer = await commands[command](details);
    reply({ ...answer, gapMs: Math.max(longestGap, performance.now() - lastBeat), id });
  } catch (error) {
    reply({ error: describe(error), id });
  }
  if (command === "stop") break;
}
process.exit(0);
