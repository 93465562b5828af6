// Drives `execbox mcp` with the clients of the published TypeScript SDKs:
//
//     client.mjs SDK stdio EXECBOX ARGUMENTS...     starts a server
//     client.mjs SDK http URL                       connects to a running server
//
// SDK is `v1`, or `v2` with the newest version of the protocol. Servers as for client.py. Prints a line per check and stops at the
// first failure.

import { strict as assert } from "node:assert";

const [sdk, kind, target, ...args] = process.argv.slice(2);

// The user, who gives these answers, and the model.
const answers = [];
const questions = [];
const ask = ({ params }) => {
  questions.push(params.message);
  return answers.length ? { action: "accept", content: answers.shift() } : { action: "decline" };
};
const think = () => ({ role: "assistant", content: { type: "text", text: "forty-two" }, model: "peer" });

const info = { name: "peers", version: "1.0.0" };
const capabilities = { elicitation: {}, sampling: {} };
// Clients pass little of their environment to the servers that they start.
const stdio = { command: target, args, env: process.env };

const connectors = {
  async v1() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { CreateMessageRequestSchema, ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
    const client = new Client(info, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, ask);
    client.setRequestHandler(CreateMessageRequestSchema, think);
    await client.connect(kind === "http" ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport(stdio));
    return { client, call: (params, options) => client.callTool(params, undefined, options) };
  },

  async v2() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } });
    client.setRequestHandler("elicitation/create", ask);
    client.setRequestHandler("sampling/createMessage", think);
    await client.connect(kind === "http" ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport(stdio));
    return { client, call: (params, options) => client.callTool(params, options) };
  },
};

const { client, call } = await connectors[sdk]();
const execute = (code, options) => call({ name: "mcp_execute_code", arguments: { code } }, options);
const search = async (query) =>
  (await call({ name: "mcp_search_tools", arguments: query })).structuredContent;
const value = async (code) => (await execute(code)).structuredContent.result;

const checks = {
  async "it sends its name"() {
    assert.equal(client.getServerVersion().name, "execbox");
  },

  async "the servers become ready"() {
    for (const namespace of ["everything", "files", "waiting"])
      while ((await search({ namespace })).total === 0);
  },

  async "it lists three tools"() {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ["mcp_search_tools", "mcp_execute_code", "mcp_code"]);
  },

  async "search ranks the best tool first"() {
    const { tools } = await search({ query: "sum of two numbers" });
    assert.equal(tools[0].name, "get_sum");
  },

  async "code calls tools of two servers and progress is reported"() {
    const messages = [];
    const code = `
      console.log("a line");
      const sum = await everything.get_sum({ a: 2, b: 40 });
      return [sum, (await files.read_text_file({ path: "greeting.txt" })).content];`;
    const onprogress = ({ message }) => messages.push(message);
    const { structuredContent, isError } = await execute(code, { onprogress });
    assert.equal(isError, false);
    assert.deepEqual(structuredContent.result, ["The sum of 2 and 40 is 42.", "hello\n"]);
    assert.deepEqual(messages, ["a line", "calling everything.get_sum", "calling files.read_text_file"]);
  },

  async "its user approves and refuses calls"() {
    answers.push({ decision: "approve" }, { decision: "refuse" });
    const remove = (name) => `await memory.delete_relations({ relations: [{ from: "${name}", to: "x", relationType: "y" }] })`;
    assert.match((await execute(remove("Ada"))).content[0].text, /deleted/);
    const { isError, content } = await execute(remove("Bob"));
    assert.equal(isError, true);
    assert.match(content[0].text, /memory\.delete_relations failed \(line 1\): not approved: the user refused the call/);
    assert.equal(questions.length, 2);
    assert.match(questions[0], /A program wants to call memory\.delete_relations .*"from": "Ada"/s);
  },

  async "servers ask its user and its model"() {
    if (kind === "http") return; // Servers are started for all clients.
    answers.push({ name: "Grace" });
    const asked = await value("await everything.trigger_elicitation_request({})");
    assert.match(JSON.stringify(asked), /Grace/);
    assert.match(questions.at(-1), /^The server "everything" asks:/);
    const answered = await value('await everything.trigger_sampling_request({ prompt: "6 * 7?", maxTokens: 10 })');
    assert.match(JSON.stringify(answered), /forty-two/);
  },

  async "failures are reported"() {
    const { isError, content, structuredContent } = await execute("await everything.get_sum({ a: 1 })");
    assert.equal(isError, true);
    assert.match(content[0].text, /"b" is a required property/);
    assert.equal(structuredContent.error.code, "validation_error");
  },

  async "a cancelled call cancels the guest and its tool"() {
    const seen = () => value("await waiting.seen()");
    const before = await seen();
    const abort = new AbortController();
    const call = assert.rejects(execute("await waiting.wait()", { signal: abort.signal }));
    while ((await seen()).started === before.started);
    abort.abort();
    await call;
    while ((await seen()).cancelled === before.cancelled);
  },
};

const watchdog = setTimeout(() => assert.fail("the checks did not finish within a minute"), 60_000);
for (const [name, check] of Object.entries(checks)) {
  const title = `TypeScript client ${sdk}, ${kind}: ${name}`;
  await check().catch((error) => {
    console.log("FAIL ", title);
    throw error;
  });
  console.log("ok   ", title);
}
clearTimeout(watchdog);
await client.close();
