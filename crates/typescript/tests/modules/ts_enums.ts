export enum Color { Red, Green = 'g', Blue = 1 << 2, Next, Computed = 'abc'.length }
export const enum Level { Low = 1, High = Low * 10 }
declare enum Gone { A }
enum Local { X = Color.Blue, Y = Level.High }
export default [Color.Red, Level.High, Local.X];
