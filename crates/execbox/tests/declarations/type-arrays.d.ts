declare namespace demo {
  function f(input?: {
    a?: string | null;
    b?: string[] | { x?: number } | null;
    c?: unknown;
    d?: string | number;
    e?: (string | null)[];
  }): Promise<unknown>;
}
