// Runs programs on node and on execbox, and compares: see README.md.
//
//   node --experimental-vm-modules oracles.mjs [OPTION...] [ORACLE...]
//
//   --engine ENGINE   run the cases on that engine of execbox: quickjs, the default, or v8
//   --only TEXT       run the cases whose name contains TEXT
//   --all             run all of test262, not the sample
//   --verbose         print the outcome of every case on both sides
//   --record          write positions/table.md
//   --list-columns    list every difference in the column alone in positions/expected-differences.json
//
// EXECBOX is the path of the binary, SOURCE the directory of the files that `--record` and `--list-columns` write.
import { availableParallelism } from 'node:os';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkNames, contractsOf, readCases } from './lib/cases.mjs';
import { differences } from './lib/compare.mjs';
import { runOnNode } from './lib/reference.mjs';
import { ModuleContract, ScriptContract } from './lib/subject.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const source = process.env.SOURCE ?? here;
const execbox = process.env.EXECBOX ?? 'execbox';
const LANES = Math.min(2, availableParallelism());

const { values: options, positionals: chosen } = argumentsOf(process.argv.slice(2));
const { verbose, only, engine, record, all, 'list-columns': columns } = options;

const files = (name) => readdirSync(join(here, name)).filter((file) => file.endsWith('.cases')).sort()
  .map((file) => join(here, name, file));
const written = (name) => files(name).flatMap(readCases);

const oracles = {
  typescript: { cases: () => written('typescript') },
  javascript: {
    async cases() {
      const { generate } = await import('./javascript/generate.mjs');
      return [...written('javascript'), ...generate()];
    },
  },
  positions: { cases: () => written('positions'), column: true },
  programs: { cases: () => written('programs') },
  libraries: { cases: async () => (await import('./libraries/bundle.mjs')).cases() },
  test262: { cases: async () => (await import('./test262/cases.mjs')).cases({ all }), partial: !all },
};

const unknown = chosen.filter((name) => !(name in oracles));
if (unknown.length > 0) fail(`unknown oracle: ${unknown.join(', ')}; there are: ${Object.keys(oracles).join(', ')}`);

function argumentsOf(args) {
  const options = Object.fromEntries(['verbose', 'record', 'all', 'list-columns'].map((name) => [name, { type: 'boolean' }]));
  Object.assign(options, { only: { type: 'string' }, engine: { type: 'string', default: 'quickjs' } });
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    return fail(error.message);
  }
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(2);
}

// Gives every item to `work`, some at a time; the results in order.
async function inLanes(items, work) {
  const results = [];
  let next = 0;
  await Promise.all(Array.from({ length: LANES }, async (_, lane) => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index], lane);
    }
  }));
  return results;
}

// Runs the cases of an oracle: `[{ key, name, contract, node, execbox, found }]`.
async function run({ cases, column }) {
  const list = (await cases()).filter(({ name }) => only === undefined || name.includes(only));
  checkNames(list);
  const modules = new ModuleContract(execbox, engine);
  const scripts = Array.from({ length: LANES }, () => new ScriptContract(execbox, engine));
  const nodes = [];
  const ours = inLanes(list, async (each, lane) => {
    const outcomes = {};
    for (const contract of contractsOf(each)) {
      outcomes[contract] = await (contract === 'module' ? modules : scripts[lane]).run(each);
    }
    return outcomes;
  });
  for (const each of list) {
    nodes.push(await runOnNode(each));
    await new Promise(setImmediate);
  }
  const results = (await ours).flatMap((outcomes, index) =>
    Object.entries(outcomes).map(([contract, outcome]) => ({
      name: list[index].name,
      contract,
      node: nodes[index],
      execbox: outcome,
      found: differences(list[index], contract, nodes[index], outcome, { column }),
    })),
  );
  modules.close();
  for (const each of scripts) each.close();
  return { list, results };
}

// All listed differences: `{ case, contract?, engine?, aspects, reason }`.
function allListed(name) {
  const file = join(source, name, 'expected-differences.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
}

// Those of this engine: an entry without an engine is one of each.
const isHere = (entry) => (entry.engine ?? engine) === engine;
const listed = (name) => allListed(name).filter(isHere);

let passed = 0;
let failed = 0;
const table = [];
const unexpected = [];
process.on('unhandledRejection', () => {}); // those of the programs
for (const [name, oracle] of Object.entries(oracles)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  const started = Date.now();
  const { list: cases, results } = await run(oracle);
  if (columns && oracle.column) listColumns(cases, name, results);
  const list = listed(name);
  const used = new Set();
  let equal = 0;
  let expected = 0;
  let failures = 0;
  for (const { name: each, contract, node, execbox, found } of results) {
    if (verbose) console.log(`${name} ${each} ${contract} ${JSON.stringify(node)} ${JSON.stringify(execbox)}`);
    const entry = list.find((entry) => entry.case === each && (entry.contract ?? contract) === contract);
    const same = entry && JSON.stringify([...entry.aspects].sort()) === JSON.stringify(found.map(({ aspect }) => aspect).sort());
    if (entry) used.add(entry);
    if (found.length === 0 && !entry) {
      equal++;
    } else if (same) {
      expected++;
    } else {
      failures++;
      const text = found.map(({ aspect, node, execbox }) => `  ${aspect}\n    node:    ${node}\n    execbox: ${execbox}`);
      if (entry) text.unshift(`  listed as different in: ${entry.aspects.join(', ')}${found.length === 0 ? '; it is equal now: remove the entry' : ''}`);
      unexpected.push(`FAIL  ${name}: ${each} (${contract})\n${text.join('\n')}`);
    }
  }
  if (only === undefined && !oracle.partial) {
    for (const entry of list.filter((entry) => !used.has(entry))) {
      failures++;
      unexpected.push(`FAIL  ${name}: ${entry.case}: listed as different, and no such case`);
    }
  }
  if (record && name === 'positions') recordPositions(results);
  passed += equal + expected;
  failed += failures;
  table.push({ name, count: cases.length, runs: results.length, equal, expected, failures, seconds: ((Date.now() - started) / 1000).toFixed(1) });
}

for (const text of unexpected) console.log(text);
console.log('\n| oracle | cases | runs | equal | listed differences | failed | seconds |\n|---|---|---|---|---|---|---|');
for (const { name, count, runs, equal, expected, failures, seconds } of table) {
  console.log(`| ${name} | ${count} | ${runs} | ${equal} | ${expected} | ${failures} | ${seconds} |`);
}
console.log(`${passed} passed, ${failed} failed`);
if (passed + failed === 0) fail('no case is selected');
process.exitCode = failed > 0 ? 1 : 0;

// Writes where node and execbox place each error to positions/table.md.
function recordPositions(results) {
  const at = ({ ok, error }) => (ok ? 'no error' : error.line === undefined ? '-' : `${error.file === 'case.js' ? '' : `${error.file}:`}${error.line}:${error.column}`);
  const rows = [...new Set(results.map(({ name }) => name))].map((name) => results.filter((run) => run.name === name)).map((runs) => {
    const of = (contract) => runs.find((run) => run.contract === contract);
    const cell = (contract) => (of(contract) ? at(of(contract).execbox) : '');
    return `| ${runs[0].name.replace('statements/', '')} | ${at(runs[0].node)} | ${cell('module')} | ${cell('script')} |`;
  });
  const head = 'Where an error is placed, as line:column. Written by `oracles/run positions --record`.\n\n| failing statement | node | module | script |\n|---|---|---|---|\n';
  writeFileSync(join(source, 'positions/table.md'), `${head}${rows.join('\n')}\n`);
}

// Lists the differences that are in the column alone. Entries about other aspects stay as they are.
function listColumns(list, oracle, results) {
  const here = listed(oracle).filter(({ aspects }) => aspects.join() !== 'column');
  const kept = [...allListed(oracle).filter((entry) => !isHere(entry)), ...here];
  for (const { name, contract, node, found } of results) {
    if (found.map(({ aspect }) => aspect).join() !== 'column') continue;
    if (here.some((entry) => entry.case === name && (entry.contract ?? contract) === contract)) continue;
    const both = results.filter((other) => other.name === name).every((other) => other.found.map(({ aspect }) => aspect).join() === 'column');
    if (both && here.some((entry) => entry.case === name)) continue;
    const text = list.find((each) => each.name === name).source.split('\n')[node.error.line - 1].slice(node.error.column - 1);
    kept.push({ case: name, ...(both ? {} : { contract }), engine, aspects: ['column'], reason: columnReason(text) });
  }
  writeFileSync(join(source, oracle, 'expected-differences.json'), `${JSON.stringify(kept, null, 2)}\n`);
}

// What node places an error at, by the text there.
function columnReason(text) {
  if (/^new\b/.test(text)) return 'node places the error at `new`';
  if (/^(\+\+|--)/.test(text)) return 'node places the error at the operator of the update';
  if (/^[-+*/%&|^?<>]*=(?!=)/.test(text)) return 'node places the error at the operator of the assignment';
  if (/^([-+*/%<>&|^!=]|in\b|instanceof\b)/.test(text)) return 'node places the error at the operator';
  if (/^[[(`]/.test(text)) return 'node places the error at the bracket of the call or access';
  if (/^#?[\p{ID_Start}$_][\p{ID_Continue}$]*\s*\(/u.test(text)) return 'node places the error at the name of what is called';
  if (/^(return|typeof|delete|throw|yield|await)\b/.test(text)) return 'node places the error at the keyword of the statement or operation';
  return 'node places the error at another part of the expression';
}
