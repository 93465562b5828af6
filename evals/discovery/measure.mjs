// Asks the search tool of `execbox mcp` each query and compares the tools it returns with the acceptable ones. A query
// counts as found at k if an acceptable tool is among the first k.
//
//   node measure.mjs EXECBOX SERVERS QUERIES HELD_OUT [--misses] [--json]      started by `run`

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const GOALS = { 1: 0.7, 5: 0.9, 10: 0.95 }; // recall of all queries by k
const MAX_PAGE = 4_000; // characters of the first page, about 1 000 tokens: of its text, and of its structured content
const READY_TIMEOUT_MS = 120_000; // for all servers together

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { misses: { type: 'boolean', default: false }, json: { type: 'boolean', default: false } },
});
const [execbox, serversFile, queriesFile, heldOutFile] = positionals;

const namespaces = Object.keys(JSON.parse(readFileSync(serversFile, 'utf8')).mcpServers).map((name) => name.replaceAll('-', '_'));
const sets = { 'all queries': [], tuned: read(queriesFile), 'held out': read(heldOutFile) };
const queries = (sets['all queries'] = [...sets.tuned, ...sets['held out']]);

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
if (unknown.length > 0) fail(`these queries name tools that do not exist:\n${unknown.join('\n')}`);

for (const each of queries) {
  each.found = (await search({ query: each.query, limit: 10 })).tools;
  const index = each.found.findIndex((tool) => each.accepted.includes(tool));
  each.rank = index < 0 ? null : index + 1;
  each.page = await search({ query: each.query });
  each.page.finds = each.page.tools.some((tool) => each.accepted.includes(tool));
}

const report = {
  servers: namespaces.length,
  tools: known.size,
  sets: Object.fromEntries(Object.entries(sets).map(([name, set]) => [name, summary(set)])),
  goals: GOALS,
  pages: {
    text: distribution(queries.map(({ page }) => page.characters)),
    structured: distribution(queries.map(({ page }) => page.structured)),
    tools: distribution(queries.map(({ page }) => page.tools.length)),
  },
};
const all = report.sets['all queries'];
const reached = (k) => all.recall[k] >= GOALS[k];
report.passed = Object.keys(GOALS).every(reached) && report.pages.text.max <= MAX_PAGE && report.pages.structured.max <= MAX_PAGE;

if (options.json) {
  report.misses = queries.filter(({ rank }) => rank === null || rank > 5).map(({ page, ...each }) => each);
  console.log(JSON.stringify(report));
} else {
  console.log(`${queries.length} queries, ${known.size} tools of ${namespaces.length} servers`);
  console.log(`${''.padEnd(14)}queries  ${Object.keys(GOALS).map((k) => `recall@${k}`.padEnd(11)).join('')}first page`);
  for (const [name, { count, recall, firstPage }] of Object.entries(report.sets)) {
    const shares = Object.keys(GOALS).map((k) => recall[k].toFixed(3).padEnd(11));
    console.log(`${name.padEnd(14)}${String(count).padEnd(9)}${shares.join('')}${firstPage.toFixed(3)}`);
  }
  const goals = Object.entries(GOALS).map(([k, goal]) => `${goal.toFixed(2)}${reached(k) ? '' : ' FAIL'}`.padEnd(11));
  console.log(`${'goals'.padEnd(23)}${goals.join('')}`);
  for (const [what, { mean, median, p95, max }] of Object.entries(report.pages)) {
    const limit = what === 'tools' ? '' : ` of ${MAX_PAGE} characters${max > MAX_PAGE ? '   FAIL' : ''}`;
    console.log(`first page, ${what}: mean ${mean.toFixed(1)}, median ${median}, p95 ${p95}, max ${max}${limit}`);
  }
  if (options.misses) {
    for (const { query, accepted, found, rank } of sets.tuned.filter(({ rank }) => rank === null || rank > 5)) {
      console.log(`\n${query}\n  expected ${accepted.join(' ')} (${rank === null ? 'not found' : `at ${rank}`})\n  found    ${found.slice(0, 5).join(' ') || 'nothing'}`);
    }
  }
}
server.removeAllListeners('exit');
server.on('exit', () => process.exit(report.passed ? 0 : 1));
server.stdin.end();

function read(file) {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [query, tools] = line.split('\t');
      if (!tools) fail(`invalid line in ${file}: expected a query, a tab and tools, got "${line}"`);
      return { query, accepted: tools.split(' ') };
    });
}

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
  return {
    total,
    nextOffset,
    tools: tools.map((tool) => `${tool.namespace}.${tool.name}`),
    characters: [...result.content[0].text].length,
    structured: [...JSON.stringify(result.structuredContent)].length,
  };
}

function summary(set) {
  const share = (found) => set.filter(found).length / set.length;
  const recall = Object.keys(GOALS).map((k) => [k, share(({ rank }) => rank !== null && rank <= k)]);
  return { count: set.length, recall: Object.fromEntries(recall), firstPage: share(({ page }) => page.finds) };
}

function distribution(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const percentile = (p) => sorted[Math.ceil(p * sorted.length) - 1];
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  return { mean, median: percentile(0.5), p95: percentile(0.95), max: sorted.at(-1) };
}

function fail(message) {
  console.error(`error: ${message}`);
  server?.kill();
  process.exit(1);
}
