declare namespace demo {
  function f(input?: {
    /** The thing to use. @default {"id":"x"} */
    described?: Thing;
    more?: Thing & { extra: number };
  }): Promise<unknown>;
  /** A thing. */
  type Thing = { id: string };
}
