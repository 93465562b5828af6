//! Values on their way between guest and host.
//!
//! A [`Value`] is the bytes that cross the wall, in the format below, not yet taken apart. Whoever
//! knows what it may contain takes it apart: the script contract [narrows](Value::to_json) it to
//! JSON and says exactly what it refused; the module contract takes all of it, as a [`Graph`]. Bytes
//! from a guest are hostile: every length is checked against what is there before anything is
//! allocated, and nothing recurses on depth that the guest chose.
//!
//! # Format
//!
//! What the structured clone algorithm of the web platform copies, and functions and promises of the
//! host. One tag byte, then what the tag says. `varint` is LEB128 of at most 32 bits; `text` is a varint
//! length and UTF-8.
//!
//! | tag | | payload |
//! |---|---|---|
//! | 0–3 | `undefined`, `null`, `false`, `true` | |
//! | 4 | integer | varint, zigzag, fits in 32 bits |
//! | 5 | number | 8 bytes, IEEE 754, little-endian |
//! | 6 | string | text; a lone surrogate was made U+FFFD |
//! | 7 | array | varint length, that many values (or holes) |
//! | 8 | object | key, value, key, value, …, varint 0 |
//! | 9 | hole | (only inside arrays) |
//! | 10 | reference | varint: the object of that number |
//! | 11 | foreign | kind byte, see [`Foreign`]; a class instance adds a text, its class's name |
//! | 12 | bigint | varint length, that many bytes, two's complement, little-endian |
//! | 13 | `Date` | 8 bytes as in 5: milliseconds since 1970, or NaN |
//! | 14 | `Map` | varint count, that many times key and value |
//! | 15 | `Set` | varint count, that many values |
//! | 16 | `RegExp` | text: its source; text: its flags |
//! | 17 | `Error` | text: its name; a byte, the sum of 1: message, 2: stack, 4: cause; those: text, text, value |
//! | 18 | `ArrayBuffer` | varint length; varint 0, or 1 + the length that it can be resized to; the bytes |
//! | 19 | view | kind byte, see [`ViewKind`]; varint offset in bytes; varint 0 where its length follows its buffer's, or 1 + its length in elements; its buffer (18, or 10) |
//! | 20 | boxed primitive | boolean, number, bigint or string |
//! | 21 | sparse array | varint length, then as 8 |
//! | 22 | host function | varint number, kind byte, see [`FunctionKind`]; text: its name |
//! | 23 | host promise | varint number |
//!
//! A key is varint 1 and a text the first time, and varint 2 + n when it is the n-th distinct key again.
//!
//! References count what has an identity (7, 8 and 13–23) from 0, in the order in which it begins.
//!
//! Tag 11 is what the script contract's guests write for all that JSON cannot say, so that nothing is copied only to be
//! refused. Guests of the module contract write no 9 (except where a getter removed an element meanwhile) and no 11: what
//! cannot be copied is an error in the guest, at once. Tags 22 and 23 are made by the host alone; a guest may hand
//! functions back.
//!
//! # Tagged JSON
//!
//! A [`Graph`] as JSON, for command lines and for protocols that speak JSON
//! ([`to_tagged_json`](Graph::to_tagged_json), [`from_tagged_json`](Graph::from_tagged_json)).
//! What JSON can say is said plainly. Everything else is an object with one *tag*, a key that begins with `$`; a key of the
//! program's that begins with `$` gets another `$` in front.
//!
//! | JSON | value |
//! |---|---|
//! | `{"$undefined": true}` | `undefined` |
//! | `{"$number": "NaN"}`; `"Infinity"`, `"-Infinity"`, `"-0"` | that number |
//! | `{"$bigint": "123"}`; `"-0xff"` | a bigint; beyond a kilobyte it is written in hexadecimal |
//! | `{"$date": 1700000000000}`; `null` | a `Date`: milliseconds since 1970; an invalid one |
//! | `{"$map": [[key, value], …]}` | a `Map` |
//! | `{"$set": [value, …]}` | a `Set` |
//! | `{"$regexp": "source", "flags": "g"}` | a `RegExp` |
//! | `{"$error": "TypeError", "message": "…", "stack": "…", "cause": value}` | an `Error`; all but its name may be left out |
//! | `{"$bytes": "base64"}` | a `Uint8Array` that shows the whole of a buffer that nothing else shows |
//! | `{"$buffer": "base64", "max": 64}` | an `ArrayBuffer`; `max` where it can be resized |
//! | `{"$view": "Int16Array", "of": buffer, "offset": 0, "length": 4}` | a typed array or `DataView`; without `length` it follows its buffer |
//! | `{"$boxed": primitive}` | `Object(primitive)` |
//! | `{"$sparse": 9, "items": {"3": value}}` | an array of that length, with holes or further members |
//! | `{"$function": 5, "kind": "async", "name": "f"}` | a function of the host; `sync`, `notify` or `log` |
//! | `{"$promise": 5}` | a promise of the host |
//! | `{"$id": 1, "$value": object}` | the object, with a name for references: only where there are any |
//! | `{"$ref": 1}` | that same object; it may come before the object |

mod bigint;
mod decode;
mod encode;
mod graph;
mod json;
mod tagged;
mod wire;

use std::fmt;

use serde_json::Value as Json;

use crate::text::bytes_text;

pub use bigint::BigInt;
pub use graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, ViewKind};
pub use json::Refusal;

/// The deepest nesting of arrays and objects that the script contract lets across, either way.
///
/// Below the limit that JSON parsers commonly have (128), so that what crosses one wall crosses all.
pub const MAX_JSON_DEPTH: usize = 100;

/// One value in transit; see the [module](self).
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Box<[u8]>);

impl Value {
    /// `undefined`.
    pub fn undefined() -> Self {
        Self(Box::new([wire::UNDEFINED]))
    }

    /// The bytes as a guest handed them out: not checked until they are taken apart.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, in the format of this module.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A JSON value for a guest. `None` is `undefined`.
    ///
    /// `what` names the value in the error, for example `result`.
    ///
    /// # Errors
    /// Refused where it nests deeper than [`MAX_JSON_DEPTH`].
    pub fn from_json(json: Option<&Json>, what: &str) -> Result<Self, Refusal> {
        let mut bytes = Vec::new();
        json::encode(json, what, &mut bytes)?;
        Ok(Self(bytes.into()))
    }

    /// Narrows the value to JSON (runner specification, "Serialization Contract"). `undefined` at the
    /// top is `None`.
    ///
    /// `what` names the value in the refusal (`result`, `input`). `budget` is how many bytes the JSON
    /// may take in the host's memory, roughly counted: a guest that names one object a million times
    /// gets a million copies of it.
    ///
    /// # Errors
    /// Refused at the first part that is not JSON, with the path to it; where it nests deeper than
    /// [`MAX_JSON_DEPTH`]; where it exceeds `budget`; and where the bytes are not in this format.
    pub fn to_json(&self, what: &str, budget: usize) -> Result<Option<Json>, Refusal> {
        json::narrow(&self.0, what, budget)
    }

    /// Takes the whole value apart. `what` and `budget` as in [`to_json`](Self::to_json); no value takes more than some
    /// fifty times its length.
    ///
    /// # Errors
    /// Refused where it exceeds `budget`, where it holds what only JSON's narrowing knows (tag 11), and where the bytes
    /// are not in this format.
    pub fn to_graph(&self, what: &str, budget: usize) -> Result<Graph, Refusal> {
        decode::decode(&self.0, budget).map_err(|reason| Refusal { path: what.to_owned(), reason: reason.to_string() })
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_json("value", 1 << 20) {
            Ok(None) => f.write_str("undefined"),
            Ok(Some(json)) => write!(f, "{json}"),
            Err(refusal) => match self.to_graph("value", 1 << 20).and_then(|graph| graph.to_tagged_json("value")) {
                Ok(json) => write!(f, "{json}"),
                Err(_) => write!(f, "<{refusal}>"),
            },
        }
    }
}

/// What is said of a value that takes more than its budget.
fn too_large(budget: usize) -> String {
    format!(
        "is too large to cross: it takes more than {} of the host's memory; pass less, or page it",
        bytes_text(budget as u64)
    )
}

/// What a guest value can be that JSON cannot say. The discriminant is the kind byte of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // each is what its name says
pub enum Foreign {
    Function,
    Symbol,
    BigInt,
    Date,
    Map,
    Set,
    Weak,
    RegExp,
    Error,
    Promise,
    ArrayBuffer,
    TypedArray,
    Proxy,
    BoxedPrimitive,
    SparseArray,
    Other,
    Instance,
}

impl Foreign {
    const ALL: [Self; 17] = [
        Self::Function,
        Self::Symbol,
        Self::BigInt,
        Self::Date,
        Self::Map,
        Self::Set,
        Self::Weak,
        Self::RegExp,
        Self::Error,
        Self::Promise,
        Self::ArrayBuffer,
        Self::TypedArray,
        Self::Proxy,
        Self::BoxedPrimitive,
        Self::SparseArray,
        Self::Other,
        Self::Instance,
    ];

    fn from_kind(kind: u8) -> Option<Self> {
        Self::ALL.get(usize::from(kind)).copied()
    }

    /// What it is and what to write instead, as the end of a sentence.
    fn advice(self) -> &'static str {
        match self {
            Self::Function => "is a function; pass the value that it returns",
            Self::Symbol => "is a symbol; use a string",
            Self::BigInt => "is a bigint; use a number, or a string for more than 2^53",
            Self::Date => "is a Date; use a string (toISOString) or a number (getTime)",
            Self::Map => "is a Map; use an object (Object.fromEntries) or an array of entries",
            Self::Set => "is a Set; use an array ([...set])",
            Self::Weak => "is a weak reference or collection; it cannot leave the sandbox",
            Self::RegExp => "is a RegExp; use its source",
            Self::Error => "is an Error; use its message",
            Self::Promise => "is a Promise; await it",
            Self::ArrayBuffer => "is an ArrayBuffer; use an array of numbers or a string",
            Self::TypedArray => "is a typed array; use an array (Array.from)",
            Self::Proxy => "is a Proxy; use a plain object",
            Self::BoxedPrimitive => "is a boxed primitive; use the primitive (valueOf)",
            Self::SparseArray => "is a sparse array; use an array without holes, or an object",
            Self::Other => "is not plain data; use objects, arrays, strings, numbers, booleans and null",
            Self::Instance => "is an instance of a class; use a plain object ({ ...value })",
        }
    }
}
