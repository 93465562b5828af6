declare namespace demo {
  /**
   * Does f.
   * @param input What f needs.
   * @returns The answer.
   */
  function f(input?: {
    max_results?: number;
    /** Search terms */
    q?: string;
    /** Description. */
    both?: string;
    /**
     * First.
     *
     *   Indented.
     */
    lines?: string;
    odd?: string;
    nested?: {
      /** Inside. */
      inner?: string;
    };
  }): Promise<string>;
}
