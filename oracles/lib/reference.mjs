// Runs cases on node: JavaScript as it is, TypeScript as the TypeScript compiler emits it. Each case has its own context
// with ECMAScript, `console`, `structuredClone` and `queueMicrotask` only.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import vm from 'node:vm';
import { LEAST_UPPER_BOUND, TraceMap, originalPositionFor } from '@jridgewell/trace-mapping';
import ts from 'typescript';
import { encode, formatLog } from './values.mjs';

const FILE = 'case.js';
const TIMEOUT_MS = 20_000;

function transpile(each, source, file) {
  const output = ts.transpileModule(source, {
    fileName: file,
    reportDiagnostics: true,
    compilerOptions: {
      target: each.downlevel ? ts.ScriptTarget.ES2022 : ts.ScriptTarget.ESNext,
      module: ts.ModuleKind.ESNext,
      isolatedModules: true,
      useDefineForClassFields: true,
      sourceMap: true,
    },
  });
  const [first] = output.diagnostics ?? [];
  if (first) {
    const { line, character } = first.file.getLineAndCharacterOfPosition(first.start);
    const message = ts.flattenDiagnosticMessageText(first.messageText, '\n');
    return { error: { name: 'SyntaxError', message, file: FILE, line: line + 1, column: character + 1 } };
  }
  return { code: output.outputText, map: new TraceMap(output.sourceMapText) };
}

// The places in the program and its modules that a stack names, innermost first.
function placesOf(error) {
  let stack;
  try {
    stack = typeof error === 'object' ? error?.stack : undefined;
  } catch {}
  if (typeof stack !== 'string') return [];
  const syntax = /^case\.js:(\d+)\n.*\n([ \t]*)\^/.exec(stack);
  if (syntax) return [{ file: FILE, line: +syntax[1], column: syntax[2].length + 1 }];
  const places = [];
  for (const line of stack.split('\n')) {
    const frame = /^ {4}at .*?\(?((?:case|\.\/[\w./-]+)\.[jt]s):(\d+):(\d+)\)?$/.exec(line);
    if (frame) places.push({ file: frame[1], line: +frame[2], column: +frame[3] });
  }
  return places;
}

// Maps a position in emitted code to the TypeScript; `undefined` for code that the compiler added.
function mapped(map, place) {
  if (!map || place.file !== FILE) return place;
  const needle = { line: place.line, column: place.column - 1 };
  let original = originalPositionFor(map, needle);
  if (!original.line && place.column === 1) original = originalPositionFor(map, { ...needle, bias: LEAST_UPPER_BOUND });
  return original.line ? { ...place, line: original.line, column: original.column + 1 } : undefined;
}

// The position of a syntax error of a module, which node prints to its standard error only.
function placesOfSyntaxError(code) {
  const directory = mkdtempSync(join(tmpdir(), 'oracles-'));
  const file = join(directory, 'case.mjs');
  writeFileSync(file, code);
  try {
    execFileSync(process.execPath, ['--check', file], { encoding: 'utf8', stdio: 'pipe' });
  } catch (failure) {
    // The line, its text, and blanks up to the column: then a caret, but not at the end of the source. Nothing below the text
    // where a comment does not end.
    const found = /case\.mjs:(\d+)\n.*\n([ \t]*)(\^?)/.exec(failure.stderr);
    if (found) return [{ file: FILE, line: +found[1], column: found[2] + found[3] === '' ? undefined : found[2].length + 1 }];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return [];
}

// Runs code in a context of its own.
async function evaluate(each, code) {
  const logs = [];
  const lines = [];
  const log = (level) => (...args) => {
    lines.push(formatLog(args));
    logs.push({ level, args: args.map((arg) => encode(arg, true)) });
  };
  const console = Object.fromEntries(['log', 'info', 'warn', 'error', 'debug'].map((level) => [level, log(level)]));
  const context = vm.createContext({ console, structuredClone, queueMicrotask });
  vm.runInContext(
    `for (const name of ['dispose', 'asyncDispose']) {
      if (!Symbol[name]) Object.defineProperty(Symbol, name, { value: Symbol('Symbol.' + name) });
    }
    for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'Intl']) delete globalThis[name];`,
    context,
  );
  for (const [name, value] of Object.entries(each.globals ?? {})) {
    context[name] = vm.runInContext(`(${JSON.stringify(value)})`, context);
  }
  try {
    let value;
    if (each.script) {
      const script = new vm.Script(`(async function () {${code}\n})`, { filename: FILE, columnOffset: -'(async function () {'.length });
      value = await script.runInContext(context, { timeout: TIMEOUT_MS })();
    } else {
      const modules = new Map();
      const load = (specifier) => {
        if (modules.has(specifier)) return modules.get(specifier);
        const source = each.modules?.[specifier];
        if (source === undefined) throw new SyntaxError(`cannot find module ${specifier}`);
        const code = each.language === 'typescript' ? transpile(each, source, specifier.slice(2)).code : source;
        const module = new vm.SourceTextModule(code, { context, identifier: specifier, importModuleDynamically: dynamic });
        modules.set(specifier, module);
        return module;
      };
      const dynamic = async (specifier) => {
        if (each.modules?.[specifier] === undefined) {
          throw vm.runInContext(`new TypeError('cannot find module')`, context);
        }
        const module = load(specifier);
        if (module.status === 'unlinked') await module.link(load);
        if (module.status === 'linked') await module.evaluate({ timeout: TIMEOUT_MS });
        return module;
      };
      const module = new vm.SourceTextModule(code, {
        context,
        identifier: FILE,
        importModuleDynamically: dynamic,
      });
      await module.link(load);
      await module.evaluate({ timeout: TIMEOUT_MS });
      if (!('default' in module.namespace)) return { ok: true, value: { $undefined: true }, noDefault: true, logs, lines };
      value = module.namespace.default;
    }
    if (typeof value === 'function') value = value();
    value = await value;
    return { ok: true, value: encode(value), logs, lines };
  } catch (thrown) {
    return { ok: false, thrown, logs, lines };
  }
}

// Runs code again and returns where the debugger saw the last exception that is not an `Error`.
async function whereThrown(each, code) {
  const session = new Session();
  const scripts = new Set();
  let place;
  session.connect();
  session.on('Debugger.scriptParsed', ({ params }) => {
    if (params.url === FILE) scripts.add(params.scriptId);
  });
  session.on('Debugger.paused', ({ params }) => {
    const frame = params.callFrames.find((frame) => scripts.has(frame.location.scriptId));
    if (frame) place = { file: FILE, line: frame.location.lineNumber + 1, column: frame.location.columnNumber + 1 };
  });
  session.post('Debugger.enable');
  session.post('Debugger.setPauseOnExceptions', { state: 'all' });
  try {
    await evaluate(each, code);
  } finally {
    session.disconnect();
  }
  return place ? [place] : [];
}

// Runs a module in node's own realm, with everything that node has.
async function importModule(each) {
  const directory = mkdtempSync(join(tmpdir(), 'oracles-'));
  try {
    writeFileSync(join(directory, 'case.mjs'), each.source);
    const { default: value } = await import(join(directory, 'case.mjs'));
    return { ok: true, value: encode(await value), logs: [], lines: [] };
  } catch ({ name, message }) {
    return { ok: false, error: { name, message }, logs: [], lines: [] };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

// The outcome of a case: `{ ok, value, logs, lines }`, or `{ ok: false, error: { name, message, line, column }, logs, lines }`.
export async function runOnNode(each) {
  if (each.fails) return { ok: false, error: { name: each.fails }, logs: [], lines: [] };
  if ('expect' in each) return { ok: true, value: each.expect, logs: [], lines: [] };
  if (each.import) return importModule(each);
  const typescript = each.language === 'typescript';
  let code = each.source;
  let map;
  if (typescript || each.downlevel) {
    const output = transpile(each, each.source, typescript ? 'case.ts' : 'case.js');
    if (output.error) return { ok: false, error: output.error, logs: [], lines: [] };
    ({ code, map } = output);
  }
  const outcome = await evaluate(each, code);
  if (outcome.ok) return outcome;
  const { thrown, logs, lines } = outcome;
  const isObject = typeof thrown === 'object' && thrown !== null;
  const isSyntaxError = isObject && thrown.name === 'SyntaxError' && !each.script;
  let places = placesOf(thrown);
  if (places.length === 0) places = isSyntaxError ? placesOfSyntaxError(code) : await whereThrown(each, code);
  const place = places.map((place) => mapped(map, place)).find((place) => place !== undefined);
  const error = { ...place };
  if (isObject && Object.prototype.toString.call(thrown) === '[object Error]') {
    error.name = String(thrown.name);
    error.message = String(thrown.message);
  }
  return { ok: false, error, logs, lines };
}
