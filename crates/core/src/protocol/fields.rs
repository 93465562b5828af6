//! Messages as JSON objects, field by field: [`Fields`] reads typed fields, [`Writer`] writes them.
//!
//! Reading ignores unknown fields, and an error names the field that is missing or wrong. `undefined` is a field that is
//! left out, `null` is a null (runner specification, "JSON Transport Note"). Writing keeps the order of the fields.

use std::time::Duration;

use memchr::memmem;
use serde::{Deserialize as _, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::attachments::Attachments;
use crate::error::{StackFrame, bounded_stack};
use crate::value::{Reason, Value};

/// A JSON object: one line or one WebSocket message.
pub type Object = Map<String, Json>;

/// The fields of one type of message: how to read and write them.
pub(super) trait Body: Sized {
    /// The value of the field `type`.
    const TYPE: &'static str;

    /// Whether an object of this type is this message. Types outside the specification may mean something else to others:
    /// their objects are ignored if they do not match.
    fn matches(_: &Fields) -> bool {
        true
    }

    fn read(fields: &mut Fields) -> Result<Self, Fault>;

    fn write(&self, message: &mut Writer<'_>);

    /// The value in the message, if it has one.
    fn value(&self) -> Option<&Value> {
        None
    }

    /// About how many bytes the parts of the message that can be long take.
    fn kept_bytes(&self) -> usize {
        self.value().map_or(0, |value| value.as_bytes().len())
    }
}

/// A JSON object without a type, or of a known message type that does not have the specified fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a malformed {}message: {fault}", if .kind.is_empty() { String::new() } else { format!("{} ", .kind) })]
pub struct MessageError {
    /// The message's type, empty if it has none.
    pub kind: String,
    /// The execution or run that the message belongs to; for `tool_call` and `tool_result`, the call (`callId`).
    pub id: Option<String>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A required field is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A field has a value of the wrong type.
    #[error("`{field}` is not {expected}")]
    Wrong {
        /// The field with its path: `options.timeoutMs`.
        field: String,
        /// The expected type.
        expected: &'static str,
    },
    /// Two tools of a provider have the same safe name: a call could mean either.
    #[error("duplicate `safeName` in `{field}`")]
    DuplicateSafeName {
        /// The second tool with its path.
        field: String,
    },
    /// `ok` is true, and there is an `error`.
    #[error("`ok` is true, but there is an `error`")]
    OkWithError,
    /// JSON that cannot be represented: it nests too deep, or has a number out of range.
    #[error("{0}")]
    Unreadable(String),
}

impl MessageError {
    /// The execution or run that the message belongs to, if it names one.
    pub(super) fn session(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| id_field(&self.kind) == "id")
    }
}

/// The field that identifies what a message of type `kind` belongs to.
pub(super) fn id_field(kind: &str) -> &'static str {
    match kind {
        "tool_call" | "tool_result" => "callId",
        _ => "id",
    }
}

// ---- Reading --------------------------------------------------------------------------------------

/// The fields of an object, taken out one by one.
pub(super) struct Fields {
    pub(super) object: Object,
    /// The path to the object, empty for a whole message.
    pub(super) path: String,
    pub(super) attachments: Attachments,
}

pub(super) const A_STRING: &str = "a string";

impl Fields {
    /// The fields of a whole message.
    pub(super) fn new(object: Object, attachments: Attachments) -> Self {
        Self { object, path: String::new(), attachments }
    }

    /// The fields of a nested object.
    pub(super) fn of(json: Json, path: String) -> Result<Self, Fault> {
        match json {
            Json::Object(object) => Ok(Self { object, path, attachments: Attachments::default() }),
            _ => Err(wrong(path, "an object")),
        }
    }

    pub(super) fn string(&mut self, name: &str) -> Result<String, Fault> {
        self.typed(name, A_STRING, string)
    }

    /// A string, if the field is there and is not null.
    pub(super) fn optional_string(&mut self, name: &str) -> Result<Option<String>, Fault> {
        match self.object.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(_) => self.string(name).map(Some),
        }
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<bool, Fault> {
        self.typed(name, "a boolean", |json| json.as_bool())
    }

    /// Whether the field is there and is `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.object.get(name) == Some(&Json::Bool(true))
    }

    pub(super) fn integer(&mut self, name: &str) -> Result<u64, Fault> {
        self.typed(name, "a whole number of at least 0", |json| json.as_u64())
    }

    pub(super) fn integer_32(&mut self, name: &str) -> Result<u32, Fault> {
        self.typed(name, "a whole number of 32 bits", |json| json.as_u64()?.try_into().ok())
    }

    pub(super) fn optional_integer_32(&mut self, name: &str) -> Result<Option<u32>, Fault> {
        self.object.contains_key(name).then(|| self.integer_32(name)).transpose()
    }

    /// A number of at least 0, if the field is there. `null` is what `JSON.stringify` makes of NaN.
    pub(super) fn optional_amount(&mut self, name: &str) -> Result<Option<f64>, Fault> {
        let Some(json) = self.object.remove(name) else { return Ok(None) };
        let amount = json.as_f64().filter(|amount| *amount >= 0.0);
        amount.map(Some).ok_or_else(|| wrong(self.path_of(name), "a number of at least 0"))
    }

    /// A source text, from a string or an attachment.
    pub(super) fn source(&mut self, name: &str) -> Result<String, Fault> {
        let json = self.json(name)?;
        self.attachments.read_text(json).ok_or_else(|| wrong(self.path_of(name), A_STRING))
    }

    /// A number of milliseconds.
    pub(super) fn duration(&mut self, name: &str) -> Result<Duration, Fault> {
        self.optional_amount(name)?.map(duration).ok_or_else(|| self.missing(name))
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Vec<Json>, Fault> {
        self.typed(name, "an array", |json| if let Json::Array(items) = json { Some(items) } else { None })
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Self, Fault> {
        let json = self.json(name)?;
        Self::of(json, self.path_of(name))
    }

    /// A value of the module contract.
    pub(super) fn value(&mut self, name: &str) -> Result<Value, Fault> {
        let json = self.json(name)?;
        self.attachments.read(&json).map_err(|expected| wrong(self.path_of(name), expected))
    }

    /// The frames of a stack. They are not part of the specification: anything that is not a frame is skipped.
    pub(super) fn stack(&self, name: &str) -> Vec<StackFrame> {
        let frames = self.object.get(name).and_then(Json::as_array).into_iter().flatten();
        bounded_stack(frames.filter_map(|frame| StackFrame::deserialize(frame).ok()))
    }

    /// A required field of any type.
    pub(super) fn json(&mut self, name: &str) -> Result<Json, Fault> {
        self.object.remove(name).ok_or_else(|| self.missing(name))
    }

    fn typed<T>(&mut self, name: &str, expected: &'static str, read: fn(Json) -> Option<T>) -> Result<T, Fault> {
        let json = self.json(name)?;
        read(json).ok_or_else(|| wrong(self.path_of(name), expected))
    }

    fn missing(&self, name: &str) -> Fault {
        Fault::Missing(self.path_of(name))
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

pub(super) fn string(json: Json) -> Option<String> {
    if let Json::String(text) = json { Some(text) } else { None }
}

pub(super) fn wrong(field: impl Into<String>, expected: &'static str) -> Fault {
    Fault::Wrong { field: field.into(), expected }
}

/// A duration from milliseconds, to the microsecond. One that is too long becomes the longest.
pub(super) fn duration(ms: f64) -> Duration {
    Duration::from_micros((ms * 1000.0).round() as u64)
}

// ---- Writing --------------------------------------------------------------------------------------

/// Writes the fields of a message as compact JSON, in the order of the calls.
pub(super) struct Writer<'a> {
    text: Vec<u8>,
    attachments: &'a mut Attachments,
}

impl<'a> Writer<'a> {
    /// A message with its `type`. Values that are better not written as text go to `attachments`.
    pub(super) fn new(kind: &str, attachments: &'a mut Attachments) -> Self {
        let mut writer = Self { text: vec![b'{'], attachments };
        writer.field("type", kind);
        writer
    }

    /// The text of the message. U+2028 and U+2029 are escaped, as readers of lines exist that split there: `readline` of
    /// Node.js.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.push(b'}');
        escape_separators(self.text)
    }

    pub(super) fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.key(name);
        self.json(value);
    }

    /// A field that is left out if there is no value.
    pub(super) fn optional(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    /// A field that is left out if it is false.
    pub(super) fn flag(&mut self, name: &str, is_set: bool) {
        self.optional(name, is_set.then_some(&true));
    }

    /// A duration in milliseconds.
    pub(super) fn duration(&mut self, name: &str, duration: Duration) {
        self.field(name, &Millis(duration));
    }

    /// A source text. `is_attached`: as an attachment, if the peer accepts them.
    pub(super) fn source(&mut self, name: &str, source: &str, is_attached: bool) {
        self.key(name);
        if !is_attached || !self.attachments.write_text(source, &mut self.text) {
            self.json(source);
        }
    }

    /// A value of the module contract.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        self.key(name);
        self.attachments.write(value, &mut self.text);
    }

    /// `ok` and `result`, which is left out if it is `undefined`.
    ///
    /// # Errors
    /// The value is not JSON. Nothing is written.
    pub(super) fn result(&mut self, value: &Value) -> Result<(), Reason> {
        let start = self.text.len();
        self.field("ok", &true);
        if value.is_undefined() {
            return Ok(());
        }
        self.key("result");
        value.write_json(&mut self.text).inspect_err(|_| self.text.truncate(start))
    }

    pub(super) fn object(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.key(name);
        self.braced(write);
    }

    /// An array of objects.
    pub(super) fn objects<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Self, T)) {
        self.key(name);
        self.text.push(b'[');
        for item in items {
            self.separate();
            self.braced(|object| write(object, item));
        }
        self.text.push(b']');
    }

    fn braced(&mut self, write: impl FnOnce(&mut Self)) {
        self.text.push(b'{');
        write(self);
        self.text.push(b'}');
    }

    fn key(&mut self, name: &str) {
        self.separate();
        self.json(name);
        self.text.push(b':');
    }

    fn separate(&mut self) {
        if !self.text.ends_with(b"{") && !self.text.ends_with(b"[") {
            self.text.push(b',');
        }
    }

    fn json(&mut self, value: &(impl Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.text, value).expect("fields are plain data, and a vector takes every write");
    }
}

/// JSON without U+2028 and U+2029, which only strings can contain.
fn escape_separators(text: Vec<u8>) -> Vec<u8> {
    let is_separator = |&at: &usize| matches!(text.get(at + 2), Some(0xa8 | 0xa9));
    let mut found = memmem::find_iter(&text, b"\xe2\x80").filter(is_separator).peekable();
    if found.peek().is_none() {
        drop(found);
        return text;
    }
    let mut escaped = Vec::with_capacity(text.len() + text.len() / 8);
    let mut rest = 0;
    for at in found {
        escaped.extend_from_slice(&text[rest..at]);
        escaped.extend_from_slice(if text[at + 2] == 0xa8 { b"\\u2028" } else { b"\\u2029" });
        rest = at + 3;
    }
    escaped.extend_from_slice(&text[rest..]);
    escaped
}

/// A duration in milliseconds, to the microsecond, and as an integer if possible: `3`, not `3.0`.
struct Millis(Duration);

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = self.0.as_micros();
        match u64::try_from(micros / 1000) {
            Ok(ms) if micros.is_multiple_of(1000) => serializer.serialize_u64(ms),
            _ => serializer.serialize_f64(micros as f64 / 1000.0),
        }
    }
}
