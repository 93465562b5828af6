declare namespace demo {
  function f(input: {
    any: { [key: string]: unknown };
    numbers: { [key: string]: number };
    unions: { [key: string]: string | null };
    nested: { [key: string]: { [key: string]: string } };
    patterns: { [key: string]: string | number };
    patterns_and_more: { [key: string]: boolean | string };
    implied: { [key: string]: string };
  }): Promise<unknown>;
}
