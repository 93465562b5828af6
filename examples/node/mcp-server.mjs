/** An MCP server with notes, for mcp-client.mjs. */

import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const notes = new Map([
  ["packing", "Ridge 2 tent, Ember stove, two Drift mats."],
  ["repairs", "The Ridge 2 tent needs a new pole, the stove a seal."],
  ["route", "From Lyon by train, then on foot."],
]);

const server = new McpServer({ name: "notes", version: "1.0.0" });
const data = (structuredContent) => ({
  content: [{ type: "text", text: JSON.stringify(structuredContent) }],
  structuredContent,
});

server.registerTool(
  "list_notes",
  {
    description: "Lists the names of all notes.",
    outputSchema: z.object({ names: z.array(z.string()) }),
    annotations: { readOnlyHint: true },
  },
  () => data({ names: [...notes.keys()] }),
);
server.registerTool(
  "read_note",
  {
    description: "Returns a note.",
    inputSchema: z.object({ name: z.string() }),
    outputSchema: z.object({ name: z.string(), text: z.string() }),
    annotations: { readOnlyHint: true },
  },
  ({ name }) => data({ name, text: notes.get(name) ?? "" }),
);
server.registerTool(
  "delete_note",
  {
    description: "Deletes a note.",
    inputSchema: z.object({ name: z.string() }),
    annotations: { destructiveHint: true },
  },
  ({ name }) => data({ deleted: notes.delete(name) }),
);
await server.connect(new StdioServerTransport());
