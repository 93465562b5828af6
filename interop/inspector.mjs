// Drives `execbox mcp` with the command line of the MCP Inspector; arguments and servers as for client.py. The Inspector
// makes one request per process: over standard streams, each check starts `execbox mcp` anew.
// Prints a line per check and stops at the first failure.

import { strict as assert } from "node:assert";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";

const TIMEOUT_MS = 60_000; // of each process

const [kind, target, ...args] = process.argv.slice(2);
// Clients pass little of their environment to the servers that they start.
const env = { EVERYTHING_PORT: process.env.EVERYTHING_PORT };
const server = kind === "http" ? { type: "streamable-http", url: target } : { command: target, args, env };
writeFileSync("inspector.json", JSON.stringify({ mcpServers: { execbox: server } }));

// Runs the Inspector. Returns its exit code, what it prints as JSON, and its standard error.
const inspect = (...options) => {
  const command = ["node_modules/.bin/mcp-inspector", "--cli", "--config", "inspector.json", "--server", "execbox"];
  const environment = { ...process.env, MCP_INSPECTOR_SECRET_STORE: "memory" };
  return new Promise((resolve) => {
    execFile("node", [...command, ...options], { env: environment, timeout: TIMEOUT_MS }, (error, stdout, stderr) => {
      assert.ok(!error?.killed, `no answer within ${TIMEOUT_MS / 1000} s: ${options.join(" ")}\n${stderr}`);
      resolve({ code: error?.code ?? 0, output: stdout && JSON.parse(stdout), stderr });
    });
  });
};
const call = (tool, argument, ...options) =>
  inspect("--method", "tools/call", "--tool-name", tool, "--tool-arg", argument, ...options);
const execute = (code, ...options) => call("mcp_execute_code", `code=${code}`, ...options);

const checks = {
  async "it lists three tools with portable schemas"() {
    const { code, output, stderr } = await inspect("--method", "tools/list", "--strict");
    assert.equal(code, 0, stderr);
    assert.deepEqual(
      output.tools.map((tool) => tool.name),
      ["mcp_search_tools", "mcp_execute_code", "mcp_code"],
    );
  },

  async "search ranks the best tool first"() {
    let page = { total: 0 };
    while (page.total === 0) {
      const { code, output, stderr } = await call("mcp_search_tools", "query=sum of two numbers");
      assert.equal(code, 0, stderr);
      page = output.structuredContent;
    }
    assert.equal(page.tools[0].name, "get_sum");
  },

  async "code calls tools of two servers, in each version of the protocol"() {
    const program = `const sum = await everything.get_sum({ a: 2, b: 40 });
      return [sum, (await files.read_text_file({ path: "greeting.txt" })).content];`;
    for (const era of ["legacy", "modern"]) {
      const { code, output, stderr } = await execute(program, "--protocol-era", era);
      assert.equal(code, 0, stderr);
      assert.equal(output.isError, false);
      assert.deepEqual(output.structuredContent.result, ["The sum of 2 and 40 is 42.", "hello\n"]);
    }
  },

  async "a failing call is reported"() {
    const { code, output } = await execute("await everything.get_sum({ a: 1 })");
    assert.equal(code, 5); // The Inspector's code for results with `isError`.
    assert.equal(output.isError, true);
    assert.match(output.content[0].text, /"b" is a required property/);
    assert.equal(output.structuredContent.error.code, "validation_error");
  },

  async "an unknown tool is reported"() {
    const { code, stderr } = await call("mcp_unknown", "x=1");
    assert.notEqual(code, 0);
    assert.match(stderr, /mcp_unknown/);
  },
};

for (const [name, check] of Object.entries(checks)) {
  const title = `Inspector, ${kind}: ${name}`;
  await check().catch((error) => {
    console.log("FAIL ", title);
    throw error;
  });
  console.log("ok   ", title);
}
