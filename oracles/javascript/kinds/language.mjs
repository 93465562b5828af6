// Programs about the language itself.

const show = `const show = (v) => typeof v === 'bigint' ? v + 'n' : typeof v === 'symbol' ? 'symbol' : typeof v === 'function' ? 'function'
  : Object.is(v, -0) ? '-0' : typeof v === 'string' ? JSON.stringify(v) : Array.isArray(v) ? '[' + v.map(show) + ']'
  : v && typeof v === 'object' ? '{' + Object.entries(v).map(([k, x]) => k + ':' + show(x)) + '}' : String(v);
const tried = (f) => { try { return show(f()); } catch (e) { return e.name; } };
`;

const leaf = (r) => r.pick(['0', '1', '-1', '2.5', '1e21', '0.1', 'NaN', 'Infinity', '-0', '"0"', '""', '"a"', '"10"', '" 7 "', '"1e3"', 'null', 'undefined', 'true', 'false', '[]', '[1]', '[1,2]', '{}', '({a:1})', '({valueOf(){return 3}})', '({toString(){return "s"}})', 'x', 'y', 'z', '10n', '0n', '255', '4294967296', '-2147483649', '"\\u00e9"', '(()=>1)']);

function expression(r, depth) {
  if (depth === 0 || r.chance(0.1)) return leaf(r);
  const inner = () => expression(r, depth - 1);
  switch (r.int(0, 9)) {
    case 0:
      return `(${r.pick(['-', '+', '!', '~', 'typeof ', 'void '])}(${inner()}))`;
    case 1:
      return `((${inner()}) ? (${inner()}) : (${inner()}))`;
    case 2:
      return `((${inner()}) ${r.pick(['&&', '||', '??'])} (${inner()}))`;
    case 3:
      return `(${r.pick(['String', 'Number', 'Boolean', 'Array.isArray', 'parseInt', 'parseFloat', 'Math.trunc', 'Math.sign', 'JSON.stringify', 'isNaN', 'Number.isInteger', 'Object.keys'])}(${inner()}))`;
    case 4:
      return `\`\${${inner()}}-\${${inner()}}\``;
    case 5:
      return `((${inner()})?.${r.pick(['length', 'a', 'toString()', 'constructor.name', 'valueOf()', 'at?.(0)'])})`;
    default:
      return `((${inner()}) ${r.pick(['+', '+', '-', '*', '/', '%', '**', '<', '>', '<=', '>=', '==', '!=', '===', '!==', '&', '|', '^', '<<', '>>', '>>>'])} (${inner()}))`;
  }
}

export function expressions(r) {
  const lines = r.list(8, 14, () => `  tried(() => ${expression(r, r.int(1, 4))}),`);
  return `${show}let x = ${leaf({ ...r, pick: () => r.pick(['5', '-3', '"q"', '[3]']) })}, y = ${r.pick(['"b"', '2', 'null', '[1,"c"]'])}, z = ${r.pick(['true', '{k:1}', '7n', '0.5'])};
export default [
${lines.join('\n')}
];`;
}

// Statements that note where they come along; loops end because fuel does.
function statements(r, depth, scope) {
  return r.list(1, 4, () => statement(r, depth, scope)).join('\n');
}

let mark = 0;
function statement(r, depth, scope) {
  const note = () => `t.push(${++mark});`;
  const condition = () => r.pick(['n % 2 === 0', 'n % 3 === 1', 'n > 10', 't.length % 4 < 2', 'n < 25', 'true', 't.length < 30']);
  const body = (more = {}) => `{ if (++n > 60) throw new Error('fuel'); ${note()} ${statements(r, depth - 1, { ...scope, ...more })} }`;
  if (depth === 0) {
    const jumps = [note(), `n += ${r.int(1, 3)};`, `t.push('n' + n);`];
    if (scope.loop) jumps.push(`if (${condition()}) break;`, `if (${condition()}) continue;`);
    if (scope.label && scope.loop) jumps.push(`if (${condition()}) ${r.pick(['break', 'continue'])} ${scope.label};`);
    if (scope.caught) jumps.push(`if (${condition()}) throw new Error('e' + n);`);
    if (scope.fn) jumps.push(`if (${condition()}) return n;`);
    return r.pick(jumps);
  }
  switch (r.int(0, 8)) {
    case 0:
      return `if (${condition()}) ${body()} else ${body()}`;
    case 1: {
      const label = `l${++mark}`;
      return `${label}: for (let i${mark} = 0; i${mark} < ${r.int(1, 4)}; i${mark}++) ${body({ loop: true, label })}`;
    }
    case 2:
      return `for (const v of [${r.list(1, 3, () => r.int(0, 9))}]) ${body({ loop: true, label: undefined })}`;
    case 3:
      return `while (${r.pick(['n < 20', 'n % 5 !== 0', 't.length < 12'])}) ${body({ loop: true, label: undefined })}`;
    case 4:
      return `try ${body({ caught: true })} catch (e) { t.push(e.message); ${r.chance(0.3) && scope.caught ? 'throw e;' : ''} ${statements(r, 0, scope)} } ${r.chance(0.6) ? `finally { ${note()} ${statements(r, 0, scope)} }` : ''}`;
    case 5:
      return `switch (n % 4) { case 0: ${note()} ${statements(r, 0, scope)} case 1: ${note()} break; default: ${note()} case 3: ${statements(r, 0, scope)} }`;
    case 6: {
      const name = `f${++mark}`;
      return `function ${name}() ${body({ loop: false, label: undefined, caught: false, fn: true })}\nt.push(${name}() ?? 'none');`;
    }
    case 7:
      return `do ${body({ loop: true, label: undefined })} while (${r.pick(['n < 15', 'n % 2 === 1 && n < 40'])});`;
    default:
      return `for (const k in { a: 1, b: 2, ${r.int(0, 5)}: 3 }) { t.push(k); ${statements(r, 0, { ...scope, loop: true, label: undefined })} }`;
  }
}

export function control(r) {
  mark = 0;
  return `const t = [];
let n = ${r.int(0, 9)};
try {
${r.list(2, 4, () => statement(r, r.int(1, 3), {})).join('\n')}
} catch (e) {
  t.push('end ' + e.message);
}
console.log(t.length, n);
export default t;`;
}

export function closures(r) {
  const shape = r.int(0, 3);
  const steps = r.list(3, 8, () => r.pick(['inc()', 'dec()', 'get()', `add(${r.int(1, 9)})`, 'reset()']));
  const loops = r.pick([
    'for (let i = 0; i < 4; i++) { fs.push(() => i); i += i === 2 ? 1 : 0; }',
    'for (var i = 0; i < 4; i++) fs.push(() => i);',
    'for (const i of [3, 1, 2]) fs.push(() => i * 2);',
    'let i = 0; while (i < 3) { const j = i++; fs.push(() => [i, j]); }',
    'for (let i = 0, f = () => i; i < 3; i++) fs.push(f, () => i);',
  ]);
  return `const make = (start) => {
  let n = start;
  const history = [];
  const note = (v) => (history.push(v), v);
  return { inc: () => note(++n), dec: () => note(--n), get: () => n, add: (k) => note((n += k)), reset: () => note((n = start)), history };
};
const a = make(${r.int(-5, 5)}), b = make(${r.int(0, 5)});
const seen = [${steps.map((step, i) => `${i % 2 === shape % 2 ? 'a' : 'b'}.${step}`)}];
const fs = [];
${loops}
const curry = (f, ...got) => (got.length >= f.length ? f(...got) : (...more) => curry(f, ...got, ...more));
const memo = (f, cache = new Map()) => (k) => cache.has(k) ? cache.get(k) : (cache.set(k, f(k)), cache.get(k));
const fib = memo((k) => (k < 2 ? k : fib(k - 1) + fib(k - 2)));
const compose = (...gs) => (x) => gs.reduceRight((v, g) => g(v), x);
export default { seen, a: a.history, b: b.history, fs: fs.map((f) => f()), curried: curry((x, y, z) => x * y + z)(${r.int(1, 9)})(${r.int(1, 9)}, ${r.int(1, 9)}), fib: fib(${r.int(10, 70)}), composed: compose((x) => x + 1, (x) => x * ${r.int(2, 5)}, Math.abs)(${r.int(-9, 9)}) };`;
}

// A pattern and a value that it may fit.
function pattern(r, depth, names) {
  const name = () => {
    names.push(`v${names.length}`);
    return names.at(-1);
  };
  const fallback = () => (r.chance(0.35) ? ` = ${r.pick(['5', '"d"', 'null', '[]', '(log.push("default"), 9)'])}` : '');
  if (depth === 0) return { text: name(), value: r.pick(['1', '"s"', 'undefined', 'null', '[7]', '{q:1}']) };
  if (r.chance(0.5)) {
    const parts = r.list(1, 3, () => pattern(r, r.int(0, depth - 1), names));
    const texts = parts.map(({ text }) => (/^[[{]/.test(text) ? `${text} = ${/^\[/.test(text) ? '[]' : '{}'}` : text + fallback()));
    const values = parts.map(({ value }) => value);
    if (r.chance(0.3)) {
      texts.splice(1, 0, '');
      values.splice(1, 0, '0');
    }
    if (r.chance(0.4)) {
      texts.push(`...${name()}`);
      values.push('8', '9');
    }
    return { text: `[${texts}]`, value: r.pick([`[${values}]`, `[${values}]`, `new Set([${values.map((v) => (v === '' ? '0' : v))}])`, `(function* () { ${values.map((v) => `yield ${v};`).join(' ')} })()`]) };
  }
  const keys = r.some(['a', 'b', 'c', '"d-e"', '[k]', '5'], r.int(1, 3));
  const parts = keys.map((key) => ({ key, ...pattern(r, r.int(0, depth - 1), names) }));
  const texts = parts.map(({ key, text }) => `${key}: ${/^[[{]/.test(text) ? `${text} = ${/^\[/.test(text) ? '[]' : '{}'}` : text + fallback()}`);
  const values = parts.filter(() => r.chance(0.85)).map(({ key, value }) => `${key}: ${value}`);
  if (r.chance(0.4)) {
    texts.push(`...${name()}`);
    values.push('z: 26', 'y: 25');
  }
  return { text: `{ ${texts.join(', ')} }`, value: `{ ${values.join(', ')} }` };
}

export function destructuring(r) {
  const parts = r.list(3, 5, () => {
    const names = [];
    const { text, value } = pattern(r, r.int(1, 3), names);
    const give = `[${names.join(', ')}]`;
    const k = `const k = ${r.pick(['"dyn"', '"a"', '7'])};`;
    const way = r.int(0, 4);
    if (way === 0) return `tried(() => { ${k} const ${/^[[{]/.test(text) ? text : `[${text}]`} = ${value}; return ${give}; })`;
    if (way === 1) return `tried(() => { ${k} return ((${text}) => ${give})(${value}); })`;
    if (way === 2) return `tried(() => { ${k} let ${names.join(', ')}; (${/^[[{]/.test(text) ? text : `[${text}]`} = ${value}); return ${give}; })`;
    if (way === 3) return `tried(() => { ${k} for (const ${/^[[{]/.test(text) ? text : `[${text}]`} of [${value}]) return ${give}; })`;
    return `tried(() => { ${k} function f(${text}, last = ${names[0]}) { return [${names.join(', ')}, last, arguments.length]; } return f(${value}); })`;
  });
  return `${show}const log = [];
const out = [
  ${parts.join(',\n  ')},
];
export default { out, log };`;
}

export function classes(r) {
  const members = (name, base) => {
    const parts = r.some([
      `v = log.push('${name} field');`,
      `#secret = ${r.int(1, 99)};\n  reveal${name}() { return this.#secret; }`,
      `static count = ${r.int(0, 9)};\n  static bump() { return ++this.count; }`,
      `get size() { return ${base ? `(super.size ?? 0) + 1` : '10'}; }`,
      `set size(v) { log.push('${name} size ' + v); }`,
      `greet(x = '${name}') { return ${base ? `(super.greet?.('from ' + x) ?? 'nobody') + '!'` : '`hi ${x}`'}; }`,
      `static { log.push('${name} static'); }`,
      `*[Symbol.iterator]() { yield '${name}'; ${base ? 'if (super[Symbol.iterator]) yield* super[Symbol.iterator]();' : ''} }`,
      `['computed' + ${r.int(1, 3)}]() { return '${name}'; }`,
      `toString() { return '${name}<' + Object.keys(this) + '>'; }`,
      `arrow = () => this.constructor.name;`,
      `static create(...args) { return new this(...args); }`,
      `[Symbol.toPrimitive](hint) { return hint === 'number' ? ${r.int(1, 9)} : '${name}:' + hint; }`,
    ], r.int(4, 9));
    const constructor = r.chance(0.7) ? `constructor(a, ...rest) { ${base ? `log.push('before ${name}'); super(a, ...rest);` : ''} this.${name.toLowerCase()} = a; log.push('${name}', new.target.name, rest.length); }` : '';
    return `${constructor}\n  ${r.shuffle(parts).join('\n  ')}`;
  };
  const count = r.int(2, 4);
  const names = ['A', 'B', 'C', 'D'].slice(0, count);
  const text = names.map((name, i) => `class ${name}${i > 0 ? ` extends ${i === 2 && r.chance(0.3) ? `((X) => class extends X { mixed = true; })(${names[i - 1]})` : names[i - 1]}` : ''} {\n  ${members(name, i > 0)}\n}`);
  const last = names.at(-1);
  return `const log = [];
const tried = (f) => { try { return f(); } catch (e) { return e.name; } };
${text.join('\n')}
const o = new ${last}(1, 2, 3);
tried(() => { o.size = 5; });
export default {
  log,
  keys: Object.keys(o),
  own: Object.getOwnPropertyNames(${last}.prototype),
  statics: Object.getOwnPropertyNames(${last}).filter((k) => k !== 'arguments' && k !== 'caller'),
  results: [
    tried(() => o.size), tried(() => o.greet()), tried(() => [...o]), tried(() => String(o)), tried(() => +o), tried(() => o + ''), tried(() => \`\${o}\`),
    tried(() => o.arrow()), tried(() => ${last}.bump()), tried(() => ${last}.count), tried(() => A.count), tried(() => o.revealA()), tried(() => ${last}.prototype.revealA.call({})),
    tried(() => Object.keys(${last}.create(4))), tried(() => o instanceof A), tried(() => ${last}.name + ${last}.length), tried(() => A()), tried(() => JSON.stringify(o)),
    tried(() => o.computed1() + o.computed2()),
  ],
};`;
}

export function microtasks(r) {
  let mark = 0;
  const step = (depth) => {
    const note = `log(${++mark});`;
    if (depth === 0) return note;
    const inner = () => r.list(1, 2, () => step(depth - 1)).join(' ');
    switch (r.int(0, 9)) {
      case 0:
        return `${note} await null; log(${++mark});`;
      case 1:
        return `await Promise.resolve(${r.int(1, 9)}).then(() => { ${note} });`;
      case 2:
        return `Promise.resolve().then(() => { ${note} }).then(() => log(${++mark}));`;
      case 3:
        return `queueMicrotask(() => { ${note} });`;
      case 4:
        return `await (async () => { ${inner()} })();`;
      case 5:
        return `(async () => { ${inner()} })();`;
      case 6:
        return `try { await Promise.reject(new Error('r${++mark}')); } catch (e) { log(e.message); } finally { ${note} }`;
      case 7:
        return `await Promise.${r.pick(['all', 'allSettled', 'race', 'any'])}([(async () => { ${inner()} })(), Promise.resolve(1), new Promise((done) => { ${note} done(); })]);`;
      case 8:
        return `await { then(done) { ${note} done(${r.int(1, 9)}); } };`;
      default:
        return `for await (const v of [Promise.resolve(${r.int(1, 9)}), ${r.int(1, 9)}]) log('v' + v);`;
    }
  };
  const tasks = r.list(2, 4, (i) => `const task${i} = async () => { ${r.list(2, 4, () => step(r.int(0, 2))).join('\n  ')} };`);
  return `const order = [];
const log = (x) => { order.push(x); };
${tasks.join('\n')}
log('start');
const running = [${tasks.map((_, i) => `task${i}()`)}];
log('started');
await Promise.all(running);
for (let i = 0; i < 20; i++) await null;
log('end');
console.log(order.length);
export default order;`;
}

export function generators(r) {
  const body = r.list(2, 5, () =>
    r.pick([
      `log.push('got', yield ${r.int(1, 9)});`,
      `yield* [${r.list(1, 3, () => r.int(1, 9))}];`,
      `try { yield ${r.int(10, 19)}; } catch (e) { log.push('caught ' + (e?.name ?? e)); yield 'after'; } finally { log.push('finally'); }`,
      `try { yield 'a'; yield 'b'; } finally { ${r.pick(['log.push("f");', 'yield "in finally";', 'return "replaced";'])} }`,
      `for (let i = 0; i < ${r.int(1, 3)}; i++) { const x = yield i; if (x === 'stop') return 'stopped'; }`,
      `{ const inner = yield* sub(${r.int(1, 3)}); log.push(inner); }`,
      `if ((yield 'ask') === 'b') return 'early';`,
    ]),
  );
  const actions = r.list(5, 10, () => r.pick(['next()', 'next("a")', 'next("b")', 'next("stop")', 'return("r")', 'throw("t")', 'next(5)']));
  const kind = r.chance(0.3) ? 'async' : '';
  const wait = kind ? 'await ' : '';
  return `const log = [];
${kind} function* sub(n) { try { for (let i = 0; i < n; i++) log.push(yield 's' + i); return 'sub done'; } finally { log.push('sub finally'); } }
${kind} function* g() {
  ${body.join('\n  ')}
  return 'end';
}
const it = g();
const out = [];
for (const action of [${actions.map((a) => `() => it.${a}`)}]) {
  try { const { value, done } = ${wait}action(); out.push([value ?? null, done]); } catch (e) { out.push('threw ' + (e?.name ?? e)); }
}
const all = [];
for ${kind ? 'await ' : ''}(const x of g()) { all.push(x); if (all.length > ${r.int(2, 8)}) break; }
export default { out, log, all };`;
}

export function iterators(r) {
  const use = r.list(4, 8, () =>
    r.pick([
      'const [a] = make(3); out.push(a);',
      'const [, b, ...c] = make(4); out.push(b, c);',
      'for (const x of make(5)) { if (x === 2) break; out.push(x); }',
      'try { for (const x of make(5)) { if (x === 1) throw "stop"; out.push(x); } } catch (e) { out.push(e); }',
      'out.push(Math.max(...make(3)), [...make(2), ...make(1)]);',
      'out.push(Array.from(make(3), (x) => x * 2));',
      'out.push(new Set(make(3)).size, [...new Map([...make(2)].map((x) => [x, -x]))]);',
      'out.push(Object.fromEntries([...make(2)].map((x) => ["k" + x, x])));',
      'lab: for (const x of make(3)) { for (const y of make(3)) { if (y === 1) continue lab; out.push(x + y); } }',
      '(() => { for (const x of make(4)) { out.push(x); if (x === 1) return; } })();',
      'const it = make(2)[Symbol.iterator](); out.push(it.next().value, it.next().done, it.next().done);',
      'let m, n; [m = 9, n = 8] = make(1); out.push(m, n);',
      'out.push([...zip(make(3), "abc")]);',
      'out.push([...take(naturals(), 4)], [...take(map(naturals(), (x) => x * x), 3)]);',
    ]),
  );
  return `const log = [], out = [];
const make = (n) => ({
  [Symbol.iterator]() {
    let i = 0;
    log.push('open');
    return { next() { return i < n ? { value: i++, done: false } : { value: undefined, done: true }; }, return(v) { log.push('close ' + i); return { value: v, done: true }; }, [Symbol.iterator]() { return this; } };
  },
});
function* naturals() { try { for (let i = 0; ; i++) yield i; } finally { log.push('naturals closed'); } }
function* take(xs, n) { if (n <= 0) return; for (const x of xs) { yield x; if (--n === 0) return; } }
function* map(xs, f) { for (const x of xs) yield f(x); }
function* zip(a, b) { const i = a[Symbol.iterator](), j = b[Symbol.iterator](); for (;;) { const x = i.next(), y = j.next(); if (x.done || y.done) return; yield [x.value, y.value]; } }
${use.map((u) => `{ ${u} }`).join('\n')}
export default { out, log };`;
}

export function objects(r) {
  const keys = r.shuffle(['b', 'a', '10', '2', '"-1"', '1.5', '"x y"', '[sym]', 'c', '07.5'.slice(1), '4294967295', '__proto__x']).slice(0, r.int(4, 9));
  const ops = r.list(4, 8, () =>
    r.pick([
      'delete o.a;', 'o.zz = 1;', 'o[1] = "one";', 'Object.defineProperty(o, "hidden", { value: 5, configurable: true });', 'Object.defineProperty(o, "a", { enumerable: false });',
      'Object.defineProperty(o, "acc", { get() { return this.b; }, set(v) { this.b = v; }, enumerable: true, configurable: true });', 'if ("acc" in o) o.acc = 77;', 'Object.assign(o, { q: 1, b: 2 });', 'Object.freeze(o);', 'Object.seal(o);', 'Object.preventExtensions(o);', 'o.b ??= 3; o.c ||= 4; o.d &&= 5;', 'Object.setPrototypeOf(o, { inherited: true });', 'o = { ...o, last: 1 };', 'o = structuredClone(Object.fromEntries(Object.entries(o)));', 'o = Object.fromEntries(Object.entries(o).reverse());',
    ]),
  );
  return `"use strict";
const sym = Symbol('s');
let o = { ${keys.map((key, i) => `${key}: ${i}`).join(', ')} };
const errors = [];
const tried = (f) => { try { f(); } catch (e) { errors.push(e.name); } };
${ops.map((op) => `tried(() => { ${op} });`).join('\n')}
const inKeys = [];
for (const k in o) inKeys.push(k);
export default {
  keys: Object.keys(o), names: Object.getOwnPropertyNames(o), inKeys, errors,
  entries: Object.entries(o), json: JSON.stringify(o),
  descriptors: Object.entries(Object.getOwnPropertyDescriptors(o)).map(([k, d]) => [k, d.enumerable, d.configurable, d.writable ?? null, typeof d.get]),
  flags: [Object.isFrozen(o), Object.isSealed(o), Object.isExtensible(o), 'inherited' in o, Object.hasOwn(o, 'a'), o.propertyIsEnumerable?.('a')],
};`;
}

export function proxies(r) {
  const traps = r.some(['get', 'set', 'has', 'deleteProperty', 'ownKeys', 'getOwnPropertyDescriptor', 'defineProperty', 'getPrototypeOf', 'apply', 'construct'], r.int(4, 10));
  const uses = r.list(6, 12, () => r.pick(['p.a', 'p.b = 2', '"a" in p', 'delete p.a', 'Object.keys(p)', 'JSON.stringify(p)', '({ ...p })', 'Object.entries(p)', 'p instanceof Object', 'p.missing?.x', 'Object.getOwnPropertyNames(p)', 'p.hasOwnProperty("a")', 'Object.assign({}, p)', 'Object.defineProperty(p, "d", { value: 1, configurable: true }) === p', '(({ a, ...rest }) => [a, rest])(p)', 'Reflect.ownKeys(p)', 'p.n++', 'Object.isExtensible(p)', 'f(1, 2)', 'new f(3).v', 'typeof f']));
  return `const log = [];
const note = (name) => (...args) => { log.push(name + (typeof args[1] === 'string' ? ' ' + args[1] : '')); return Reflect[name](...args); };
const handler = { ${traps.map((trap) => `${trap}: note('${trap}')`).join(', ')} };
const p = new Proxy({ a: 1, n: 5, [Symbol('s')]: 2 }, handler);
const f = new Proxy(function (x, y) { if (new.target) this.v = x; return x + y; }, handler);
const out = [];
for (const use of [${uses.map((use) => `() => ${use.startsWith('({') ? use : `(${use})`}`).join(', ')}]) {
  try { const v = use(); out.push(typeof v === 'object' ? JSON.stringify(Array.isArray(v) ? v.map(String) : v) : String(v)); } catch (e) { out.push(e.name); }
}
export default { out, log };`;
}

export function symbols(r) {
  const uses = r.list(5, 9, () =>
    r.pick([
      'String(Symbol("d"))', 'Symbol("d").description', 'Symbol.for("k") === Symbol.for("k")', 'Symbol.keyFor(Symbol.for("k"))', '`${obj}`', '+obj', 'obj + ""', 'obj == 42', 'Object.prototype.toString.call(obj)', '5 instanceof Even', '4 instanceof Even', '[0].concat(spreadable).length', '[0].concat([1, 2], 3).length', '[...obj]', '"a-b-c".split(splitter)', '"abc".replace({ [Symbol.replace]: (s, r) => s + r }, "!")', '"abc".search({ [Symbol.search]: () => 7 })', 'Object.getOwnPropertySymbols(obj).length', 'JSON.stringify({ [Symbol("x")]: 1, a: Symbol("y") })', 'Object.keys(obj).length', 'typeof Symbol.iterator', 'new Sub(3).map((x) => x).constructor.name', 'new Sub(1, 2, 3).filter(Boolean) instanceof Sub', 'Object(Symbol.iterator) == Symbol.iterator', '`${[1, [2, 3]]}`', 'String([null, undefined, [[]]])', '[] + {}', '[1] == 1', '({}) + 1',
    ]),
  );
  return `const obj = { [Symbol.toPrimitive]: (hint) => (hint === 'number' ? 42 : hint === 'string' ? 'str' : 42), get [Symbol.toStringTag]() { return 'Tagged'; }, *[Symbol.iterator]() { yield 1; yield 2; } };
class Even { static [Symbol.hasInstance](n) { return n % 2 === 0; } }
const spreadable = { length: 2, 0: 'x', 1: 'y', [Symbol.isConcatSpreadable]: ${r.chance(0.5)} };
const splitter = { [Symbol.split]: (s) => [...s].reverse() };
class Sub extends Array { static get [Symbol.species]() { return ${r.pick(['Array', 'Sub'])}; } }
const out = [];
for (const use of [${uses.map((use) => `() => ${use.startsWith('({') ? `(${use})` : use}`).join(', ')}]) { try { out.push(use()); } catch (e) { out.push(e.name); } }
export default out;`;
}

// A program that fails at a line.
export function failures(r) {
  const statement = r.pick([
    'null.x;', 'undefined.y();', 'missing;', 'missing();', 'rows[9].name;', 'config.a.b.c;', 'config.run();', 'throw new Error("stop");', 'throw new RangeError(`n ${rows.length}`);', 'JSON.parse("{");', 'rows.map((row) => row.tags.length);', 'new Array(-1);', '(5).toFixed(200);', '"x".repeat(-1);', 'Object.defineProperty(1, "a", {});', 'BigInt("x");', '1n + rows.length;', 'new config();', 'rows.find((row) => row.id === 99).name;', 'rows.reduce((a, row) => a + row.price.net, 0);', 'for (const row of config) { row; }', 'const copy = [...config];', 'await Promise.reject(new TypeError("rejected"));', 'await (async () => { throw new Error("inner"); })();', 'new Map([1]);', 'decodeURIComponent("%zz");', 'config.list.push(1);', 'Symbol() + "";', 'Object.freeze(rows).push(1);', 'structuredClone(() => 1);', '"a" in 5;', 'rows instanceof config;', 'new (class { #p; static t(o) { return o.#p; } }).constructor.t({});', 'config.total();', 'let early = later; let later = 1;',
  ]);
  const filler = () =>
    r.pick([
      '// a comment', '', 'const unused%N = [1, 2, 3].map((x) => x * 2);', 'console.log("step", rows.length);', '/* a comment\n   over lines */', 'const text%N = `line one\nline two ${rows.length}\nline three`;', 'let counter%N = 0;\nfor (const row of rows) {\n  counter%N += row.id;\n}', 'const helper%N = (a, b) =>\n  a +\n  b;', 'function named%N(x) {\n  if (x) {\n    return x;\n  }\n  return null;\n}', 'const re%N = /[/"`]+\\//g;', 'const shape%N = {\n  a: 1,\n  b: [\n    2,\n  ],\n};', 'try {\n  null.z;\n} catch {\n  // ignored\n}', 'class Thing%N {\n  value = 1;\n  get double() {\n    return this.value * 2;\n  }\n}', 'if (rows.length > 100) {\n  throw new Error("never");\n}',
    ]);
  let number = 0;
  const fillers = () => r.list(0, 4, () => filler().replaceAll('%N', ++number)).join('\n');
  const indent = (text) => text; // lines of templates and comments stay as they are
  let body = `${fillers()}\n${statement}\n${fillers()}`;
  const asynchronous = /\bawait\b/.test(statement);
  const wraps = r.list(0, 3, () => r.int(0, asynchronous ? 4 : 9));
  for (const wrap of wraps) {
    const name = `step${++number}`;
    const wait = asynchronous ? 'await ' : '';
    const kind = asynchronous || wrap === 1 ? 'async ' : '';
    body = [
      () => `${kind}function ${name}() {\n${indent(body)}\n}\n${fillers()}\n${wait}${name}();`,
      () => `const ${name} = async () => {\n${body}\n};\nawait ${name}();`,
      () => `class Box${number} {\n  ${kind}run() {\n${body}\n  }\n}\n${wait}new Box${number}().run();`,
      () => `if (rows.length > 1) {\n${body}\n} else {\n  console.log("else");\n}`,
      () => `const ${name} = {\n  ${kind}go() {\n${body}\n  },\n};\n${fillers()}\n${wait}${name}.go();`,
      () => `for (const item${number} of rows) {\n${body}\n}`,
      () => `rows.forEach((item${number}, index) => {\n${body}\n});`,
      () => `function* ${name}() {\n  yield 1;\n${body}\n}\nfor (const x of ${name}()) {\n  x;\n}`,
      () => `try {\n${body}\n} finally {\n  console.log("finally");\n}`,
      () => `switch (rows.length) {\n  case 2: {\n${body}\n  }\n}`,
    ][wrap]();
  }
  return `const rows = [{ id: 1, name: "a" }, { id: 2, name: "b" }];
const config = { a: {} };
${fillers()}
${body}
export default "unreachable";`;
}
