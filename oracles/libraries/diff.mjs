import { applyPatch, createPatch, diffChars, diffJson, diffLines, diffWords, structuredPatch } from 'diff';

const a = Array.from({ length: 30 }, (_, i) => `line ${i}`), b = a.toSpliced(5, 2, 'changed', 'more').toSpliced(20, 1);
const patch = createPatch('f.txt', a.join('\n') + '\n', b.join('\n') + '\n', 'old', 'new');
const short = (parts) => parts.map((p) => (p.added ? '+' : p.removed ? '-' : '=') + p.value);
export default [patch, applyPatch(a.join('\n') + '\n', patch) === b.join('\n') + '\n', short(diffWords('the quick fox jumps', 'the slow fox jumped')), short(diffChars('kitten', 'sitting')), short(diffLines('a\nb\n', 'a\nc\n')), short(diffJson({ a: 1, b: [2] }, { b: [3], a: 1 })), structuredPatch('x', 'y', 'a\n', 'b\n').hunks[0].lines];
