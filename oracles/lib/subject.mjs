// Runs cases on execbox: as modules in a process each (`execbox run-code`), as scripts over the runner protocol
// (`execbox runner`).
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { normalize } from './values.mjs';

const TIMEOUT_MS = 20_000;

// The place of an error, in whichever form it is given. Files are named as node names them: `case.js` and `./lib.js`.
function placeOf(error, entry) {
  const named = (file) => (file === undefined || file === entry || file === '<script>' ? 'case.js' : `./${file.replace(/^\.\//, '')}`);
  if (error.position) {
    const file = error.position.file ?? error.filename ?? error.stack?.[0]?.file;
    return { file: named(file), line: error.position.line, column: error.position.column };
  }
  if (error.line !== undefined) return { file: named(error.filename), line: error.line, column: error.column };
  const text = `${typeof error.stack === 'string' ? error.stack : ''}\n${error.message ?? ''}`;
  const frame = /^ {4}at (?:.*\()?(\S+?):(\d+):(\d+)\)?$/m.exec(text);
  return frame ? { file: named(frame[1]), line: +frame[2], column: +frame[3] } : {};
}

// Runs a case as a module.
export class ModuleContract {
  constructor(execbox, engine) {
    this.execbox = execbox;
    this.engine = engine;
    this.directory = mkdtempSync(join(tmpdir(), 'oracles-'));
    this.count = 0;
  }

  async run(each) {
    const file = each.language === 'typescript' ? 'case.ts' : 'case.js';
    const program = join(this.directory, `${++this.count}`);
    writeFileSync(program, each.source);
    const args = ['run-code', '--engine', this.engine, '--json', '--language', each.language, '--filename', file, '--timeout', `${TIMEOUT_MS}ms`];
    if (each.memory) args.push('--memory', each.memory);
    if (each.globals || each.modules) {
      writeFileSync(`${program}.json`, JSON.stringify({ globals: each.globals ?? {}, modules: each.modules ?? {} }));
      args.push('--options', `${program}.json`);
    }
    const output = await new Promise((resolve) => {
      execFile(this.execbox, [...args, program], { maxBuffer: 1 << 28 }, (error, stdout, stderr) => resolve({ stdout, stderr }));
    });
    let json;
    try {
      json = JSON.parse(output.stdout);
    } catch {
      throw new Error(`${each.name}: execbox printed no JSON: ${output.stdout.slice(0, 200)}${output.stderr.slice(0, 500)}`);
    }
    const logs = json.logs.map(({ level, args }) => ({ level, args: args.map(normalize) }));
    if (json.status === 'success') {
      return { ok: true, value: 'result' in json ? normalize(json.result) : { $undefined: true }, logs };
    }
    const { name, message } = json.error;
    return { ok: false, status: json.status, error: { name, message, ...placeOf(json.error, file) }, logs };
  }

  close() {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

// Runs a case as a script.
export class ScriptContract {
  constructor(execbox, engine) {
    this.execbox = execbox;
    this.engine = engine;
    this.id = 0;
    this.waiting = new Map();
  }

  start() {
    this.child = spawn(this.execbox, ['runner', '--engine', this.engine], { stdio: ['pipe', 'pipe', 'inherit'] });
    let rest = '';
    this.child.stdout.setEncoding('utf8').on('data', (text) => {
      const lines = (rest + text).split('\n'); // `readline` would break lines at U+2028, too
      rest = lines.pop();
      for (const message of lines.map((line) => JSON.parse(line))) {
        if (message.type === 'done') this.waiting.get(message.id)?.(message);
      }
    });
    this.child.on('exit', () => {
      for (const resolve of this.waiting.values()) resolve({ ok: false, logs: [], error: { code: 'internal_error', message: 'the runner ended' } });
      this.child = undefined;
    });
  }

  async run(each) {
    if (!this.child) this.start();
    const id = `${++this.id}`;
    const options = { timeoutMs: TIMEOUT_MS };
    const done = await new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.child.stdin.write(`${JSON.stringify({ type: 'execute', id, code: each.source, options, providers: [], commonGlobals: true })}\n`);
    });
    this.waiting.delete(id);
    const lines = done.logs.map((line) => (typeof line === 'string' ? line : line.message ?? line.text));
    if (done.ok) return { ok: true, result: 'result' in done ? { value: done.result } : {}, lines };
    const { code, message } = done.error;
    const name = done.error.name ?? /^([A-Za-z_$][\w$]*)(: |\n|$)/.exec(message)?.[1];
    return { ok: false, status: code, error: { name, message, ...placeOf(done.error, '<script>') }, lines };
  }

  close() {
    this.child?.stdin.end();
  }
}
