declare const input: string[];
declare function getMessage(): Promise<string>;
declare global { interface Window { x: 1 } }
declare module 'x' { export const y: 1 }
declare class Gone {}
export declare const also: number;
export default [input.length, await getMessage()];
