//! Parts of a schema that values are not checked against.
//!
//! The schemas of an application are read strictly: the first part that cannot be read is the error. Those of an MCP server are
//! read leniently: other people wrote them, and the server checks its input itself. A part that cannot be read is recorded, and
//! admits everything.

use std::collections::HashMap;
use std::{iter, ptr};

use execbox_core::text::cut;
use serde_json::Value as Json;

use super::{SchemaError, UncheckedPart};

/// What a part that cannot be read is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Reading {
    /// An error.
    Strict,
    /// A part that is not checked.
    Lenient,
}

/// The unchecked parts found so far.
pub(super) struct Unchecked<'a> {
    pub(super) reading: Reading,
    parts: Vec<(&'a Json, SchemaError)>,
    more: usize,
}

impl<'a> Unchecked<'a> {
    pub(super) fn new(reading: Reading) -> Self {
        Self { reading, parts: Vec::new(), more: 0 }
    }

    /// Records that `part` is not checked.
    ///
    /// # Errors
    /// The schema is read strictly, and `reason` is more than a pattern that is too expensive; or memory is exhausted.
    pub(super) fn record(&mut self, part: &'a Json, reason: SchemaError) -> Result<(), SchemaError> {
        match (&reason, self.reading) {
            (SchemaError::Size(_), _) => return Err(reason),
            (SchemaError::UncheckedPattern(_), _) | (_, Reading::Lenient) => {}
            (_, Reading::Strict) => return Err(reason),
        }
        // A schema that is reached in two scopes is compiled twice.
        if self.parts.iter().any(|(known, why)| ptr::eq(*known, part) && *why == reason) {
            return Ok(());
        }
        if self.parts.len() == MAX_PARTS {
            self.more += 1;
        } else {
            self.parts.push((part, reason));
        }
        Ok(())
    }

    /// The first parts with their places in `document`, and the number of further ones.
    pub(super) fn finish(self, document: &Json) -> (Vec<UncheckedPart>, usize) {
        if self.parts.is_empty() {
            return (Vec::new(), self.more);
        }
        let wanted: Vec<*const Json> = self.parts.iter().map(|(part, _)| ptr::from_ref(*part)).collect();
        let places = places(document, &wanted);
        let place = |part: &Json| places.get(&ptr::from_ref(part)).cloned().unwrap_or_default();
        let parts = self.parts.into_iter().map(|(part, reason)| UncheckedPart { place: place(part), reason });
        (parts.collect(), self.more)
    }
}

impl UncheckedPart {
    /// The memory of the part, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let reason = match &self.reason {
            SchemaError::Keyword { value: text, .. }
            | SchemaError::Pattern(text)
            | SchemaError::UncheckedPattern(text)
            | SchemaError::Reference(text) => text.len(),
            _ => 0,
        };
        size_of::<Self>() + self.place.len() + reason
    }
}

/// A step of a path through a document.
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

type Members<'a> = Box<dyn Iterator<Item = (Step<'a>, &'a Json)> + 'a>;

/// The JSON pointers of the values at the addresses `wanted`.
fn places(document: &Json, wanted: &[*const Json]) -> HashMap<*const Json, String> {
    let (mut found, mut path) = (HashMap::new(), Vec::new());
    if wanted.contains(&ptr::from_ref(document)) {
        found.insert(ptr::from_ref(document), String::new());
    }
    let mut open = vec![members(document)];
    while let Some(members_left) = open.last_mut() {
        let Some((step, json)) = members_left.next() else {
            open.pop();
            path.pop();
            continue;
        };
        path.push(step);
        if wanted.contains(&ptr::from_ref(json)) {
            found.insert(json, pointer(&path));
        }
        open.push(members(json));
    }
    found
}

fn members(json: &Json) -> Members<'_> {
    match json {
        Json::Array(items) => Box::new(items.iter().enumerate().map(|(at, item)| (Step::Index(at), item))),
        Json::Object(members) => Box::new(members.iter().map(|(name, member)| (Step::Name(name), member))),
        _ => Box::new(iter::empty()),
    }
}

/// A path as a JSON pointer, without its beginning if it is long.
fn pointer(path: &[Step<'_>]) -> String {
    let (mut parts, mut length) = (Vec::new(), 0);
    for step in path.iter().rev() {
        let part = match step {
            Step::Name(name) => format!("/{}", cut(name, MAX_NAME).replace('~', "~0").replace('/', "~1")),
            Step::Index(at) => format!("/{at}"),
        };
        length += part.chars().count();
        if length > MAX_PLACE {
            parts.push("…".to_owned());
            break;
        }
        parts.push(part);
    }
    parts.reverse();
    parts.concat()
}

/// How many unchecked parts of a schema are recorded; further ones are counted.
const MAX_PARTS: usize = 8;

/// The longest place, in characters, and the longest name in it.
const MAX_PLACE: usize = 300;
const MAX_NAME: usize = 100;
