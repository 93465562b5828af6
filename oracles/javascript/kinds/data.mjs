// Programs of the kinds that models write: data, text, algorithms.

const rows = (r, low, high) => `[
${r.list(low, high, (i) => `  { id: ${i + 1}, name: '${r.word()}', team: '${r.pick(['red', 'blue', 'green'])}', score: ${r.pick([r.int(0, 100), r.int(0, 1000) / 10])}, tags: [${r.some(["'new'", "'hot'", "'old'", "'sale'"], r.int(0, 3))}], at: '2024-0${r.int(1, 9)}-1${r.int(0, 9)}'${r.chance(0.2) ? ', note: null' : ''} },`).join('\n')}
]`;

export function wrangling(r) {
  const steps = r.shuffle([
    'byTeam: rows.reduce((acc, row) => { (acc[row.team] ??= []).push(row.name); return acc; }, {})',
    'totals: Object.entries(rows.reduce((acc, { team, score }) => ({ ...acc, [team]: (acc[team] ?? 0) + score }), {})).sort(([a], [b]) => (a < b ? -1 : 1)).map(([team, total]) => `${team}: ${total.toFixed(1)}`)',
    'top: [...rows].sort((a, b) => b.score - a.score || a.id - b.id).slice(0, 3).map(({ id, score }) => ({ id, score }))',
    'stats: (({ length, ...xs }) => ({ n: length, sum: round(Object.values(xs).reduce((a, b) => a + b, 0)), max: Math.max(...Object.values(xs)), min: Math.min(...Object.values(xs)) }))({ ...rows.map((r) => r.score), length: rows.length })',
    'median: (() => { const s = rows.map((r) => r.score).sort((a, b) => a - b), m = s.length >> 1; return s.length % 2 ? s[m] : (s[m - 1] + s[m]) / 2; })()',
    'tags: [...new Set(rows.flatMap((r) => r.tags))].sort()',
    'tagCounts: rows.flatMap((r) => r.tags).reduce((m, t) => ((m[t] = (m[t] || 0) + 1), m), {})',
    'joined: rows.map((r) => ({ ...r, owner: owners.find((o) => o.team === r.team)?.name ?? "nobody" })).map(({ id, owner }) => id + owner)',
    'pages: Array.from({ length: Math.ceil(rows.length / 4) }, (_, i) => rows.slice(i * 4, i * 4 + 4).map((r) => r.id))',
    'pivot: Object.fromEntries([...new Set(rows.map((r) => r.at.slice(0, 7)))].sort().map((m) => [m, rows.filter((r) => r.at.startsWith(m)).length]))',
    'diff: rows.slice(1).map((r, i) => round(r.score - rows[i].score))',
    'running: rows.reduce((out, r) => [...out, round((out.at(-1) ?? 0) + r.score)], [])',
    'index: Object.keys(Object.fromEntries(rows.map((r) => [r.name, r]))).length',
    'csv: [Object.keys(rows[0]).slice(0, 4).join(), ...rows.slice(0, 3).map((r) => Object.values(r).slice(0, 4).join())].join("\\n")',
    'deviation: (() => { const m = rows.reduce((a, r) => a + r.score, 0) / rows.length; return Math.sqrt(rows.reduce((a, r) => a + (r.score - m) ** 2, 0) / rows.length).toFixed(3); })()',
    'partition: rows.reduce(([a, b], r) => (r.score > 50 ? [[...a, r.id], b] : [a, [...b, r.id]]), [[], []])',
    'nulls: rows.filter((r) => r.note === null).length + "/" + rows.filter((r) => !("note" in r)).length',
    'rename: rows.slice(0, 2).map(({ name: title, ...rest }) => ({ title, keys: Object.keys(rest).length }))',
    'histogram: rows.reduce((h, r) => { const b = Math.floor(r.score / 25) * 25; h[b] = (h[b] ?? "") + "*"; return h; }, {})',
    'latest: Object.values(rows.reduce((m, r) => (!m[r.team] || m[r.team].at < r.at ? { ...m, [r.team]: r } : m), {})).map((r) => r.team + " " + r.at)',
  ]).slice(0, r.int(6, 12));
  return `const rows = ${rows(r, 5, 16)};
const owners = [{ team: 'red', name: 'Ann' }, { team: 'blue', name: 'Bob' }];
const round = (n) => Math.round(n * 100) / 100;
const result = {
  ${steps.join(',\n  ')},
};
console.log('rows', rows.length, Object.keys(result));
export default result;`;
}

const SENTENCES = ['It was a bright cold day in April, and the clocks were striking thirteen.', 'All happy families are alike; each unhappy family is unhappy in its own way.', 'Call me Ishmael. Some years ago - never mind how long precisely - I went to sea!', 'Numbers: 1, 22, 333 and 4,444.50; dates: 2024-01-31, 31.12.1999.', 'ERROR [db] timeout after 30s (id=42)\nINFO [web] ok\nERROR [web] 500 /a/b?c=d', 'Über naïve Façades: "quoted", \'single\' & <tags>.'];

export function texts(r) {
  const steps = r.shuffle([
    'words: text.toLowerCase().match(/[\\p{L}\']+/gu)?.reduce((m, w) => ((m[w] = (m[w] ?? 0) + 1), m), Object.create(null))',
    'title: text.replace(/\\b[a-z]/g, (c) => c.toUpperCase())',
    'slug: text.normalize("NFD").replace(/[\\u0300-\\u036f]/g, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")',
    'wrapped: text.split(/\\s+/).reduce((ls, w) => { const last = ls.at(-1); if (last !== undefined && last.length + w.length < 30) ls[ls.length - 1] = last ? last + " " + w : w; else ls.push(w); return ls; }, [""])',
    'vowels: [...text].filter((c) => "aeiou".includes(c.toLowerCase())).length',
    'reversed: text.split(" ").map((w) => [...w].reverse().join("")).join(" ")',
    'numbers: (text.match(/-?\\d+(?:[.,]\\d+)*/g) ?? []).map((n) => Number(n.replace(/,/g, "")) || n)',
    'caesar: text.replace(/[a-z]/gi, (c) => { const b = c <= "Z" ? 65 : 97; return String.fromCharCode(((c.charCodeAt(0) - b + SHIFT) % 26) + b); })',
    'rle: text.replace(/(.)\\1*/gs, (m, c) => (m.length > 1 ? m.length : "") + c)',
    'longest: text.split(/\\W+/).reduce((a, b) => (b.length > a.length ? b : a), "")',
    'escaped: text.replace(/[&<>"\']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", \'"\': "&quot;", "\'": "&#39;" })[c])',
    'initials: text.split(/\\s+/).filter(Boolean).map((w) => w[0]).join("")',
    'lines: text.split(/\\r?\\n/).map((l, i) => `${String(i + 1).padStart(3)}: ${l.trim()}`)',
    'ngrams: (() => { const ws = text.toLowerCase().split(/\\W+/).filter(Boolean); return ws.slice(1).map((w, i) => ws[i] + " " + w).slice(0, 5); })()',
    'codes: [...text.slice(0, 8)].map((c) => c.codePointAt(0).toString(16).padStart(4, "0")).join(" ")',
    'truncated: text.length > 20 ? text.slice(0, text.lastIndexOf(" ", 20)) + "…" : text',
    'template: "Hi {name}, {count} of {total}{missing}".replace(/\\{(\\w+)\\}/g, (m, k) => ({ name: "Ann", count: text.length, total: 99 })[k] ?? m)',
    'unique: [...new Set(text)].sort().join("").trim()',
    'distance: levenshtein(text.slice(0, 12), text.slice(3, 18))',
    'palindrome: ((s) => s === [...s].reverse().join(""))(text.toLowerCase().replace(/[^a-z]/g, ""))',
    'table: text.split(/[,;.]/).map((c) => c.trim()).filter(Boolean).map((c) => `| ${c.padEnd(24).slice(0, 24)} |`).join("\\n")',
    'counts: { length: text.length, bytes: unescape(encodeURIComponent(text)).length, spaces: text.split(" ").length - 1, upper: text.replace(/[^A-Z]/g, "").length }',
  ]).slice(0, r.int(7, 13));
  return `const text = ${JSON.stringify(r.shuffle(SENTENCES).slice(0, r.int(1, 3)).join(' '))};
const SHIFT = ${r.int(1, 25)};
const levenshtein = (a, b) => { const d = Array.from({ length: a.length + 1 }, (_, i) => [i]); for (let j = 0; j <= b.length; j++) d[0][j] = j; for (let i = 1; i <= a.length; i++) for (let j = 1; j <= b.length; j++) d[i][j] = Math.min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)); return d[a.length][b.length]; };
export default {
  ${steps.join(',\n  ')},
};`;
}

export function recursion(r) {
  const steps = r.shuffle([
    `fib: ((f) => f(f, ${r.int(5, 18)}))((f, n) => (n < 2 ? n : f(f, n - 1) + f(f, n - 2)))`,
    `permutations: (function p(xs) { return xs.length < 2 ? [xs] : xs.flatMap((x, i) => p([...xs.slice(0, i), ...xs.slice(i + 1)]).map((q) => [x, ...q])); })([${r.some([1, 2, 3, 4], r.int(2, 4))}]).map((q) => q.join(''))`,
    `hanoi: (function h(n, a, b, c) { return n === 0 ? [] : [...h(n - 1, a, c, b), a + c, ...h(n - 1, b, a, c)]; })(${r.int(2, 5)}, 'A', 'B', 'C')`,
    `subsets: (function s(xs) { return xs.length ? s(xs.slice(1)).flatMap((q) => [q, [xs[0], ...q]]) : [[]]; })('${r.pick(['abc', 'abcd', 'xy'])}'.split('')).map((q) => q.join('')).sort()`,
    `queens: (function q(n, row = 0, cols = [], out = []) { if (row === n) out.push(cols.join('')); else for (let c = 0; c < n; c++) if (cols.every((d, i) => d !== c && Math.abs(d - c) !== row - i)) q(n, row + 1, [...cols, c], out); return out; })(${r.int(4, 6)})`,
    `flatten: (function f(x) { return Array.isArray(x) ? x.flatMap(f) : [x]; })([1, [2, [3, [${r.int(4, 9)}, [[]]]]], [[${r.int(1, 9)}]]])`,
    `ackermann: (function a(m, n) { return m === 0 ? n + 1 : n === 0 ? a(m - 1, 1) : a(m - 1, a(m, n - 1)); })(2, ${r.int(1, 6)})`,
    `gcd: (function g(a, b) { return b ? g(b, a % b) : a; })(${r.int(10, 9999)}, ${r.int(10, 9999)})`,
    `depth: (function d(o) { return o && typeof o === 'object' ? 1 + Math.max(0, ...Object.values(o).map(d)) : 0; })({ a: { b: [1, { c: ${r.int(1, 9)} }] }, d: [] })`,
    `paths: (function p(o, at = []) { return o && typeof o === 'object' ? Object.entries(o).flatMap(([k, v]) => p(v, [...at, k])) : [at.join('.') + '=' + o]; })({ a: { b: ${r.int(1, 9)}, c: [true, null] }, d: 'x' })`,
    `collatz: (function c(n, steps = 0) { return n === 1 ? steps : c(n % 2 ? 3 * n + 1 : n / 2, steps + 1); })(${r.int(2, 999)})`,
    `change: (function c(n, coins) { return n === 0 ? 1 : n < 0 || !coins.length ? 0 : c(n - coins[0], coins) + c(n, coins.slice(1)); })(${r.int(10, 60)}, [25, 10, 5, 1])`,
    `binary: (function b(xs, x, lo = 0, hi = xs.length) { if (lo >= hi) return ~lo; const m = (lo + hi) >> 1; return xs[m] === x ? m : xs[m] < x ? b(xs, x, m + 1, hi) : b(xs, x, lo, m); })([1, 4, 9, 16, 25, 36, 49], ${r.int(0, 50)})`,
    `equal: (function e(a, b) { return a === b || (a && b && typeof a === 'object' && typeof b === 'object' && Object.keys(a).length === Object.keys(b).length && Object.keys(a).every((k) => e(a[k], b[k]))); })({ x: [1, { y: 2 }] }, { x: [1, { y: ${r.int(1, 3)} }] })`,
    `tree: (() => { const insert = (t, v) => (t ? (v < t.v ? { ...t, l: insert(t.l, v) } : { ...t, r: insert(t.r, v) }) : { v, l: null, r: null }); const walk = (t) => (t ? [...walk(t.l), t.v, ...walk(t.r)] : []); const height = (t) => (t ? 1 + Math.max(height(t.l), height(t.r)) : 0); const t = [${r.list(5, 12, () => r.int(1, 99))}].reduce(insert, null); return [walk(t), height(t)]; })()`,
    `mutual: (() => { const even = (n) => n === 0 || odd(n - 1), odd = (n) => n !== 0 && even(n - 1); return even(${r.int(0, 99)}); })()`,
    `pascal: (function p(n) { if (n === 0) return [[1]]; const t = p(n - 1), l = t.at(-1); return [...t, [1, ...l.slice(1).map((x, i) => x + l[i]), 1]]; })(${r.int(2, 8)}).at(-1)`,
    `knapsack: (() => { const memo = new Map(); const items = [${r.list(3, 6, () => `[${r.int(1, 9)}, ${r.int(1, 30)}]`)}]; const best = (i, w) => { if (i === items.length) return 0; const k = i + ',' + w; if (!memo.has(k)) memo.set(k, Math.max(best(i + 1, w), items[i][0] <= w ? items[i][1] + best(i + 1, w - items[i][0]) : 0)); return memo.get(k); }; return best(0, ${r.int(5, 25)}); })()`,
    `lcs: (() => { const a = '${r.word()}${r.word()}', b = '${r.word()}${r.word()}'; const m = {}; const f = (i, j) => (m[i + ':' + j] ??= i === a.length || j === b.length ? '' : a[i] === b[j] ? a[i] + f(i + 1, j + 1) : ((x, y) => (x.length >= y.length ? x : y))(f(i + 1, j), f(i, j + 1))); return f(0, 0); })()`,
    `trampoline: (() => { const t = (f) => { while (typeof f === 'function') f = f(); return f; }; const sum = (n, a = 0) => (n === 0 ? a : () => sum(n - 1, a + n)); return t(sum(${r.int(100, 20000)})); })()`,
    `overflow: (() => { try { (function f() { f(); })(); } catch (e) { return e instanceof RangeError; } })()`,
  ]).slice(0, r.int(6, 11));
  return `export default {\n  ${steps.join(',\n  ')},\n};`;
}

export function graphs(r) {
  const n = r.int(5, 10);
  const name = (i) => String.fromCharCode(65 + i);
  const edges = r.list(n, n * 2, () => [r.int(0, n - 1), r.int(0, n - 1), r.int(1, 20)]).filter(([a, b]) => a !== b);
  const steps = r.shuffle([
    `bfs: (() => { const seen = new Set(['A']), queue = ['A']; for (const at of queue) for (const { to } of adj[at]) if (!seen.has(to)) { seen.add(to); queue.push(to); } return queue; })()`,
    `dfs: (() => { const out = []; const visit = (at) => { if (out.includes(at)) return; out.push(at); adj[at].forEach(({ to }) => visit(to)); }; Object.keys(adj).forEach(visit); return out; })()`,
    `dijkstra: (() => { const dist = Object.fromEntries(nodes.map((v) => [v, Infinity])); dist.A = 0; const left = new Set(nodes); while (left.size) { const at = [...left].reduce((a, b) => (dist[b] < dist[a] ? b : a)); left.delete(at); for (const { to, w } of adj[at]) dist[to] = Math.min(dist[to], dist[at] + w); } return Object.entries(dist).map(([k, v]) => k + (v === Infinity ? '-' : v)); })()`,
    `kruskal: (() => { const up = Object.fromEntries(nodes.map((v) => [v, v])); const find = (v) => (up[v] === v ? v : (up[v] = find(up[v]))); let total = 0; for (const [a, b, w] of [...edges].sort((x, y) => x[2] - y[2])) if (find(a) !== find(b)) { up[find(a)] = find(b); total += w; } return [total, new Set(nodes.map(find)).size]; })()`,
    `floyd: (() => { const d = nodes.map((a) => nodes.map((b) => (a === b ? 0 : Math.min(Infinity, ...edges.filter(([x, y]) => x === a && y === b).map((e) => e[2]))))); for (let k = 0; k < d.length; k++) for (let i = 0; i < d.length; i++) for (let j = 0; j < d.length; j++) d[i][j] = Math.min(d[i][j], d[i][k] + d[k][j]); return d.map((row) => row.map((x) => (x === Infinity ? -1 : x)).join(' ')); })()`,
    `topological: (() => { const deg = Object.fromEntries(nodes.map((v) => [v, 0])); edges.forEach(([, b]) => deg[b]++); const ready = nodes.filter((v) => !deg[v]), out = []; while (ready.length) { const v = ready.shift(); out.push(v); for (const { to } of adj[v]) if (--deg[to] === 0) ready.push(to); } return out.length === nodes.length ? out : 'cycle after ' + out; })()`,
    `cycle: (() => { const state = {}; const visit = (v) => { if (state[v] === 1) return true; if (state[v]) return false; state[v] = 1; const found = adj[v].some(({ to }) => visit(to)); state[v] = 2; return found; }; return nodes.some(visit); })()`,
    `degrees: nodes.map((v) => [v, adj[v].length, edges.filter(([, b]) => b === v).length])`,
    `components: (() => { const seen = new Map(); let n = 0; for (const v of nodes) { if (seen.has(v)) continue; n++; const stack = [v]; while (stack.length) { const at = stack.pop(); if (seen.has(at)) continue; seen.set(at, n); edges.forEach(([a, b]) => { if (a === at) stack.push(b); if (b === at) stack.push(a); }); } } return [...seen].sort().map(String); })()`,
    `paths: (() => { const out = []; const go = (at, path) => { if (at === nodes.at(-1)) { out.push(path.join('')); return; } for (const { to } of adj[at]) if (!path.includes(to)) go(to, [...path, to]); }; go('A', ['A']); return out.sort().slice(0, 12); })()`,
    `rank: (() => { let p = Object.fromEntries(nodes.map((v) => [v, 1 / nodes.length])); for (let i = 0; i < 20; i++) { const q = Object.fromEntries(nodes.map((v) => [v, 0.15 / nodes.length])); for (const v of nodes) for (const { to } of adj[v]) q[to] += (0.85 * p[v]) / adj[v].length; p = q; } return nodes.map((v) => p[v].toFixed(6)); })()`,
    `coloring: (() => { const c = {}; for (const v of nodes) { const used = new Set(edges.flatMap(([a, b]) => (a === v ? [c[b]] : b === v ? [c[a]] : []))); let k = 0; while (used.has(k)) k++; c[v] = k; } return c; })()`,
  ]).slice(0, r.int(4, 8));
  return `const edges = ${JSON.stringify(edges.map(([a, b, w]) => [name(a), name(b), w]))};
const nodes = ${JSON.stringify(Array.from({ length: n }, (_, i) => name(i)))};
const adj = Object.fromEntries(nodes.map((v) => [v, edges.filter(([a]) => a === v).map(([, to, w]) => ({ to, w }))]));
export default {
  ${steps.join(',\n  ')},
};`;
}

export function matrices(r) {
  const n = r.int(2, 4);
  const m = () => JSON.stringify(Array.from({ length: n }, () => Array.from({ length: n }, () => r.int(-9, 9))));
  const steps = r.shuffle([
    'product: mul(a, b)', 'transposed: a[0].map((_, j) => a.map((row) => row[j]))', 'det: det(a)', 'sum: a.map((row, i) => row.map((x, j) => x + b[i][j]))', 'trace: a.reduce((s, row, i) => s + row[i], 0)', 'power: pow(a, P)', 'rotated: a[0].map((_, i) => a.map((row) => row[i]).reverse())', 'spiral: spiral(a)', 'inverse: inverse(a)?.map((row) => row.map((x) => x.toFixed(4))) ?? "singular"', 'diagonals: [a.map((row, i) => row[i]), a.map((row, i) => row.at(-1 - i))]', 'identity: a.map((_, i) => a.map((_, j) => +(i === j)))', 'flat: a.flat().sort((x, y) => x - y)', 'max: Math.max(...a.flat())', 'text: a.map((row) => row.map((x) => String(x).padStart(4)).join("")).join("\\n")', 'rank: rank(a)', 'apply: a.map((row) => row.reduce((s, x, i) => s + x * (i + 1), 0))', 'kronecker: a.flatMap((ra) => b.map((rb) => ra.flatMap((x) => rb.map((y) => x * y)))).length',
  ]).slice(0, r.int(6, 11));
  return `const a = ${m()}, b = ${m()}, P = ${r.int(2, 5)};
const mul = (x, y) => x.map((row) => y[0].map((_, j) => row.reduce((s, v, k) => s + v * y[k][j], 0)));
const pow = (x, n) => (n === 1 ? x : n % 2 ? mul(x, pow(x, n - 1)) : pow(mul(x, x), n / 2));
const det = (x) => (x.length === 1 ? x[0][0] : x[0].reduce((s, v, j) => s + (j % 2 ? -v : v) * det(x.slice(1).map((row) => row.filter((_, k) => k !== j))), 0));
const spiral = (x) => { const m = x.map((row) => [...row]), out = []; while (m.length) { out.push(...m.shift()); for (const row of m) if (row.length) out.push(row.pop()); if (m.length) out.push(...m.pop().reverse()); for (let i = m.length - 1; i >= 0; i--) if (m[i].length) out.push(m[i].shift()); } return out; };
const inverse = (x) => { const n = x.length, m = x.map((row, i) => [...row, ...x.map((_, j) => +(i === j))]); for (let c = 0; c < n; c++) { let p = c; while (p < n && Math.abs(m[p][c]) < 1e-12) p++; if (p === n) return null; [m[c], m[p]] = [m[p], m[c]]; const d = m[c][c]; m[c] = m[c].map((v) => v / d); for (let i = 0; i < n; i++) if (i !== c) { const f = m[i][c]; m[i] = m[i].map((v, k) => v - f * m[c][k]); } } return m.map((row) => row.slice(n)); };
const rank = (x) => { const m = x.map((row) => [...row]); let rk = 0; for (let c = 0; c < m[0].length; c++) { const p = m.findIndex((row, i) => i >= rk && Math.abs(row[c]) > 1e-9); if (p < 0) continue; [m[rk], m[p]] = [m[p], m[rk]]; for (let i = 0; i < m.length; i++) if (i !== rk) { const f = m[i][c] / m[rk][c]; m[i] = m[i].map((v, k) => v - f * m[rk][k]); } rk++; } return rk; };
export default {
  ${steps.join(',\n  ')},
};`;
}

export function simulations(r) {
  const steps = r.shuffle([
    `life: (() => { let g = Array.from({ length: 8 }, () => Array.from({ length: 8 }, () => rand() < 0.4)); for (let t = 0; t < ${r.int(1, 8)}; t++) g = g.map((row, y) => row.map((on, x) => { let n = 0; for (let dy = -1; dy < 2; dy++) for (let dx = -1; dx < 2; dx++) if ((dx || dy) && g[(y + dy + 8) % 8][(x + dx + 8) % 8]) n++; return n === 3 || (on && n === 2); })); return g.map((row) => row.map((on) => (on ? '#' : '.')).join('')); })()`,
    `rule: (() => { let row = '.'.repeat(15) + '#' + '.'.repeat(15); const out = []; for (let t = 0; t < ${r.int(4, 10)}; t++) { out.push(row); row = [...row].map((_, i) => ((${r.int(1, 255)} >> [-1, 0, 1].reduce((n, d) => n * 2 + +(row[(i + d + 31) % 31] === '#'), 0)) & 1 ? '#' : '.')).join(''); } return out; })()`,
    `walk: (() => { let x = 0, y = 0; const seen = new Set(['0,0']); for (let i = 0; i < ${r.int(50, 400)}; i++) { [() => x++, () => x--, () => y++, () => y--][Math.floor(rand() * 4)](); seen.add(x + ',' + y); } return [x, y, seen.size]; })()`,
    `dice: (() => { const c = {}; for (let i = 0; i < ${r.int(100, 900)}; i++) { const d = 2 + Math.floor(rand() * 6) + Math.floor(rand() * 6); c[d] = (c[d] ?? 0) + 1; } return c; })()`,
    `pi: (() => { let k = 0; const n = ${r.int(500, 3000)}; for (let i = 0; i < n; i++) if (Math.hypot(rand(), rand()) < 1) k++; return (4 * k / n).toFixed(4); })()`,
    `bank: (() => { const acc = new Map([['a', 100], ['b', 50]]); const log = []; const move = (f, t, n) => { if ((acc.get(f) ?? 0) < n) throw new Error('insufficient ' + f); acc.set(f, acc.get(f) - n); acc.set(t, (acc.get(t) ?? 0) + n); }; for (let i = 0; i < 12; i++) { try { move(...(rand() < 0.5 ? ['a', 'b'] : ['b', 'a']), Math.floor(rand() * 60)); } catch (e) { log.push(e.message); } } return [[...acc], log]; })()`,
    `queue: (() => { const q = []; let done = 0, waited = 0; for (let t = 0; t < ${r.int(30, 120)}; t++) { if (rand() < 0.5) q.push(t); if (q.length && rand() < 0.45) { waited += t - q.shift(); done++; } } return [done, waited, q.length]; })()`,
    `shuffle: (() => { const xs = Array.from({ length: 12 }, (_, i) => i); for (let i = xs.length - 1; i > 0; i--) { const j = Math.floor(rand() * (i + 1)); [xs[i], xs[j]] = [xs[j], xs[i]]; } return xs; })()`,
    `maze: (() => { const w = 7, g = Array.from({ length: w }, () => Array(w).fill(1)); const dig = (x, y) => { g[y][x] = 0; const ds = [[2, 0], [-2, 0], [0, 2], [0, -2]]; ds.sort(() => 0); const k = Math.floor(rand() * 4); for (let i = 0; i < 4; i++) { const [dx, dy] = ds[(i + k) % 4]; const nx = x + dx, ny = y + dy; if (g[ny]?.[nx] === 1) { g[y + dy / 2][x + dx / 2] = 0; dig(nx, ny); } } }; dig(0, 0); return g.map((row) => row.join('')); })()`,
    `anneal: (() => { let x = 10, best = Infinity; for (let t = 1; t > 0.01; t *= 0.95) { const y = x + (rand() - 0.5) * t * 10; const f = (v) => (v - 3) ** 2 + Math.abs(v); if (f(y) < f(x) || rand() < t * 0.1) x = y; best = Math.min(best, f(x)); } return best.toFixed(6); })()`,
    `markov: (() => { const words = 'a b a c a b d a b c'.split(' '); const next = words.reduce((m, w, i) => { if (words[i + 1]) (m[w] ??= []).push(words[i + 1]); return m; }, {}); let w = 'a'; const out = [w]; while (out.length < 12 && next[w]) out.push((w = next[w][Math.floor(rand() * next[w].length)])); return out.join(' '); })()`,
    `machine: (() => { const prog = ['push 2', 'push 3', 'add', 'dup', 'mul', 'push ${r.int(1, 9)}', 'sub', 'print']; const st = [], out = []; const ops = { push: (n) => st.push(+n), add: () => st.push(st.pop() + st.pop()), mul: () => st.push(st.pop() * st.pop()), sub: () => { const b = st.pop(); st.push(st.pop() - b); }, dup: () => st.push(st.at(-1)), print: () => out.push(st.at(-1)) }; for (const line of prog) { const [op, arg] = line.split(' '); ops[op](arg); } return [st, out]; })()`,
    `elevator: (() => { let at = 0, moved = 0; const calls = Array.from({ length: 8 }, () => Math.floor(rand() * 10)); const order = []; while (calls.length) { calls.sort((a, b) => Math.abs(a - at) - Math.abs(b - at) || a - b); const next = calls.shift(); moved += Math.abs(next - at); at = next; order.push(at); } return { order, moved }; })()`,
    `events: await (async () => { const log = []; const agents = [1, 2, 3].map(async (id) => { for (let i = 0; i < 3; i++) { await null; log.push(id + ':' + Math.floor(rand() * 10)); } }); await Promise.all(agents); return log; })()`,
  ]).slice(0, r.int(5, 9));
  return `let state = ${r.int(1, 2 ** 30)};
const rand = () => { state ^= state << 13; state ^= state >>> 17; state ^= state << 5; return (state >>> 0) / 4294967296; };
export default {
  ${steps.join(',\n  ')},
};`;
}

export function parsers(r) {
  const expression = (d) => (d === 0 ? String(r.int(1, 20)) : r.pick([() => `${expression(d - 1)} ${r.pick(['+', '-', '*', '/'])} ${expression(d - 1)}`, () => `(${expression(d - 1)})`, () => `-${expression(0)}`])());
  const steps = r.shuffle([
    `calc: [${r.list(2, 5, () => JSON.stringify(expression(r.int(1, 4))))}].map((s) => [s, +evaluate(s).toFixed(6)])`,
    `ini: ((t) => { let at = {}; const out = { '': at }; for (const line of t.split('\\n')) { const m = /^\\s*(?:\\[(.+)\\]|([^=;#]+)=(.*))\\s*$/.exec(line); if (!m) continue; if (m[1]) out[m[1]] = at = {}; else at[m[2].trim()] = m[3].trim(); } return out; })('a = 1\\n[x]\\n; note\\nb=${r.word()}\\n[y]\\nc = = 2')`,
    `query: Object.fromEntries('?q=${r.word()}%20x&n=${r.int(1, 9)}&flag&e='.slice(1).split('&').map((p) => { const [k, v = ''] = p.split('='); return [decodeURIComponent(k), decodeURIComponent(v.replace(/\\+/g, ' '))]; }))`,
    `csv: ((t) => t.split('\\n').map((l) => [...l.matchAll(/("([^"]|"")*"|[^,]*)(,|$)/g)].map((m) => m[1].replace(/^"|"$/g, '').replace(/""/g, '"')).slice(0, -1 || undefined)))('a,b,"c ""q"", d"\\n1,,${r.int(1, 99)}')`,
    `roman: [${r.list(2, 4, () => r.int(1, 3999))}].map((n) => [['M', 1000], ['CM', 900], ['D', 500], ['CD', 400], ['C', 100], ['XC', 90], ['L', 50], ['XL', 40], ['X', 10], ['IX', 9], ['V', 5], ['IV', 4], ['I', 1]].reduce(([s, n], [c, v]) => [s + c.repeat(Math.floor(n / v)), n % v], ['', n])[0])`,
    `sexp: ((s) => { const ts = s.match(/[()]|[^\\s()]+/g); let i = 0; const read = () => { if (ts[i] !== '(') return isNaN(ts[i]) ? ts[i++] : +ts[i++]; i++; const out = []; while (ts[i] !== ')') out.push(read()); i++; return out; }; return read(); })('(define (f x) (* x ${r.int(1, 9)} (g "a" 2.5)))')`,
    `brackets: ['(){}', '([)]', '{[()]}(', ''].map((s) => { const st = []; for (const c of s) { if ('([{'.includes(c)) st.push(c); else if ('([{'[')]}'.indexOf(c)] !== st.pop()) return false; } return !st.length; })`,
    `rpn: '${r.int(1, 9)} ${r.int(1, 9)} + ${r.int(1, 9)} * ${r.int(1, 9)} -'.split(' ').reduce((st, t) => (isNaN(t) ? st.push({ '+': (a, b) => a + b, '*': (a, b) => a * b, '-': (a, b) => a - b }[t](...st.splice(-2))) : st.push(+t), st), [])`,
    `markdown: '# Title\\n\\nsome *em* and **bold** \`code\`\\n- a\\n- b'.split('\\n').map((l) => l.replace(/^(#+) (.*)/, (m, h, t) => '<h' + h.length + '>' + t + '</h' + h.length + '>').replace(/^- (.*)/, '<li>$1</li>').replace(/\\*\\*(.+?)\\*\\*/g, '<b>$1</b>').replace(/\\*(.+?)\\*/g, '<i>$1</i>').replace(/\`(.+?)\`/g, '<code>$1</code>')).join('')`,
    `json: ((s) => { let i = 0; const ws = () => { while (/\\s/.test(s[i] ?? '')) i++; }; const val = () => { ws(); const c = s[i]; if (c === '{') { i++; const o = {}; for (ws(); s[i] !== '}'; ws()) { const k = str(); ws(); i++; o[k] = val(); ws(); if (s[i] === ',') { i++; ws(); } } i++; return o; } if (c === '[') { i++; const a = []; for (ws(); s[i] !== ']'; ws()) { a.push(val()); ws(); if (s[i] === ',') i++; } i++; return a; } if (c === '"') return str(); const m = /^(true|false|null|-?\\d+(\\.\\d+)?([eE][+-]?\\d+)?)/.exec(s.slice(i)); i += m[0].length; return { true: true, false: false, null: null }[m[0]] ?? (m[0] === 'null' ? null : +m[0]); }; const str = () => { let out = ''; i++; while (s[i] !== '"') { if (s[i] === '\\\\') { i++; out += { n: '\\n', t: '\\t' }[s[i]] ?? s[i]; } else out += s[i]; i++; } i++; return out; }; return val(); })('{"a": [1, -2.5e2, true, null], "b": {"c": "x\\\\n\\\\"y"}, "n": ${r.int(1, 99)}}')`,
    `semver: ['1.2.3', '10.0.0-beta.${r.int(1, 9)}', '1.10.0', 'bad'].map((v) => /^(\\d+)\\.(\\d+)\\.(\\d+)(?:-([\\w.]+))?$/.exec(v)?.slice(1) ?? null)`,
    `duration: ['1h30m', '45s', '2d', '${r.int(1, 9)}h${r.int(1, 59)}s', 'x'].map((s) => [...s.matchAll(/(\\d+)([dhms])/g)].reduce((t, [, n, u]) => t + n * { d: 86400, h: 3600, m: 60, s: 1 }[u], 0))`,
    `args: '--name=${r.word()} -v --count ${r.int(1, 9)} file.txt --no-color'.split(' ').reduce((o, a, i, all) => { let m; if ((m = /^--no-(.+)$/.exec(a))) o[m[1]] = false; else if ((m = /^--(\\w+)=(.*)$/.exec(a))) o[m[1]] = m[2]; else if ((m = /^--(\\w+)$/.exec(a))) o[m[1]] = /^\\d/.test(all[i + 1]) ? +all[i + 1] : true; else if ((m = /^-(\\w)$/.exec(a))) o[m[1]] = true; else (o._ ??= []).push(a); return o; }, {})`,
    `log: '2024-01-02 10:00:01 ERROR [db] timeout after ${r.int(1, 99)}ms\\n2024-01-02 10:00:02 INFO [web] ok'.split('\\n').map((l) => /^(?<date>\\S+) (?<time>\\S+) (?<level>[A-Z]+) \\[(?<from>\\w+)\\] (?<msg>.*)$/.exec(l).groups).map((g) => ({ ...g }))`,
    `xml: (function p(s) { const out = []; const re = /<(\\w+)((?:\\s+\\w+="[^"]*")*)\\s*(?:\\/>|>(.*?)<\\/\\1>)/gs; let m, last = 0; while ((m = re.exec(s))) { if (m.index > last) out.push(s.slice(last, m.index)); out.push({ tag: m[1], attrs: Object.fromEntries([...m[2].matchAll(/(\\w+)="([^"]*)"/g)].map((a) => [a[1], a[2]])), kids: m[3] ? p(m[3]) : [] }); last = re.lastIndex; } if (last < s.length) out.push(s.slice(last)); return out; })('<a x="1">t<b/><c y="${r.word()}">u</c></a>')`,
  ]).slice(0, r.int(5, 9));
  return `const evaluate = (s) => { const ts = s.match(/\\d+(?:\\.\\d+)?|[-+*/()]/g); let i = 0; const prim = () => { const t = ts[i++]; if (t === '(') { const v = sum(); i++; return v; } if (t === '-') return -prim(); return +t; }; const prod = () => { let v = prim(); while (ts[i] === '*' || ts[i] === '/') v = ts[i++] === '*' ? v * prim() : v / prim(); return v; }; const sum = () => { let v = prod(); while (ts[i] === '+' || ts[i] === '-') v = ts[i++] === '+' ? v + prod() : v - prod(); return v; }; return sum(); };
export default {
  ${steps.join(',\n  ')},
};`;
}

export function asynchronous(r) {
  const steps = r.shuffle([
    `pool: await (async () => { let active = 0, peak = 0; const out = []; const jobs = Array.from({ length: ${r.int(4, 12)} }, (_, i) => async () => { active++; peak = Math.max(peak, active); for (let k = 0; k < (i * 7) % 5; k++) await null; active--; out.push(i); }); const it = jobs[Symbol.iterator](); await Promise.all(Array.from({ length: ${r.int(1, 4)} }, async () => { for (const job of it) await job(); })); return { peak, out }; })()`,
    `retry: await (async () => { let n = 0; const flaky = async () => { if (++n < ${r.int(2, 5)}) throw new Error('fail ' + n); return 'ok after ' + n; }; for (let i = 0; i < 5; i++) try { return await flaky(); } catch {} })()`,
    `settled: (await Promise.allSettled([1, Promise.reject(new Error('no')), (async () => { await null; return ${r.int(1, 9)}; })()])).map((s) => s.value ?? s.reason.message)`,
    `race: await Promise.race([(async () => { await null; await null; return 'slow'; })(), (async () => { await null; return 'fast'; })()])`,
    `sequence: await [${r.list(2, 5, () => r.int(1, 9))}].reduce(async (acc, x) => [...(await acc), x * 2], Promise.resolve([]))`,
    `stream: await (async () => { const out = []; async function* source() { for (let i = 0; i < ${r.int(3, 8)}; i++) { await null; yield i; } } async function* map(s, f) { for await (const x of s) yield f(x); } async function* filter(s, f) { for await (const x of s) if (f(x)) yield x; } for await (const x of map(filter(source(), (x) => x % 2), (x) => x * 10)) out.push(x); return out; })()`,
    `queue: await (async () => { const items = [], waiting = []; const push = (x) => (waiting.length ? waiting.shift()(x) : items.push(x)); const pull = () => (items.length ? Promise.resolve(items.shift()) : new Promise((done) => waiting.push(done))); const got = []; const consumer = (async () => { for (let i = 0; i < 4; i++) got.push(await pull()); })(); push('a'); await null; push('b'); push('c'); await null; push('d'); await consumer; return got; })()`,
    `mutex: await (async () => { let tail = Promise.resolve(); const lock = (f) => (tail = tail.then(f)); const log = []; await Promise.all([1, 2, 3].map((i) => lock(async () => { log.push('in' + i); await null; log.push('out' + i); }))); return log; })()`,
    `cache: await (async () => { let calls = 0; const memo = new Map(); const load = (k) => memo.get(k) ?? memo.set(k, (async () => { calls++; await null; return k.toUpperCase(); })()).get(k); return [await Promise.all(['a', 'b', 'a', 'a'].map(load)), calls]; })()`,
    `events: await (async () => { const hs = {}; const on = (e, f) => (hs[e] ??= []).push(f); const emit = async (e, x) => { for (const f of hs[e] ?? []) await f(x); }; const log = []; on('x', (v) => log.push('sync ' + v)); on('x', async (v) => { await null; log.push('async ' + v); }); await emit('x', ${r.int(1, 9)}); return log; })()`,
    `chain: await Promise.resolve(${r.int(1, 9)}).then((x) => { if (x > ${r.int(1, 9)}) throw new RangeError('big'); return x; }).catch((e) => e.name).finally(() => 'ignored').then((x) => [x])`,
    `cancel: await (async () => { const token = { cancelled: false }; const log = []; const work = (async () => { for (let i = 0; i < 10; i++) { if (token.cancelled) { log.push('stopped at ' + i); return; } await null; } })(); await null; await null; token.cancelled = true; await work; return log; })()`,
    `thenable: await { then: (ok) => ok(${r.int(1, 9)}) }`,
    `batch: await (async () => { const sizes = []; const run = async (xs) => { sizes.push(xs.length); return xs.map((x) => x * x); }; let batch = null; const load = (x) => { if (!batch) { batch = { xs: [] }; const b = batch; b.p = Promise.resolve().then(() => { batch = null; return run(b.xs); }); } const i = batch.xs.push(x) - 1; return batch.p.then((rs) => rs[i]); }; return [await Promise.all([1, 2, 3].map(load)), await load(${r.int(4, 9)}), sizes]; })()`,
    `pipeline: await [async (x) => x + 1, (x) => x * 2, async (x) => { await null; return x - 3; }].reduce((p, f) => p.then(f), Promise.resolve(${r.int(1, 9)}))`,
    `errors: await (async () => { const log = []; for (const f of [() => null.x, async () => { throw new TypeError('t'); }, () => Promise.reject('s'), () => 'fine']) { try { log.push(await f()); } catch (e) { log.push(e?.name ?? e); } } return log; })()`,
  ]).slice(0, r.int(5, 9));
  return `export default {\n  ${steps.join(',\n  ')},\n};`;
}

export function structures(r) {
  const ops = r.list(8, 20, () => r.pick([`h.push(${r.int(1, 99)})`, 'h.pop()', `q.put(${r.int(1, 99)})`, 'q.take()', `l.add('${r.word()}')`, 'l.reverse().toArray().length', `t.insert('${r.word()}')`, `t.has('${r.word()}')`, `t.find('${r.pick(['a', 'm', 'qu', 's', ''])}').length`, `c.set('${r.pick(['a', 'b', 'c', 'd'])}', ${r.int(1, 9)})`, `c.get('${r.pick(['a', 'b', 'c', 'd'])}')`, `b.add('${r.word()}')`, `b.has('${r.word()}')`, `d.union(${r.int(0, 9)}, ${r.int(0, 9)})`, `d.same(${r.int(0, 9)}, ${r.int(0, 9)})`, `m.add(${r.int(0, 3)}, ${r.int(1, 9)})`, `m.get(${r.int(0, 3)})`, `u.do(${r.int(1, 9)})`, 'u.undo()', 'u.redo()']));
  return `class Heap { #a = []; push(x) { const a = this.#a; let i = a.push(x) - 1; while (i > 0) { const p = (i - 1) >> 1; if (a[p] <= a[i]) break; [a[p], a[i]] = [a[i], a[p]]; i = p; } return a.length; } pop() { const a = this.#a; if (!a.length) return undefined; const top = a[0], last = a.pop(); if (a.length) { a[0] = last; let i = 0; for (;;) { let c = 2 * i + 1; if (c >= a.length) break; if (c + 1 < a.length && a[c + 1] < a[c]) c++; if (a[i] <= a[c]) break; [a[i], a[c]] = [a[c], a[i]]; i = c; } } return top; } }
class Queue { #in = []; #out = []; put(x) { return this.#in.push(x) + this.#out.length; } take() { if (!this.#out.length) while (this.#in.length) this.#out.push(this.#in.pop()); return this.#out.pop(); } }
class List { head = null; size = 0; add(v) { this.head = { v, next: this.head }; return ++this.size; } *[Symbol.iterator]() { for (let n = this.head; n; n = n.next) yield n.v; } reverse() { let prev = null, at = this.head; while (at) [at.next, prev, at] = [prev, at, at.next]; this.head = prev; return this; } toArray() { return [...this]; } }
class Trie { root = {}; insert(w) { let n = this.root; for (const c of w) n = n[c] ??= {}; n.end = true; return w.length; } has(w) { let n = this.root; for (const c of w) if (!(n = n[c])) return false; return !!n.end; } find(p) { let n = this.root; for (const c of p) if (!(n = n[c])) return []; const out = []; const walk = (n, s) => { if (n.end === true) out.push(s); for (const c of Object.keys(n).sort()) if (c !== 'end') walk(n[c], s + c); }; walk(n, p); return out; } }
class Cache { #m = new Map(); constructor(n) { this.max = n; } get(k) { const v = this.#m.get(k); if (v !== undefined) { this.#m.delete(k); this.#m.set(k, v); } return v; } set(k, v) { this.#m.delete(k); this.#m.set(k, v); if (this.#m.size > this.max) this.#m.delete(this.#m.keys().next().value); return [...this.#m.keys()].join(''); } }
class Bloom { bits = new Uint32Array(8); *hashes(s) { for (let seed = 1; seed <= 3; seed++) { let h = seed * 0x9e3779b1; for (const c of s) h = Math.imul(h ^ c.charCodeAt(0), 0x85ebca6b) >>> 0; yield h % 256; } } add(s) { for (const h of this.hashes(s)) this.bits[h >> 5] |= 1 << (h & 31); return this.bits.reduce((n, b) => { while (b) { n += b & 1; b >>>= 1; } return n; }, 0); } has(s) { return [...this.hashes(s)].every((h) => this.bits[h >> 5] & (1 << (h & 31))); } }
class Sets { up = Array.from({ length: 10 }, (_, i) => i); find(x) { return this.up[x] === x ? x : (this.up[x] = this.find(this.up[x])); } union(a, b) { this.up[this.find(a)] = this.find(b); return new Set(this.up.map((x) => this.find(x))).size; } same(a, b) { return this.find(a) === this.find(b); } }
class MultiMap extends Map { add(k, v) { if (!this.has(k)) this.set(k, new Set()); return this.get(k).add(v).size; } get(k) { return super.get(k) ?? new Set(); } toJSON() { return [...this].map(([k, v]) => [k, [...v]]); } }
class Undo { past = [0]; future = []; do(n) { this.past.push(this.past.at(-1) + n); this.future = []; return this.past.at(-1); } undo() { if (this.past.length > 1) this.future.push(this.past.pop()); return this.past.at(-1); } redo() { if (this.future.length) this.past.push(this.future.pop()); return this.past.at(-1); } }
const h = new Heap(), q = new Queue(), l = new List(), t = new Trie(), c = new Cache(${r.int(1, 3)}), b = new Bloom(), d = new Sets(), m = new MultiMap(), u = new Undo();
const out = [${ops.map((op) => `${op} ?? null`)}].map((x) => (x instanceof Set ? [...x] : x));
const drained = []; for (let x; (x = h.pop()) !== undefined; ) drained.push(x);
export default { out, drained, list: [...l], words: t.find(''), map: JSON.stringify(m), undo: u };`;
}

export function formatting(r) {
  const items = r.list(3, 8, (i) => `{ sku: '${r.word().slice(0, 3).toUpperCase()}-${r.int(100, 999)}', qty: ${r.int(1, 20)}, price: ${r.int(50, 99999) / 100}, vat: ${r.pick([0.07, 0.19, 0])} }`);
  return `const items = [
  ${items.join(',\n  ')},
];
const cents = (n) => Math.round((n + Number.EPSILON) * 100);
const money = (c) => { const s = String(Math.abs(c)).padStart(3, '0'); return (c < 0 ? '-' : '') + s.slice(0, -2).replace(/(\\d)(?=(\\d{3})+$)/g, '$1${r.pick([',', '.', ' '])}') + '${r.pick([',', '.'])}' + s.slice(-2); };
const table = (rows) => { const w = Object.keys(rows[0]).map((k) => Math.max(k.length, ...rows.map((row) => String(row[k]).length))); const line = (cells) => '| ' + cells.map((c, i) => (typeof c === 'number' ? String(c).padStart(w[i]) : String(c).padEnd(w[i]))).join(' | ') + ' |'; return [line(Object.keys(rows[0])), '|' + w.map((n) => '-'.repeat(n + 2)).join('|') + '|', ...rows.map((row) => line(Object.values(row)))].join('\\n'); };
const net = items.reduce((s, i) => s + cents(i.price * i.qty), 0), tax = items.reduce((s, { price, qty, vat }) => s + Math.round(cents(price * qty) * vat), 0);
const ago = (s) => { for (const [n, u] of [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']]) if (s >= n) { const k = Math.floor(s / n); return \`\${k} \${u}\${k === 1 ? '' : 's'} ago\`; } return 'now'; };
const ordinal = (n) => n + (['th', 'st', 'nd', 'rd'][(n % 100 >> 3 ^ 1 && n % 10) || 0] ?? 'th');
const hms = (s) => [s / 3600, (s / 60) % 60, s % 60].map((n) => String(Math.trunc(n)).padStart(2, '0')).join(':');
const bar = (v, max) => '█'.repeat(Math.round((v / max) * 10)).padEnd(10, '░');
const html = items.map(({ sku, qty }) => \`<li data-sku="\${sku}">\${qty > ${r.int(2, 12)} ? '<b>' + qty + '</b>' : qty}</li>\`).join('');
console.log(table(items.map(({ sku, qty }) => ({ sku, qty }))));
console.log('net %s', money(net), { tax }, [1.50, null], -0, undefined);
export default { net: money(net), tax: money(tax), gross: money(net + tax), table: table(items), ago: [0, 59, 3600, ${r.int(60, 999999)}].map(ago), ordinals: [1, 2, 3, 4, 11, 12, 21, ${r.int(1, 130)}].map(ordinal), hms: hms(${r.int(0, 99999)}), bars: items.map((i) => bar(i.qty, 20)), html, hex: '#' + [${r.list(3, 3, () => r.int(0, 255))}].map((n) => n.toString(16).padStart(2, '0')).join(''), percent: (${r.int(0, 1000)} / 7).toFixed(1) + '%' };`;
}
