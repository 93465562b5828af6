//! Why a value cannot cross between guest and host.

use crate::budget::{Exhausted, Refused};
use crate::text::bytes_text;

use super::MAX_JSON_DEPTH;

/// A value that cannot cross, with the path to the part at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} {reason}")]
#[non_exhaustive]
pub struct SerializationError {
    /// The path to the part, for example `result.items[3].at`.
    pub path: String,
    /// What is wrong with that part.
    pub reason: Reason,
}

impl SerializationError {
    /// The part at this path cannot cross, for this reason.
    pub fn new(path: impl Into<String>, reason: Reason) -> Self {
        Self { path: path.into(), reason }
    }
}

/// What is wrong with a value. The message continues a sentence that begins with the path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes are not in [the format](super#format).
    #[error("is not in the format of values")]
    InvalidFormat,
    /// The value takes more of the host's memory than this many bytes.
    #[error("is too large to cross: it takes more than {} of the host's memory; pass less, or page it", bytes_text(*.0 as u64))]
    TooLarge(usize),
    /// Together with what is kept already, the value takes more of the host's memory than the budget has.
    #[error("takes more of the host's memory than is left: {0}")]
    Exhausted(Exhausted),
    /// The conversion was stopped.
    #[error("was not converted: it was stopped")]
    Stopped,
    /// Arrays and objects nest deeper than [`MAX_JSON_DEPTH`].
    #[error("nests deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
    /// JSON cannot hold this kind of value.
    #[error("{}", .0.advice())]
    Foreign(Foreign),
    /// JSON cannot hold an instance of the class of this name.
    #[error("is an instance of {0}; use a plain object ({{ ...value }})")]
    Instance(String),
    /// An item of an array is `undefined`.
    #[error("is undefined, which an array in JSON cannot hold; use null")]
    UndefinedItem,
    /// An array has a hole.
    #[error("is a hole in an array; use null")]
    Hole,
    /// A number is NaN.
    #[error("is NaN; use null or a finite number")]
    NotANumber,
    /// A number is infinite.
    #[error("is infinite; use null or a finite number")]
    Infinite,
    /// An object contains itself.
    #[error("refers back to an object that contains it; JSON cannot hold a cycle")]
    Cycle,
    /// A plain object is required.
    #[error("is not a plain object")]
    NotAnObject,
    /// A [`NodeId`](super::NodeId) of another graph.
    #[error("refers to an object of another graph")]
    UnknownNode,
    /// A length does not fit in 32 bits.
    #[error("has more than 2^32 parts")]
    TooManyParts,
    /// A view of something other than a buffer, or of more than its buffer holds.
    #[error("has a view that does not fit a buffer")]
    InvalidView,
    /// Tagged JSON has this tag, which the format does not define.
    #[error("has the unknown tag {0}; a key {0:?} is written \"${0}\"")]
    UnknownTag(String),
    /// Tagged JSON has a key that does not belong to the tag beside it.
    #[error("has a {tag} with the unknown key {key:?}")]
    UnknownKey {
        /// The tag.
        tag: &'static str,
        /// The key.
        key: String,
    },
    /// Tagged JSON lacks this key, or has something else than expected there.
    #[error("has an invalid {key}: expected {expected}")]
    InvalidTag {
        /// The tag, or a key that belongs to one.
        key: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// Tagged JSON has two objects with this `$id`.
    #[error("has a duplicate $id {0}")]
    DuplicateId(u64),
    /// Tagged JSON has a `$ref`, and no object with this `$id`.
    #[error("has a $ref to the unknown $id {0}")]
    UnknownId(u64),
}

impl From<Refused> for Reason {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooLarge(limit) => Self::TooLarge(limit),
            Refused::Exhausted(exhausted) => Self::Exhausted(exhausted),
            Refused::Stopped => Self::Stopped,
        }
    }
}

/// The kinds of guest values that JSON cannot hold. The discriminant is the kind byte of [the format](super#format).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // named after the values
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
    /// Every kind, in the order of the discriminants.
    pub const ALL: [Self; 17] = [
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

    pub(super) fn from_kind(kind: u8) -> Option<Self> {
        Self::ALL.get(usize::from(kind)).copied()
    }

    /// What the value is and what to use instead, as the end of a sentence.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_kinds_are_listed_in_the_order_of_their_discriminants() {
        for (number, kind) in Foreign::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        assert_eq!(Foreign::from_kind(17), None);
    }
}
