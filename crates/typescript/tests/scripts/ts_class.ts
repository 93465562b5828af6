abstract class A<T> {
  private declare kind: string;
  protected abstract go(): void;
  static #n = 1;
  constructor(public readonly x: number, private y?: T) {}
  get z(): number { return this.x }
}
class B extends A<string> implements I { override go(): void {} }
new B(1).z
