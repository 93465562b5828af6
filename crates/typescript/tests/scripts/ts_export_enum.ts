export enum A { X }
export namespace N { export const y = 1 }
export interface I {}
export default A.X;
