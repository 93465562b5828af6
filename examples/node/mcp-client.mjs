/**
 * The tools of an MCP server as tools of a program, through a client of the official SDK.
 *
 * An application that has no client of its own needs none: `new Executor({ servers: { notes: "node mcp-server.mjs" } })`.
 */

import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Executor, mcpTools, tool } from "execbox";
import { z } from "zod";

const PROGRAM = `
const { names } = await notes.list_notes({});
const all = await Promise.all(names.map((name) => notes.read_note({ name })));
const about = all.filter(({ text }) => text.includes("tent"));
const { words } = await text.countWords({ texts: about.map(({ text }) => text) });
({ read: all.length, about: about.map(({ name }) => name), words })
`;

const countWords = tool({
  description: "Counts the words of texts.",
  inputSchema: z.object({ texts: z.array(z.string()) }),
  outputSchema: z.object({ words: z.int() }),
  execute: async ({ texts }) => ({ words: texts.join(" ").split(/\s+/).length }),
});

const client = new Client({ name: "example", version: "1.0.0" });
const server = fileURLToPath(new URL("mcp-server.mjs", import.meta.url));
await client.connect(new StdioClientTransport({ command: process.execPath, args: [server] }));

const offered = Object.entries(await mcpTools(client));
const granted = offered.filter(([, { effect }]) => effect === "read_only");
console.log(offered.length, "tools,", granted.length, "granted:");

const box = new Executor();
const tools = { notes: Object.fromEntries(granted), text: { countWords } };
console.log(await box.types(tools));
console.log((await box.run(PROGRAM, { tools, timeout: 60_000 })).orThrow().value);
console.log(String((await box.run("await notes.delete_note({ name: 'route' })", { tools, timeout: 60_000 })).error));
await client.close();
