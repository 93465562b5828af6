declare namespace demo {
  function f(input?: {
    /**
     * Which ones.
     * - "open": Still to do.
     * - "closed": Done *\/
     * @default "open"
     */
    state?: "open" | "closed" | "x";
    /**
     * - 1: Low
     * @minimum 1
     */
    level?: 1;
  }): Promise<unknown>;
}
