// Programs about what engines optimize: variables before their initialization, and numbers beside the limits of integers.

const NAMES = ['a', 'b', 'c', 'd'];

const reading = (r, depth = 0) => {
  const inner = () => (depth < 3 ? reading(r, depth + 1) : String(r.int(0, 9)));
  const name = r.pick(NAMES);
  return r.pick([() => name, () => name, () => name, () => String(r.int(0, 9)), () => `(${name} = ${inner()})`, () => `attempt(() => ${name})`, () => `${name}++`,
    () => `(${name} += ${inner()})`, () => `(${inner()} ${r.pick(['+', '<', '===', '&&', '||', '??', '|'])} ${inner()})`])();
};

const use = (r) => `log(${reading(r)});`;

// Declares a name that is not among `names`, the ones of this block. Left out is where QuickJS
// differs: assignments to constants before their initialization, and heads of loops that use their own variable.
const declaration = (r, names) => {
  const name = r.pick(NAMES);
  if (names.has(name)) return use(r);
  names.add(name);
  return r.pick([
    () => `let ${name} = ${reading(r)};`,
    () => `let ${name} = ${reading(r)};`,
    () => `let ${name};`,
    () => `let { ${name} = ${reading(r)} } = { ${name}: ${r.pick(['undefined', reading(r)])} };`,
    () => `let [${name} = ${reading(r)}] = [${reading(r)}];`,
    () => `class ${name} { static field = ${reading(r)}; static { log(${reading(r)}); } }`,
    () => `function ${name}() { return ${reading(r)}; }`,
    () => `let ${name} = (() => ${reading(r)})();`,
  ])();
};

const block = (r, depth, inLoop, reserved = []) => {
  const names = new Set(reserved);
  return `{ ${r.list(1, 4, () => statement(r, depth + 1, names, inLoop)).join(' ')} }`;
};

const statement = (r, depth, names, inLoop) => {
  if (depth > 3 || r.chance(0.5)) return r.chance(0.5) ? declaration(r, names) : use(r);
  const id = r.int(0, 1e9);
  const name = r.pick(NAMES);
  const cases = () => {
    const declared = new Set();
    return r.list(1, 4, (i) => `${i === 2 ? 'default' : `case ${r.pick([i, reading(r, 2)])}`}: ${r.list(0, 2, () => statement(r, depth + 1, declared, inLoop)).join(' ')} ${r.pick(['break;', ''])}`).join(' ');
  };
  return r.pick([
    () => `if (${reading(r)}) ${block(r, depth, inLoop)} else ${block(r, depth, inLoop)}`,
    () => `for (let ${name} = ${reading(r)}, n${id} = 0; n${id}++ < 3; ${reading(r)}) ${block(r, depth, true)}`,
    () => `for (let ${name} of [${r.int(0, 9)}, , ${r.int(0, 9)}]) ${block(r, depth, true)}`,
    () => `for (let [${name} = ${r.int(0, 9)}] of [[1], []]) ${block(r, depth, true)}`,
    () => `for (let ${name} in { x: 1, y: 2 }) ${block(r, depth, true)}`,
    () => `switch (${r.pick(['turn++ % 4', reading(r)])}) { ${cases()} }`,
    () => `try ${block(r, depth, inLoop)} catch (error) { log(error.name); ${use(r)} }`,
    () => `try ${block(r, depth, inLoop)} catch (${name}) ${block(r, depth, inLoop, [name])} finally ${block(r, depth, inLoop)}`,
    () => `label${id}: { if (${reading(r)}) break label${id}; ${declaration(r, new Set())} ${use(r)} }`,
    () => (inLoop ? `if (${reading(r)}) ${r.pick(['break', 'continue'])};` : block(r, depth, inLoop)),
  ])();
};

export function initialization(r) {
  const functions = r.list(12, 20, (i) => {
    const [parameters, names, argument] = r.pick([['p', [], '1'], ['p = a, a', ['a'], 'undefined, 2'], ['{ a = 1, b = a }', ['a', 'b'], '{}'], ['[c] = [1], d = c', ['c', 'd'], '']]);
    const declared = new Set(names);
    const star = r.pick(['', '', '*']);
    const body = r.list(2, 6, () => statement(r, 0, declared, false)).join('\n  ');
    return `run(() => {\n  'use strict';\n  let a, b, c, d;\n  function${star} f(${parameters}) {\n  ${body}\n  }\n  return ${star ? `[...f(${argument})].length` : `f(${argument})`};\n});`;
  });
  return `const result = [];
let turn = 0;
let line = [];
const log = (value) => { line.push(['function', 'object', 'string'].includes(typeof value) ? typeof value : String(value)); if (line.length > 60) throw new RangeError('long'); };
const attempt = (read) => { try { return read(); } catch (error) { return error.name; } };
const run = (f) => { line = []; try { log(f()); } catch (error) { line.push(error.name); } result.push(line.join()); };
${functions.join('\n')}
export default result;`;
}

const NUMBERS = ['0', '-0', '1', '-1', '2147483647', '-2147483648', '2147483648', '-2147483649', '4294967295', '4294967296', '0.5', '-0.5', '1e21', '2 ** 53', '-(2 ** 53)', 'NaN', 'Infinity',
  '-Infinity', '5e-324', '1.7976931348623157e308', '65536', '-65537.75', '31', '32', '33'];
const VALUES = [...NUMBERS, 'null', 'undefined', 'true', 'false', '"1"', '""', '"x"', '[]', 'shared', '10n', '-1n'];
const OPERATORS = ['+', '-', '*', '/', '%', '&', '|', '^', '<<', '>>', '>>>', '<', '<=', '>', '>=', '==', '!=', '===', '!=='];

export function arithmetic(r) {
  const tests = r.list(60, 90, () => {
    const [x, y, operator] = [r.pick(r.chance(0.8) ? NUMBERS : VALUES), r.pick(r.chance(0.8) ? NUMBERS : VALUES), r.pick(OPERATORS)];
    return r.pick([
      () => `(x, y) => x ${operator} y`,
      () => `(x, y) => { if (x ${operator} y) return 'yes'; return 'no'; }`,
      () => `(x, y) => (x ${operator} y ? 'yes' : 'no')`,
      () => `(x, y) => { let i = 0; while (i < 3 && !(x ${operator} y)) i++; return i; }`,
      () => `(x, y) => { let sum = x; for (let i = 0; i < 4; i++) sum += y; return sum; }`,
      () => `(x, y) => { let z = x; z++; z += y; z--; return z; }`,
      () => `(x, y) => [~x, -x, +!y, x | 0, y >>> 0]`,
    ])().concat(`, () => [${x}, ${y}]`);
  });
  return `const result = [];
const shared = {};
const show = (value) => (Array.isArray(value) ? value.map(show).join() : Object.is(value, -0) ? '-0' : typeof value === 'bigint' ? value + 'n' : String(value));
const test = (f, values) => { try { result.push(show(f(...values()))); } catch (error) { result.push(error.name); } };
${tests.map((text) => `test(${text});`).join('\n')}
export default result;`;
}

// Without `(?<!` and the flag u: there node looks inside of surrogate pairs.
const ATOMS = ['a', 'b', '(a)', '(b)?', '(?<x>a)', '.', '\\d', '[a-c]', '(a|(b))', '^', '$', '\\b', '(?=a)', '(?:)', 'é', '\u{1F600}', '(.)', '\\1', 'c*'];
const REPLACEMENTS = ['', 't', '$&', '$1', '$2', '$01', '$10', '$11', '$$', '$`', "$'", '$<x>', '$<', '$<x', '$0', '$', '[$1-$2]', '$99', 'é$&', '\u{1F600}'];
const TEXTS = ['', 'a', 'ab', 'abcabc', 'aXb1', 'éaé', '\u{1F600}a\u{1F600}', '\ud83da\ude00', 'a1b22c333', 'bbb', 'aaa aaa'];
const CHANGES = ['', '', '', '', 'r.own = 1', 'r.exec = exec', 'Object.defineProperty(r, "flags", { value: "" })', 'Object.defineProperty(r, "lastIndex", { writable: false })'];

export function replacements(r) {
  const cases = r.list(60, 90, () => {
    const flags = [...'gimsuy'].filter(() => r.chance(0.3)).join('');
    const source = r.list(1, 4, () => r.pick(ATOMS)).join('').replace(/\(\?<x>(?=.*\(\?<x>)/g, '(');
    const text = () => JSON.stringify(r.pick(TEXTS) + r.pick(TEXTS));
    const replacement = JSON.stringify(r.list(1, 3, () => r.pick(REPLACEMENTS)).join(''));
    return `[${JSON.stringify(source)}, '${flags}', ${r.pick([0, 0, 1, 3, 99, -1, 1.5, '2 ** 31', '"2"'])}, ${text()}, ${replacement}, ${text()}, (r) => { ${r.pick(CHANGES)} }]`;
  });
  return `const exec = (text) => RegExp.prototype.exec.call(/b/, text);
const attempt = (f) => { try { return f(); } catch (error) { return error.name; } };
const result = [];
for (const [source, flags, at, text, replacement, part, change] of [
${cases.join(',\n')}
]) {
  const r = attempt(() => new RegExp(source, flags));
  if (typeof r === 'string') { result.push(r); continue; }
  r.lastIndex = at;
  change(r);
  result.push([attempt(() => (change.toString().includes('exec') && r.flags.includes('g') ? 'endless' : text.replace(r, replacement))), r.lastIndex, attempt(() => r.test(text)), r.lastIndex, r.flags,
    text.replace(part, replacement), text.replaceAll(part, replacement)].join('|'));
}
export default result;`;
}
