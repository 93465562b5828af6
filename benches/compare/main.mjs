// Measures all peers, writes results.json or ratios.json, and generates sections of docs/performance.md and the pictures from them:
// see README.md.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { cpus, release, type } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { attack } from "./lib/attack.mjs";
import { Host } from "./lib/host.mjs";
import { install, place } from "./lib/install.mjs";
import { measure } from "./lib/measure.mjs";
import { absent, peers } from "./lib/peers.mjs";
import { compared, measureRatios, problems, record, section } from "./lib/ratios.mjs";
import { differences, markdown, write } from "./lib/report.mjs";
import { hostile, work } from "./lib/work.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const resultsFile = join(here, "results.json");

const { values: options, positionals } = argumentsOf({
  allowPositionals: true,
  options: {
    v8: { type: "string" },
    rounds: { type: "string" },
    only: { type: "string" },
    quick: { type: "boolean" },
    tables: { type: "boolean" },
    check: { type: "boolean" },
    ratios: { type: "boolean" },
    "only-program": { type: "string" },
  },
});

function argumentsOf(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    console.error(`error: ${error.message}`);
    return process.exit(2);
  }
}

if (options.check || options.tables) {
  const results = JSON.parse(readFileSync(resultsFile, "utf8"));
  if (options.tables) write(results);
  const found = options.check ? differences(results) : [];
  for (const file of found) console.error(`error: ${file} is not what results.json and ratios.json give; run benches/compare/run --tables`);
  process.exit((options.check ? complain() : 0) + found.length ? 1 : 0);
}

const rounds = Number(options.rounds ?? (options.quick ? 3 : options.ratios ? 5 : 15));
if (!Number.isInteger(rounds) || rounds < 1) fail(`invalid --rounds: expected a positive integer, got ${options.rounds}`);
const execbox = binary(positionals[0] ?? join(place, "../../release/execbox"));
const environment = { EXECBOX: execbox, EXECBOX_V8: options.v8 ? binary(options.v8) : execbox };
const chosen = options.only?.split(",") ?? (options.ratios ? compared : undefined);
const unknown = chosen?.filter((name) => !peers.some((peer) => peer.name === name)) ?? [];
if (unknown.length) fail(`unknown peer ${unknown}: expected ${peers.map((peer) => peer.name).join(", ")}`);

const started = performance.now();
const installed = install();

/** Starts the host of a peer, and the peer in it. */
async function launch(peer, { beatMs } = {}) {
  const args = peer.python
    ? [installed.python, [join(place, "hosts/host.py"), peer.adapter]]
    : [installed.node, ["--no-node-snapshot", "--no-warnings", join(place, "hosts/host.mjs"), peer.adapter, ...(peer.option ? [peer.option] : [])]];
  const host = new Host(...args, { cwd: place, env: environment, beatMs });
  try {
    const reply = await host.ask("start", {}, 20_000);
    if (reply.error) throw new Error(reply.error.message);
    host.version = reply.version;
    return host;
  } catch (error) {
    const reason = /^\w*Error.*/m.exec(host.stderr)?.[0] ?? error.message;
    host.kill();
    throw new Error(reason.replaceAll(place, "").replaceAll(here, "").slice(0, 120), { cause: error });
  }
}

const subjects = peers.filter((peer) => !chosen || chosen.includes(peer.name)).map((peer) => ({ peer, launch: (how) => launch(peer, how) }));
const rows = Object.fromEntries(subjects.map(({ peer }) => [peer.name, { version: undefined, work: {}, hostile: {} }]));
for (const { peer } of subjects) {
  rows[peer.name].failure = peer.python ? installed.pypi : peer.adapter === "execbox" ? undefined : installed.npm;
}
const report = (text) => console.error(text);
const circumstances = {
  machine: { cpu: cpus()[0].model, cores: cpus().length, os: `${type()} ${release().replace(/^(\d+\.\d+).*/, "$1")}` },
  versions: { node: version(installed.node), python: version(existsSync(installed.python) ? installed.python : "python3") },
  date: new Date().toISOString().slice(0, 10),
  rounds,
};
if (options.ratios) {
  const ratios = { ...circumstances, ...await measureRatios(subjects, rows, { rounds, only: options["only-program"], report }) };
  console.log(section(ratios));
  if (options.only !== undefined || options["only-program"] !== undefined) {
    console.log(JSON.stringify(ratios.programs, null, 1));
    process.exit(0);
  }
  record(ratios);
  write(JSON.parse(readFileSync(resultsFile, "utf8")));
  process.exit(complain() ? 1 : 0);
}
await measure(subjects, rows, { rounds, report });
await attack(subjects, rows, { report });

const results = {
  ...circumstances,
  seconds: Math.round((performance.now() - started) / 1000),
  inProcess: inProcess(),
  peers: rows,
  absent,
};
if (chosen) {
  console.log(markdown(results));
} else {
  writeFileSync(resultsFile, `${JSON.stringify(results, null, 1)}\n`);
  write(results);
  console.log(markdown(results));
}
console.error(`measured ${subjects.length} peers, ${work.length} programs and ${hostile.length} attacks in ${results.seconds} s`);
process.exit(0);

/** The measurements of `execbox bench` inside of its process, if this binary has that command. */
function inProcess() {
  try {
    const output = execFileSync(execbox, ["bench", "--executor", "inline", "--json", ...(options.quick ? ["--quick"] : [])], { encoding: "utf8", timeout: 120_000, stdio: ["ignore", "pipe", "ignore"] });
    const { rows: measured } = JSON.parse(output);
    return measured;
  } catch {
    return undefined;
  }
}

/** Prints the problems of ratios.json and reasons.json. Returns their number. */
function complain() {
  const found = problems();
  for (const problem of found) console.error(`error: ${problem}`);
  return found.length;
}

function version(program) {
  return execFileSync(program, ["--version"], { encoding: "utf8" }).trim().replace(/^\S+ |^v/, "");
}

function binary(path) {
  if (!existsSync(path)) fail(`no such file: ${path}`);
  return realpathSync(path);
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(2);
}
