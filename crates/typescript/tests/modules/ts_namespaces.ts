export namespace Geometry {
  export const pi = 3;
  export namespace Deep { export function area(r: number) { return pi * r * r; } }
  export interface Shape {}
}
namespace Types { export type A = 1 }
export namespace Geometry { export const e = 2; }
import deep = Geometry.Deep;
import T = Types.A;
export default deep.area(2);
