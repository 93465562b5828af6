declare namespace demo {
  function walk(input: Node): Promise<WalkOutput>;
  type Node = { value: string; children?: Node[]; byName?: { [key: string]: Node } };
  type WalkOutput = { left?: WalkOutput; right?: WalkOutput };
  function expression(input?: Query): Promise<unknown>;
  type Query = { all?: Query[]; not?: Query; equals?: [string, Json] };
  type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
}
