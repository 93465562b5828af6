import { customRandom, urlAlphabet } from 'nanoid';

let state = 7;
const bytes = (n) => Uint8Array.from({ length: n }, () => (state = (state * 1103515245 + 12345) & 0x7fffffff) >> 16);
export default [customRandom('abcdef', 10, bytes)(), customRandom(urlAlphabet, 21, bytes)(), urlAlphabet.length];
