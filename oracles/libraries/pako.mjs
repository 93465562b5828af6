// script
import { deflate, gzip, inflate, ungzip } from 'pako';

const text = 'Zürich, Köln, Genève. '.repeat(50);
const packed = deflate(text);
export default { length: packed.length, text: inflate(packed, { to: 'string' }) === text, zipped: ungzip(gzip(text), { to: 'string' }).length, bytes: [...packed.slice(0, 20)] };
