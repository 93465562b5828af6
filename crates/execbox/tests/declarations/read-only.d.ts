declare namespace demo {
  function f(input: {
    readonly id: string;
    /** @writeOnly */
    secret?: string;
    readonly readonly?: string;
  }): Promise<unknown>;
}
