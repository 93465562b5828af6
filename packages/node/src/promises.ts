/** Promises of all kinds. */

/** A promise, and the functions that settle it. */
export interface PromiseWithResolvers<T> {
  promise: Promise<T>;
  resolve(value: T | PromiseLike<T>): void;
  reject(reason: unknown): void;
}

/** Makes a promise that is settled from outside. */
export function withResolvers<T>(): PromiseWithResolvers<T> {
  const parts = {} as PromiseWithResolvers<T>;
  parts.promise = new Promise((resolve, reject) => {
    parts.resolve = resolve;
    parts.reject = reject;
  });
  return parts;
}

/** Whether it is a promise, of any kind. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as any).then === "function";
}
