// Runs once, at build time, in the image that every guest starts from.
//
// Removes the globals that reach outside or compile code. ECMAScript's other globals, `console` and `structuredClone` stay.
// Then it touches what the engine creates on first use.
(() => {
  "use strict";

  // ---- Globals ------------------------------------------------------------------------------------------------------

  const kept = new Set(`
    AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean DataView Date
    DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity
    Int16Array Int32Array Int8Array Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError
    Reflect RegExp Set String SuppressedError Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array
    Uint8ClampedArray WeakMap WeakRef WeakSet console decodeURI decodeURIComponent encodeURI encodeURIComponent escape
    globalThis isFinite isNaN parseFloat parseInt queueMicrotask structuredClone undefined unescape
  `.trim().split(/\s+/));

  for (const key of Reflect.ownKeys(globalThis)) {
    if (typeof key === "string" && !kept.has(key)) delete globalThis[key];
  }

  // ---- Warm-up -----------------------------------------------------------------------------------------------------

  // The engine creates built-in functions and tables on first use. Touching them all now, and running common code once,
  // saves every guest that time.
  const { ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const seen = new Set();
  const touch = (object) => {
    if ((typeof object !== "object" && typeof object !== "function") || object === null || seen.has(object)) return;
    seen.add(object);
    for (const key of ownKeys(object)) {
      const property = getOwnPropertyDescriptor(object, key);
      touch(property.value); touch(property.get); touch(property.set);
    }
    touch(getPrototypeOf(object));
  };
  touch(globalThis);
  (async () => {
    for (let i = 0; i < 3; i++) await Promise.all([i, Promise.resolve(i)]);
    JSON.stringify(JSON.parse('{"a":[1,2.5,"x"],"b":{"c":null}}'));
    [3, 1, 2].sort().map((x) => `${x}`).filter(Boolean).join("-").replace(/\d/g, (x) => x + 1);
    try { null.x; } catch (error) { `${error}${error.stack}`; }
    structuredClone({ a: [1, new Map([[1, new Set([2])]])] });
  })();
})();
