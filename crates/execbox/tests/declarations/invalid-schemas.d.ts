declare namespace demo {
  function number(input?: unknown): Promise<unknown>;
  function text(input?: unknown): Promise<unknown>;
  function list(input?: unknown): Promise<unknown>;
  function null_input(input?: { a?: unknown }): Promise<unknown>;
  function properties(input?: { [key: string]: unknown }): Promise<unknown>;
  function required(input?: { a?: string }): Promise<unknown>;
  function types(input?: {
    a?: unknown;
    b?: unknown;
    c?: unknown;
    d?: unknown;
    e?: unknown;
    f?: unknown;
    g?: unknown;
  }): Promise<unknown>;
  function combinators(input?: {
    a?: unknown;
    b?: unknown;
    c?: unknown;
    d?: unknown;
    e?: unknown[];
    f?: unknown[];
    g?: [string];
    h?: { [key: string]: unknown };
    i?: { [key: string]: unknown };
  }): Promise<unknown>;
}
