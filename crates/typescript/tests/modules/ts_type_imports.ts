import type { A } from './types';
import type B from './types';
import { type C, type D } from './types';
import { type E, f } from './both';
export type { G } from './types';
export { type H } from './types';
export type * from './types';
export type * as types from './types';
export default f as A & B & C & D & E;
