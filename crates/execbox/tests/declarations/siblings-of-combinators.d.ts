declare namespace demo {
  function f(input: { name: string } & Base & ({ id: string } | { url: string })): Promise<unknown>;
  type Base = { verbose?: boolean };
  function one_of_two(input: { id?: string; url?: string } & ({ id: unknown } | { url: unknown })): Promise<unknown>;
  function required_elsewhere(input: { id?: string } & { id: unknown }): Promise<unknown>;
}
