/** *\/ } evil(); /* */
declare namespace demo {
  /**
   * Good.
   * *\/ }
   * function evil(): void; /*
   * @returns nothing
   * @param input *\/ param
   * @returns *\/ returns
   */
  function f(input?: {
    /** *\/ export const evil = 1; /* */
    a?: string;
    /** *\/ joined by a removed character */
    b?: string;
    /** **\/ /** *\/ */
    c?: string;
    /** @default "*\/" */
    d?: string;
    /** @pattern .*\/x */
    e?: string;
    f?: "*\/" | "/*" | "//";
    /** @format *\/ */
    g?: string;
    /** *\/ */
    h?: string;
    /** / */
    i?: string;
    /** ends with * */
    j?: string;
    /**
     * line *
     * / next
     */
    k?: string;
    /** @example {"*\/":"*\/"} */
    l?: string;
  }): Promise<unknown>;
}
