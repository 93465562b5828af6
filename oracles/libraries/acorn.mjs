import { parse, tokenizer, parseExpressionAt } from 'acorn';

const source = `import a, { b as c } from 'x';
class A extends B { #p = 1; static { this.x ??= 2; } async *m({ d, ...rest } = {}) { for await (const e of f) yield* e?.g ?? \`t\${h}\`; } }
export default async (x) => { label: while (true) { if (/[/]\\/(?<n>\\d+)/gu.test(x)) break label; } return x ** 2n; };`;
const ast = parse(source, { ecmaVersion: 2024, sourceType: 'module', locations: true });
const counts = {};
(function walk(node) { if (!node || typeof node !== 'object') return; if (Array.isArray(node)) return node.forEach(walk); if (node.type) counts[node.type] = (counts[node.type] ?? 0) + 1; for (const [k, v] of Object.entries(node)) if (k !== 'loc') walk(v); })(ast);
const errors = ['let a; let a;', 'a = ;', 'class { }', '`${', 'for (const x of y', 'a?.b = 1', 'return 1', '"\\u{110000}"', '/(/'].map((s) => { try { parse(s, { ecmaVersion: 2024 }); return 'ok'; } catch (e) { return [e.name, e.message, e.pos]; } });
export default { counts, errors, tokens: [...tokenizer('a /b/ c; x = /re/g.test("s")', { ecmaVersion: 2024 })].map((t) => t.type.label), end: ast.body.at(-1).loc.end, expression: parseExpressionAt('  1 + 2 * 3', 2, { ecmaVersion: 2024 }).right.operator };
