import { deflateSync, gunzipSync, gzipSync, inflateSync, strFromU8, strToU8, unzipSync, zipSync, zlibSync, unzlibSync } from 'fflate';

const text = Array.from({ length: 2000 }, (_, i) => `line ${i} ${(i * 7919) % 257} äöü`).join('\n');
const bytes = strToU8(text);
const hash = (b) => b.reduce((h, x) => Math.imul(h ^ x, 0x01000193) >>> 0, 0x811c9dc5);
const deflated = deflateSync(bytes, { level: 9 });
const gz = gzipSync(bytes, { level: 6, mtime: 0 });
const zip = zipSync({ 'a.txt': strToU8('hello'), dir: { 'b.txt': [bytes, { level: 3 }] } }, { mtime: new Date(Date.UTC(2024, 0, 2)) });
export default { sizes: [bytes.length, deflated.length, gz.length, zip.length], hashes: [hash(deflated), hash(gz), hash(bytes)], same: [strFromU8(inflateSync(deflated)) === text, strFromU8(gunzipSync(gz)) === text, strFromU8(unzlibSync(zlibSync(bytes))) === text], names: Object.entries(unzipSync(zip)).map(([k, v]) => [k, v.length]), error: (() => { try { inflateSync(new Uint8Array([1, 2, 3])); } catch (e) { return e.message; } })() };
