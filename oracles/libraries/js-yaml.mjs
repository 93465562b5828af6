import { dump, load, loadAll } from 'js-yaml';

const text = 'a: &x {b: [1, 2.5, ~, yes], c: "q\\n"}\nd: *x\ne: |\n  one\n  two\nf: 2024-01-15\ng: !!set {p, q}\n';
export default [load('a: 1\nb: [x, {c: null}]\ns: >\n  folded\n  text\n'), dump({ a: [1, 'two', { b: true }], s: 'multi\nline', n: null, e: [], t: '123' }), (() => { const out = []; loadAll('a: 1\n---\nb: 2\n', (d) => out.push(d)); return out; })(), (() => { try { load('a: [1'); } catch (e) { return [e.name, e.reason]; } })(), (() => { try { return JSON.stringify(load(text)); } catch (e) { return e.name; } })()];
