declare namespace demo {
  function f(input: {
    words: "a" | "it's" | "say \"hi\"" | "back\\slash" | "new\nline" | "";
    mixed: 1 | -2.5 | 1e+21 | true | null | "x";
    objects: { kind: "a"; n: 1 } | { "x-y": [1, "two", []] } | { [key: string]: never };
    none: never;
    twice: "a";
    typed: "a" | null;
    array: ("a" | "b")[];
  }): Promise<unknown>;
}
