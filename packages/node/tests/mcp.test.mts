/** Tools of MCP servers, through the clients of both versions of the official SDK. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { type McpClient, mcpTools } from "execbox";

import { all, assert, boxForTests, failure, sleep, value } from "./support.mjs";

const box = boxForTests();
const place = mkdtempSync(join(tmpdir(), "execbox-"));
after(async () => {
  await box.close();
  rmSync(place, { recursive: true });
});

// A server with two tools for each page, and without an end if it is asked for one.
const server = join(place, "server.mjs");
writeFileSync(
  server,
  `import { createInterface } from "node:readline";
  const text = (text) => ({ content: [{ type: "text", text }] });
  const send = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));
  const calls = {
    "get-order": ({ id }) => id === "none" ? { ...text("no such order"), isError: true }
      : { ...text("an order"), structuredContent: { id, total: 60 } },
    json: () => text('{"a": [1]}'),
    plain: () => text("[plain"),
    image: () => ({ content: [{ type: "image", data: "AQ==", mimeType: "image/png" }] }),
    nothing: () => ({ content: [] }),
    slow: () => undefined,
    cancelled: () => text(String(cancelled)),
  };
  let cancelled = 0;
  const string = { type: "string" };
  const tools = Object.keys(calls).map((name) => ({ name, description: name, inputSchema: { type: "object", properties: { id: string } } }));
  Object.assign(tools[0], {
    outputSchema: { type: "object", properties: { id: string, total: { type: "number" } }, required: ["id"] },
    annotations: { readOnlyHint: true },
  });
  tools[1].annotations = { destructiveHint: true };
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params = {} } = JSON.parse(line);
    if (method === "notifications/cancelled") cancelled += 1;
    if (id === undefined) continue;
    const page = Number(params.cursor ?? 0);
    const isLast = 2 * page + 2 >= tools.length && process.argv[2] !== "endless";
    if (params.name === "slow" && params._meta?.progressToken !== undefined) {
      const { progressToken } = params._meta;
      send({ method: "notifications/progress", params: { progressToken, progress: 1, total: 2, message: "half" } });
    }
    const result = {
      initialize: () => ({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } }),
      "tools/list": () => ({ tools: tools.slice(2 * page, 2 * page + 2), nextCursor: isLast ? undefined : String(page + 1) }),
      "tools/call": () => calls[params.name](params.arguments ?? {}),
      ping: () => ({}),
    }[method];
    if (!result) send({ id, error: { code: -32601, message: "no such method" } });
    else if (result()) send({ id, result: result() });
  }`,
);

async function connect(version: 1 | 2, ...args: string[]): Promise<McpClient & { close(): Promise<void> }> {
  const stdio = { command: process.execPath, args: [server, ...args] };
  const info = { name: "tests", version: "1" };
  if (version === 1) {
    const client = new Client1(info);
    await client.connect(new Transport1(stdio));
    return client;
  }
  const client = new Client(info);
  await client.connect(new StdioClientTransport(stdio));
  return client;
}

for (const version of [1, 2] as const) {
  test(`tools of a client of version ${version} of the SDK`, async () => {
    const client = await connect(version);
    const tools = { shop: await mcpTools(client) };
    assert.equal(Object.keys(tools.shop).length, 7);
    assert.match(
      await box.types(tools),
      /get_order\(input\??: \{ id\?: string;? \}\): Promise<\{\s*id: string;\s*total\?: number;?\s*\}>/,
    );
    assert.deepEqual(
      [tools.shop["get-order"]!.effect, tools.shop.json!.effect, tools.shop.plain!.effect],
      ["read_only", "destructive", "unstated"],
    );
    const code =
      "[(await shop.get_order({ id: 'A-7' })).total, await shop.json(), await shop.plain(), await shop.image(), await shop.nothing()]";
    const image = [{ type: "image", data: "AQ==", mimeType: "image/png" }];
    assert.deepEqual(await value(box, code, { tools }), [60, { a: [1] }, "[plain", image, null]);
    assert.equal((await failure(box, "await shop.get_order({ id: 'none' })", { tools })).message, "no such order");
    assert.equal((await failure(box, "await shop.get_order({ id: 1 })", { tools })).code, "validation_error");

    const slow = box.run("await shop.slow()", { tools, timeout: 300, events: ["call_progress"] });
    const [progress] = await all(slow);
    assert(progress?.type === "call_progress" && progress.done === 1 && progress.message === "half");
    assert.equal((await slow).error?.code, "timeout");
    // The server learns that nobody waits any more.
    while (Number(await value(box, "await shop.cancelled()", { tools })) === 0) await sleep(10);
    await client.close();
    assert.equal((await failure(box, "await shop.json()", { tools })).code, "tool_error");
  });
}

test("a list of tools without an end is an error", async () => {
  const client = await connect(1, "endless");
  await assert.rejects(mcpTools(client), /the MCP server has more than 1000 pages of tools/);
  await client.close();
});
