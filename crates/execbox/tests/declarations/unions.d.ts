declare namespace demo {
  function f(input: {
    either: string | number;
    list: (string | number)[];
    shapes: { kind: "circle"; radius: number } | { kind: "square"; side: number };
    same: string | boolean;
    any: unknown;
    none: unknown;
    never: never;
    known: "a" | "b" | string;
  }): Promise<unknown>;
}
