declare namespace demo {
  function f(input?: {
    /** First day. @format date @default null */
    since?: string | null;
    /** @minimum 1 */
    limit?: null | number;
    /** @default "a" */
    kind?: Kind;
    either?: string | number;
  }): Promise<unknown>;
  type Kind = "a" | "b";
}
