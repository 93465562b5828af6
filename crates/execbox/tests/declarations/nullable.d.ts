declare namespace demo {
  function f(input?: {
    a?: string | null;
    b?: Item | null;
    c?: "x" | "y" | null;
    d?: unknown;
    e?: string;
    f?: string | null;
  }): Promise<unknown>;
  type Item = { id?: string };
}
