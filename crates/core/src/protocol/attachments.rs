//! Values of the module contract on the wire.
//!
//! A value is [tagged JSON](crate::value#tagged-json), or one of
//! - `{"$attachment": n}`: the n-th attachment before the message contains the value's bytes;
//! - `{"$encoded": "…"}`: the same bytes as base64, for values that nest too deep for JSON or are large.
//!
//! Sources of a run that take more than [`MAX_TEXT_SOURCES`] together are attachments, too: UTF-8 in place of a string.
//!
//! An *attachment* is a byte string that a transport sends unchanged, before the message that refers to it: on a stream as
//! a line `*LENGTH` followed by that many bytes, over WebSocket as a binary message. It is sent only to a peer whose
//! [`Hello`](super::Hello) accepts attachments.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

pub use crate::value::MAX_ATTACHMENTS;
use crate::value::{Graph, MIN_ATTACHED_BYTES, Value};

/// The longest attachment that is kept, in bytes. The bytes of a longer one are dropped as they come.
pub const MAX_ATTACHMENT_BYTES: usize = 64 << 20;

/// What each attachment is charged beyond its length, in bytes.
pub const ATTACHMENT_COST: usize = 64;

/// Sources of a run that take up to this many bytes together are written as text even if attachments are accepted.
pub(crate) const MAX_TEXT_SOURCES: usize = 4 << 20;

/// The most memory that a value takes while it is written as text, and the longest such text, in bytes. A larger one is
/// written as `$encoded`.
const MAX_TEXT_GRAPH_BYTES: usize = 32 << 20;

/// The most bytes of tagged JSON for a byte of a value: `{"$undefined":true}` and a comma are one byte.
const MAX_EXPANSION: usize = 32;

/// The attachments of one message.
#[derive(Debug, Default)]
pub struct Attachments {
    /// The peer accepts attachments.
    pub accepted: bool,
    /// The attachments, in the order of their numbers.
    pub bytes: Vec<Vec<u8>>,
    /// The value of a `tool_result`, if it was read without a tree of JSON.
    pub(super) result: Option<Value>,
}

impl Attachments {
    /// No attachments yet, for a message to a peer that accepts them or does not.
    pub fn for_peer(accepted: bool) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// The attachments that were received before a message.
    pub fn received(bytes: Vec<Vec<u8>>) -> Self {
        Self { accepted: true, bytes, result: None }
    }

    /// Appends a value to the text of a message.
    pub(super) fn write(&mut self, value: &Value, text: &mut Vec<u8>) {
        let bytes = value.as_bytes();
        if self.attach(bytes, text) {
            return;
        }
        let start = text.len();
        text.resize(start + bytes.len().saturating_mul(MAX_EXPANSION).min(MAX_TEXT_GRAPH_BYTES), 0);
        let graph = value.to_graph("value", MAX_TEXT_GRAPH_BYTES);
        let written = graph.and_then(|graph| graph.write_tagged_json("value", &mut text[start..]));
        text.truncate(start + written.as_ref().map_or(0, |len| *len));
        if written.is_err() {
            let encoded = BASE64_STANDARD.encode(bytes);
            text.extend_from_slice(format!("{{\"$encoded\":\"{encoded}\"}}").as_bytes());
        }
    }

    /// Appends a source text to the text of a message as an attachment, if it can be one. Returns whether it was appended.
    pub(super) fn write_text(&mut self, source: &str, text: &mut Vec<u8>) -> bool {
        self.attach(source.as_bytes(), text)
    }

    /// Adds an attachment and appends the reference to it, if the peer accepts attachments, `bytes` is long enough, and there
    /// are not too many. Returns whether it was added.
    fn attach(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> bool {
        let attaches = self.accepted && bytes.len() >= MIN_ATTACHED_BYTES && self.bytes.len() < MAX_ATTACHMENTS;
        if attaches {
            text.extend_from_slice(format!("{{\"$attachment\":{}}}", self.bytes.len()).as_bytes());
            self.bytes.push(bytes.to_vec());
        }
        attaches
    }

    /// Takes the attachment that an object refers to, if it refers to one. The error is what was expected.
    fn take(&mut self, object: &Json) -> Option<Result<Vec<u8>, &'static str>> {
        let object = object.as_object().filter(|object| object.len() == 1)?;
        let number = object.get("$attachment")?.as_u64().and_then(|number| usize::try_from(number).ok());
        let attached = number.and_then(|number| self.bytes.get_mut(number));
        Some(attached.map(std::mem::take).filter(|bytes| !bytes.is_empty()).ok_or("a received attachment"))
    }

    /// Reads a source text: a string, or an attachment, which is taken.
    pub(super) fn read_text(&mut self, json: Json) -> Option<String> {
        match json {
            Json::String(text) => Some(text),
            json => String::from_utf8(self.take(&json)?.ok()?).ok(),
        }
    }

    /// Reads a value and takes its attachment. The error is what was expected.
    pub(super) fn read(&mut self, json: &Json) -> Result<Value, &'static str> {
        if let Some(attached) = self.take(json) {
            return attached.map(Value::from_bytes);
        }
        if let Json::Object(object) = json
            && object.len() == 1
            && let Some(text) = object.get("$encoded")
        {
            let bytes = text.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
            return bytes.map(Value::from_bytes).ok_or("base64");
        }
        let value = Graph::from_tagged_json(json, "value").and_then(|graph| graph.to_value("value"));
        value.map_err(|_| "a value in tagged JSON")
    }
}
