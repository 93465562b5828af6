// Globals of other hosts of JavaScript that give a program no power: texts as bytes (the Encoding standard of the WHATWG),
// Base64 (the HTML standard), and an `eval` that evaluates nothing.
//
// `encode(text, isLatin1)` returns the bytes of a text as a Uint8Array. `decode(bytes)` returns the text of a Uint8Array of valid
// UTF-8, or undefined if it is not valid.
(encode, decode) => {
  "use strict";

  const { apply, getOwnPropertyDescriptor, defineProperty } = Reflect;
  const { fromCharCode } = String;
  const { fromBase64 } = Uint8Array;
  const { toBase64 } = Uint8Array.prototype;
  const typedArray = Reflect.getPrototypeOf(Uint8Array.prototype);
  const { set, subarray } = typedArray;
  const { slice, toLowerCase, trim } = String.prototype;
  const { isView } = ArrayBuffer;
  const [Bytes, Units, TypeErrorOf, RangeErrorOf, ErrorOf] = [Uint8Array, Uint16Array, TypeError, RangeError, Error];
  const getter = (object, key) => getOwnPropertyDescriptor(object, key).get;
  const [bufferOf, offsetOf, lengthOf] = ["buffer", "byteOffset", "byteLength"].map((key) => getter(typedArray, key));
  const [dataBuffer, dataOffset, dataLength] =
    ["buffer", "byteOffset", "byteLength"].map((key) => getter(DataView.prototype, key));
  const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
  const kindOf = getter(typedArray, Symbol.toStringTag);

  const failure = (name, message) => {
    const error = new ErrorOf(message);
    defineProperty(error, "name", { value: name, writable: true, configurable: true });
    return error;
  };

  // The bytes that a view or buffer has, without a copy.
  const bytesOf = (input) => {
    if (input === undefined) return new Bytes(0);
    if (isView(input)) {
      const isTyped = apply(kindOf, input, []) !== undefined;
      const [buffer, offset, length] = isTyped ? [bufferOf, offsetOf, lengthOf] : [dataBuffer, dataOffset, dataLength];
      return new Bytes(apply(buffer, input, []), apply(offset, input, []), apply(length, input, []));
    }
    try {
      apply(bufferLength, input, []);
    } catch {
      throw new TypeErrorOf("The input is not an ArrayBuffer or a view of one");
    }
    return new Bytes(input);
  };

  // The text whose UTF-16 units are these numbers.
  const CHUNK = 8192;
  const textOf = (units, length) => {
    let text = "";
    for (let at = 0; at < length; at += CHUNK) {
      text += apply(fromCharCode, undefined, apply(subarray, units, [at, at + CHUNK < length ? at + CHUNK : length]));
    }
    return text;
  };

  // ---- Decoders: each takes bytes, and whether these are the last, and returns UTF-16 units in a text ---------------------

  const invalid = () => new TypeErrorOf("The encoded data was not valid for the encoding");

  // UTF-8 with errors, or in parts. One U+FFFD stands for each maximal part of a sequence.
  const utf8 = (isFatal) => {
    let needed = 0, value = 0, lower = 0x80, upper = 0xbf;
    const reset = () => {
      needed = 0;
      lower = 0x80;
      upper = 0xbf;
    };
    return (bytes, isLast) => {
      if (needed === 0) {
        const text = decode(bytes);
        if (text !== undefined) return text;
      }
      const units = new Units(bytes.length + 2);
      let length = 0;
      const bad = () => {
        if (isFatal) throw invalid();
        units[length++] = 0xfffd;
      };
      for (let at = 0; at < bytes.length; at++) {
        const byte = bytes[at];
        if (needed > 0) {
          if (byte >= lower && byte <= upper) {
            lower = 0x80;
            upper = 0xbf;
            value = value << 6 | byte & 0x3f;
            if (--needed > 0) continue;
            if (value > 0xffff) {
              units[length++] = 0xd7c0 + (value >> 10);
              units[length++] = 0xdc00 + (value & 0x3ff);
            } else {
              units[length++] = value;
            }
            continue;
          }
          reset();
          bad();
        }
        if (byte < 0x80) units[length++] = byte;
        else if (byte >= 0xc2 && byte <= 0xdf) {
          needed = 1;
          value = byte & 0x1f;
        } else if (byte >= 0xe0 && byte <= 0xef) {
          needed = 2;
          value = byte & 0xf;
          if (byte === 0xe0) lower = 0xa0;
          if (byte === 0xed) upper = 0x9f;
        } else if (byte >= 0xf0 && byte <= 0xf4) {
          needed = 3;
          value = byte & 0x7;
          if (byte === 0xf0) lower = 0x90;
          if (byte === 0xf4) upper = 0x8f;
        } else bad();
      }
      if (isLast && needed > 0) {
        reset();
        bad();
      }
      return textOf(units, length);
    };
  };

  const utf16 = (isFatal, isBig) => {
    let first = -1, lead = -1;
    return (bytes, isLast) => {
      const units = new Units((bytes.length >> 1) + 3);
      let length = 0;
      const bad = () => {
        if (isFatal) throw invalid();
        units[length++] = 0xfffd;
      };
      for (let at = 0; at < bytes.length; at++) {
        if (first < 0) {
          first = bytes[at];
          continue;
        }
        const unit = isBig ? first << 8 | bytes[at] : bytes[at] << 8 | first;
        first = -1;
        if (lead >= 0) {
          if (unit >= 0xdc00 && unit <= 0xdfff) {
            units[length++] = lead;
            units[length++] = unit;
            lead = -1;
            continue;
          }
          lead = -1;
          bad();
        }
        if (unit >= 0xd800 && unit <= 0xdbff) lead = unit;
        else if (unit >= 0xdc00 && unit <= 0xdfff) bad();
        else units[length++] = unit;
      }
      if (isLast && (first >= 0 || lead >= 0)) {
        first = lead = -1;
        bad();
      }
      return textOf(units, length);
    };
  };

  // The bytes 0x80 to 0x9f of windows-1252, which the labels `latin1` and `ascii` mean, too.
  const WINDOWS_1252 = new Units([
    0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
    0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
  ]);
  const windows1252 = () => (bytes) => {
    const units = new Units(bytes.length);
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      units[at] = byte >= 0x80 && byte <= 0x9f ? WINDOWS_1252[byte - 0x80] : byte;
    }
    return textOf(units, units.length);
  };

  const LABELS = {
    __proto__: null,
    "utf-8": "utf-8", "utf8": "utf-8", "unicode-1-1-utf-8": "utf-8", "unicode11utf8": "utf-8", "unicode20utf8": "utf-8",
    "x-unicode20utf8": "utf-8",
    "utf-16le": "utf-16le", "utf-16": "utf-16le", "ucs-2": "utf-16le", "unicode": "utf-16le", "csunicode": "utf-16le",
    "iso-10646-ucs-2": "utf-16le", "unicodefeff": "utf-16le",
    "utf-16be": "utf-16be", "unicodefffe": "utf-16be",
    "windows-1252": "windows-1252", "latin1": "windows-1252", "iso-8859-1": "windows-1252", "ascii": "windows-1252",
    "us-ascii": "windows-1252", "l1": "windows-1252", "cp1252": "windows-1252", "x-cp1252": "windows-1252",
    "ansi_x3.4-1968": "windows-1252", "cp819": "windows-1252", "ibm819": "windows-1252", "iso8859-1": "windows-1252",
    "iso88591": "windows-1252", "iso_8859-1": "windows-1252", "iso-ir-100": "windows-1252", "csisolatin1": "windows-1252",
    "iso_8859-1:1987": "windows-1252",
  };
  const decoderOf = (encoding, isFatal) => encoding === "utf-8" ? utf8(isFatal)
    : encoding === "windows-1252" ? windows1252() : utf16(isFatal, encoding === "utf-16be");

  class TextDecoder {
    #encoding;
    #isFatal;
    #ignoresMark;
    #decoder;
    // Whether a byte order mark can come: at the beginning of a stream.
    #isAtStart = true;

    constructor(label = "utf-8", options = {}) {
      const encoding = LABELS[apply(toLowerCase, apply(trim, `${label}`, []), [])];
      if (encoding === undefined) {
        throw new RangeErrorOf(`The "${label}" encoding is not supported; use utf-8, utf-16le, utf-16be or latin1`);
      }
      [this.#encoding, this.#isFatal, this.#ignoresMark] = [encoding, !!options?.fatal, !!options?.ignoreBOM];
    }

    get encoding() {
      return this.#encoding;
    }

    get fatal() {
      return this.#isFatal;
    }

    get ignoreBOM() {
      return this.#ignoresMark;
    }

    decode(input = undefined, options = {}) {
      const isLast = !options?.stream;
      this.#decoder ??= decoderOf(this.#encoding, this.#isFatal);
      let text;
      try {
        text = this.#decoder(bytesOf(input), isLast);
      } catch (error) {
        [this.#decoder, this.#isAtStart] = [undefined, true];
        throw error;
      }
      if (this.#isAtStart && text !== "") {
        this.#isAtStart = false;
        const isMark = this.#encoding !== "windows-1252" && text[0] === "\ufeff";
        if (isMark && !this.#ignoresMark) text = apply(slice, text, [1]);
      }
      if (isLast) [this.#decoder, this.#isAtStart] = [undefined, true];
      return text;
    }

    get [Symbol.toStringTag]() {
      return "TextDecoder";
    }
  }

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }

    encode(input = "") {
      return encode(`${input}`, false);
    }

    // Writes as many whole characters as fit.
    encodeInto(source, destination) {
      const text = `${source}`;
      if (apply(kindOf, destination, []) !== "Uint8Array") throw new TypeErrorOf("The destination is not a Uint8Array");
      const room = apply(lengthOf, destination, []);
      const bytes = encode(text, false);
      let written = bytes.length;
      if (written > room) {
        written = room;
        while (written > 0 && (bytes[written] & 0xc0) === 0x80) written--;
      }
      apply(set, destination, [apply(subarray, bytes, [0, written])]);
      if (written === bytes.length) return { read: text.length, written };
      let read = 0;
      for (let at = 0; at < written; at++) {
        const byte = bytes[at];
        if ((byte & 0xc0) !== 0x80) read += byte >= 0xf0 ? 2 : 1;
      }
      return { read, written };
    }

    get [Symbol.toStringTag]() {
      return "TextEncoder";
    }
  }

  for (const { prototype } of [TextEncoder, TextDecoder]) {
    for (const key of Reflect.ownKeys(prototype)) {
      if (key !== "constructor" && typeof key === "string") defineProperty(prototype, key, { enumerable: true });
    }
  }

  // ---- Base64 -------------------------------------------------------------------------------------------------------------

  const needsArgument = (count, name) => {
    if (count === 0) throw new TypeErrorOf(`The "${name}" argument must be specified`);
  };

  const functions = {
    btoa(data) {
      needsArgument(arguments.length, "data");
      const bytes = encode(`${data}`, true);
      if (bytes === undefined) throw failure("InvalidCharacterError", "Invalid character: btoa takes characters up to U+00FF");
      return apply(toBase64, bytes, []);
    },
    atob(data) {
      needsArgument(arguments.length, "data");
      const text = `${data}`;
      let bytes;
      try {
        bytes = apply(fromBase64, Bytes, [text]);
      } catch {
        throw failure("InvalidCharacterError", "The string to be decoded is not correctly encoded.");
      }
      return textOf(bytes, bytes.length);
    },
    eval(code) {
      if (typeof code !== "string") return code;
      throw new TypeErrorOf("code from strings cannot run in this sandbox");
    },
  };

  return { TextEncoder, TextDecoder, atob: functions.atob, btoa: functions.btoa, eval: functions.eval, self: globalThis };
}
