import fs, { readFile as read } from 'fs';
export * from './a.js';
export * as b from './b.js';
export { c as d, default } from './c.js';
export const { e, f: [g = 1, ...h], ...i } = read();
export let j, k = 2;
export function l() {}
export async function* m() {}
export class n {}
const o = 1;
export { o as p, fs as q };
