// Asks the search tool of `execbox mcp` each query of queries.tsv and compares the tools it returns with the acceptable
// ones. A query counts as found at k if an acceptable tool is among the first k.
//
//   node measure.mjs EXECBOX SERVERS QUERIES [--misses] [--json]      started by `run`

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const GOALS = { 1: 0.6, 5: 0.85, 10: 0.93 }; // recall by k
const MAX_PAGE = 4_000; // characters of the first page, about 1 000 tokens
const READY_TIMEOUT_MS = 120_000; // for all servers together

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { misses: { type: 'boolean', default: false }, json: { type: 'boolean', default: false } },
});
const [execbox, serversFile, queriesFile] = positionals;

const namespaces = Object.keys(JSON.parse(readFileSync(serversFile, 'utf8')).mcpServers).map((name) => name.replaceAll('-', '_'));
const queries = readFileSync(queriesFile, 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const [query, tools] = line.split('\t');
    if (!tools) fail(`invalid line in ${queriesFile}: expected a query, a tab and tools, got "${line}"`);
    return { query, accepted: tools.split(' ') };
  });

// A client: JSON-RPC, one message a line.
const server = spawn(execbox, ['mcp', '--config', serversFile, '--layout', 'split', '--quiet'], { stdio: ['pipe', 'pipe', 'inherit'] });
server.on('error', (error) => fail(`cannot start ${execbox}: ${error.message}`));
server.on('exit', (code) => fail(`execbox exited with ${code}`));
const waiting = new Map();
createInterface({ input: server.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
  waiting.delete(message.id);
});
let lastId = 0;
function send(message) {
  server.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
}
async function request(method, params) {
  const id = ++lastId;
  const response = await new Promise((resolve) => {
    waiting.set(id, resolve);
    send({ id, method, params });
  });
  if (response.error) fail(`${method} failed: ${response.error.message}`);
  return response.result;
}
async function search(input) {
  const result = await request('tools/call', { name: 'mcp_search_tools', arguments: input });
  if (result.isError) fail(`search for ${JSON.stringify(input)} failed: ${result.content[0].text}`);
  const { total, nextOffset, tools } = result.structuredContent;
  return { total, nextOffset, tools: tools.map((tool) => `${tool.namespace}.${tool.name}`), text: result.content[0].text };
}

await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'discovery', version: '1' } });
send({ method: 'notifications/initialized' });

const deadline = Date.now() + READY_TIMEOUT_MS;
const known = new Set();
for (const namespace of namespaces) {
  while ((await search({ namespace, limit: 1 })).total === 0) {
    if (Date.now() > deadline) fail(`no tools in \`${namespace}\` after ${READY_TIMEOUT_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  let page = { nextOffset: 0 };
  while (page.nextOffset != null) {
    page = await search({ namespace, limit: 50, offset: page.nextOffset });
    for (const tool of page.tools) known.add(tool);
  }
}

const unknown = queries.flatMap(({ query, accepted }) => accepted.filter((tool) => !known.has(tool)).map((tool) => `"${query}": ${tool}`));
if (unknown.length > 0) fail(`queries.tsv names tools that do not exist:\n${unknown.join('\n')}`);

const characters = [];
for (const each of queries) {
  each.found = (await search({ query: each.query, limit: 10 })).tools;
  const index = each.found.findIndex((tool) => each.accepted.includes(tool));
  each.rank = index < 0 ? null : index + 1;
  characters.push([...(await search({ query: each.query })).text].length);
}
characters.sort((a, b) => a - b);
const percentile = (p) => characters[Math.ceil(p * characters.length) - 1];
const recall = Object.fromEntries(
  Object.keys(GOALS).map((k) => [k, queries.filter(({ rank }) => rank !== null && rank <= k).length / queries.length]),
);
const passed = Object.entries(GOALS).every(([k, goal]) => recall[k] >= goal) && characters.at(-1) <= MAX_PAGE;
const misses = queries.filter(({ rank }) => rank === null || rank > 5);

if (options.json) {
  const page = { median: percentile(0.5), p95: percentile(0.95), max: characters.at(-1) };
  console.log(JSON.stringify({ servers: namespaces.length, tools: known.size, queries: queries.length, recall, goals: GOALS, characters: page, misses, passed }));
} else {
  console.log(`${queries.length} queries, ${known.size} tools of ${namespaces.length} servers`);
  for (const [k, goal] of Object.entries(GOALS)) {
    const verdict = recall[k] >= goal ? '' : '   FAIL';
    console.log(`recall@${k.padEnd(4)}${recall[k].toFixed(3)}   goal ${goal.toFixed(2)}${verdict}`);
  }
  console.log(`first page, in characters: median ${percentile(0.5)}, p95 ${percentile(0.95)}, max ${characters.at(-1)} of ${MAX_PAGE}`);
  if (options.misses) {
    for (const { query, accepted, found, rank } of misses) {
      console.log(`\n${query}\n  expected ${accepted.join(' ')} (${rank === null ? 'not found' : `at ${rank}`})\n  found    ${found.slice(0, 5).join(' ') || 'nothing'}`);
    }
  }
}
server.removeAllListeners('exit');
server.on('exit', () => process.exit(passed ? 0 : 1));
server.stdin.end();

function fail(message) {
  console.error(`error: ${message}`);
  server?.kill();
  process.exit(1);
}
