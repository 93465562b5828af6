// Does the tasks of tasks.mjs in three ways, compares the answers with the expected ones, and counts the characters that a model
// reads: by direct calls of the servers, by the same calls through `execbox mcp --layout passthrough`, and by code through
// `execbox mcp`. Short tasks also by a tool that `execbox mcp` exposes.
//
//   node measure.mjs EXECBOX PLACE [--json]      started by `run`
//
// PLACE has the installed servers, the data for each way in a directory of its name, and answers.json.

import { strict as assert } from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { shortTasks, tasks } from "./tasks.mjs";

const MIN_RATIO = 14; // of what a model reads by calls to what it reads by code, over all tasks
const MAX_SEARCH = 4_000; // characters of the result of a search
const START_TIMEOUT_MS = 60_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: "boolean", default: false } },
});
const [execbox, place] = positionals;
const here = dirname(fileURLToPath(import.meta.url));
const installed = createRequire(join(place, "package.json"));
const load = (module) => import(pathToFileURL(installed.resolve(`@modelcontextprotocol/sdk/client/${module}.js`)));
const { Client } = await load("index");
const { StdioClientTransport, getDefaultEnvironment } = await load("stdio");

const length = (text) => [...text].length; // Unicode characters
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const programOf = (name, data) => {
  const path = join(here, "programs", `${name}.ts`);
  return existsSync(path) ? readFileSync(path, "utf8").trim().replaceAll("DATA", data) : undefined;
};

async function connect(command, args, env) {
  const client = new Client({ name: "tasks", version: "1.0.0" });
  // Servers log to their standard error, `execbox mcp` the servers that fail.
  const stderr = command === execbox ? "inherit" : "ignore";
  const environment = { ...getDefaultEnvironment(), ...env };
  await client.connect(new StdioClientTransport({ command, args, env: environment, cwd: place, stderr }));
  return client;
}

// What a client gives to a model: names, descriptions and input schemas of all tools, and the texts of results.
async function toolsOf(client) {
  const { tools } = await client.listTools();
  return sum(tools.map(({ name, description, inputSchema }) => length(JSON.stringify({ name, description, inputSchema }))));
}
async function callTool(client, name, args) {
  const { content, isError } = await client.callTool({ name, arguments: args });
  const text = content.map((block) => block.text ?? assert.fail(`${name} returned ${block.type}`)).join("\n");
  if (isError) throw new Error(`${name} failed: ${text}\n${JSON.stringify(args).slice(0, 2_000)}`);
  return text;
}

// A conversation: counts what is read and written. Calls of one turn are independent.
class Conversation {
  #clients;

  constructor(clients, tools, data) {
    this.#clients = clients;
    this.data = data;
    this.tally = { tools, search: 0, results: 0, written: 0, calls: 0, turns: 0 };
    this.texts = {}; // characters of the result by call
  }

  async turn(calls, kind = "results") {
    this.tally.turns += 1;
    this.tally.calls += calls.length;
    const texts = await Promise.all(calls.map(([server, tool, args]) => callTool(this.#clients[server], tool, args)));
    for (const [at, [, name, args]] of calls.entries()) {
      const call = JSON.stringify({ name, arguments: args });
      this.tally.written += length(call);
      this.tally[kind] += length(texts[at]);
      this.texts[call] = length(texts[at]);
    }
    return texts;
  }
}

async function byCalls(task, servers, tools, data) {
  const model = new Conversation(servers, tools, data);
  const answer = await task.calls(model);
  return { answer, texts: model.texts, ...model.tally };
}

// Searches. Returns the pages, and those of the tools whose signatures they shorten or lack.
async function search(model, task, used) {
  const queries = task.search.map((query) => ["gateway", "mcp_search_tools", { query }]);
  const pages = await model.turn(queries, "search");
  const sections = pages.join("\n").split(/^## /m);
  const section = (tool) => sections.find((each) => each.startsWith(`${tool} `) || each.startsWith(`${tool}\n`));
  return {
    longest: Math.max(...pages.map(length)),
    missing: [...used].filter((tool) => section(tool) === undefined),
    shortened: [...used].filter((tool) => section(tool)?.includes("…")),
  };
}

// Searches; requests the signatures of the tools that it calls where the pages shorten or lack them; makes the direct calls.
async function byPassthrough(task, gateway, tools, data) {
  const model = new Conversation({ gateway }, tools, data);
  // Which tools are called is known afterwards: the calls are made first, and counted last.
  const used = new Set();
  const calls = new Conversation({ gateway }, tools, data);
  const turn = calls.turn.bind(calls);
  calls.turn = (all) => {
    for (const [server, tool] of all) used.add(`${server}.${tool.replaceAll("-", "_")}`);
    const through = ([server, tool, args]) => ["gateway", "mcp_call_tool", { tool: `${server}.${tool}`, arguments: args }];
    return turn(all.map(through));
  };
  const answer = await task.calls(calls);
  const { longest, missing, shortened } = await search(model, task, used);
  const described = [...missing, ...shortened];
  if (described.length > 0) await model.turn([["gateway", "mcp_describe_tools", { tools: described }]], "search");
  for (const [key, count] of Object.entries(calls.tally)) if (key !== "tools") model.tally[key] += count;
  return { answer, longest, texts: { ...model.texts, ...calls.texts }, ...model.tally };
}

// Calls the exposed tools, without a search.
async function byExposed(task, gateway, tools, data) {
  const model = new Conversation({ gateway }, tools, data);
  const turn = model.turn.bind(model);
  model.turn = (all) => turn(all.map(([server, tool, args]) => ["gateway", `${server}_${tool}`, args]));
  const answer = await task.calls(model);
  return { answer, texts: model.texts, ...model.tally };
}

// Searches; requests the signatures that the pages shorten and the programs use; runs the programs.
async function byCode(task, gateway, tools, data) {
  const model = new Conversation({ gateway }, tools, data);
  const programs = [programOf(`${task.name}.look`, data), programOf(task.name, data)].filter(Boolean);
  const used = new Set(programs.join("\n").match(new RegExp(`\\b(${namespaces.join("|")})\\.\\w+(?=\\()`, "g")));
  const { longest, missing, shortened } = await search(model, task, used);
  assert.deepEqual(missing, [], `${task.name}: the programs use tools that the searches do not find`);
  if (shortened.length > 0) await model.turn([["gateway", "mcp_search_tools", { describe: shortened }]], "search");

  let text;
  for (const code of programs) [text] = await model.turn([["gateway", "mcp_execute_code", { code }]]);
  return { answer: task.written ? undefined : JSON.parse(text), longest, texts: model.texts, ...model.tally };
}

const config = JSON.parse(readFileSync(join(here, "servers.json"), "utf8")).mcpServers;
const namespaces = Object.keys(config);
const expected = JSON.parse(readFileSync(join(place, "answers.json"), "utf8"));
const WAYS = ["calls", "passthrough", "code"];
const data = Object.fromEntries([...WAYS, "exposed"].map((way) => [way, join(place, way)]));

const expand = (text) => text.replaceAll("${PLACE}", place).replaceAll("${DATA}", data.calls);
const servers = {};
await Promise.all(
  Object.entries(config).map(async ([name, { command, args = [], env = {} }]) => {
    const values = Object.fromEntries(Object.entries(env).map(([key, value]) => [key, expand(value)]));
    servers[name] = await connect(expand(command), args.map(expand), values);
  }),
);
async function startGateway(way, ...options) {
  const args = ["mcp", "--config", join(here, "servers.json"), "--quiet", "--timeout", "60s", ...options];
  const gateway = await connect(execbox, args, { PLACE: place, DATA: data[way] });
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (const namespace of namespaces) {
    const search = { name: "mcp_search_tools", arguments: { namespace, limit: 1 } };
    while ((await gateway.callTool(search)).structuredContent.total === 0) {
      assert.ok(Date.now() < deadline, `no tools in ${namespace} after ${START_TIMEOUT_MS / 1000} s`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  return gateway;
}
const passthrough = await startGateway("passthrough", "--layout", "passthrough");
const gateway = await startGateway("code");
const exposing = await startGateway("exposed", ...shortTasks.flatMap(({ exposed }) => ["--expose", exposed]));

const lists = {
  calls: sum(await Promise.all(Object.values(servers).map(toolsOf))),
  passthrough: await toolsOf(passthrough),
  code: await toolsOf(gateway),
  exposed: await toolsOf(exposing),
};
const toolCounts = Object.values(servers).map(async (client) => (await client.listTools()).tools.length);
const toolCount = sum(await Promise.all(toolCounts));
const read = ({ tools, search, results }) => tools + search + results;

const played = [];
for (const task of tasks) {
  const calls = await byCalls(task, servers, lists.calls, data.calls);
  const through = await byPassthrough(task, passthrough, lists.passthrough, data.passthrough);
  const code = await byCode(task, gateway, lists.code, data.code);
  if (task.written) {
    calls.answer = await task.written((server, tool, args) => callTool(servers[server], tool, args));
    through.answer = await task.written((server, tool, args) =>
      callTool(passthrough, "mcp_call_tool", { tool: `${server}.${tool}`, arguments: args }),
    );
    code.answer = await task.written(async (server, tool, args) => {
      // The servers of the data in `code/` are behind the gateway.
      const code = `return await ${server}.${tool}(${JSON.stringify(args)})`;
      const result = JSON.parse(await callTool(gateway, "mcp_execute_code", { code }));
      return typeof result.result === "string" ? result.result : JSON.stringify(result);
    });
  }
  for (const way of [calls, through, code]) {
    way.read = read(way);
    way.correct = isDeepStrictEqual(way.answer, expected[task.name]);
    way.ratio = calls.read / way.read;
  }
  const { name, kind, question } = task;
  played.push({ name, kind, question, calls, passthrough: through, code, ratio: code.ratio });
}

const short = [];
for (const task of shortTasks) {
  const ways = {
    calls: await byCalls(task, servers, lists.calls, data.calls),
    passthrough: await byPassthrough(task, passthrough, lists.passthrough, data.passthrough),
    code: await byCode(task, gateway, lists.code, data.code),
    exposed: await byExposed(task, exposing, lists.exposed, data.exposed),
  };
  for (const way of Object.values(ways)) {
    way.read = read(way);
    way.correct = isDeepStrictEqual(way.answer, expected[task.name]);
    way.ratio = ways.calls.read / way.read;
    delete way.texts;
  }
  const { name, kind, question } = task;
  short.push({ name, kind, question, ...ways });
}

const total = Object.fromEntries(WAYS.map((way) => [way, sum(played.map((each) => each[way].read))]));
// Each task is a conversation of its own. In one conversation, the lists of tools are read once, and no call is repeated.
const once = (way) => lists[way] + sum(Object.values(Object.assign({}, ...played.map((each) => each[way].texts))));
const ratios = {
  total: total.calls / total.code,
  oneConversation: once("calls") / once("code"),
  withoutLists: (total.calls - played.length * lists.calls) / (total.code - played.length * lists.code),
};
for (const each of played) for (const way of WAYS) delete each[way].texts;
const wrong = (name, way, answer) =>
  `${name}: wrong answer by ${way}: ${JSON.stringify(answer)}, expected ${JSON.stringify(expected[name])}`;
const longestSearch = Math.max(...played.flatMap(({ passthrough, code }) => [passthrough.longest, code.longest]));
const problems = [
  ...[...played, ...short].flatMap((each) =>
    Object.keys(data).filter((way) => each[way]?.correct === false).map((way) => wrong(each.name, way, each[way].answer)),
  ),
  ...(ratios.total < MIN_RATIO ? [`the ratio is ${ratios.total.toFixed(1)}, expected at least ${MIN_RATIO}`] : []),
  ...(longestSearch > MAX_SEARCH ? [`a search has ${longestSearch} characters, expected at most ${MAX_SEARCH}`] : []),
];

if (options.json) {
  const counts = { servers: namespaces.length, tools: toolCount, lists };
  console.log(JSON.stringify({ ...counts, tasks: played, short, total, ratios, longestSearch, passed: problems.length === 0 }));
} else {
  const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, " ");
  const row = (cells) => console.log(`| ${cells.join(" | ")} |`);
  console.log(`${played.length} tasks, ${toolCount} tools of ${namespaces.length} servers, in characters\n`);
  row(["task", "way", "tools", "search", "results", "**read in all**", "written", "calls", "turns", "ratio"]);
  row(["---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:"]);
  for (const each of [...played, ...short]) {
    for (const way of Object.keys(data).filter((way) => each[way])) {
      const { tools, search, results, written, calls, turns, read } = each[way];
      const [title, ratio] = way === "calls" ? [`\`${each.name}\`: ${each.kind}`, ""] : ["", each[way].ratio.toFixed(1)];
      const counted = [tools, search, results].map(number);
      row([title, `by ${way}`, ...counted, `**${number(read)}**`, number(written), calls, turns, ratio]);
    }
  }
  const [calls, through, code] = WAYS.map((way) => number(total[way]));
  console.log(
    `\nread in all: ${calls} by calls, ${through} by passthrough, ${code} by code; ratio ${ratios.total.toFixed(1)}, expected at least ${MIN_RATIO}`,
  );
  console.log(
    `all tasks in one conversation, lists of tools and repeated calls counted once: ratio ${ratios.oneConversation.toFixed(1)}`,
  );
  console.log(`without the lists of tools: ratio ${ratios.withoutLists.toFixed(1)}`);
  console.log(`longest search: ${number(longestSearch)} of at most ${number(MAX_SEARCH)}`);
}
for (const problem of problems) console.error(`error: ${problem}`);
await Promise.all([gateway, passthrough, exposing, ...Object.values(servers)].map((client) => client.close()));
process.exit(problems.length === 0 ? 0 : 1);
