/** Tools of an MCP server, through a client of the official SDK, version 1 or 2. */

import { isRecord } from "./checks.js";
import { ExecboxError, ToolError } from "./errors.js";
import type { Call, Effect, Tool } from "./tools.js";

const MAX_PAGES = 1000;

/** What `mcpTools` needs of a client. */
export interface McpClient {
  listTools(params?: { cursor?: string }): Promise<{ tools: any[]; nextCursor?: string | undefined }>;
  // The parameters after the first differ between versions of the SDK.
  callTool(params: { name: string; arguments?: Record<string, unknown> }, ...rest: any[]): Promise<any>;
}

/**
 * The tools of the server of a client of the official SDK: `{ github: await mcpTools(client) }`.
 *
 * A call gives the structured content of the result, else its only text (as JSON if that is an object or an array), else its
 * content; a result with `isError` fails the call. Parts of schemas that cannot be checked are left out, with a warning.
 */
export async function mcpTools(client: McpClient): Promise<Record<string, Tool>> {
  const tools: [string, Tool][] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const listed = await client.listTools(cursor === undefined ? undefined : { cursor });
    tools.push(...listed.tools.map((described): [string, Tool] => [described.name, mcpTool(client, described)]));
    cursor = listed.nextCursor;
    if (!cursor) return Object.fromEntries(tools);
  }
  throw new ExecboxError(`the MCP server has more than ${MAX_PAGES} pages of tools`);
}

function mcpTool(client: McpClient, { name, description, inputSchema, outputSchema, annotations }: any): Tool {
  return Object.freeze({
    description,
    inputSchema,
    outputSchema,
    effect: effectOf(annotations ?? {}),
    lenient: true,
    async execute(input: unknown, call: Call) {
      if (input != null && !isRecord(input)) throw new ToolError(`${name} takes an object with its arguments`);
      const options = {
        signal: call.signal,
        onprogress: ({ progress, total, message }: any) => call.reportProgress(progress, total, message),
      };
      const params = { name, arguments: input ?? {} };
      // Version 1 has the schema of the result as its second parameter.
      const isFirst = client.callTool.length < 2;
      return data(await (isFirst ? client.callTool(params, undefined, options) : client.callTool(params, options)));
    },
  });
}

function effectOf(annotations: { readOnlyHint?: boolean; destructiveHint?: boolean }): Effect {
  if (annotations.readOnlyHint) return "read_only";
  if (annotations.destructiveHint == null) return "unstated";
  return annotations.destructiveHint ? "destructive" : "additive";
}

/** The data of a result. */
function data({ content = [], structuredContent, isError }: any): unknown {
  if (isError) {
    const said = content.filter((each: any) => each.type === "text").map((each: any) => each.text);
    const parts = [
      said.join("\n"),
      structuredContent === undefined ? "" : `data: ${JSON.stringify(structuredContent)}`,
    ];
    throw new ToolError(parts.filter(Boolean).join("; ") || "the tool failed without a message");
  }
  if (structuredContent !== undefined) return structuredContent;
  if (content.length !== 1 || content[0].type !== "text") return content.length > 0 ? content : null;
  const { text } = content[0];
  if (!/^\s*[{[]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
