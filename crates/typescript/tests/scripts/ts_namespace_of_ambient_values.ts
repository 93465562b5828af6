namespace A { export declare const x: number }
namespace B { function f(): void; export declare namespace C { type D = 1 } }
namespace E { export declare namespace C { type D = 1 } }
declare module "x" { import z = require("z"); import y from "y"; export { z, y } }
declare class F { accessor q: number; static accessor r }
[typeof A, typeof B, typeof E]
