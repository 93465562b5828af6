declare const console: { log(x: unknown): void };
interface input {}
import type { getMessage } from './types';
console.log(input, getMessage);
