declare namespace demo {
  function f(input?: {
    a?: unknown;
    b?: unknown;
    c?: string;
    d?: { x?: string };
    e?: unknown[];
    f?: unknown;
    g?: unknown;
  }): Promise<unknown>;
}
