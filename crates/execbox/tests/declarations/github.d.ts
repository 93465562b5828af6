/** Issues and pull requests. */
declare namespace github {
  /**
   * Search issues.
   *
   * Finds issues and pull requests of one repository.
   */
  function search_issues(input: {
    /** What to look for. */
    q: string;
    /** @default "open" */
    state?: "open" | "closed";
    /** @minimum 1 @maximum 100 @default 30 */
    limit?: number;
  }): Promise<{ total: number; items: Issue[] }>;
  /** One issue. */
  type Issue = { number: number; title: string; labels?: string[]; parent?: Issue | null };
  /** Close one issue. */
  function close_issue(input: { number: number }): Promise<boolean>;
}
