import { applyPatches, enableMapSet, enablePatches, produce, produceWithPatches, current, original, isDraft } from 'immer';

enablePatches();
enableMapSet();
const base = { user: { name: 'a', tags: ['x'] }, list: [{ n: 1 }, { n: 2 }], map: new Map([['k', { v: 1 }]]), set: new Set([1]) };
const next = produce(base, (d) => { d.user.name = 'b'; d.user.tags.push('y'); d.list[1].n++; d.list.unshift({ n: 0 }); d.map.get('k').v = 9; d.set.add(2); });
const [patched, patches, inverse] = produceWithPatches(base, (d) => { d.list.splice(0, 1); delete d.user.name; d.list.sort((a, b) => b.n - a.n); });
let error;
try { 'use strict'; next.user.name = 'frozen'; } catch (e) { error = e.name; }
export default { next: { user: { ...next.user, tags: [...next.user.tags] }, list: next.list.map((x) => ({ ...x })), map: [...next.map].map(([k, v]) => k + v.v), set: [...next.set] }, base: base.list.length, same: next.map !== base.map && produce(base, () => {}) === base, patches: JSON.stringify(patches), inverse: JSON.stringify(inverse), back: JSON.stringify(applyPatches(patched, inverse)) === JSON.stringify(base), error, inside: produce({ a: { b: 1 } }, (d) => { d.a.b = 2; d.seen = [isDraft(d.a), current(d.a).b, original(d.a).b]; }).seen.join() };
