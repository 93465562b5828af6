// The client that the suite tests: `execbox mcp` with one server, called `s`, and a user at its client.
//
//   client.mjs EXECBOX URL
//
// The user logs in when the server asks for it, answers each form with its defaults, and runs a program that calls every
// tool. Fails if the program does: not if a tool does.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [execbox, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const directory = mkdtempSync(join(tmpdir(), "conformance-"));
const options = { cwd: directory, env: { ...process.env, XDG_CONFIG_HOME: join(directory, "config") } };

// A client that the site knows already, or one that is described by a document at its own URL.
const oauth = context.client_id
  ? { clientId: context.client_id, clientSecret: context.client_secret }
  : { clientMetadataUrl: "https://conformance-test.local/client-metadata.json" };
writeFileSync(join(directory, "servers.json"), JSON.stringify({ mcpServers: { s: { url, oauth } } }));

// Calls what the scenario asks for, without the arguments that are null, else every tool with the arguments that one of them
// requires.
const PROGRAM = `
  const arguments_ = { a: 5, b: 3, id: "x", region: "us-east1", uri: "file:///path/to/file%20name.txt" };
  const calls = ${JSON.stringify(context.toolCalls ?? null)}
    ?? Object.keys(s).map((name) => ({ name, arguments: arguments_ }));
  const given = (input) => Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
  const results = [];
  for (const call of calls) results.push(await s[call.name](given(call.arguments)).catch((error) => error.message));
  return results;`;

// Runs the program in a gateway. Returns the result as text, and whether it is an error.
async function run() {
  const gateway = spawn(execbox, ["mcp", "--config", "servers.json"], { ...options, stdio: ["pipe", "pipe", "inherit"] });
  let sent = 0;
  const pending = new Map();
  const send = (message) => gateway.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  const request = (method, params) =>
    new Promise((resolve) => {
      pending.set(++sent, resolve);
      send({ id: sent, method, params });
    });
  createInterface(gateway.stdout).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.method === "elicitation/create") send({ id: message.id, result: answer(message.params.requestedSchema) });
    else if (!message.method) pending.get(message.id)?.(message);
  });
  const ended = new Promise((resolve) => gateway.on("exit", resolve));
  const client = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} }, clientInfo: { name: "user", version: "1" } };
  await request("initialize", client);
  send({ method: "notifications/initialized" });
  const called = await request("tools/call", { name: "mcp_execute_code", arguments: { code: PROGRAM } });
  gateway.stdin.end();
  await ended;
  const { content, isError } = called.result ?? { content: [{ text: JSON.stringify(called.error) }], isError: true };
  return { text: content[0].text, isError };
}

// Accepts a form as it is.
function answer({ properties = {} }) {
  const content = Object.entries(properties).filter(([, field]) => "default" in field);
  return { action: "accept", content: Object.fromEntries(content.map(([name, field]) => [name, field.default])) };
}

// Logs in, with a browser that follows redirects. Returns whether it succeeded.
async function login() {
  const command = ["login", "s", "--no-browser", "--no-keyring", "--timeout", "20s", "--config", "servers.json"];
  const running = spawn(execbox, command, { ...options, stdio: ["ignore", "inherit", "pipe"] });
  createInterface(running.stderr).on("line", (line) => {
    console.error(line);
    const page = /open (http\S+)/.exec(line);
    if (page) fetch(page[1]).then((shown) => shown.text()).catch((error) => console.error(error));
  });
  return new Promise((resolve) => running.on("exit", (code) => resolve(code === 0)));
}

let result;
for (let logins = 0; ; logins++) {
  result = await run();
  console.error(`${scenario}: ${result.text}`);
  if (!result.text.includes("execbox login s") || logins === 3 || !(await login())) break;
}
rmSync(directory, { recursive: true });
process.exit(result.isError ? 1 : 0);
