export class Box {}
export namespace Box { export const empty = new Box(); }
export function make() {}
export namespace make { export const count = 1; }
