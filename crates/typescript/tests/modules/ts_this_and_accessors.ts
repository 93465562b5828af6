export class A {
  private accessor_: number = 1;
  get x(): number { return this.accessor_; }
  set x(value: number) { this.accessor_ = value; }
  static { void 0; }
}
