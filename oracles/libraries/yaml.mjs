import YAML, { parse, parseDocument, stringify, parseAllDocuments } from 'yaml';

const text = `
# settings
name: "Execbox"
list: [1, 2.5, true, null, ~, 0x1F, 1e3]
nested: &anchor
  a: |
    line one
    line two
  b: >-
    folded
    text
copy: *anchor
merge:
  <<: *anchor
  c: 2024-01-15
? complex key
: - x
  - {y: z}
`;
const doc = parseDocument(text);
doc.set('added', { list: [1, { deep: 'value: with colon' }], multi: 'a\nb\n' });
let error;
try { parse('a: [1, 2'); } catch (e) { error = [e.name, e.code, e.linePos?.[0].line]; }
export default { parsed: parse(text, { merge: true }), text: String(doc), error, round: parse(stringify({ a: [1, 'yes', 'no', '1', null, true, { b: '#x' }] })), text2: stringify({ s: 'true', n: '012', e: '', m: 'x\ny', arr: [], obj: {} }), docs: parseAllDocuments('a: 1\n---\nb: 2\n').map((d) => d.toJSON()), types: typeof YAML.parse };
