//! Values that cross between guest and host.
//!
//! A [`Value`] is the bytes that cross, in the format below, not yet decoded. The receiver decides what it accepts: the
//! script contract decodes [JSON](Value::to_json) and reports the first part that is something else; the module contract
//! decodes everything, as a [`Graph`]. Bytes from a guest are hostile: every length is checked against the bytes that are
//! there before anything is allocated, and no recursion depends on a depth that the guest chose. An object that is shared is
//! written once and referred to, so that sharing makes no value larger than the heap that it comes from.
//!
//! Both directions and both engines have this format, which is why the serializer of V8 is not used.
//!
//! # Format
//!
//! The format covers what the structured clone algorithm of the web platform copies, and functions and promises of the host. A
//! value is one tag byte and the payload of the tag. `varint` is LEB128 of at most 32 bits; `string` is a varint length in
//! bytes and UTF-8.
//!
//! | tag | | payload |
//! |---|---|---|
//! | 0–3 | `undefined`, `null`, `false`, `true` | |
//! | 4 | integer | varint, zigzag, fits in 32 bits |
//! | 5 | number | 8 bytes, IEEE 754, little-endian |
//! | 6 | string | string; lone surrogates are replaced by U+FFFD |
//! | 7 | array | varint length, that many values (or holes) |
//! | 8 | object | key, value, key, value, …, varint 0 |
//! | 9 | hole | (only inside arrays) |
//! | 10 | reference | varint: the object of that number |
//! | 11 | foreign | kind byte, see [`Foreign`]; a class instance adds a string, the name of its class |
//! | 12 | bigint | varint length, that many bytes, two's complement, little-endian |
//! | 13 | `Date` | 8 bytes as in 5: its [`TimeValue`], NaN if it is invalid |
//! | 14 | `Map` | varint count, that many times key and value |
//! | 15 | `Set` | varint count, that many values |
//! | 16 | `RegExp` | string: its source; string: its flags |
//! | 17 | `Error` | string: its name; a byte, the sum of 1: message, 2: stack, 4: cause; those: string, string, value |
//! | 18 | `ArrayBuffer` | varint length; varint 0, or 1 + the length that it can be resized to; the bytes |
//! | 19 | view | kind byte, see [`ViewKind`]; varint offset in bytes; varint 0 where its length follows its buffer's, or 1 + its length in elements; its buffer (18, or 10) |
//! | 20 | boxed primitive | boolean, number, bigint or string |
//! | 21 | sparse array | varint length, then as 8 |
//! | 22 | host function | varint number, kind byte, see [`FunctionKind`]; string: its name |
//! | 23 | host promise | varint number |
//!
//! A key is varint 1 and a string the first time, and varint 2 + n when it is the n-th distinct key again.
//!
//! References number the objects (7, 8 and 13–23) from 0, in the order in which they begin.
//!
//! Guests of the script contract write tag 11 for everything that JSON cannot hold, so that nothing is copied only to be
//! rejected. Guests of the module contract write no 11, and no 9 except where a getter removed an element while its array
//! was copied; a value that cannot be copied is an error in the guest. Only the host creates 22 and 23; a guest may return
//! functions.
//!
//! # Tagged JSON
//!
//! A [`Graph`] as JSON, for command lines and for JSON protocols
//! ([`write_tagged_json`](Graph::write_tagged_json), [`to_tagged_json`](Graph::to_tagged_json),
//! [`from_tagged_json`](Graph::from_tagged_json)).
//! JSON values stand for themselves. Everything else is an object with one *tag*, a key that begins with `$`; a key of the
//! value that begins with `$` gets another `$` in front.
//!
//! | JSON | value |
//! |---|---|
//! | `{"$undefined": true}` | `undefined` |
//! | `{"$number": "NaN"}`; `"Infinity"`, `"-Infinity"`, `"-0"` | that number |
//! | `{"$bigint": "123"}`; `"-0xff"` | a bigint; beyond 256 bytes it is written in hexadecimal |
//! | `{"$date": 1700000000000}`; `null` | a `Date`: its [`TimeValue`]; an invalid one |
//! | `{"$map": [[key, value], …]}` | a `Map` |
//! | `{"$set": [value, …]}` | a `Set` |
//! | `{"$regexp": "source", "flags": "g"}` | a `RegExp` |
//! | `{"$error": "TypeError", "message": "…", "stack": "…", "cause": value}` | an `Error`; all but its name may be left out |
//! | `{"$bytes": "base64"}` | a `Uint8Array` of a whole buffer that has no other reference |
//! | `{"$bytes": {"$attachment": 0}}` | the same, of bytes that cross beside the text: [`AttachedBytes`] |
//! | `{"$buffer": "base64", "max": 64}` | an `ArrayBuffer`; `max` if it is resizable |
//! | `{"$view": "Int16Array", "of": buffer, "offset": 0, "length": 4}` | a typed array or `DataView`; without `length` it follows its buffer |
//! | `{"$boxed": primitive}` | `Object(primitive)` |
//! | `{"$sparse": 9, "items": {"3": value}}` | an array of that length, with holes or further members |
//! | `{"$function": 5, "kind": "async", "name": "f"}` | a function of the host; `sync`, `notify` or `log` |
//! | `{"$promise": 5}` | a promise of the host |
//! | `{"$id": 1, "$value": object}` | the object, which `$ref` may refer to |
//! | `{"$ref": 1}` | a reference to that object; it may precede it |

mod attached;
mod bigint;
mod decode;
mod encode;
mod error;
mod graph;
mod json;
mod parse;
mod promises;
mod tagged;
mod time;
mod typed;
pub mod wire;

use std::collections::HashSet;
use std::fmt;

use serde_json::Value as Json;

use crate::budget::Meter;

pub(crate) use attached::MIN_ATTACHED_BYTES;
pub use attached::{AttachedBytes, MAX_ATTACHMENTS};
pub use bigint::{BigInt, ParseBigIntError};
pub use error::{Foreign, Reason, SerializationError};
pub use graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, Primitive, ViewKind};
pub use json::size as json_size;
pub(crate) use json::{MEMBER_COST, NODE_COST, cost as json_cost};
pub use parse::{JsonError, parse_json};
pub(crate) use parse::{Seed, ValueSeed, parse_with};
pub use tagged::TaggedJson;
pub(crate) use tagged::{Tagged, ToTagged, With, Work, to_tree};
pub use time::TimeValue;
pub use typed::{TypeMismatch, from_json};

/// The maximum nesting of arrays and objects in JSON, in both directions.
///
/// JSON parsers commonly have a higher limit (128), so every isolation accepts the same values.
pub const MAX_JSON_DEPTH: usize = 100;

/// An encoded value; see the [module](self).
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Box<[u8]>);

impl Value {
    /// `undefined`.
    pub fn undefined() -> Self {
        Self(Box::new([wire::UNDEFINED]))
    }

    /// Wraps bytes from a guest. They are checked when they are decoded.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, in the format of this module.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Encodes JSON. `None` is `undefined`.
    ///
    /// `what` names the value in the error, for example `result`.
    ///
    /// # Errors
    /// Fails where the JSON nests deeper than [`MAX_JSON_DEPTH`].
    pub fn from_json(json: Option<&Json>, what: &str) -> Result<Self, SerializationError> {
        let mut bytes = Vec::new();
        json::encode(json, what, &mut bytes)?;
        Ok(Self(bytes.into()))
    }

    /// Decodes JSON (runner specification, "Serialization Contract"). `undefined` at the top is `None`.
    ///
    /// `what` names the value in the error (`result`, `input`). `budget` is how many bytes of the host's memory the JSON
    /// may take, roughly counted: an object that is referred to a million times is copied a million times.
    ///
    /// # Errors
    /// Fails at the first part that is not JSON, with the path to it; where the value nests deeper than
    /// [`MAX_JSON_DEPTH`]; where it exceeds `budget`; and where the bytes are not in this format.
    pub fn to_json(&self, what: &str, budget: usize) -> Result<Option<Json>, SerializationError> {
        self.to_json_metered(what, &mut Meter::alone(budget))
    }

    /// [`to_json`](Self::to_json), charged to a meter.
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json), and where the meter refuses.
    pub fn to_json_metered(&self, what: &str, meter: &mut Meter<'_>) -> Result<Option<Json>, SerializationError> {
        json::decode(&self.0, what, meter)
    }

    /// Appends the value as JSON text, if it is JSON and no part is a reference.
    ///
    /// # Errors
    /// The value is not JSON, or a part is a reference. The beginning of the text may have been appended.
    pub fn write_json(&self, text: &mut Vec<u8>) -> Result<(), Reason> {
        json::write(&self.0, text)
    }

    /// Whether the value is `undefined`.
    pub fn is_undefined(&self) -> bool {
        *self.0 == [wire::UNDEFINED]
    }

    /// Adds the numbers of the host's promises in the value to `found`, up to `limit` numbers in all. Returns whether these
    /// are all: not beyond the limit, or where the bytes are not in this format.
    pub(crate) fn find_promises(&self, found: &mut HashSet<u32>, limit: usize) -> bool {
        promises::find(&self.0, found, limit)
    }

    /// Decodes the whole value. `what` and `budget` as in [`to_json`](Self::to_json); no value takes more than some fifty
    /// times its length.
    ///
    /// # Errors
    /// Fails where the value exceeds `budget`, where it has a tag 11, and where the bytes are not in this format.
    pub fn to_graph(&self, what: &str, budget: usize) -> Result<Graph, SerializationError> {
        self.to_graph_metered(what, &mut Meter::alone(budget))
    }

    /// [`to_graph`](Self::to_graph), charged to a meter.
    ///
    /// # Errors
    /// As [`to_graph`](Self::to_graph), and where the meter refuses.
    pub(crate) fn to_graph_metered(&self, what: &str, meter: &mut Meter<'_>) -> Result<Graph, SerializationError> {
        decode::decode(&self.0, meter).map_err(|reason| SerializationError::new(what, reason))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_json("value", 1 << 20) {
            Ok(None) => f.write_str("undefined"),
            Ok(Some(json)) => write!(f, "{json}"),
            Err(error) => {
                match self.to_graph("value", 1 << 20).and_then(|graph| graph.to_tagged_json("value", 1 << 20)) {
                    Ok(json) => write!(f, "{json}"),
                    Err(_) => write!(f, "<{error}>"),
                }
            }
        }
    }
}
