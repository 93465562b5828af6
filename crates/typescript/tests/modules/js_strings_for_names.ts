import { 'a b' as c, default as d } from 'x';
export { c as 'd e', d as default };
export { 'f g' } from 'y';
export * as 'h i' from 'z';
