declare namespace demo {
  function nothing(): Promise<{ [key: string]: never }>;
  function nested(input: { empty: { [key: string]: never }; any: { [key: string]: unknown } }): Promise<unknown>;
}
