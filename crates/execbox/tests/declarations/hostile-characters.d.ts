/** Provider */
declare namespace demo {
  function f(input?: {
    /** red bold 0;title reset */
    ansi?: string;
    /** abcd */
    bidi?: string;
    /** zero */
    zero?: string;
    /** visible */
    tags?: string;
    /** ab */
    selectors?: string;
    /**
     * one
     * two
     * three
     * four
     * five
     * six
     */
    lines?: string;
    /** nul bell del tab end */
    controls?: string;
  }): Promise<unknown>;
  function literals(input: {
    text: "\u2028\u2029" | "\u202E" | "\u200B" | "\u0000\u001B" | "\u{E0041}" | "`${evil}`" | "\uFEFF" | "emoji 😀 é";
  }): Promise<unknown>;
}
