declare namespace demo {
  function f(input: {
    pair: [string, number];
    closed: [string, number];
    rest: [string, ...(number | null)[]];
    open: [string, ...unknown[]];
    draft7: [string, number, ...boolean[]];
    draft7closed: [string, number];
    optional: [string, (string | number)?, boolean?];
    capped: [string, number];
    implied: [string];
    nothing: [];
    optional_rest: [string?, ...number[]];
  }): Promise<unknown>;
}
