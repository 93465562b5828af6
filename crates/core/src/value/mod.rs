//! Values on their way between guest and host.
//!
//! A [`Value`] is the bytes that cross the wall, in the format below, not yet taken apart. Whoever
//! knows what it may contain takes it apart: the script contract [narrows](Value::to_json) it to
//! JSON and says exactly what it refused. Bytes from a guest are hostile: every length is checked
//! against what is there before anything is allocated, and nothing recurses on depth that the
//! guest chose.
//!
//! # Format
//!
//! One tag byte, then what the tag says. `varint` is LEB128 of at most 32 bits.
//!
//! | tag | | payload |
//! |---|---|---|
//! | 0–3 | `undefined`, `null`, `false`, `true` | |
//! | 4 | integer | varint, zigzag, fits in 32 bits |
//! | 5 | number | 8 bytes, IEEE 754, little-endian |
//! | 6 | string | varint length, UTF-8 |
//! | 7 | array | varint length, that many values (or holes) |
//! | 8 | object | key, value, key, value, …, varint 0 |
//! | 9 | hole | (only inside arrays) |
//! | 10 | reference | varint: the array or object of that number, counted from 0 as they open |
//! | 11 | foreign | kind byte, see [`Foreign`]; a class instance adds a string, its class's name |
//!
//! A key is varint 1 and a string the first time, and varint 2 + n when it is the n-th distinct key again.

mod json;
mod wire;

use std::fmt;

use serde_json::Value as Json;

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
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_json("value", 1 << 20) {
            Ok(None) => f.write_str("undefined"),
            Ok(Some(json)) => write!(f, "{json}"),
            Err(refusal) => write!(f, "<{refusal}>"),
        }
    }
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
