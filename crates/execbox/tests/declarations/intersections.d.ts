declare namespace demo {
  function f(input: {
    both: { a: string } & { b: number };
    list: ({ a: string } & { b: number })[];
    distributed: ({ a: string } | { b: string }) & { c: string };
    one: string;
    impossible: never;
    narrowed: "a" | "b";
    empty: unknown;
  }): Promise<unknown>;
}
