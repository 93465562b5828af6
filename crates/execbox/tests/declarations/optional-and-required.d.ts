declare namespace demo {
  function f(input: { a: string; b?: string; c?: never; undescribed: unknown }): Promise<unknown>;
  function all_optional(input?: { a?: string }): Promise<unknown>;
  function odd_required(input?: { a?: string }): Promise<unknown>;
}
