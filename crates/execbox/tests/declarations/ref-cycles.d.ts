declare namespace demo {
  function f(input?: { self?: Self; a?: A; u?: U; i?: I; ok?: Ok }): Promise<unknown>;
  type Self = unknown;
  type A = unknown;
  type U = unknown;
  type I = { x?: I };
  type Ok = string | Ok[];
  function in_an_intersection(input: F): Promise<unknown>;
  type F = (string | null) & ([number, ...([unknown?] & number)[]] | null);
  function loop_(input?: LoopInput): Promise<unknown>;
  type LoopInput = unknown;
}
