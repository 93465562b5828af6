// Cases of test262, the conformance tests of ECMAScript: a fixed sample of its runs. What a test expects is in its own header, so
// that no reference is run.
//
// A sloppy test and its strict variant are two runs. Tests are chosen by the hash of their names, so that each folder has its share.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

const SAMPLE = 5000;
const here = dirname(fileURLToPath(import.meta.url));

// What Execbox has not, by design: see docs/language.md. Intl has cases of its own in crates/locale. The tables of Unicode are of
// another version than those of the engines.
const FOLDERS = /^(annexB|built-ins|language|staging)\/(?!RegExp\/property-escapes\/generated\/)/;
const FEATURES = ['Atomics', 'IsHTMLDDA', 'ShadowRealm', 'SharedArrayBuffer', 'Temporal', 'cross-realm', 'decorators', 'FinalizationRegistry.prototype.cleanupSome', 'host-gc-required',
  'import-assertions', 'import-attributes', 'import-defer', 'json-modules', 'source-phase-imports', 'tail-call-optimization'];
const FLAGS = ['CanBlockIsFalse', 'CanBlockIsTrue', 'raw'];
const CODE_FROM_TEXT = /\beval\b|\b(Async)?(Generator)?Function *\(|\.constructor\(|\bevalScript\b/;
const HOST = /\$262\.(?!detachArrayBuffer\b|global\b)/;

const PRELUDE = `var $262 = { detachArrayBuffer: (buffer) => { buffer.transfer(); }, global: globalThis };
var $finished = Promise.withResolvers();
globalThis.$DONE = (error) => { error ? $finished.reject(error) : $finished.resolve(); };
`;

export function cases({ all }) {
  const script = join(here, 'fetch.py');
  const file = join(here, `tests-${hash(readFileSync(script)).slice(0, 8)}.json`);
  try {
    if (!existsSync(file)) execFileSync('python3', [script, file], { stdio: 'inherit' });
  } catch {
    console.log('test262 was NOT run: its tests could not be fetched');
    return [];
  }
  const tests = JSON.parse(readFileSync(file, 'utf8'));
  const harness = readHarness(tests);
  const found = [];
  const names = Object.keys(tests).filter((name) => FOLDERS.test(name) && !/_FIXTURE|\/(shell|browser)\.js$/.test(name));
  for (const { name } of names.map((name) => ({ name, hash: hash(name) })).sort((a, b) => (a.hash < b.hash ? -1 : 1))) {
    const each = toCase(name, tests, harness);
    if (each && found.push(each) === SAMPLE && !all) break;
  }
  return found;
}

// The files of the harness, which the archive has joined to `shell.js` of the folders that need them.
function readHarness(tests) {
  const harness = {};
  for (const name of Object.keys(tests).filter((name) => /(^|\/)shell\.js$/.test(name))) {
    for (const part of tests[name].split(/^\/\/ file: /m).slice(1)) {
      const end = part.indexOf('\n');
      harness[part.slice(0, end)] ??= part.slice(end);
    }
  }
  return harness;
}

// A test as a case; `undefined` if it is about what Execbox has not.
function toCase(name, tests, harness) {
  const source = tests[name].replace(/^\/\/ \|reftest\|.*\n/, '').replace(/\n*reportCompare\(0, 0\);\n*$/, '\n');
  const header = parse(/\/\*---\r?\n?([^]*?)---\*\//.exec(source)[1].replace(/\r\n?/g, '\n'));
  const { flags = [], features = [], negative } = header;
  const includes = ['assert.js', 'sta.js', ...(flags.includes('async') ? ['asyncHelpers.js'] : []), ...(header.includes ?? [])];
  const library = `${PRELUDE}${[...new Set(includes)].map((file) => harness[file]).join('\n')}\n`;
  const module = flags.includes('module');
  const all = `${library}${source}`;
  if (features.some((feature) => FEATURES.includes(feature)) || flags.some((flag) => FLAGS.includes(flag))) return undefined;
  if (CODE_FROM_TEXT.test(withoutComments(all)) || HOST.test(all)) return undefined;
  if (features.includes('dynamic-import') && !module) return undefined;
  if (negative?.type === 'Test262Error') return undefined; // which is no \`Error\`, so that it crosses without its name
  const strict = flags.includes('onlyStrict') || (name.endsWith('-strict.js') && name.replace(/-strict\.js$/, '.js') in tests);
  const each = { name: `test262/${name}`, language: 'javascript', expect: 'finished', fails: negative?.type, outcome: true };
  const end = flags.includes('async') ? 'await $finished.promise' : '';
  if (!module) return { ...each, script: true, source: `${strict ? '"use strict";\n' : ''}${library}${source}\n${end};\nreturn 'finished';` };
  const file = posix.basename(name);
  const globals = [...library.matchAll(/^(?:var|function|const|let) ([\w$]+)/gm)].map(([, name]) => name).join(', ');
  return {
    ...each,
    source: `import './harness.js';\nimport './${file}';\n${end};\nexport default 'finished';`,
    modules: { ...fixtures(name, tests), './harness.js': `${library}Object.assign(globalThis, { ${globals} });`, [`./${file}`]: source },
  };
}

// The modules beside a test that are no tests, by the names by which it imports them.
function fixtures(name, tests) {
  const folder = `${posix.dirname(name)}/`;
  const files = Object.keys(tests).filter((file) => file.startsWith(folder) && file.endsWith('_FIXTURE.js'));
  return Object.fromEntries(files.map((file) => [`./${file.slice(folder.length)}`, tests[file]]));
}

function hash(text) {
  return createHash('sha256').update(text).digest('hex');
}

function withoutComments(source) {
  return source.replace(/\/\*[^]*?\*\/|\/\/.*/g, '');
}
