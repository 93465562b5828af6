// Runs once, when the image of every guest is made; never at run time.
//
// Leaves the realm as guest code finds it: ECMAScript's own globals, `structuredClone`, and nothing that reaches
// outside or compiles code. What stays callable keeps private copies of every intrinsic that it uses, so guest code
// that overwrites `Map.prototype.get` or `Array.isArray` changes nothing here.
(() => {
  "use strict";

  // ---- The globals that stay ---------------------------------------------------------------------------------------

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

  // ---- structuredClone ---------------------------------------------------------------------------------------------

  const uncurry = (method) => Function.prototype.call.bind(method);
  const getter = (object, key) => uncurry(Object.getOwnPropertyDescriptor(object, key).get);
  const { isArray } = Array;
  const { getPrototypeOf, hasOwn } = Object;
  const { defineProperty, ownKeys, getOwnPropertyDescriptor } = Reflect;
  const ObjectPrototype = Object.prototype;
  const isView = ArrayBuffer.isView;
  const typedArrayName = getter(getPrototypeOf(Int8Array.prototype), Symbol.toStringTag);
  const intrinsics = { Date, RegExp, Map, Set, ArrayBuffer, DataView, Error, String, Number, Boolean, BigInt, Object };
  const typedArrays = { __proto__: null, Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array,
    Uint32Array, BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array };
  const errors = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
  const MemoMap = Map;
  const memoGet = uncurry(Map.prototype.get), memoSet = uncurry(Map.prototype.set), memoHas = uncurry(Map.prototype.has);
  const mapForEach = uncurry(Map.prototype.forEach);
  const setForEach = uncurry(Set.prototype.forEach), setAdd = uncurry(Set.prototype.add);
  const dateValue = uncurry(Date.prototype.getTime);
  const source = getter(RegExp.prototype, "source"), flags = getter(RegExp.prototype, "flags");
  const mapSize = getter(Map.prototype, "size"), setSize = getter(Set.prototype, "size");
  const bufferLength = getter(ArrayBuffer.prototype, "byteLength"), bufferSlice = uncurry(ArrayBuffer.prototype.slice);
  const typedBuffer = getter(getPrototypeOf(Int8Array.prototype), "buffer");
  const typedOffset = getter(getPrototypeOf(Int8Array.prototype), "byteOffset");
  const typedLength = getter(getPrototypeOf(Int8Array.prototype), "length");
  const viewBuffer = getter(DataView.prototype, "buffer");
  const viewOffset = getter(DataView.prototype, "byteOffset"), viewLength = getter(DataView.prototype, "byteLength");
  const isError = Error.isError;
  const unbox = [Number.prototype.valueOf, String.prototype.valueOf, Boolean.prototype.valueOf, BigInt.prototype.valueOf].map(uncurry);

  const holds = (probe, value) => { try { probe(value); return true; } catch { return false; } };
  const refuse = (what) => {
    const error = new intrinsics.Error(`${what} could not be cloned`);
    defineProperty(error, "name", { value: "DataCloneError", writable: true, configurable: true });
    throw error;
  };
  const put = (target, key, value) => defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });

  // A copy of everything but the contents that may hold further objects; those are `fill`ed in later.
  const shell = (value) => {
    if (isArray(value)) return [];
    const proto = getPrototypeOf(value);
    if (proto === ObjectPrototype || proto === null) return {};
    if (holds(dateValue, value)) return new intrinsics.Date(dateValue(value));
    if (holds(mapSize, value)) return new intrinsics.Map();
    if (holds(setSize, value)) return new intrinsics.Set();
    if (holds(bufferLength, value)) return bufferSlice(value, 0);
    if (isView(value)) return view(value);
    if (isError(value)) {
      const name = typeof value.name === "string" && typeof errors[value.name] === "function" ? value.name : "Error";
      const copy = new errors[name]();
      if ("message" in value) defineProperty(copy, "message", { value: `${value.message}`, writable: true, configurable: true });
      return copy;
    }
    for (let i = 0; i < unbox.length; i++) if (holds(unbox[i], value)) return intrinsics.Object(unbox[i](value));
    if (proto !== RegExp.prototype && !(value instanceof RegExp)) return {};
    return new intrinsics.RegExp(source(value), flags(value));
  };
  const view = (value) => {
    const name = typedArrayName(value);
    if (name === undefined) {
      const buffer = clone(viewBuffer(value));
      return new intrinsics.DataView(buffer, viewOffset(value), viewLength(value));
    }
    return new typedArrays[name](clone(typedBuffer(value)), typedOffset(value), typedLength(value));
  };

  let memo, queue;
  const clone = (value) => {
    if (typeof value === "function") refuse("a function");
    if (typeof value === "symbol") refuse("a symbol");
    if (typeof value !== "object" || value === null) return value;
    if (memoHas(memo, value)) return memoGet(memo, value);
    const copy = shell(value);
    memoSet(memo, value, copy);
    queue[queue.length] = value;
    return copy;
  };
  const fill = (value, copy) => {
    if (!isArray(value) && holds(mapSize, value)) { mapForEach(value, (v, k) => { memoSet(copy, clone(k), clone(v)); }); return; }
    if (!isArray(value) && holds(setSize, value)) { setForEach(value, (v) => { setAdd(copy, clone(v)); }); return; }
    if (isView(value) || holds(bufferLength, value)) return;
    if (isError(value)) { if (hasOwn(value, "cause")) put(copy, "cause", clone(value.cause)); return; }
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (typeof key === "string" && getOwnPropertyDescriptor(value, key)?.enumerable) put(copy, key, clone(value[key]));
    }
    if (isArray(value)) copy.length = value.length;
  };

  const structuredClone = (value) => {
    const outer = [memo, queue]; // a getter may call us again
    memo = new MemoMap(); queue = [];
    try {
      const copy = clone(value);
      for (let i = 0; i < queue.length; i++) fill(queue[i], memoGet(memo, queue[i]));
      return copy;
    } finally {
      [memo, queue] = outer;
    }
  };
  defineProperty(globalThis, "structuredClone", { value: { structuredClone(value) { return structuredClone(value); } }.structuredClone,
    writable: true, configurable: true });

  // ---- Warmth ------------------------------------------------------------------------------------------------------

  // The engine makes built-in functions and tables when they are first touched. Touch them all now, so that no guest
  // pays for it, and run each of the usual shapes of code once.
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
