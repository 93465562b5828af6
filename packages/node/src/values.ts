/**
 * Values of modules: JavaScript to tagged JSON, and back.
 *
 * JSON stands for itself. What JSON lacks is an object with one key that begins with `$`; a key of the value that begins with
 * `$` gets another `$` in front. `docs/embedding-other-languages.md` lists the tags.
 */

import { types } from "node:util";

import { isError, messageOf, nameOf, SerializationError } from "./errors.js";

const MAX_DEPTH = 100;
/** The holes of arrays in a message. They take memory, and what goes through such an array goes through its holes, too. */
const MAX_HOLES = 100_000;
/** What resizable buffers in a message may reserve. */
const MAX_RESIZABLE_BYTES = 64 << 20;
const MIN_ATTACHED_BYTES = 257;

type Json = any;

/** A value that JavaScript has and this package does not copy, such as an array that is nearly empty, as tagged JSON. */
export class Tagged {
  /** The tagged JSON. */
  readonly json: unknown;

  constructor(json: unknown) {
    this.json = json;
  }
}

/** A function for a program. */
export class HostFunction {
  /** The function of the application. */
  readonly call: (...args: any[]) => unknown;
  /** `async`: the program gets a promise. `sync`: the program is blocked until the function has returned. */
  readonly kind: "async" | "sync";

  constructor(call: (...args: any[]) => unknown, kind: "async" | "sync") {
    this.call = call;
    this.kind = kind;
  }
}

/**
 * A function for a module: with `async`, which is the default of functions that are declared with `async`, the program gets a
 * promise; with `sync`, which is the default of others, the program is blocked until the function has returned.
 */
export function hostFunction(call: (...args: any[]) => unknown, kind: "async" | "sync"): HostFunction {
  return new HostFunction(call, kind);
}

/** Functions and promises that a program was given, by their numbers. @internal */
export interface Handles {
  addFunction(call: (...args: any[]) => unknown): number;
  addPromise(promise: PromiseLike<unknown>): number;
  function(number: number): ((...args: any[]) => unknown) | undefined;
}

const VIEWS: Record<string, any> = Object.assign(Object.create(null), {
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Float16Array: (globalThis as any).Float16Array,
  Float32Array,
  Float64Array,
  DataView,
});

const ERRORS: Record<string, any> = Object.assign(Object.create(null), {
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
});

const AsyncFunction = (async () => {}).constructor;

// ---- To a program ------------------------------------------------------------------------------------------------------

/** Writes a value as tagged JSON. Long byte strings are appended to `attachments`. @internal */
export function encode(value: unknown, handles: Handles, attachments: Uint8Array[]): Json {
  const count = attachments.length;
  const encoder = new Encoder(handles, attachments, false);
  const encoded = encoder.encode(value);
  if (!encoder.isShared) return encoded;
  // Objects are only numbered if one of them is shared.
  attachments.length = count;
  return new Encoder(handles, attachments, true).encode(value);
}

class Encoder {
  /** Whether an object was met again. */
  isShared = false;
  private numbers = new Map<object, number>();
  private depth = 0;

  constructor(
    private readonly handles: Handles,
    private readonly attachments: Uint8Array[],
    private readonly isNumbered: boolean,
  ) {}

  encode(value: unknown): Json {
    switch (typeof value) {
      case "string":
      case "boolean":
        return value;
      case "number":
        return Number.isFinite(value) && !Object.is(value, -0)
          ? value
          : { $number: Object.is(value, -0) ? "-0" : String(value) };
      case "undefined":
        return { $undefined: true };
      case "bigint":
        return { $bigint: digits(value) };
      case "function":
        return this.function(value as (...args: any[]) => unknown);
      case "object":
        return value === null ? null : this.object(value);
      default:
        throw new SerializationError(`${typeof value} is not supported`);
    }
  }

  private object(value: object): Json {
    if (value instanceof Tagged) return value.json;
    if (value instanceof HostFunction) return this.function(value.call, value.kind);
    const known = this.numbers.get(value);
    if (known !== undefined) {
      this.isShared = true;
      return { $ref: known };
    }
    const number = this.numbers.size + 1;
    this.numbers.set(value, number);
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new SerializationError(`the value is nested deeper than ${MAX_DEPTH} levels`);
    const encoded = this.kind(value);
    this.depth -= 1;
    return this.isNumbered && !("$promise" in encoded) ? { $id: number, $value: encoded } : encoded;
  }

  private kind(value: object): Json {
    if (Array.isArray(value)) return this.array(value);
    if (ArrayBuffer.isView(value)) return this.view(value);
    if (types.isAnyArrayBuffer(value)) return this.buffer(value);
    if (types.isDate(value)) return { $date: Number.isNaN(value.getTime()) ? null : value.getTime() };
    if (types.isMap(value)) return { $map: [...value].map(([key, item]) => [this.key(key), this.member(key, item)]) };
    if (types.isSet(value)) return { $set: [...value].map((item) => this.key(item)) };
    if (types.isRegExp(value)) return { $regexp: value.source, flags: value.flags };
    if (isError(value)) return this.error(value);
    if (types.isBoxedPrimitive(value)) return { $boxed: this.encode(value.valueOf()) };
    if (typeof (value as any).then === "function") {
      return { $promise: this.handles.addPromise(value as PromiseLike<unknown>) };
    }
    return this.members(value);
  }

  private members(value: object): Json {
    const kind = Object.prototype.toString.call(value).slice(8, -1);
    if (kind !== "Object") throw new SerializationError(`${kind} is not supported`);
    const encoded: Json = {};
    for (const key of Object.keys(value)) {
      set(encoded, key.startsWith("$") ? `$${key}` : key, this.member(key, (value as any)[key]));
    }
    return encoded;
  }

  private array(value: unknown[]): Json {
    const encoded: Json[] = [];
    for (let index = 0; index < value.length; index++) {
      if (value[index] === undefined && !(index in value)) return this.sparse(value);
      encoded.push(this.member(index, value[index]));
    }
    return encoded;
  }

  private sparse(value: unknown[]): Json {
    const items: Json = {};
    for (const key of Object.keys(value)) set(items, key, this.member(key, (value as any)[key]));
    return { $sparse: value.length, items };
  }

  private member(key: unknown, value: unknown): Json {
    try {
      return this.encode(value);
    } catch (error) {
      throw error instanceof SerializationError ? inside(error, key) : error;
    }
  }

  private key(value: unknown): Json {
    return this.member("(key)", value);
  }

  private view(value: ArrayBufferView): Json {
    if (types.isSharedArrayBuffer(value.buffer)) throw new SerializationError("SharedArrayBuffer is not supported");
    const name = Object.prototype.toString.call(value).slice(8, -1);
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    if (name === "Uint8Array") return { $bytes: this.data(bytes) };
    // The rest of the buffer is none of the program's business.
    const length = (value as any).length ?? value.byteLength;
    return { $view: name, of: { $buffer: this.data(bytes) }, offset: 0, length };
  }

  private buffer(value: ArrayBuffer | SharedArrayBuffer): Json {
    if (types.isSharedArrayBuffer(value)) throw new SerializationError("SharedArrayBuffer is not supported");
    const max = (value as any).resizable ? (value as any).maxByteLength : undefined;
    return { $buffer: this.data(new Uint8Array(value)), max };
  }

  private data(bytes: Uint8Array): Json {
    if (bytes.length < MIN_ATTACHED_BYTES) return Buffer.from(bytes).toString("base64");
    // A copy: the application can change its bytes before they are sent.
    this.attachments.push(Uint8Array.prototype.slice.call(bytes));
    return { $attachment: this.attachments.length - 1 };
  }

  private error(value: Error): Json {
    // The stack is not sent: it has paths of this machine.
    const encoded: Json = { $error: nameOf(value), message: messageOf(value) };
    if (value.cause !== undefined) encoded.cause = this.member("cause", value.cause);
    return encoded;
  }

  private function(
    call: (...args: any[]) => unknown,
    kind = call.constructor === AsyncFunction ? "async" : "sync",
  ): Json {
    return { $function: this.handles.addFunction(call), kind, name: String(call.name).slice(0, 1000) };
  }
}

function inside(error: SerializationError, key: unknown): SerializationError {
  const part = typeof key === "number" ? `[${key}]` : `.${messageOf(key).slice(0, 100)}`;
  return new SerializationError(error.reason, part + error.path);
}

function digits(value: bigint): string {
  if (value > -(1n << 2000n) && value < 1n << 2000n) return value.toString();
  return value < 0n ? `-0x${(-value).toString(16)}` : `0x${value.toString(16)}`;
}

/** Sets a member, also `__proto__`. */
function set(object: any, key: string, value: unknown): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    object[key] = value;
  }
}

// ---- From a program ----------------------------------------------------------------------------------------------------

/** Reads the tagged JSON of one message of the service. @internal */
export type Decode = (json: Json) => unknown;

/** Reads what is in one message. @internal */
export function decoder(handles: Handles, attachments: Uint8Array[]): Decode {
  const budget = { holes: MAX_HOLES, resizableBytes: MAX_RESIZABLE_BYTES };
  return (json) => new Decoder(json, handles, attachments, budget).decode(json);
}

/** What a program can make large with little, and may still make. */
interface Budget {
  holes: number;
  resizableBytes: number;
}

class Decoder {
  private objects = new Map<number, unknown>();
  private numbered: Map<number, Json> | undefined;

  constructor(
    private readonly root: Json,
    private readonly handles: Handles,
    private readonly attachments: Uint8Array[],
    private readonly budget: Budget,
  ) {}

  decode(json: Json): unknown {
    if (typeof json !== "object" || json === null) return json;
    return this.object(json, undefined);
  }

  /** Reads an object. `number` is the number with which references refer to it, also from inside. */
  private object(json: Json, number: number | undefined): unknown {
    if (Array.isArray(json)) {
      const items = this.known(number, [] as unknown[]);
      for (const item of json) items.push(this.decode(item));
      return items;
    }
    for (const tag in json) {
      if (tag.startsWith("$") && !tag.startsWith("$$")) return this.tagged(tag, json, number);
      break;
    }
    return this.members(json, this.known(number, {}));
  }

  private members<T extends object>(json: Json, into: T): T {
    for (const key of Object.keys(json)) set(into, key.startsWith("$") ? key.slice(1) : key, this.decode(json[key]));
    return into;
  }

  /** Makes an object known before its members are read. */
  private known<T>(number: number | undefined, value: T): T {
    if (number !== undefined) this.objects.set(number, value);
    return value;
  }

  private tagged(tag: string, json: Json, number: number | undefined): unknown {
    const value = json[tag];
    switch (tag) {
      case "$id":
        return this.shared(json);
      case "$ref":
        return this.reference(value);
      case "$undefined":
        return undefined;
      case "$number":
        return Number(value);
      case "$bigint":
        return value.startsWith("-") ? -BigInt(value.slice(1)) : BigInt(value);
      case "$map": {
        const map = this.known(number, new Map());
        for (const [key, item] of value) map.set(this.decode(key), this.decode(item));
        return map;
      }
      case "$set": {
        const items = this.known(number, new Set());
        for (const item of value) items.add(this.decode(item));
        return items;
      }
      case "$error":
        return this.error(json, number);
      case "$sparse":
        return this.sparse(json, number);
      default:
        return this.known(number, this.leaf(tag, value, json));
    }
  }

  private leaf(tag: string, value: any, json: Json): unknown {
    switch (tag) {
      case "$date":
        return new Date(value ?? Number.NaN);
      case "$regexp":
        return attempt(json, () => new RegExp(value, json.flags));
      case "$bytes":
        return this.data(value);
      case "$buffer":
        return this.buffer(json);
      case "$view":
        return this.view(json);
      case "$boxed":
        return Object(this.decode(value));
      case "$function":
        return this.handles.function(value) ?? new Tagged(json);
      default:
        return new Tagged(json);
    }
  }

  private shared(json: Json): unknown {
    const number = json.$id;
    return this.objects.has(number) ? this.objects.get(number) : this.object(json.$value, number);
  }

  private reference(number: number): unknown {
    if (!this.objects.has(number)) {
      this.numbered ??= numbered(this.root); // it can come before its object
      const json = this.numbered.get(number);
      return json === undefined ? undefined : this.shared(json);
    }
    return this.objects.get(number);
  }

  private error(json: Json, number: number | undefined): Error {
    const message = json.message ?? "";
    const kind = ERRORS[json.$error] ?? Error;
    const error: Error = this.known(number, new kind(message));
    if (error.name !== json.$error) hidden(error, "name", json.$error);
    // The stack of the program, if it has one: that of the application says nothing about it.
    hidden(error, "stack", json.stack ?? `${json.$error}${message ? `: ${message}` : ""}`);
    if ("cause" in json) hidden(error, "cause", this.decode(json.cause));
    return error;
  }

  private data(value: any): Uint8Array {
    return typeof value === "string"
      ? new Uint8Array(Buffer.from(value, "base64"))
      : this.attachments[value.$attachment]!;
  }

  private buffer(json: Json): unknown {
    const bytes = this.data(json.$buffer);
    const max = json.max ?? undefined;
    if (max === undefined) return bytes.buffer;
    if (max > this.budget.resizableBytes) return new Tagged(json);
    this.budget.resizableBytes -= max;
    return attempt(json, () => {
      const buffer = new (ArrayBuffer as any)(bytes.length, { maxByteLength: max });
      new Uint8Array(buffer).set(bytes);
      return buffer;
    });
  }

  private view(json: Json): unknown {
    const buffer = this.decode(json.of);
    const kind = VIEWS[json.$view];
    if (!kind || !(buffer instanceof ArrayBuffer)) return new Tagged(json);
    return attempt(json, () => new kind(buffer, json.offset ?? 0, json.length ?? undefined));
  }

  private sparse(json: Json, number: number | undefined): unknown {
    const keys = Object.keys(json.items);
    const holes = Math.max(0, json.$sparse - keys.length);
    if (holes > this.budget.holes) return this.known(number, new Tagged(json));
    this.budget.holes -= holes;
    const items = this.known(number, [] as unknown[]);
    items.length = json.$sparse;
    for (const key of keys) set(items, key, this.decode(json.items[key]));
    return items;
  }
}

/** Makes a value, or returns the tagged JSON if this version of JavaScript cannot. */
function attempt(json: Json, make: () => unknown): unknown {
  try {
    return make();
  } catch {
    return new Tagged(json);
  }
}

function hidden(error: Error, key: string, value: unknown): void {
  Object.defineProperty(error, key, { value, writable: true, configurable: true });
}

/** The objects that references can refer to, by their numbers. */
function numbered(root: Json): Map<number, Json> {
  const found = new Map<number, Json>();
  const rest: Json[] = [root];
  for (let json = rest.pop(); json !== undefined; json = rest.pop()) {
    if (typeof json !== "object" || json === null) continue;
    if ("$id" in json && "$value" in json) found.set(json.$id, json);
    rest.push(...Object.values(json));
  }
  return found;
}
