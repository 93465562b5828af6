// Reads files of cases.
//
// A file holds many programs. A line `=== NAME` begins a program, which reaches to the next such line; its first line is
// line 1. Flags may follow the name after ` | `, separated by spaces:
//
//   module           only as a program of the module contract (`execbox run-code`)
//   script           only as a program of the script contract (`execbox run`); for node the body of an async function,
//                    in sloppy mode
//   downlevel        node gets what TypeScript makes of it for ES2022 (`using`)
//   message          the message of the error is compared, too
//   globals=JSON     globals that the program is given, without spaces (module contract)
//   expect=JSON      the result, without spaces, for programs that node 20 cannot run
//
// A line `--- ./KEY` inside of a program begins a further module of that key (module contract).
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

export function readCases(file) {
  const cases = [];
  const text = readFileSync(file, 'utf8');
  const language = file.endsWith('.ts.cases') ? 'typescript' : 'javascript';
  for (const part of text.split(/^=== /m).slice(1)) {
    const end = part.indexOf('\n');
    const [name, flags = ''] = part.slice(0, end).split(' | ');
    const [source, ...others] = part.slice(end + 1).split(/^--- /m);
    const each = { name: `${basename(file).replace(/\..*/, '')}/${name.trim()}`, language, source: source.replace(/\n+$/, '') };
    for (const other of others) {
      const end = other.indexOf('\n');
      (each.modules ??= {})[other.slice(0, end).trim()] = other.slice(end + 1);
    }
    for (const flag of flags.trim() === '' ? [] : flags.trim().split(/ +/)) {
      const [key, ...value] = flag.split('=');
      if (!['module', 'script', 'downlevel', 'message', 'globals', 'expect'].includes(key)) {
        throw new Error(`${file}: unknown flag "${flag}" of "${name}"`);
      }
      each[key] = value.length > 0 ? JSON.parse(value.join('=')) : true;
    }
    cases.push(each);
  }
  return cases;
}

// The contracts under which a case runs.
export function contractsOf(each) {
  if (each.script) return ['script'];
  if (each.module || each.globals || each.modules) return ['module'];
  return ['module', 'script'];
}

// Fails if two cases have the same name.
export function checkNames(cases) {
  const names = new Set();
  for (const { name } of cases) {
    if (names.has(name)) throw new Error(`two cases are named "${name}"`);
    names.add(name);
  }
}
