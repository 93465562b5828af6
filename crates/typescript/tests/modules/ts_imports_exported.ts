import { a, b, type C } from './abc';
import * as ns from './ns';
export { a, b as B, ns };
export type { C };
