declare namespace demo {
  function f(input: {
    bare: unknown[];
    of_union: (string | number)[];
    nested: ("a" | "b")[][];
    of_objects: { a: string }[];
    of_records: { [key: string]: number }[];
    implied: string[];
    anything: unknown[];
    /** @minItems 1 @maxItems 5 @uniqueItems */
    limited: string[];
  }): Promise<unknown>;
}
