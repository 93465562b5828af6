declare namespace demo {
  function f(input: {
    pair: [string, number];
    closed: [string, number];
    rest: [string, ...(number | null)[]];
    open: [string, ...unknown[]];
    draft7: [string, number, ...boolean[]];
    draft7closed: [string, number];
    /** @minItems 1 */
    optional: [string, (string | number)?, boolean?];
    /** @maxItems 2 */
    capped: [string, number];
    implied: [string];
    nothing: [];
    /** @minItems 0 */
    optional_rest: [string?, ...number[]];
  }): Promise<unknown>;
}
