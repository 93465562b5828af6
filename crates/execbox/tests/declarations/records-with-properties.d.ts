declare namespace demo {
  function f(input: {
    open: { a?: string; [key: string]: unknown };
    same: { a: string; [key: string]: string };
    optional: { a?: string; [key: string]: string | undefined };
    different: { a: string; b: true; [key: string]: number | string | boolean };
    objects: { a: { b?: string }; [key: string]: unknown };
    pattern: { a: string; [key: string]: number | string };
    closed: { a?: string };
  }): Promise<unknown>;
}
