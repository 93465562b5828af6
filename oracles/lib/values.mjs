// Values as tagged JSON, in the form that `execbox run-code --json` prints; and the few changes that make two such texts
// comparable.
const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
const base64 = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');

// The value in tagged JSON. With `log`, functions and symbols are described by `{"$any": true}`, which equals everything.
export function encode(value, log = false, path = []) {
  switch (typeof value) {
    case 'undefined':
      return { $undefined: true };
    case 'bigint':
      return { $bigint: String(value) };
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $number: Object.is(value, -0) ? '-0' : String(value) };
    case 'string':
      return value.toWellFormed();
    case 'function':
    case 'symbol':
      return log ? { $any: true } : { $refused: typeof value };
    case 'boolean':
      return value;
  }
  if (value === null) return null;
  if (path.includes(value)) return { $cycle: path.length - path.indexOf(value) };
  const inner = (item) => encode(item, log, [...path, value]);
  switch (tag(value)) {
    case 'Date':
      return { $date: Number.isNaN(+value) ? null : +value };
    case 'Map':
      return { $map: [...value].map(([key, item]) => [inner(key), inner(item)]) };
    case 'Set':
      return { $set: [...value].map(inner) };
    case 'RegExp':
      return { $regexp: value.source, flags: value.flags };
    case 'Error':
      return { $error: String(value.name), message: String(value.message) };
    case 'Uint8Array':
      return { $bytes: base64(value) };
    case 'Number':
    case 'String':
    case 'Boolean':
      return { $boxed: value.valueOf() };
  }
  if (ArrayBuffer.isView(value)) return { $view: tag(value), of: base64(value) };
  if (tag(value) === 'ArrayBuffer') return { $buffer: base64(new Uint8Array(value)) };
  if (Array.isArray(value)) {
    if (Object.keys(value).length === value.length) return value.map(inner);
    const items = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inner(item)]));
    return { $sparse: value.length, items };
  }
  const prototype = Object.getPrototypeOf(value);
  if (!log && prototype !== null && Object.getPrototypeOf(prototype) !== null) return { $refused: 'instance' };
  if (log && typeof value.then === 'function') return { $any: true };
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key.startsWith('$') ? `$${key}` : key, inner(item)]));
}

// What execbox printed, in the form that `encode` gives: references are resolved, and what is not compared is left out.
export function normalize(json) {
  const named = new Map();
  (function find(json) {
    if (json === null || typeof json !== 'object') return;
    if ('$id' in json) named.set(json.$id, json.$value);
    Object.values(json).forEach(find);
  })(json);
  return (function copy(json, path) {
    if (json === null || typeof json !== 'object') return json;
    if (Array.isArray(json)) return json.map((item) => copy(item, path));
    if ('$id' in json) return copy(json.$value, [...path, json.$id]);
    if ('$ref' in json) return path.includes(json.$ref) ? { $cycle: true } : copy(named.get(json.$ref), [...path, json.$ref]);
    if ('$error' in json) return { $error: json.$error, message: json.message ?? '' };
    if ('$view' in json) {
      const { $buffer } = copy(json.of, path);
      const size = json.length && /(8|16|32|64)/.test(json.$view) ? json.length * (/(\d+)/.exec(json.$view)[1] / 8) : json.length;
      return { $view: json.$view, of: Buffer.from($buffer, 'base64').subarray(json.offset ?? 0).subarray(0, size).toString('base64') };
    }
    return Object.fromEntries(Object.entries(json).map(([key, item]) => [key, copy(item, path)]));
  })(json, []);
}

// A result of the script contract, which lets only JSON across: `undefined` members are left out, -0 is 0. Gives
// `{ refused }` for values that do not cross, or else `{ value }`; `{}` for `undefined`.
export function toScriptResult(json) {
  if (json?.$undefined) return {};
  let refused = false;
  const value = (function copy(json) {
    if (json === null || typeof json !== 'object') return json;
    if (Array.isArray(json)) return json.map(copy);
    if (json.$number === '-0') return 0;
    if (json.$sparse && Array.from({ length: json.$sparse }, (_, index) => index).every((index) => index in json.items)) {
      return Array.from({ length: json.$sparse }, (_, index) => copy(json.items[index])); // it has further members
    }
    const keys = Object.keys(json);
    if (keys.some((key) => /^\$(?!\$)/.test(key))) {
      refused = true;
      return null;
    }
    const kept = keys.filter((key) => !json[key]?.$undefined);
    return Object.fromEntries(kept.map((key) => [key.replace(/^\$\$/, '$'), copy(json[key])]));
  })(json);
  return refused ? { refused } : { value };
}

// A line of the log of the script contract: placeholders as in node, other values as JSON.
export function formatLog(args) {
  const rest = [...args];
  let head = [];
  if (typeof rest[0] === 'string' && rest.length > 1) {
    const format = rest.shift();
    head = [format.replace(/%([sdifjoOc%])/g, (all, letter) => {
      if (letter === '%') return '%';
      return rest.length === 0 ? all : placeholder(letter, rest.shift());
    })];
  }
  return [...head, ...rest.map(logged)].join(' ').toWellFormed();
}

function placeholder(letter, arg) {
  const number = (parse) => (typeof arg === 'symbol' ? 'NaN' : logged(parse(arg)));
  switch (letter) {
    case 'd': return typeof arg === 'bigint' ? String(arg) : number(Number);
    case 'i': return number(Number.parseInt);
    case 'f': return number(Number.parseFloat);
    case 'j': return logged(JSON.stringify(arg));
    case 'c': return '';
    case 's': return logged(arg);
    default: return typeof arg === 'string' ? JSON.stringify(arg) : logged(arg);
  }
}

function logged(arg) {
  if (typeof arg === 'string') return arg;
  if (tag(arg) === 'Error') return String(arg);
  try {
    if (typeof arg === 'object' && arg !== null) return collection(arg) ?? JSON.stringify(arg, (_, value) => collection(value) ?? value) ?? String(arg);
    return Object.is(arg, -0) ? '-0' : String(arg);
  } catch {
    return '\0any';
  }
}

// A map or set with its content; undefined for other values.
function collection(value) {
  const inner = (item) => (typeof item === 'string' ? JSON.stringify(item) : logged(item));
  if (tag(value) === 'Map') return `Map(${value.size}) {${[...value].map(([key, item]) => `${inner(key)} => ${inner(item)}`).join(', ')}}`;
  if (tag(value) === 'Set') return `Set(${value.size}) {${[...value].map(inner).join(', ')}}`;
  return undefined;
}

// Whether two values are equal, where `{"$any": true}` equals everything. The order of keys counts.
export function equal(a, b) {
  if (a?.$any || b?.$any || a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if ('$cycle' in a && '$cycle' in b) return true;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  const others = Object.keys(b);
  return keys.length === others.length && keys.every((key, index) => key === others[index] && equal(a[key], b[key]));
}
