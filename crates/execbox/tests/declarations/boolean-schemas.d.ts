declare namespace demo {
  function f(input: { yes: unknown; no?: never; list?: []; of_any?: unknown[] }): Promise<unknown>;
  function g(input?: unknown): Promise<never>;
}
