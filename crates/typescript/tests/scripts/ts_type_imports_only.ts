import type { A } from './a';
import type D from './d';
import { type B, type C } from './b';
export type { A };
export type { E } from './e';
export type * from './f';
let a: A = 1;
a
