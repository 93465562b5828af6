// Measures the Node package beside isolated-vm and quickjs-emscripten, in one process, alternating: medians.
//
//     node benches/node/run.mjs EXECBOX [PEER...] [--json]      PEERs: process, inline, worker, isolated-vm, quickjs-emscripten
//
// EXECBOX is the binary of a release build. The package is that of `packages/node/check`, which must have run; the others, and
// the node that runs all, are those of benches/compare. In each round every peer runs each program once, and every other round
// in the opposite order.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { install, place } from "../compare/lib/install.mjs";

const ROUNDS = 60;
const AT_ONCE = 16;
const PROGRAMS = 2000;
const OWN = ["process", "inline", "worker"];
const LIMITS = { timeoutMs: 60_000, memoryBytes: 64 << 20 };
const here = fileURLToPath(import.meta.url);
const dist = join(process.env.CARGO_TARGET_DIR ?? join(dirname(here), "../../target"), "node/dist/index.mjs");

// The name, the body of an asynchronous function, and what it returns.
const programs = [
  ["`1 + 1`", "return 1 + 1", 2],
  ["one call", "return await echo(1)", 1],
  ["200 calls in sequence", "let sum = 0; for (let i = 0; i < 200; i++) sum += await echo(i); return sum", 19900],
  ["1 000 calls at once", "return (await Promise.all(Array.from({ length: 1000 }, (_, i) => echo(i)))).length", 1000],
  ["1 MB each way", "return (await echo('x'.repeat(1000000))).length", 1000000],
];
const echo = async (input) => input;

/** Starts a peer. */
async function start(name) {
  if (OWN.includes(name)) {
    const { Executor } = await import(pathToFileURL(dist));
    const box = new Executor({ executor: name });
    const options = { tools: { t: { echo } }, timeout: LIMITS.timeoutMs };
    return {
      run: async (body) => (await box.run(`const { echo } = t; ${body}`, options)).orThrow().value,
      runAlone: async () => (await box.run("1 + 1")).orThrow().value,
      stop: () => box.close(),
    };
  }
  const adapter = (await import(pathToFileURL(join(place, `adapters/${name}.mjs`)))).create();
  await adapter.start();
  return {
    run: (body) => adapter.run(body, { echo }, LIMITS),
    runAlone: () => adapter.run("return 1 + 1", {}, LIMITS),
    stop: () => adapter.stop(),
  };
}

async function timed(peer, [name, body, expected]) {
  const started = performance.now();
  const value = await peer.run(body);
  const elapsed = performance.now() - started;
  if (value !== expected) throw new Error(`${name}: ${value}`);
  return elapsed;
}

async function programsPerSecond(peer) {
  const started = performance.now();
  const some = async () => {
    for (let n = 0; n < PROGRAMS / AT_ONCE; n++) await peer.runAlone();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
  return (PROGRAMS / (performance.now() - started)) * 1000;
}

const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];

async function measure(names) {
  const peers = [];
  for (const name of names) peers.push(await start(name));
  const times = programs.map(() => names.map(() => []));
  for (let round = -5; round < ROUNDS; round++) {
    for (const [row, program] of programs.entries()) {
      const order = [...peers.keys()];
      for (const column of round % 2 ? order.reverse() : order) {
        await timed(peers[column], program); // awake, as in an application that executes often
        const elapsed = await timed(peers[column], program);
        if (round >= 0) times[row][column].push(elapsed);
      }
    }
  }
  const medians = times.map((row) => row.map(median));
  const rates = names.map(() => []);
  for (let n = 0; n < 5; n++) for (const [column, peer] of peers.entries()) rates[column].push(await programsPerSecond(peer));
  for (const peer of peers) await peer.stop();
  return { medians, rates: rates.map(median) };
}

/** From the start of node to the first result, without what node itself takes, in milliseconds. */
function firstResult(name) {
  const adapter = join(place, `adapters/${name}.mjs`);
  const code = OWN.includes(name)
    ? `import { Executor } from ${JSON.stringify(dist)}; await new Executor({ executor: "${name}" }).run("1 + 1")`
    : `import { create } from ${JSON.stringify(adapter)}; const peer = create(); await peer.start(); await peer.run("return 1 + 1", {}, ${JSON.stringify(LIMITS)})`;
  const run = (code) =>
    median(
      Array.from({ length: 15 }, () => {
        const started = performance.now();
        const { status, stderr } = spawnSync(process.execPath, ["--no-node-snapshot", "--input-type=module", "-e", code], { encoding: "utf8" });
        if (status !== 0) throw new Error(stderr);
        return performance.now() - started;
      }),
    );
  return run(code) - run("0");
}

async function main([flag, ...names]) {
  if (flag === "--measure") {
    const peers = names.filter((name) => name !== "--json");
    const { medians, rates } = await measure(peers);
    const rows = Object.fromEntries(programs.map(([title], row) => [title, medians[row].map((ms) => ms * 1000)]));
    const [one, inSequence] = [rows["one call"], rows["200 calls in sequence"]];
    rows["a further call"] = peers.map((_, column) => (inSequence[column] - one[column]) / 199);
    rows[`programs per second, ${AT_ONCE} at once`] = rates;
    rows["import and first result"] = peers.map((name) => firstResult(name) * 1000);
    if (names.includes("--json")) {
      const named = Object.entries(rows).map(([title, cells]) => [title, Object.fromEntries(cells.map((cell, column) => [peers[column], cell]))]);
      console.log(JSON.stringify(Object.fromEntries(named)));
      return;
    }
    console.log(`| µs, node ${process.versions.node} | ${peers.map((name) => `\`${name}\``).join(" | ")} |\n|---|${"--:|".repeat(peers.length)}`);
    for (const [title, cells] of Object.entries(rows)) console.log(`| ${title} | ${cells.map((cell) => cell.toFixed(0)).join(" | ")} |`);
    return;
  }
  if (!flag || !existsSync(flag) || !existsSync(dist)) {
    throw new Error("usage: run.mjs EXECBOX [PEER...], after packages/node/check EXECBOX");
  }
  const { node, npm } = install();
  if (npm) throw new Error(npm);
  const peers = names.some((name) => name !== "--json") ? names : [...OWN, "isolated-vm", "quickjs-emscripten", ...names];
  const env = { ...process.env, EXECBOX_BIN: resolve(flag) };
  const args = ["--no-node-snapshot", "--no-warnings", here, "--measure", ...peers];
  process.exitCode = spawnSync(node, args, { env, stdio: "inherit" }).status;
}

await main(process.argv.slice(2));
