export abstract class Shape<T = number> extends Base<T> implements Named {
  declare readonly kind: string;
  static #count = 0;
  name?: string;
  size!: T;
  readonly [key: string]: unknown;
  constructor(private readonly id: string, public tags: string[] = [], protected override x = 1) { super(); Shape.#count++; }
  abstract area(): number;
  get(): T;
  get(key?: string): T { return this.size; }
}
