declare namespace demo {
  function count(input?: {
    id?: number;
    /** @maximum 100 */
    percent?: number;
    /** @minimum 1 */
    from?: number;
    ratio?: number;
    /** @minimum -5 */
    at?: number;
    /** @minimum 0 */
    size?: number;
    /** @format date-time */
    when?: string;
  }): Promise<unknown>;
}
