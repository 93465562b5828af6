declare namespace demo {
  function f(input?: {
    missing?: unknown;
    remote?: unknown;
    file?: unknown;
    anchor?: unknown;
    number?: unknown;
    into_text?: unknown;
    bad_escape?: unknown;
    long?: unknown;
    with_sibling?: string;
  }): Promise<unknown>;
}
