// Programs about the built-in library.

const tried = `const tried = (f) => { try { const v = f(); return typeof v === 'bigint' ? v + 'n' : v === undefined ? 'undefined' : Number.isNaN(v) ? 'NaN' : Object.is(v, -0) ? '-0' : v; } catch (e) { return e.name; } };
`;

const text = (r) => JSON.stringify(r.pick(['The quick brown fox jumps over the lazy dog', 'a,b,,c', '  padded\ttext \n', 'naïve café Ωmega ß', '2024-03-15T10:20:30Z', 'key=value; other = 5;flag', 'aaa bbb aaa', 'CamelCaseStringHTML', 'snake_case_string', '<b>bold</b> & "quoted"', '😀 emoji 👨‍👩‍👧 text', '', 'x', '1,234.50 EUR', 'line one\nline two\r\nline three', 'ÀÉÎõü', 'ﬁ ligature İı']));

export function strings(r) {
  const op = () =>
    r.pick([
      `.slice(${r.int(-6, 6)}, ${r.int(-6, 12)})`, `.substring(${r.int(-2, 9)}, ${r.int(-2, 9)})`, `.substr(${r.int(-5, 5)}, ${r.int(0, 6)})`, '.toUpperCase()', '.toLowerCase()', '.trim()', '.trimStart()', '.trimEnd()', `.padStart(${r.int(0, 30)}, ${r.pick(["'ab'", "'-'", "''"])})`, `.padEnd(${r.int(0, 30)}, '*')`, `.repeat(${r.int(0, 3)})`, `.replace('a', '[$&|$\`|$\\'|$$]')`, `.replaceAll(${r.pick(["'a'", "''", '/[aeiou]/g', '/\\s+/g'])}, ${r.pick(["'_'", "(m, i) => m + (typeof i === 'number' ? i : '')", "'$&$&'"])})`, `.split(${r.pick(["''", "' '", "','", '/[,\\s]+/', '/(-)/'])}).join('|')`, `.split('').reverse().join('')`, `.concat(1, null, [2, 3])`, `.normalize('${r.pick(['NFC', 'NFD', 'NFKC', 'NFKD'])}')`, '.toWellFormed()', `.at(${r.int(-3, 3)})?.toString() ?? 'none'`,
    ]).replace(/^(\.at.*)$/, '.slice(0)$1');
  const last = () => r.pick(['', '.length', `.indexOf('a')`, `.lastIndexOf('e')`, `.includes('the')`, `.startsWith('T')`, `.endsWith('g')`, `.charCodeAt(${r.int(0, 5)})`, `.codePointAt(${r.int(0, 5)})`, `.charAt(${r.int(-1, 5)})`, `.search(/[A-Z]/)`, `.match(/\\w+/g)`, `.match(/(\\w)(\\d)?/)?.slice()`, '.split(/\\b/)', `.localeCompare('m') > 0`, '.isWellFormed()', `[${r.int(0, 4)}]`]);
  const lines = r.list(8, 14, () => {
    const ops = r.list(1, 4, op).filter((o) => !o.includes('.at('));
    return `  tried(() => ${text(r)}${ops.join('')}${last()}),`;
  });
  return `${tried}export default [\n${lines.join('\n')}\n];`;
}

export function arrays(r) {
  const values = () => `[${r.list(0, 9, () => r.pick([String(r.int(-20, 20)), String(r.int(0, 99) / 4), `'${r.word()}'`, 'null', 'true', '[1, [2, [3]]]', `{ n: ${r.int(0, 5)} }`]))}]`;
  const numbers = () => `[${r.list(1, 9, () => r.int(-20, 20))}]`;
  const op = () =>
    r.pick([
      `.map((x) => x * ${r.int(2, 5)})`, `.filter((x) => x % ${r.int(2, 4)} !== 0)`, `.slice(${r.int(-4, 4)}, ${r.int(-4, 8)})`, '.concat([7, [8]])', '.reverse()', '.toReversed()', '.sort()', '.sort((a, b) => (+a || 0) - (+b || 0))', '.toSorted((a, b) => (+b || 0) - (+a || 0))', `.toSpliced(${r.int(-2, 3)}, ${r.int(0, 3)}, 'new')`, `.with(0, 99)`, `.fill(${r.int(0, 9)}, ${r.int(-2, 2)}, ${r.int(0, 5)})`, `.copyWithin(${r.int(0, 2)}, ${r.int(1, 4)})`, '.flatMap((x) => [x, x])', '.flat(Infinity)', '.flat()',
    ]);
  const last = () =>
    r.pick(['', '', `.reduce((a, x) => a + x, 0)`, `.reduceRight((a, x) => a + '-' + x, '')`, `.join('${r.pick([',', '', ' - '])}')`, '.length', `.indexOf(${r.int(-5, 5)})`, `.lastIndexOf(${r.int(-5, 5)})`, `.includes(${r.int(-5, 5)})`, '.find((x) => x > 3)', '.findIndex((x) => x > 3)', '.findLast((x) => x < 3)', '.findLastIndex((x) => x < 3)', '.some((x) => x > 10)', '.every((x) => x > -10)', `.at(${r.int(-3, 3)})`, '.entries().next().value', '.keys().next().value']);
  const lines = r.list(6, 10, () => `  tried(() => ${r.chance(0.7) ? numbers() : values()}${r.list(1, 4, op).join('')}${last()}),`);
  const steps = r.list(4, 9, () => r.pick([`a.push(${r.int(1, 9)}, 'x')`, 'a.pop()', 'a.shift()', `a.unshift(${r.int(1, 9)})`, `a.splice(${r.int(-3, 4)}, ${r.int(0, 2)}, ${r.int(50, 60)}, ${r.int(60, 70)})`, 'a.reverse().length', `a.length = ${r.int(2, 6)}`, `a[a.length] = ${r.int(1, 9)}`, 'a.sort().length', `a.fill(0, ${r.int(0, 5)}).length`, `a.indexOf(0)`]));
  return `${tried}const a = ${numbers()};
const steps = [${steps.map((step) => `tried(() => ${step})`)}];
export default { out: [
${lines.join('\n')}
], steps, a, counts: a.map((x) => typeof x) };`;
}

export function sorting(r) {
  const rows = r.list(5, 30, (i) => `{ id: ${i}, k: ${r.int(0, 5)}, s: '${r.word()}', d: ${r.pick(['null', String(r.int(1, 100) / 10)])} }`);
  const compare = () => r.pick(['(a, b) => a.k - b.k', '(a, b) => b.k - a.k || a.id - b.id', '(a, b) => (a.s < b.s ? -1 : a.s > b.s ? 1 : 0)', '(a, b) => a.s.length - b.s.length || (a.s > b.s) - (a.s < b.s)', '(a, b) => (a.d ?? Infinity) - (b.d ?? Infinity) || 0', '() => 0']);
  return `const rows = [
  ${rows.join(',\n  ')},
];
const ids = (xs) => xs.map((x) => x.id);
const quick = (xs, f) => { if (xs.length < 2) return xs; const [p, ...rest] = xs; return [...quick(rest.filter((x) => f(x, p) < 0), f), p, ...quick(rest.filter((x) => f(x, p) >= 0), f)]; };
const merge = (xs, f) => { if (xs.length < 2) return xs; const m = xs.length >> 1, a = merge(xs.slice(0, m), f), b = merge(xs.slice(m), f), out = []; while (a.length && b.length) out.push(f(a[0], b[0]) <= 0 ? a.shift() : b.shift()); return [...out, ...a, ...b]; };
const f = ${compare()};
export default {
  sorted: ids([...rows].sort(f)), other: ids(rows.toSorted(${compare()})), merged: ids(merge(rows, f)), quick: ids(quick(rows, (a, b) => a.id * ${r.pick([1, -1])} - b.id * ${r.pick([1, -1])})),
  plain: rows.map((x) => x.d).sort(), mixed: [10, 9, 1, 'b', 'a', undefined, null, true, -1, 2.5].sort().map(String), strings: rows.map((x) => x.s).sort().reverse(),
  top: ids(rows.filter((x) => x.k > 1).sort((a, b) => b.id - a.id).slice(0, 3)), holes: [3, , 1, undefined, 2].sort().length,
};`;
}

export function numbers(r) {
  const number = () => r.pick([String(r.int(-1000000, 1000000) / r.pick([1, 3, 7, 100, 1000])), String(r.int(0, 9) / 10 + 0.05), '1e21', '1.7976931348623157e308', '5e-324', '0.000001', '1e-7', '123456789.987654321', '-1.5', '2.5', '0.1 + 0.2', '2 ** 53', '2 ** 31', '1 / 3', '-0', '4.35', '1.005', '255', '0xff']);
  const use = (n) =>
    r.pick([`(${n}).toFixed(${r.int(0, 12)})`, `(${n}).toPrecision(${r.int(1, 21)})`, `(${n}).toExponential(${r.int(0, 15)})`, `(${n}).toString(${r.pick([2, 8, 16])})`, `Math.trunc(Number(${n}) % 1e9).toString(${r.int(2, 36)})`, `String(${n})`, `Math.round(${n})`, `Math.floor(${n})`, `Math.ceil(${n})`, `Math.trunc(${n})`, `Math.fround(${n})`, `Math.clz32(${n})`, `Math.sqrt(${n})`, `Math.cbrt(8 * (${r.int(1, 5)}))`, `Math.hypot(3, 4)`, `(${n}) | 0`, `(${n}) >>> 0`, `(${n}) % ${r.int(1, 9)}`, `parseInt(String(${n}), ${r.pick([10, 16, 8])})`, `parseFloat('${r.pick(['3.14abc', '.5.5', '-1e3x', '  42  ', 'abc', '1e1000', '0x1f'])}')`, `Number('${r.pick(['12', '', ' 0x1F ', '0b11', '0o17', '1e3', '1_000', '-', '+5', 'Infinity', '.5', '5.'])}')`, `Number.isSafeInteger(${n})`, `Math.imul(${r.int(-99999, 99999)}, ${r.int(-99999, 99999)})`, `Math.sign(${n})`, `Math.atan2(${r.int(-5, 5)}, ${r.int(1, 5)}).toFixed(8)`, `Math.pow(${r.int(2, 9)}, ${r.int(-3, 20)})`, `Math.log2(${2 ** r.int(1, 20)})`, `(Math.sin(${r.int(1, 100)}) * 1e6 | 0)`, `Math.exp(${r.int(-5, 5)}).toFixed(6)`, `(${n}) === Number(String(${n}))`]);
  const lines = r.list(12, 20, () => `  tried(() => ${use(number())}),`);
  return `${tried}const money = (n) => { const [w, f] = Math.abs(n).toFixed(2).split('.'); return (n < 0 ? '-' : '') + w.replace(/\\B(?=(\\d{3})+(?!\\d))/g, ',') + '.' + f; };
const bytes = (n) => { const u = ['B', 'KB', 'MB', 'GB']; let i = 0; while (n >= 1024 && i < 3) { n /= 1024; i++; } return n.toFixed(i ? 1 : 0) + ' ' + u[i]; };
export default [
${lines.join('\n')}
  money(${r.int(-99999999, 99999999) / 100}), bytes(${r.int(1, 2 ** 31)}), [${r.list(3, 6, number)}].reduce((a, b) => a + b, 0),
];`;
}

export function bigints(r) {
  const big = () => r.pick([`${r.int(0, 99)}n`, `-${r.int(1, 99)}n`, `${r.int(1, 1e9)}${r.int(1e8, 1e9)}n`, `2n ** ${r.int(10, 200)}n`, `0x${r.int(1, 2 ** 31).toString(16)}n`, `BigInt(${r.int(-1000, 1000)})`, `BigInt('${r.int(1, 1e9)}')`, 'BigInt(Number.MAX_SAFE_INTEGER)']);
  const expression = (depth) => (depth === 0 ? `(${big()})` : `(${expression(depth - 1)} ${r.pick(['+', '-', '*', '/', '%', '&', '|', '^'])} ${expression(depth - 1)})`);
  const lines = r.list(8, 14, () => `  tried(() => ${r.pick([() => expression(r.int(1, 3)), () => `BigInt.asUintN(${r.int(1, 70)}, ${expression(1)})`, () => `BigInt.asIntN(${r.int(1, 70)}, ${expression(1)})`, () => `(${big()}).toString(${r.pick([2, 10, 16, 36])})`, () => `(${big()}) ${r.pick(['<', '>', '==', '===', '<='])} (${r.pick([big(), '5', '"7"', '2.5'])})`, () => `(${big()}) ${r.pick(['<<', '>>'])} ${r.int(0, 70)}n`, () => `Number(${expression(1)})`, () => `(${big()}) + ${r.pick(['1', '"s"', 'null'])}`, () => `(-(${big()}))`, () => `(~(${big()}))`, () => `typeof (${big()})`, () => `parseInt(String(${big()}))`])()}),`);
  return `${tried}const factorial = (n) => (n < 2n ? 1n : n * factorial(n - 1n));
const gcd = (a, b) => (b ? gcd(b, a % b) : a < 0n ? -a : a);
const powmod = (b, e, m) => { let v = 1n; b %= m; while (e > 0n) { if (e & 1n) v = (v * b) % m; b = (b * b) % m; e >>= 1n; } return v; };
const isqrt = (n) => { if (n < 2n) return n; let x = n, y = (x + 1n) / 2n; while (y < x) { x = y; y = (x + n / x) / 2n; } return x; };
export default [
${lines.join('\n')}
  String(factorial(${r.int(5, 40)}n)), String(gcd(${r.int(1, 1e9)}n, ${r.int(1, 1e9)}n)), String(powmod(${r.int(2, 99)}n, ${r.int(1, 9999)}n, ${r.int(2, 1e6)}n)), String(isqrt(${r.int(1, 1e9)}${r.int(1, 1e9)}n)),
];`;
}

// Texts of dates as programs and people write them, some of them with a mistake.
export function dateTexts(r) {
  const two = (low, high) => String(r.int(low, high)).padStart(2, '0');
  const year = () => r.pick(['2024', '1999', '2000', '1970', '24', '70', '49', '50']);
  const name = () => r.pick(['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec', 'january', 'SEPT', 'December']);
  const day = () => r.pick(['Sun', 'Mon', 'Tue', 'Wednesday', 'Saturday']);
  const zone = () => r.pick(['', '', 'Z', 'z', '+00:00', '-05:00', '+0530', '-05', '+2', ' GMT', ' UTC', ' EST', ' PDT', ' CET', ' GMT+2', ' GMT-0330', ' +0100', ' -08:00', ' (CET)']);
  const seconds = () => `${two(0, 23)}:${two(0, 59)}${r.pick(['', `:${two(0, 59)}`, `:${two(0, 59)}`, `:${two(0, 59)}.${r.int(0, 999999)}`])}`;
  const half = () => `${r.int(0, 13)}:${two(0, 59)}${r.pick([' AM', ' PM', 'am', 'pm', ' p.m.'])}`;
  const form = () =>
    r.pick([
      `${r.pick(['2024', '1999'])}-${two(0, 13)}-${two(0, 32)}${r.pick(['T', 't', ' ', ' '])}${seconds()}${zone()}`, `2024-${two(1, 12)}-${two(1, 28)}${r.pick(['', 'T24:00', ' 24:00', 'T1:00', ',', ' x'])}`,
      `${day()}, ${r.int(1, 31)} ${name()} ${year()} ${seconds()}${zone()}`, `${day()} ${name()} ${r.int(0, 32)} ${seconds()} ${year()}`, `${day()}, ${two(1, 28)}-${name()}-${year()} ${seconds()}${zone()}`,
      `${two(1, 31)}/${name()}/${year()}${r.pick([':', ' '])}${seconds()}${zone()}`, `${r.int(0, 13)}/${r.int(0, 32)}/${year()}${r.pick(['', ', ', ' '])}${r.pick(['', half(), seconds()])}`,
      `${name()} ${r.int(1, 32)}${r.pick([',', '', 'th', 'th,'])} ${year()} ${r.pick(['', half(), `at ${half()}`])}${zone()}`, `${r.int(1, 32)}.${r.int(1, 13)}.${year()}`, `${year()}/${r.int(0, 13)}/${r.int(0, 32)} ${seconds()}${zone()}`,
    ]);
  const mistake = (text) => {
    const at = r.int(0, text.length);
    return text.slice(0, at) + r.pick(['', '-', '+', ':', '.', '/', ' ', ',', '1', '09', 'T', 'Z', '(', ')', 'x', '\u202f']) + text.slice(at + r.int(0, 1));
  };
  const texts = r.list(16, 24, () => JSON.stringify(r.chance(0.3) ? mistake(form()) : form()));
  return `const texts = [\n  ${texts.join(',\n  ')},\n];
export default texts.map((text) => new Date(text)).map((date) => (isNaN(date) ? null : date.toISOString()));`;
}

export function dates(r) {
  const date = () => r.pick([`new Date(${r.int(-2e9, 4e9)} * 1000)`, `new Date(Date.UTC(${r.int(1900, 2100)}, ${r.int(-3, 15)}, ${r.int(-5, 35)}, ${r.int(0, 30)}, ${r.int(0, 70)}))`, `new Date('${r.int(1970, 2050)}-${String(r.int(1, 12)).padStart(2, '0')}-${String(r.int(1, 28)).padStart(2, '0')}')`, `new Date('${r.int(1970, 2050)}-06-15T${String(r.int(0, 23)).padStart(2, '0')}:30:00${r.pick(['Z', '+02:00', '-05:30', '.123Z'])}')`, 'new Date(0)', 'new Date(NaN)', 'new Date("bad")', `new Date(${r.int(1950, 2049)}, ${r.int(0, 11)}, ${r.int(1, 31)})`, `new Date('${r.pick(['Mar', 'Dec', 'Feb'])} ${r.int(1, 28)}, ${r.int(1990, 2030)} 10:00:00 GMT')`, `new Date('${r.pick(['Mon', 'Tue'])}, 05 Mar 2024 08:09:10 GMT')`]);
  const use = () => r.pick(['.toISOString()', '.getTime()', '.getUTCDay()', '.toJSON()', '.getUTCFullYear()', '.getUTCMonth()', '.getUTCDate()', '.getUTCHours()', '.getUTCMinutes()', '.getUTCSeconds()', '.getUTCMilliseconds()', '.toUTCString()', '.getDay()', '.getTimezoneOffset()', '.toString().slice(0, 15)', '.toDateString()', '.valueOf()', `.setUTCDate(${r.int(-40, 400)})`, `.setUTCMonth(${r.int(-20, 30)})`, `.setUTCFullYear(${r.int(1, 3000)}, ${r.int(0, 11)})`, `.setUTCHours(${r.int(-50, 50)}, ${r.int(-70, 70)})`, `.setTime(${r.int(0, 1e9)})`]);
  const lines = r.list(10, 16, () => `  tried(() => ${date()}${use()}),`);
  return `${tried}const day = 86_400_000;
const add = (d, n) => new Date(d.getTime() + n * day);
const iso = (d) => d.toISOString().slice(0, 10);
const lastOfMonth = (y, m) => new Date(Date.UTC(y, m + 1, 0)).getUTCDate();
const week = (d) => { const t = new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate())); t.setUTCDate(t.getUTCDate() + 4 - (t.getUTCDay() || 7)); return Math.ceil(((t - Date.UTC(t.getUTCFullYear(), 0, 1)) / day + 1) / 7); };
const start = new Date(Date.UTC(${r.int(1995, 2035)}, ${r.int(0, 11)}, ${r.int(1, 28)}));
const age = (b, n) => n.getUTCFullYear() - b.getUTCFullYear() - (n.getUTCMonth() * 100 + n.getUTCDate() < b.getUTCMonth() * 100 + b.getUTCDate() ? 1 : 0);
export default [
${lines.join('\n')}
  iso(add(start, ${r.int(-500, 500)})), week(start), lastOfMonth(${r.int(1999, 2030)}, ${r.int(0, 11)}), age(start, new Date(Date.UTC(2040, 5, 15))), Date.parse('${r.int(2000, 2030)}-02-30') > 0,
  Array.from({ length: ${r.int(3, 8)} }, (_, i) => iso(add(start, i * ${r.int(1, 40)}))), start < add(start, 1), new Date(start) - start,
];`;
}

export function json(r) {
  const value = (depth) => {
    if (depth === 0) return r.pick(['1', '-2.5', '"text"', 'true', 'null', '"q\\"uo\\\\te"', '"\\n\\t"', '"é😀"', '1e21', '"\\u2028"', '0']);
    if (r.chance(0.5)) return `[${r.list(0, 3, () => value(depth - 1))}]`;
    return `{${r.list(0, 4, (i) => `"${r.pick(['a', 'b', 'key', '1', 'x y', 'ü'])}${i}": ${value(depth - 1)}`)}}`;
  };
  const odd = () => r.pick(['undefined', '() => 1', 'Symbol("s")', 'NaN', 'Infinity', 'new Date(0)', 'new Map([[1, 2]])', '[undefined, () => 1]', '{ a: undefined, b: 1 }', 'Object(1)', 'new Error("e")', '{ toJSON() { return "j"; } }', '{ toJSON: (k) => "key " + k }', '/re/g', 'new Uint8Array(2)', '-0', '"\\ud800"', '10n', 'Object.create({ inherited: 1 })', 'new (class A { x = 1; get y() { return 2; } })()']);
  const bad = () => JSON.stringify(r.pick(['{', '[1,]', '{"a":1,}', "{'a':1}", '01', '1.', '"\n"', 'nul', '[1 2]', '{"a" 1}', '"\\x"', '', ' ', '+1', '.5', '"abc', '[', '{"a":}', 'undefined', 'NaN', '1 2', '\u00a01', '[1]]']));
  return `${tried}const v = ${value(3)};
export default [
  JSON.stringify(v), JSON.stringify(v, null, ${r.pick(['2', '"\\t"', '"--"', '20'])}), JSON.stringify(v, (k, x) => (typeof x === 'number' ? x + 1 : x)), JSON.stringify(v, ${r.pick(["['a0', 'b1']", '["key0", 1]'])}),
  JSON.parse(JSON.stringify(v)), JSON.parse(JSON.stringify(v), function (k, x) { return Array.isArray(this) ? x : k === 'a0' ? undefined : x; }),
  ${r.list(3, 6, () => `tried(() => JSON.stringify(${odd()}))`).join(', ')},
  ${r.list(2, 4, () => `tried(() => JSON.stringify({ k: ${odd()}, l: [${odd()}] }))`).join(', ')},
  ${r.list(3, 6, () => `tried(() => JSON.parse(${bad()}))`).join(', ')},
  tried(() => { const o = { a: [] }; o.a.push(o); return JSON.stringify(o); }),
  tried(() => JSON.parse('${r.pick(['{"__proto__": 1, "a": {"constructor": 2}}', '{"a":1,"a":2}', '[1e400, -0, 0.1]', '  [ 1 , "\\\\u0041" ]  '])}')),
];`;
}

export function regexes(r) {
  const atom = () => r.pick(['a', 'b', '.', '\\d', '\\w', '\\s', '[abc]', '[^x-z]', '\\b', '(?:ab|ba)', '(a|b)', '(?<n>\\d+)', '[\\d-]', 'o', 'e', 't', '\\S', '(.)', '$', '^', '(?=a)', '(?!b)', '(?<=o)', '(?<!t)', '\\1', '\\.']);
  const piece = () => {
    const a = atom();
    return /^(\\b|\$|\^|\(\?[=!<][^n]?)/.test(a) && !a.startsWith('(?<n>') ? a : a + r.pick(['', '', '*', '+', '?', '{2}', '{1,3}', '*?', '+?']);
  };
  const lines = r.list(8, 14, () => {
    let source = r.list(1, 5, piece).join('');
    if ((source.match(/\?<n>/g) ?? []).length > 1) source = source.replace('?<n>', '?:');
    const flags = r.some(['g', 'i', 'm', 's', 'u', 'y'], r.int(0, 3)).join('');
    const t = text(r);
    const use = r.pick([`${t}.match(re)`, `${t}.replace(re, '<$1$&>')`, `${t}.split(re)`, `${t}.search(re)`, `re.test(${t})`, `re.exec(${t})?.slice()`, `re.exec(${t})?.index`, `[...${t}.matchAll(new RegExp(re, 'g'))].map((m) => [m.index, ...m])`, `${t}.replace(re, (...m) => '[' + m.filter((x) => typeof x !== 'object').join('|') + ']')`, `(re.exec(${t}), re.lastIndex)`, `re.exec(${t})?.groups?.n ?? null`, `String(re)`]);
    return `  tried(() => { const re = new RegExp(${JSON.stringify(source)}, '${flags}'); return ${use}; }),`;
  });
  const known = r.some(['"2024-03-15".replace(/(\\d+)-(\\d+)-(\\d+)/, "$3/$2/$1")', '"camelCaseString".replace(/[A-Z]/g, (c) => "_" + c.toLowerCase())', '"a1b22c333".match(/\\d+/g)', '"one  two".split(/\\s+/)', '/^[\\w.+-]+@[\\w-]+\\.[\\w.]+$/.test("a.b+c@d-e.co.uk")', '"x=1;y=2".matchAll(/(?<k>\\w)=(?<v>\\d)/g).next().value.groups.v', '"aBc".replace(/b/i, "[$&]")', '"tel: 555-1234".match(/(\\d{3})-(\\d{4})/).slice(1)', '"<a><b>".match(/<.+?>/g)', '/(?<year>\\d{4})/.exec("in 1999").groups.year', '"ab\\ncd".match(/^c/m).index', '"😀a".match(/./gu)', '/\\p{Lu}/u.test("É")', '/[\\p{L}--[a-z]]/v.test("a")', '"aaa".lastIndexOf("a")', '/a(?:b|c)*?d/.exec("abcbcd")[0]', '"\\u{1F600}".match(/\\u{1F600}/u).length', '/(a+)+b/.test("aaaaaaaaaaaaaaaaaaac")'], r.int(4, 9));
  return `${tried}export default [\n${lines.join('\n')}\n${known.map((k) => `  tried(() => ${k}),`).join('\n')}\n];`;
}

export function collections(r) {
  const key = () => r.pick(['1', '"1"', 'NaN', '0', '-0', 'null', 'undefined', 'k1', 'k2', '"a"', 'true', '"b"']);
  const ops = r.list(8, 16, () => r.pick([`m.set(${key()}, ${r.int(0, 99)}).size`, `m.get(${key()})`, `m.has(${key()})`, `m.delete(${key()})`, 'm.size', '[...m.keys()].length', `s.add(${key()}).size`, `s.has(${key()})`, `s.delete(${key()})`, '[...s].length', `w.set(k1, ${r.int(1, 9)}).has(k1)`, 'w.get(k2)', 'm.forEach((v, k) => { if (v > 90) m.delete(k); })', 'for_of()', 'ws.add(k2).has(k2)']));
  const items = `[${r.list(4, 12, () => `{ g: '${r.pick(['x', 'y', 'z'])}', n: ${r.int(1, 50)}, t: ['${r.word()}', '${r.word()}'] }`)}]`;
  return `const k1 = { k: 1 }, k2 = [2];
const m = new Map([[1, 'one'], [k1, 'obj']]), s = new Set([1, 1, '1', NaN, NaN]), w = new WeakMap(), ws = new WeakSet();
const for_of = () => { let n = 0; for (const [k, v] of m) { n++; if (n < 4) m.set('added' + n, n); } return n; };
const out = [];
for (const op of [${ops.map((op) => `() => ${op}`).join(', ')}]) { try { out.push(op() ?? 'none'); } catch (e) { out.push(e.name); } }
const items = ${items};
const groups = new Map();
for (const item of items) groups.set(item.g, [...(groups.get(item.g) ?? []), item.n]);
const counts = items.flatMap((i) => i.t).reduce((c, t) => c.set(t, (c.get(t) ?? 0) + 1), new Map());
const a = new Set(items.map((i) => i.n)), b = new Set([${r.list(3, 8, () => r.int(1, 50))}]);
export default {
  out, map: [...m].map(([k, v]) => [String(k), v]), set: [...s].map(String),
  groups: Object.fromEntries(groups), counts: [...counts].sort(([x, n], [y, o]) => o - n || (x < y ? -1 : 1)),
  union: [...new Set([...a, ...b])], both: [...a].filter((x) => b.has(x)), only: [...a].filter((x) => !b.has(x)), inverse: Object.fromEntries([...counts].map(([k, v]) => [v, k])),
};`;
}

export function typedArrays(r) {
  const type = () => r.pick(['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array', 'Float32Array', 'Float64Array']);
  const value = () => r.pick([String(r.int(-300, 300)), '1.5', '-0.5', '255.7', '1e10', 'NaN', '-Infinity', '"12"', 'null', 'true', '2 ** 40']);
  const lines = r.list(7, 12, () => {
    const t = type();
    return r.pick([`[...${t}.of(${r.list(2, 6, value)})].map(String)`, `[...new ${t}([${r.list(3, 8, () => r.int(-9, 99))}]).${r.pick(['subarray(1, 4)', 'slice(-3)', 'map((x) => x * 2)', 'filter((x) => x > 5)', 'fill(7, 1, 2)', 'sort()', 'reverse()', 'toSorted((a, b) => b - a)', 'with(0, 3)', 'copyWithin(0, 2)'])}]`, `new ${t}(4).${r.pick(['length', 'byteLength', 'BYTES_PER_ELEMENT', 'join("-")', 'at(-1)', 'indexOf(0)', 'includes(NaN)'])}`, `(() => { const b = new ArrayBuffer(16), d = new DataView(b); d.set${r.pick(['Int16', 'Uint32', 'Float32', 'Float64', 'Int8'])}(${r.int(0, 6)}, ${r.int(-9999, 9999)}, ${r.chance(0.5)}); return [...new Uint8Array(b)]; })()`, `(() => { const u = new Uint8Array([${r.list(8, 8, () => r.int(0, 255))}]); const d = new DataView(u.buffer); return [d.getInt16(0), d.getUint16(1, true), d.getInt32(2), d.getFloat32(4).toPrecision(5), d.getUint8(7)]; })()`, `(() => { const a = new Uint8Array(6); a.set([1, 2, 3], ${r.int(0, 4)}); return [...a]; })()`, `[...new ${t}(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]).buffer.slice(0, 8))].map(String)`, `new BigInt64Array([${r.int(-9, 9)}n, 2n ** 63n])[1]`, `Object.prototype.toString.call(new ${t}(1))`, `JSON.stringify(new ${t}([1, 2]))`, `[...new ${t}([3, 1, 2]).entries()].flat()`]);
  });
  return `${tried}const crc = (s) => { let c = ~0; for (const ch of s) { c ^= ch.charCodeAt(0); for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1; } return (~c >>> 0).toString(16); };
const fnv = (s) => { let h = 0x811c9dc5; for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 0x01000193) >>> 0; return h; };
const sieve = (n) => { const a = new Uint8Array(n + 1), out = []; for (let i = 2; i <= n; i++) { if (a[i]) continue; out.push(i); for (let j = i * i; j <= n; j += i) a[j] = 1; } return out; };
const b64 = (bytes) => { const A = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'; let o = ''; for (let i = 0; i < bytes.length; i += 3) { const n = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0); o += A[n >> 18] + A[(n >> 12) & 63] + (i + 1 < bytes.length ? A[(n >> 6) & 63] : '=') + (i + 2 < bytes.length ? A[n & 63] : '='); } return o; };
export default [
${lines.map((line) => `  tried(() => ${line}),`).join('\n')}
  crc('${r.word()}'), fnv('${r.word()}'), sieve(${r.int(10, 120)}).length, b64(Uint8Array.from('${r.word()}', (c) => c.charCodeAt(0))),
];`;
}

export function unicode(r) {
  const s = () => JSON.stringify(r.pick(['😀a\u0301z', 'naïve', '👨‍👩‍👧', '\ud83d', 'ΑΣ ΣΑΣ', 'Straße', 'İstanbul', '日本語テキスト', '\u00e9\u0065\u0301', 'a\u200bb', '🇩🇪🇫🇷', 'ﬀ', '\u1e9e', 'Ǆ', 'ŉ']));
  const lines = r.list(8, 14, () => `  tried(() => ${s()}${r.pick(['.length', '.normalize("NFC").length', '.normalize("NFD").length', '.normalize("NFKD")', '.toUpperCase()', '.toLowerCase()', '.codePointAt(0)', '.charCodeAt(1)', '.split("")[0].length', '.at(-1).charCodeAt(0)', '.isWellFormed()', '.match(/\\p{L}/gu)?.length ?? 0', '.match(/\\p{Emoji_Presentation}/gu)?.length ?? 0', '.replace(/\\p{M}/gu, "")', '.padEnd(8, "😀").length', '.slice(1, 3).length', '.indexOf("z")', ' < "z"', '.localeCompare("a") !== 0', '.match(/[^\\x00-\\x7f]/g)?.length ?? 0', '.match(/\\p{Script=Greek}/gu)?.length ?? 0'])}),`);
  return `${tried}const utf8 = (s) => [...s].flatMap((c) => { const n = c.codePointAt(0); return n < 0x80 ? [n] : n < 0x800 ? [0xc0 | (n >> 6), 0x80 | (n & 63)] : n < 0x10000 ? [0xe0 | (n >> 12), 0x80 | ((n >> 6) & 63), 0x80 | (n & 63)] : [0xf0 | (n >> 18), 0x80 | ((n >> 12) & 63), 0x80 | ((n >> 6) & 63), 0x80 | (n & 63)]; });
export default [
${lines.join('\n')}
  utf8(${s()}), [...${s()}].length, encodeURIComponent(${s()}.toWellFormed()), decodeURIComponent('%F0%9F%98%80%C3%A9'), escape(${s()}), String.fromCodePoint(0x1f600, ${r.int(65, 90)}), String.raw\`\\u{41}\\n\${${r.int(1, 9)}}\`,
];`;
}

export function errorValues(r) {
  const make = () => r.pick(['new Error("m")', 'new TypeError("t", { cause: 1 })', 'new (class Custom extends Error { name = "Custom"; })("c")', 'new AggregateError([new Error("a")], "agg")', 'Object.assign(new Error("x"), { code: 5 })', '"text"', '42', 'null', '{ a: 1 }', 'new RangeError()', 'Error("without new")', 'new (class NoName extends TypeError {})("n")']);
  const cases = r.list(5, 9, () => `tried(() => { throw ${make()}; })`);
  return `const tried = (f) => { try { return f(); } catch (e) { return e instanceof Error ? [e.name, e.message, String(e), e instanceof TypeError, 'cause' in e, Object.keys(e), e.constructor.name, typeof e.stack, e.errors?.length ?? null] : ['other', typeof e, JSON.stringify(e)]; } };
class HttpError extends Error {
  constructor(status, message, options) { super(message, options); this.name = this.constructor.name; this.status = status; }
  get retryable() { return this.status >= 500; }
  toJSON() { return { status: this.status, message: this.message, cause: this.cause?.message }; }
}
class NotFound extends HttpError { constructor(what) { super(404, what + ' not found'); } }
const wrap = (f) => { try { return f(); } catch (e) { throw new HttpError(${r.pick([500, 502, 400])}, 'wrapped', { cause: e }); } };
const order = [];
const nested = () => { try { order.push('try'); ${r.pick(['throw new Error("inner")', 'return "returned"', 'null.x', 'order.push("fine")'])}; } catch (e) { order.push('catch ' + e.name); ${r.pick(['return "from catch"', 'throw new TypeError("again")', ''])}; } finally { order.push('finally'); ${r.pick(['', 'return "from finally"', ''])} } return 'end'; };
const asynchronous = async () => { try { await Promise.reject(new NotFound('page')); } catch ({ name, status, message }) { return { name, status, message }; } };
export default [
  ${cases.join(',\n  ')},
  tried(() => wrap(() => { throw new NotFound('${r.word()}'); })), tried(nested), order, await asynchronous(),
  JSON.stringify(new NotFound('x')), new HttpError(503, 'm').retryable, (await Promise.allSettled([1, Promise.reject(new Error('r')), asynchronous()])).map((x) => x.status + (x.reason?.message ?? '')),
  await Promise.any([Promise.reject(1), Promise.resolve(${r.int(1, 9)})]), await Promise.any([Promise.reject(1)]).catch((e) => e.constructor.name + e.errors), Error.prototype.toString.call({ name: 'N', message: 'M' }),
];`;
}
