// Drives `execbox mcp` with the client of the published TypeScript SDK; arguments and servers as for client.py.
// Prints a line per check; the first that fails ends it.

import { strict as assert } from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, target, ...args] = process.argv.slice(2);
// Clients give the servers that they start little of their environment.
const stdio = () => new StdioClientTransport({ command: target, args, env: process.env });
const transport = kind === "http" ? new StreamableHTTPClientTransport(new URL(target)) : stdio();
const client = new Client({ name: "peers", version: "1.0.0" });

const execute = (code, options) => client.callTool({ name: "mcp_execute_code", arguments: { code } }, undefined, options);
const search = async (query) =>
  (await client.callTool({ name: "mcp_search_tools", arguments: query })).structuredContent;
const value = async (code) => (await execute(code)).structuredContent.result;

const checks = {
  async "it says who it is"() {
    await client.connect(transport);
    assert.equal(client.getServerVersion().name, "execbox");
  },

  async "the servers that are needed get ready"() {
    for (const namespace of ["everything", "files", "patient"])
      while ((await search({ namespace })).total === 0);
  },

  async "it lists three tools"() {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ["mcp_search_tools", "mcp_execute_code", "mcp_code"]);
  },

  async "tools are found"() {
    const { tools } = await search({ query: "sum of two numbers" });
    assert.equal(tools[0].name, "get_sum");
  },

  async "code calls tools of two servers and progress is told"() {
    const told = [];
    const code = `
      console.log("a line");
      const { content } = await everything.get_sum({ a: 2, b: 40 });
      return [content[0].text, (await files.read_text_file({ path: "greeting.txt" })).structuredContent.content];`;
    const onprogress = ({ message }) => told.push(message);
    const { structuredContent, isError } = await execute(code, { onprogress });
    assert.equal(isError, false);
    assert.deepEqual(structuredContent.result, ["The sum of 2 and 40 is 42.", "hello\n"]);
    assert.deepEqual(told, ["a line", "calls everything.get_sum", "calls files.read_text_file"]);
  },

  async "failures are told"() {
    const { isError, content, structuredContent } = await execute("await everything.get_sum({ a: 1 })");
    assert.equal(isError, true);
    assert.match(content[0].text, /"b" is a required property/);
    assert.equal(structuredContent.error.code, "validation_error");
  },

  async "a cancelled call cancels the guest and its tool"() {
    const seen = () => value("(await patient.seen()).structuredContent");
    const before = await seen();
    const abort = new AbortController();
    const call = assert.rejects(execute("await patient.wait()", { signal: abort.signal }));
    while ((await seen()).started === before.started);
    abort.abort();
    await call;
    while ((await seen()).cancelled === before.cancelled);
  },
};

const tooLate = setTimeout(() => assert.fail("not over after a minute"), 60_000);
for (const [name, check] of Object.entries(checks)) {
  const title = `TypeScript client, ${kind}: ${name}`;
  await check().catch((error) => {
    console.log("FAIL ", title);
    throw error;
  });
  console.log("ok   ", title);
}
clearTimeout(tooLate);
await client.close();
