declare namespace demo {
  function ping(input?: unknown): Promise<unknown>;
  /** Answers. */
  function pong(input?: unknown): Promise<unknown>;
  function silent(input?: unknown): Promise<unknown>;
  function odd(input?: unknown): Promise<unknown>;
}
