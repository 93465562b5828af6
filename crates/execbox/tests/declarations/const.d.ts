declare namespace demo {
  function f(input: { version: 2; kind: "circle"; deep: { a: [true, null] }; null: null }): Promise<unknown>;
}
