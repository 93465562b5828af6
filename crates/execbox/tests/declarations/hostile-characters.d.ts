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
    text: "\u2028\u2029" | "\u202e" | "\u200b" | "\u0000\u001b" | "\u{e0041}" | "`${evil}`" | "\ufeff" | "emoji 😀 é";
  }): Promise<unknown>;
}
