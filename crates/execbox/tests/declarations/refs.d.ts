declare namespace demo {
  function f(input?: {
    a?: Thing;
    b?: OldThing;
    c?: A;
    d?: WithSlashTilde;
    e?: PerCent;
    f?: Any;
    g?: Thing;
  }): Promise<unknown>;
  type Thing = { id?: string };
  type OldThing = { old?: Thing };
  type A = Thing;
  type WithSlashTilde = "x";
  type PerCent = number;
  type Any = unknown;
}
