declare namespace demo {
  function f(input?: {
    /** @format date-time */
    when?: string;
    /** How many. @minimum 1 @maximum 100 @default 10 */
    count?: number;
    /** @exclusiveMinimum 0 @exclusiveMaximum 1 @multipleOf 0.25 */
    ratio?: number;
    /** @pattern ^[A-Z]{2,3}$ @minLength 2 @maxLength 3 @example "DE" */
    code?: string;
    /** @pattern ^/.*\/$ @default "/**\/" */
    path?: string;
    /** Use `code`. @deprecated */
    old?: string;
    /** @default [] */
    list?: string[];
    /** @default {"a":[1,{"b":null}]} */
    options?: { a?: unknown };
    safe?: number;
    /** @contentEncoding base64 @contentMediaType image/png */
    blob?: string;
    /**
     * xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
     * @default "a long enough default"
     */
    long?: string;
    /** @example "one" */
    example?: string;
  }): Promise<unknown>;
}
