declare namespace demo {
  function no_schema(input?: unknown): Promise<unknown>;
  function any(input?: unknown): Promise<unknown>;
  function true_(input?: unknown): Promise<unknown>;
  function false_(input: never): Promise<unknown>;
  function bare(): Promise<unknown>;
  function optional(input?: { a?: string }): Promise<unknown>;
  function required(input: { a: string }): Promise<unknown>;
  function record(input?: { [key: string]: unknown }): Promise<unknown>;
  function text(input: string): Promise<unknown>;
  function either(input?: { a: string } | { b?: string }): Promise<unknown>;
  function both(input?: { a?: string } & { b?: string }): Promise<unknown>;
  function both_required(input: { a?: string } & { b: string }): Promise<unknown>;
  function referenced(input?: Args): Promise<unknown>;
  type Args = { a?: string };
  function null_or(input: { a: string } | null): Promise<unknown>;
}
