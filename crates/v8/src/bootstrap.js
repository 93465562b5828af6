// Runs once, when the snapshot is made that every isolate starts from.
//
// Guards `Error`, and returns the intrinsics that the host uses later, which guest code cannot replace. V8 adds globals to the realm
// of each isolate, so `harden` is called there: it removes those that reach outside, compile code or depend on the machine, and
// replaces the constructors that compile code. ECMAScript's other globals stay.
//
// Guest code finds no function of this file, whose text `toString` would show, and no match of a regular expression, which
// `RegExp.input` would show.
(() => {
  "use strict";

  const { apply, ownKeys, getOwnPropertyDescriptor, defineProperty: reflectDefineProperty } = Reflect;
  const { min, trunc } = Math;
  const { defineProperty, getPrototypeOf, setPrototypeOf } = Object;

  // ---- Globals -----------------------------------------------------------------------------------------------------

  // The same globals as in execbox-quickjs's bootstrap.js; the host adds `console`, `structuredClone` and `queueMicrotask`.
  const kept = new Set(`
    AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean DataView Date
    DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity
    Int16Array Int32Array Int8Array Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError
    Reflect RegExp Set String SuppressedError Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array
    Uint8ClampedArray WeakMap WeakRef WeakSet decodeURI decodeURIComponent encodeURI encodeURIComponent escape
    globalThis isFinite isNaN parseFloat parseInt undefined unescape
  `.split("\n").flatMap((line) => line.trim().split(" ")));

  const removeGlobals = () => {
    for (const key of ownKeys(globalThis)) {
      if (typeof key === "string" && !kept.has(key)) delete globalThis[key];
    }
    delete Date.prototype.toTemporalInstant;
    setPrototypeOf(SuppressedError, Error); // V8 has added it, too
    setPrototypeOf(globalThis, Object.prototype);
    defineProperty(globalThis, Symbol.toStringTag, { value: "global", configurable: true });
  };

  // ---- Code from strings -------------------------------------------------------------------------------------------

  // V8 refuses code from strings too, but libraries find the global object by `Function('return this')()`.
  const returnThis = Function("return this");

  const compiling = [() => {}, async () => {}, function* () {}, async function* () {}].map(getPrototypeOf);

  // `functions` are functions of the host that replace the constructors, in this order. The first replaces `Function`.
  const replaceConstructors = (functions) => {
    for (let i = 0; i < 4; i++) {
      const [prototype, replacement] = [compiling[i], functions[i]];
      defineProperty(replacement, "prototype", { value: prototype, writable: false, enumerable: false });
      if (i > 0) setPrototypeOf(replacement, functions[0]);
      defineProperty(prototype, "constructor", { value: replacement, configurable: true, writable: i === 0 });
    }
    globalThis.Function = functions[0];
  };

  // ---- Errors ------------------------------------------------------------------------------------------------------

  // V8 ends the process when an error is made while `Error.stackTraceLimit` is a number that it does not expect, such as
  // `Infinity`. It looks for the property in its own `Error` and, if that has none, in the prototypes. So that one always has the
  // property, as `fixStackTraceLimit` makes it, and guest code has a proxy, which bounds the value. No stack has as many frames as
  // the most that is set here.
  const NativeError = globalThis.Error;
  const Error = new Proxy(NativeError, {
    defineProperty(target, key, descriptor) {
      setPrototypeOf(descriptor, null); // inherited properties are not part of the descriptor
      const { value } = descriptor;
      if (key === "stackTraceLimit" && typeof value === "number") {
        descriptor.value = value >= 0 ? min(trunc(value), 1e5) : 0;
      }
      return reflectDefineProperty(target, key, descriptor);
    },
  });
  const fixStackTraceLimit = () => {
    defineProperty(NativeError, "stackTraceLimit", { value: 10, writable: true, enumerable: true, configurable: false });
  };
  globalThis.Error = Error;
  Error.prototype.constructor = Error;
  for (const type of [AggregateError, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
    setPrototypeOf(type, Error);
  }

  // ---- Intrinsics --------------------------------------------------------------------------------------------------

  const getter = (object, key) => getOwnPropertyDescriptor(object, key).get;
  const flags = [
    ["d", "hasIndices"], ["g", "global"], ["i", "ignoreCase"], ["m", "multiline"], ["s", "dotAll"], ["u", "unicode"],
    ["v", "unicodeSets"], ["y", "sticky"],
  ].map(([letter, name]) => [letter, getter(RegExp.prototype, name)]);
  const maxByteLength = getter(ArrayBuffer.prototype, "maxByteLength");
  const resizable = getter(ArrayBuffer.prototype, "resizable");
  const NativeArrayBuffer = ArrayBuffer;
  const valuesOf = [Number, String, Boolean, BigInt].map((type) => type.prototype.valueOf);
  const { deref } = WeakRef.prototype;
  const keysOfView = getPrototypeOf(Int8Array.prototype).keys;
  const lengthOfDataView = getter(DataView.prototype, "byteLength");
  const isTypedArray = getter(getPrototypeOf(Int8Array.prototype), Symbol.toStringTag);
  const views = [
    Uint8ClampedArray, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array,
    Float16Array, Float32Array, Float64Array, DataView,
  ]; // in the order of the kinds of views

  return {
    returnThis,
    // `Intl` of the realm, which scripts are given on request.
    intl: undefined,
    harden(...functions) {
      this.intl = Intl;
      removeGlobals();
      replaceConstructors(functions);
      fixStackTraceLimit();
    },
    objectPrototype: Object.prototype,
    error: Error,
    errors: setPrototypeOf({
      Error: Error.prototype, EvalError: EvalError.prototype, RangeError: RangeError.prototype,
      ReferenceError: ReferenceError.prototype, SyntaxError: SyntaxError.prototype, TypeError: TypeError.prototype,
      URIError: URIError.prototype,
    }, null),
    regExpFlags(regExp) {
      let text = "";
      for (let i = 0; i < 8; i++) if (apply(flags[i][1], regExp, [])) text += flags[i][0];
      return text;
    },
    // The maximum length of a resizable buffer; undefined for others.
    maxByteLength: (buffer) => apply(resizable, buffer, []) ? apply(maxByteLength, buffer, []) : undefined,
    // The primitive of a wrapper object of any kind but symbols.
    unboxed(object) {
      for (let i = 0; i < 3; i++) {
        try { return apply(valuesOf[i], object, []); } catch { /* another primitive */ }
      }
      return apply(valuesOf[3], object, []);
    },
    isWeakRef(object) {
      try { apply(deref, object, []); return true; } catch { return false; }
    },
    isOutOfBounds(view) {
      try {
        apply(apply(isTypedArray, view, []) === undefined ? lengthOfDataView : keysOfView, view, []);
        return false;
      } catch {
        return true;
      }
    },
    newBuffer: (length) => new NativeArrayBuffer(length),
    newResizable: (length, maxByteLength) => new NativeArrayBuffer(length, setPrototypeOf({ maxByteLength }, null)),
    newView: (kind, buffer, offset, length) => new views[kind](buffer, offset, length),
  };
})();
