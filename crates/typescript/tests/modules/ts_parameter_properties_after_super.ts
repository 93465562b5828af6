class A {}
export class B extends A {
  y = this.x;
  constructor(public x: number) {
    super();
    use(this.x);
  }
}
