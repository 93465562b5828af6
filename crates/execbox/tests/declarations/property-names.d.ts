declare namespace demo {
  function f(input: {
    plain: string;
    $dollar: string;
    _under: string;
    "with-dash": string;
    "with space": string;
    "1st": string;
    "9": string;
    "": string;
    class: string;
    new: string;
    readonly: string;
    constructor: string;
    __proto__: string;
    "é": string;
    "日本": string;
    "a\"b": string;
    "a\\b": string;
    "*\/": string;
    "new\nline": string;
    "\u2028": string;
    "\u202eabc": string;
    "\u200bhidden": string;
    "tag\u{e0041}": string;
  }): Promise<unknown>;
}
