//! Checks of the arguments that guests pass to a bridge's functions.
//!
//! An invalid argument is a `TypeError` that names the argument and what is expected.

use execbox::code::{Args, Datum, Graph, HostError, Node, Primitive};
use execbox_core::text::cut;
use serde_json::Value as Json;

/// The approximate limit on the host memory of one argument as JSON, in bytes. An object that is referenced twice counts
/// twice.
const JSON_BYTES: usize = 16 << 20;

/// The result type of `readFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Bytes,
}

pub(super) fn type_error(message: impl Into<String>) -> HostError {
    HostError::named("TypeError", message)
}

/// Rejects more than `most` arguments.
pub(super) fn at_most(args: &Args, most: usize, usage: &str) -> Result<(), HostError> {
    if args.len() > most { Err(type_error(format!("too many arguments; usage: {usage}"))) } else { Ok(()) }
}

pub(super) fn text<'a>(args: &'a Args, index: usize, what: &str) -> Result<&'a str, HostError> {
    args.get(index).as_str().ok_or_else(|| type_error(format!("{what} must be a string")))
}

/// The content of a file: a string as UTF-8, or bytes.
pub(super) fn content(args: &Args, index: usize) -> Result<Vec<u8>, HostError> {
    if let Some(text) = args.get(index).as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let bytes = args.graph().bytes_of(args.get(index)).map(<[u8]>::to_vec);
    bytes.ok_or_else(|| {
        type_error("data must be a string, a typed array or an ArrayBuffer; use JSON.stringify for objects")
    })
}

/// `"utf8"`, `"bytes"`, or an object with one of these as its `encoding`.
pub(super) fn encoding(args: &Args, index: usize) -> Result<Encoding, HostError> {
    let given = args.get(index);
    let given = match args.graph().node(given) {
        Some(_) => Options::new(args, index, &["encoding"])?.get("encoding"),
        None => given,
    };
    match given {
        Datum::Undefined | Datum::Null => Ok(Encoding::Utf8),
        given if matches!(given.as_str(), Some("utf8" | "utf-8" | "text")) => Ok(Encoding::Utf8),
        given if given.as_str() == Some("bytes") => Ok(Encoding::Bytes),
        _ => Err(type_error("encoding must be \"utf8\" (the default) or \"bytes\"")),
    }
}

/// A JSON value, `None` if the argument is missing.
pub(super) fn json(args: &Args, index: usize, what: &str) -> Result<Option<Json>, HostError> {
    let mut graph: Graph = args.graph().clone();
    graph.set_root(args.get(index).clone());
    let json = graph.to_value(what).and_then(|value| value.to_json(what, JSON_BYTES));
    json.map_err(|error| type_error(error.to_string()))
}

/// An object of optional members.
pub(super) struct Options<'a> {
    graph: &'a Graph,
    members: &'a [(String, Datum)],
}

impl<'a> Options<'a> {
    /// Reads the argument at `index`; it may be missing. Rejects members that are not in `known`.
    pub(super) fn new(args: &'a Args, index: usize, known: &[&str]) -> Result<Self, HostError> {
        let (graph, given) = (args.graph(), args.get(index));
        let members: &[(String, Datum)] = match graph.node(given) {
            None if matches!(given, Datum::Undefined | Datum::Null) => &[],
            Some(Node::Object(members)) => members,
            _ => return Err(type_error(format!("options must be an object with {}", known.join(", ")))),
        };
        match members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                Err(type_error(format!("unknown option {:?}; expected {}", cut(name, 40), known.join(", "))))
            }
            None => Ok(Self { graph, members }),
        }
    }

    pub(super) fn get(&self, name: &str) -> &'a Datum {
        const UNDEFINED: &Datum = &Datum::Undefined;
        self.members.iter().rfind(|(key, _)| key == name).map_or(UNDEFINED, |(_, value)| value)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, HostError> {
        match self.get(name) {
            Datum::Undefined | Datum::Null => Ok(None),
            Datum::Primitive(Primitive::String(text)) => Ok(Some(text)),
            _ => Err(type_error(format!("{name} must be a string"))),
        }
    }

    /// A string or an array of strings.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, HostError> {
        let given = self.get(name);
        let texts: Option<Vec<&str>> = match self.graph.items(given) {
            Some(items) => items.iter().map(Datum::as_str).collect(),
            None if matches!(given, Datum::Undefined | Datum::Null) => return Ok(None),
            None => given.as_str().map(|text| vec![text]),
        };
        let texts = texts.filter(|texts| (1..=100).contains(&texts.len()));
        texts.map(Some).ok_or_else(|| type_error(format!("{name} must be a string, or an array of 1 to 100 strings")))
    }

    /// A non-negative integer.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, HostError> {
        const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
        match self.get(name) {
            Datum::Undefined | Datum::Null => Ok(None),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked by the guard
            &Datum::Primitive(Primitive::Number(number))
                if number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&number) =>
            {
                Ok(Some(number as u64))
            }
            _ => Err(type_error(format!("{name} must be a non-negative integer"))),
        }
    }

    /// The option `limit`, at most `u32::MAX`.
    pub(super) fn limit(&self) -> Result<Option<u32>, HostError> {
        Ok(self.number("limit")?.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)))
    }
}
