//! The arguments of a bridge's functions, checked. A guest chose them.
//!
//! What is wrong is a `TypeError` that says which argument, and what to write instead.

use execbox::code::{Args, Datum, Graph, HostError, Node, Primitive};
use serde_json::Value as Json;

/// What one argument may take on the host as JSON, roughly counted: objects that are named twice count twice.
const JSON_BYTES: usize = 16 << 20;

/// How `readFile` gives a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Bytes,
}

pub(super) fn wrong(message: impl Into<String>) -> HostError {
    HostError::named("TypeError", message)
}

/// Refuses arguments that the function does not have.
pub(super) fn at_most(args: &Args, most: usize, usage: &str) -> Result<(), HostError> {
    if args.len() > most { Err(wrong(format!("too many arguments; call it as {usage}"))) } else { Ok(()) }
}

pub(super) fn text<'a>(args: &'a Args, index: usize, what: &str) -> Result<&'a str, HostError> {
    args.get(index).as_str().ok_or_else(|| wrong(format!("{what} must be a string")))
}

/// Content of a file: text as UTF-8, or bytes.
pub(super) fn content(args: &Args, index: usize) -> Result<Vec<u8>, HostError> {
    if let Some(text) = args.get(index).as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let bytes = args.graph().bytes_of(args.get(index)).map(<[u8]>::to_vec);
    bytes.ok_or_else(|| wrong("data must be a string, a typed array or an ArrayBuffer; use JSON.stringify for objects"))
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
        _ => Err(wrong("encoding must be \"utf8\", which is the default, or \"bytes\"")),
    }
}

/// Any JSON; what is left out is null.
pub(super) fn json(args: &Args, index: usize, what: &str) -> Result<Option<Json>, HostError> {
    let mut graph: Graph = args.graph().clone();
    graph.set_root(args.get(index).clone());
    let json = graph.to_value(what).and_then(|value| value.to_json(what, JSON_BYTES));
    json.map_err(|error| wrong(error.to_string()))
}

/// An object of options, each of which may be left out.
pub(super) struct Options<'a> {
    graph: &'a Graph,
    members: &'a [(String, Datum)],
}

impl<'a> Options<'a> {
    /// `undefined` is no options; what is not known is refused.
    pub(super) fn new(args: &'a Args, index: usize, known: &[&str]) -> Result<Self, HostError> {
        let (graph, given) = (args.graph(), args.get(index));
        let members: &[(String, Datum)] = match graph.node(given) {
            None if matches!(given, Datum::Undefined | Datum::Null) => &[],
            Some(Node::Object(members)) => members,
            _ => return Err(wrong(format!("options must be an object with {}", known.join(", ")))),
        };
        match members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let name: String = name.chars().take(40).collect();
                Err(wrong(format!("there is no option {name:?}; write {}", known.join(", "))))
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
            _ => Err(wrong(format!("{name} must be a string"))),
        }
    }

    /// One string, or an array of some.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, HostError> {
        let given = self.get(name);
        let texts: Option<Vec<&str>> = match self.graph.items(given) {
            Some(items) => items.iter().map(Datum::as_str).collect(),
            None if matches!(given, Datum::Undefined | Datum::Null) => return Ok(None),
            None => given.as_str().map(|text| vec![text]),
        };
        let texts = texts.filter(|texts| (1..=100).contains(&texts.len()));
        texts.map(Some).ok_or_else(|| wrong(format!("{name} must be a string, or an array of 1 to 100 strings")))
    }

    /// A whole number that is not negative.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, HostError> {
        const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
        match self.get(name) {
            Datum::Undefined | Datum::Null => Ok(None),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // looked at before
            &Datum::Primitive(Primitive::Number(number))
                if number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&number) =>
            {
                Ok(Some(number as u64))
            }
            _ => Err(wrong(format!("{name} must be a whole number, 0 or more"))),
        }
    }

    /// The number of rows that are asked for.
    pub(super) fn limit(&self) -> Result<Option<u32>, HostError> {
        Ok(self.number("limit")?.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)))
    }
}
