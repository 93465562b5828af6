//! Graphs as tagged JSON, in both directions.
//!
//! The table of tags is in the documentation of [`super`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use base64::display::Base64Display;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value as Json};

use super::attached::AttachedBytes;
use super::error::{Reason, SerializationError};
use super::graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, Primitive, ViewKind};
use super::json::{MEMBER_COST, NODE_COST, OBJECT_COST};
use super::{BigInt, MAX_JSON_DEPTH, TimeValue};
use crate::budget::{Meter, Refused};

// ---- Graphs to JSON -----------------------------------------------------------------------------

impl Graph {
    /// The value as [tagged JSON](crate::value#tagged-json), as a tree. `what` names the value in the error. `budget` is how many
    /// bytes of the host's memory the tree may take, roughly counted: a value of a few bytes can be an object in it.
    /// [`write_tagged_json`](Self::write_tagged_json) needs no tree.
    ///
    /// # Errors
    /// Fails where the value nests deeper than [`MAX_JSON_DEPTH`], where it refers to an object of another graph, and where the
    /// tree exceeds `budget`.
    pub fn to_tagged_json(&self, what: &str, budget: usize) -> Result<Json, SerializationError> {
        to_tree(&Tagged { graph: self, what: format_args!("{what}") }, &mut Meter::alone(budget))
    }

    /// The value as JSON; `None` for `undefined`. `what` and `budget` as in [`to_tagged_json`](Self::to_tagged_json).
    ///
    /// # Errors
    /// A part is not JSON, such as a `Map` or a cycle; the value nests deeper than [`MAX_JSON_DEPTH`] or exceeds
    /// `budget`.
    ///
    /// ```
    /// use execbox_core::value::Graph;
    ///
    /// let mut report = Graph::default();
    /// let done = report.object([("done", 7.into())]);
    /// report.set_root(done);
    /// assert_eq!(report.to_json("report", 1 << 20)?, Some(serde_json::json!({ "done": 7 })));
    /// assert_eq!(report.to_string(), r#"{"done":7}"#);
    /// # Ok::<_, execbox_core::value::SerializationError>(())
    /// ```
    pub fn to_json(&self, what: &str, budget: usize) -> Result<Option<Json>, SerializationError> {
        self.to_value(what)?.to_json(what, budget)
    }

    /// Writes the value as [tagged JSON](crate::value#tagged-json) to the beginning of a buffer. Returns the length of the text.
    ///
    /// # Errors
    /// As [`to_tagged_json`](Self::to_tagged_json), with the buffer as the budget.
    pub fn write_tagged_json(&self, what: &str, buffer: &mut [u8]) -> Result<usize, SerializationError> {
        let (refusal, len) = (RefCell::default(), buffer.len());
        let tagged = Tagged { graph: self, what: format_args!("{what}") };
        let mut rest = buffer;
        let written = serde_json::to_writer(&mut rest, &With(&tagged, &Work::of_text(&refusal)));
        let refused = |error: serde_json::Error| match refusal.take() {
            None if error.is_io() => SerializationError::new(what, Reason::TooLarge(len)),
            refusal => refusal.unwrap_or_else(|| unexpected(&error)),
        };
        written.map(|()| len - rest.len()).map_err(refused)
    }

    /// The value for a serializer, as [tagged JSON](crate::value#tagged-json). `what` names the value in the error.
    pub fn as_tagged_json<'a>(&'a self, what: &'a str) -> TaggedJson<'a> {
        TaggedJson { graph: self, what, refusal: RefCell::default(), attached: None }
    }

    /// How many references to each object the root reaches: 0, 1, or 2 for more.
    fn uses(&self) -> Vec<u8> {
        let mut uses = Uses { counts: vec![0; self.len()], open: Vec::new() };
        uses.add(self.root());
        while let Some(node) = uses.open.pop().and_then(|id| self.get(id)) {
            match node {
                Node::Array(items) | Node::Set(items) => uses.add_all(items),
                Node::SparseArray(_, members) | Node::Object(members) => uses.add_all(members.iter().map(|(_, m)| m)),
                Node::Map(entries) => {
                    uses.add_all(entries.iter().flat_map(|(key, value)| [key, value]));
                }
                Node::Error(error) => uses.add_all(&error.cause),
                Node::View { buffer, .. } => uses.add(&Datum::Node(*buffer)),
                _ => {}
            }
        }
        uses.counts
    }
}

/// References that are being counted.
struct Uses {
    counts: Vec<u8>,
    /// Objects that were found, and whose references are not counted yet.
    open: Vec<NodeId>,
}

impl Uses {
    fn add_all<'d>(&mut self, data: impl IntoIterator<Item = &'d Datum>) {
        for datum in data {
            self.add(datum);
        }
    }

    fn add(&mut self, datum: &Datum) {
        if let Datum::Node(id) = datum
            && let Some(count) = self.counts.get_mut(id.index())
        {
            *count = (*count + 1).min(2);
            if *count == 1 {
                self.open.push(*id);
            }
        }
    }
}

/// A value that serializes as [tagged JSON](crate::value#tagged-json).
#[derive(Debug)]
pub struct TaggedJson<'a> {
    graph: &'a Graph,
    what: &'a str,
    refusal: RefCell<Option<SerializationError>>,
    attached: Option<&'a RefCell<AttachedBytes>>,
}

impl<'a> TaggedJson<'a> {
    /// Adds long byte strings to `attached`, in place of base64 in the text.
    #[must_use]
    pub fn attaching(self, attached: &'a RefCell<AttachedBytes>) -> Self {
        Self { attached: Some(attached), ..self }
    }

    /// Why serializing failed: the value is nested too deeply for JSON. `None` if the serializer itself failed.
    pub fn refusal(self) -> Option<SerializationError> {
        self.refusal.into_inner()
    }
}

impl Serialize for TaggedJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let tagged = Tagged { graph: self.graph, what: format_args!("{}", self.what) };
        tagged.write(&Work::of_text(&self.refusal).attaching(self.attached), to)
    }
}

/// Something with values in it that are written as tagged JSON.
pub(crate) trait ToTagged {
    /// Writes the value to a serializer, as a part of `work`.
    fn write<S: Serializer>(&self, work: &Work<'_>, to: S) -> Result<S::Ok, S::Error>;
}

/// The state that is shared while a value is written.
pub(crate) struct Work<'a> {
    /// Charges the parts of a tree, in bytes; `None` for a text, which has no tree.
    tree: Option<&'a dyn Fn(usize) -> Result<(), Refused>>,
    /// The first error.
    refusal: &'a RefCell<Option<SerializationError>>,
    /// Receives long byte strings, if they are not part of the text.
    attached: Option<&'a RefCell<AttachedBytes>>,
}

impl<'a> Work<'a> {
    /// The state for writing a text.
    pub(crate) fn of_text(refusal: &'a RefCell<Option<SerializationError>>) -> Self {
        Self { tree: None, refusal, attached: None }
    }

    /// Adds long byte strings to `attached`, if there is a place for them.
    pub(crate) fn attaching(self, attached: Option<&'a RefCell<AttachedBytes>>) -> Self {
        Self { attached, ..self }
    }

    fn spend(&self, bytes: usize) -> Result<(), Refused> {
        self.tree.map_or(Ok(()), |spend| spend(bytes))
    }

    /// Charges an object with a few short members, if it is a part of a tree.
    pub(crate) fn object<E: serde::ser::Error>(&self, what: &dyn fmt::Display) -> Result<(), E> {
        const MEMBERS: usize = 4;
        self.spend(OBJECT_COST + MEMBERS * (NODE_COST + 2 * MEMBER_COST))
            .map_err(|refused| E::custom(self.refuse(what, refused.into())))
    }

    /// Keeps the first error, as the errors of serializers are only texts.
    fn refuse(&self, what: &dyn fmt::Display, reason: Reason) -> &'static str {
        self.refusal.borrow_mut().get_or_insert_with(|| SerializationError::new(what.to_string(), reason));
        "it was refused"
    }
}

/// A part with what it is charged to, for serializers.
pub(crate) struct With<'a, T>(pub(crate) &'a T, pub(crate) &'a Work<'a>);

impl<T: ToTagged> Serialize for With<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(self.1, to)
    }
}

/// A tree, charged to `meter` part by part.
pub(crate) fn to_tree(value: &impl ToTagged, meter: &mut Meter<'_>) -> Result<Json, SerializationError> {
    let meter = RefCell::new(meter);
    let spend = |bytes| meter.borrow_mut().spend(bytes);
    let refusal = RefCell::default();
    let made = serde_json::to_value(With(value, &Work { tree: Some(&spend), refusal: &refusal, attached: None }));
    made.map_err(|error| refusal.take().unwrap_or_else(|| unexpected(&error)))
}

/// The value as text: JSON, in which [tags](crate::value#tagged-json) stand for what JSON does not have, or
/// `undefined`. A value that nests too deeply is replaced by the reason in angle brackets.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.root().is_undefined() {
            return f.write_str("undefined");
        }
        let refusal = RefCell::default();
        let tagged = Tagged { graph: self, what: format_args!("value") };
        match serde_json::to_string(&With(&tagged, &Work::of_text(&refusal))) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "<{}>", refusal.take().unwrap_or_else(|| unexpected(&error))),
        }
    }
}

/// Replaces an error that cannot occur: serializers of JSON trees fail for keys that are not strings, and all keys are.
fn unexpected(_: &serde_json::Error) -> SerializationError {
    SerializationError::new("value", Reason::InvalidFormat)
}

/// A graph, and its name in errors.
pub(crate) struct Tagged<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) what: fmt::Arguments<'a>,
}

impl ToTagged for Tagged<'_> {
    fn write<S: Serializer>(&self, work: &Work<'_>, to: S) -> Result<S::Ok, S::Error> {
        let writer = Writer { graph: self.graph, what: &self.what, uses: RefCell::new(self.graph.uses()), work };
        writer.spend(NODE_COST)?;
        Part { writer: &writer, datum: self.graph.root(), depth: 0 }.serialize(to)
    }
}

/// Writes a graph. Recurses as deep as the JSON nests. Every node of a tree is charged by the node that it is stored in.
struct Writer<'a> {
    graph: &'a Graph,
    what: &'a dyn fmt::Display,
    /// The uses of each object as counted, or [`WRITTEN`].
    uses: RefCell<Vec<u8>>,
    work: &'a Work<'a>,
}

/// Replaces the uses of an object that has several, once it was written.
const WRITTEN: u8 = 3;

impl Writer<'_> {
    fn refuse<E: serde::ser::Error>(&self, reason: Reason) -> E {
        E::custom(self.work.refuse(self.what, reason))
    }

    fn spend<E: serde::ser::Error>(&self, bytes: usize) -> Result<(), E> {
        self.work.spend(bytes).map_err(|refused| self.refuse(refused.into()))
    }

    /// An object with a tag.
    fn tag<S: Serializer>(
        &self,
        to: S,
        tag: &'static str,
        content: &(impl Serialize + ?Sized),
    ) -> Result<S::Ok, S::Error> {
        let mut object = self.object(to)?;
        self.member(&mut object, tag, content)?;
        object.end()
    }

    fn object<S: Serializer>(&self, to: S) -> Result<S::SerializeMap, S::Error> {
        self.spend(OBJECT_COST)?;
        to.serialize_map(None)
    }

    fn member<M: SerializeMap>(
        &self,
        object: &mut M,
        key: &str,
        member: &(impl Serialize + ?Sized),
    ) -> Result<(), M::Error> {
        self.spend(NODE_COST + 2 * MEMBER_COST + key.len())?; // The table has up to twice the room that it needs.
        object.serialize_entry(key, member)
    }

    fn number<S: Serializer>(&self, number: f64, to: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let special = match number {
            _ if number.is_nan() => "NaN",
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            _ if number == 0.0 && number.is_sign_negative() => "-0",
            _ if number.fract() == 0.0 && number.abs() <= EXACT => return to.serialize_i64(number as i64),
            _ => return to.serialize_f64(number),
        };
        self.tag(to, "$number", special)
    }
}

/// A part of a value.
struct Part<'a> {
    writer: &'a Writer<'a>,
    datum: &'a Datum,
    depth: usize,
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { writer, datum, depth } = *self;
        let id = match datum {
            Datum::Undefined => return writer.tag(to, "$undefined", &true),
            Datum::Null => return to.serialize_unit(),
            Datum::Primitive(value) => return PrimitivePart { writer, value }.serialize(to),
            Datum::Node(id) => *id,
        };
        if depth == MAX_JSON_DEPTH {
            return Err(writer.refuse(Reason::TooDeep));
        }
        let node = writer.graph.get(id).ok_or_else(|| writer.refuse(Reason::UnknownNode))?;
        let content = Content { writer, node, depth: depth + 1 };
        let uses = writer.uses.borrow()[id.index()];
        match uses {
            WRITTEN => writer.tag(to, "$ref", &id.0),
            2 => {
                writer.uses.borrow_mut()[id.index()] = WRITTEN;
                let mut object = writer.object(to)?;
                writer.member(&mut object, "$id", &id.0)?;
                writer.member(&mut object, "$value", &content)?;
                object.end()
            }
            _ => content.serialize(to),
        }
    }
}

/// A primitive value.
struct PrimitivePart<'a> {
    writer: &'a Writer<'a>,
    value: &'a Primitive,
}

impl Serialize for PrimitivePart<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Primitive::Bool(value) => to.serialize_bool(*value),
            Primitive::Number(value) => self.writer.number(*value, to),
            Primitive::BigInt(value) => {
                self.writer.spend(3 * value.as_le_bytes().len())?;
                self.writer.tag(to, "$bigint", &Text(value))
            }
            Primitive::String(text) => {
                self.writer.spend(text.len())?;
                to.serialize_str(text)
            }
        }
    }
}

/// Something that is written as the string that it displays as.
struct Text<T>(T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// A reference to an attached byte string.
#[derive(serde::Serialize)]
struct Attachment {
    #[serde(rename = "$attachment")]
    number: usize,
}

/// The content of an object.
struct Content<'a> {
    writer: &'a Writer<'a>,
    node: &'a Node,
    /// How deep the parts of the object are nested.
    depth: usize,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { writer, depth, .. } = *self;
        match self.node {
            Node::Array(items) => self.items(items).serialize(to),
            Node::Set(items) => writer.tag(to, "$set", &self.items(items)),
            Node::Object(members) => self.members(members).serialize(to),
            Node::SparseArray(len, members) => {
                let mut object = writer.object(to)?;
                writer.member(&mut object, "$sparse", len)?;
                writer.member(&mut object, "items", &self.members(members))?;
                object.end()
            }
            Node::Map(entries) => writer.tag(to, "$map", &Entries { writer, all: entries, depth }),
            Node::Date(time) => writer.tag(to, "$date", &time.milliseconds()),
            Node::RegExp { source, flags } => {
                writer.spend(source.len() + flags.len())?;
                let mut object = writer.object(to)?;
                writer.member(&mut object, "$regexp", source)?;
                writer.member(&mut object, "flags", flags)?;
                object.end()
            }
            Node::Error(error) => self.error(error, to),
            Node::Buffer { bytes, max_len } => {
                let mut object = writer.object(to)?;
                self.bytes(&mut object, "$buffer", bytes)?;
                if let Some(max_len) = max_len {
                    writer.member(&mut object, "max", max_len)?;
                }
                object.end()
            }
            Node::View { kind, buffer, offset, len } => self.view(*kind, *buffer, *offset, *len, to),
            Node::Boxed(value) => writer.tag(to, "$boxed", &PrimitivePart { writer, value }),
            Node::Function(function) => {
                writer.spend(function.name.len())?;
                let mut object = writer.object(to)?;
                writer.member(&mut object, "$function", &function.number)?;
                writer.member(&mut object, "kind", function.kind.name())?;
                writer.member(&mut object, "name", &function.name)?;
                object.end()
            }
            Node::Promise(number) => writer.tag(to, "$promise", number),
        }
    }
}

impl<'a> Content<'a> {
    fn items(&self, items: &'a [Datum]) -> Items<'a> {
        Items { writer: self.writer, all: items, depth: self.depth }
    }

    fn members(&self, members: &'a [(String, Datum)]) -> Members<'a> {
        Members { writer: self.writer, all: members, depth: self.depth }
    }

    fn bytes<M: SerializeMap>(&self, object: &mut M, key: &'static str, bytes: &[u8]) -> Result<(), M::Error> {
        let attached = self.writer.work.attached.and_then(|attached| attached.borrow_mut().add(bytes));
        if let Some(number) = attached {
            return self.writer.member(object, key, &Attachment { number });
        }
        self.writer.spend(bytes.len().div_ceil(3) * 4)?;
        self.writer.member(object, key, &Text(Base64Display::new(bytes, &BASE64_STANDARD)))
    }

    fn error<S: Serializer>(&self, error: &ErrorNode, to: S) -> Result<S::Ok, S::Error> {
        let Self { writer, depth, .. } = *self;
        let texts =
            [("$error", Some(&error.name)), ("message", error.message.as_ref()), ("stack", error.stack.as_ref())];
        let mut object = writer.object(to)?;
        for (key, text) in texts {
            if let Some(text) = text {
                writer.spend(text.len())?;
                writer.member(&mut object, key, text)?;
            }
        }
        if let Some(datum) = &error.cause {
            writer.member(&mut object, "cause", &Part { writer, datum, depth })?;
        }
        object.end()
    }

    fn view<S: Serializer>(
        &self,
        kind: ViewKind,
        buffer: NodeId,
        offset: u32,
        len: Option<u32>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let Self { writer, depth, .. } = *self;
        let mut object = writer.object(to)?;
        if let Some(Node::Buffer { bytes, max_len: None }) = writer.graph.get(buffer)
            && (kind, offset, len.map(|len| len as usize)) == (ViewKind::Uint8, 0, Some(bytes.len()))
            && writer.uses.borrow()[buffer.index()] < 2
        {
            self.bytes(&mut object, "$bytes", bytes)?;
            return object.end();
        }
        writer.member(&mut object, "$view", kind.name())?;
        writer.member(&mut object, "of", &Part { writer, datum: &Datum::Node(buffer), depth })?;
        writer.member(&mut object, "offset", &offset)?;
        if let Some(len) = len {
            writer.member(&mut object, "length", &len)?;
        }
        object.end()
    }
}

/// The items of an array.
struct Items<'a> {
    writer: &'a Writer<'a>,
    all: &'a [Datum],
    depth: usize,
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { writer, all, depth } = *self;
        writer.spend(all.len() * NODE_COST)?;
        to.collect_seq(all.iter().map(|datum| Part { writer, datum, depth }))
    }
}

/// The entries of a map.
struct Entries<'a> {
    writer: &'a Writer<'a>,
    all: &'a [(Datum, Datum)],
    depth: usize,
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { writer, all, depth } = *self;
        writer.spend(3 * all.len() * NODE_COST)?;
        let part = |datum| Part { writer, datum, depth };
        to.collect_seq(all.iter().map(|(key, value)| [part(key), part(value)]))
    }
}

/// The members of an object.
struct Members<'a> {
    writer: &'a Writer<'a>,
    all: &'a [(String, Datum)],
    depth: usize,
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { writer, all, depth } = *self;
        let mut object = writer.object(to)?;
        for (key, datum) in all {
            let part = Part { writer, datum, depth };
            match key.starts_with('$') {
                true => writer.member(&mut object, &format!("${key}"), &part)?,
                false => writer.member(&mut object, key, &part)?,
            }
        }
        object.end()
    }
}

// ---- JSON to graphs -----------------------------------------------------------------------------

impl Graph {
    /// The value that [tagged JSON](crate::value#tagged-json) describes. Recurses as deep as the JSON nests. `what` names
    /// the value in the error.
    ///
    /// # Errors
    /// Fails at the first object whose tag is unknown or invalid.
    pub fn from_tagged_json(json: &Json, what: &str) -> Result<Self, SerializationError> {
        Self::from_tagged_json_with(json, what, &mut AttachedBytes::default())
    }

    /// [`from_tagged_json`](Self::from_tagged_json), where `{"$attachment": n}` in the place of base64 takes the byte string with
    /// that number from `attached`.
    ///
    /// # Errors
    /// As [`from_tagged_json`](Self::from_tagged_json), and at a byte string that is not there, or was taken before.
    pub fn from_tagged_json_with(
        json: &Json,
        what: &str,
        attached: &mut AttachedBytes,
    ) -> Result<Self, SerializationError> {
        let mut reader = Reader { nodes: Vec::new(), names: HashMap::new(), path: what.to_owned(), attached };
        let read = reader.datum(json).and_then(|root| {
            let unknown = reader.names.iter().filter(|(_, name)| !name.defined).map(|(id, _)| *id).min();
            unknown.map_or(Ok(root), |id| Err(Reason::UnknownId(id)))
        });
        match read {
            Ok(root) => Ok(Self::from_parts(reader.nodes.into_iter().flatten().collect(), root)),
            Err(reason) => Err(SerializationError::new(reader.path, reason)),
        }
    }
}

struct Reader<'a> {
    /// `None` for objects that are not read yet. Once every `$id` is defined, none are left.
    nodes: Vec<Option<Node>>,
    /// The objects by `$id`, which the sender chooses.
    names: HashMap<u64, Name>,
    /// The path to the current part. Reading stops at an error, so it is then the path to the part at fault.
    path: String,
    attached: &'a mut AttachedBytes,
}

/// The object of an `$id`.
struct Name {
    node: NodeId,
    defined: bool,
}

impl Reader<'_> {
    fn datum(&mut self, json: &Json) -> Result<Datum, Reason> {
        let members = match json {
            Json::Null => return Ok(Datum::Null),
            Json::Bool(value) => return Ok((*value).into()),
            Json::Number(number) => return Ok(number.as_f64().unwrap_or(f64::NAN).into()),
            Json::String(text) => return Ok(text.as_str().into()),
            Json::Array(_) => return self.object(json, None),
            Json::Object(members) => members,
        };
        match tag(members)? {
            Some("$undefined") => Ok(Datum::Undefined),
            Some("$number") => special_number(&members["$number"]).map(Datum::from),
            Some("$bigint") => bigint(members).map(Datum::from),
            Some("$ref") => self.name(integer(members, "$ref")?, false).map(Datum::Node),
            Some("$id") => {
                let node = self.name(integer(members, "$id")?, true)?;
                self.object(members.get("$value").unwrap_or(&Json::Null), Some(node))
            }
            _ => self.object(json, None),
        }
    }

    /// The place of the object with this `$id`, which either its definition or a reference may create.
    fn name(&mut self, id: u64, defines: bool) -> Result<NodeId, Reason> {
        match self.names.get_mut(&id) {
            Some(name) if defines && name.defined => Err(Reason::DuplicateId(id)),
            Some(name) => {
                name.defined |= defines;
                Ok(name.node)
            }
            None => {
                let node = self.add(None);
                self.names.insert(id, Name { node, defined: defines });
                Ok(node)
            }
        }
    }

    fn add(&mut self, node: Option<Node>) -> NodeId {
        self.nodes.push(node);
        NodeId::at(self.nodes.len() - 1)
    }

    /// Reads an object into `place`, or into a new one.
    fn object(&mut self, json: &Json, place: Option<NodeId>) -> Result<Datum, Reason> {
        let place = place.unwrap_or_else(|| self.add(None));
        let node = match json {
            Json::Array(items) => Node::Array(self.items(items)?),
            Json::Object(members) => self.tagged(members)?,
            _ => return Err(NOT_AN_OBJECT),
        };
        self.nodes[place.index()] = Some(node);
        Ok(Datum::Node(place))
    }

    fn tagged(&mut self, members: &Map<String, Json>) -> Result<Node, Reason> {
        let Some(tag) = tag(members)? else { return Ok(Node::Object(self.members(members)?)) };
        let content = &members[tag];
        let or_invalid = |expected| Reason::InvalidTag { key: tag, expected };
        Ok(match tag {
            "$date" if content.is_null() => Node::Date(TimeValue::INVALID),
            "$date" => {
                let milliseconds = content.as_f64().ok_or(or_invalid("a number of milliseconds, or null"))?;
                Node::Date(TimeValue::from_milliseconds(milliseconds))
            }
            "$set" => Node::Set(self.items(content.as_array().ok_or(or_invalid("an array"))?)?),
            "$map" => {
                let invalid = || or_invalid("an array of [key, value]");
                let entries = content.as_array().ok_or_else(invalid)?;
                let entries = entries.iter().map(|entry| match entry.as_array().map(Vec::as_slice) {
                    Some([key, value]) => Ok((self.datum(key)?, self.datum(value)?)),
                    _ => Err(invalid()),
                });
                Node::Map(entries.collect::<Result<_, _>>()?)
            }
            "$regexp" => Node::RegExp {
                source: string(members, tag)?.to_owned(),
                flags: optional_string(members, "flags")?.unwrap_or_default(),
            },
            "$error" => Node::Error(Box::new(ErrorNode {
                name: string(members, tag)?.to_owned(),
                message: optional_string(members, "message")?,
                stack: optional_string(members, "stack")?,
                cause: members.get("cause").map(|cause| self.datum(cause)).transpose()?,
            })),
            "$bytes" => {
                let bytes = self.bytes(members, tag)?;
                let len = u32::try_from(bytes.len()).ok();
                let buffer = self.add(Some(Node::Buffer { bytes, max_len: None }));
                Node::View { kind: ViewKind::Uint8, buffer, offset: 0, len }
            }
            "$buffer" => Node::Buffer { bytes: self.bytes(members, tag)?, max_len: optional_u32(members, "max")? },
            "$view" => {
                let name = string(members, tag)?;
                let kind = ViewKind::ALL.into_iter().find(|kind| kind.name() == name);
                let kind = kind.ok_or(or_invalid("the name of a typed array, or DataView"))?;
                let buffer = members.get("of").map(|buffer| self.datum(buffer)).transpose()?;
                let Some(Datum::Node(buffer)) = buffer else {
                    return Err(Reason::InvalidTag { key: "of", expected: "a $buffer" });
                };
                let offset = optional_u32(members, "offset")?.unwrap_or_default();
                Node::View { kind, buffer, offset, len: optional_u32(members, "length")? }
            }
            "$boxed" => match self.datum(content)? {
                Datum::Primitive(primitive) => Node::Boxed(primitive),
                _ => return Err(or_invalid("a boolean, number, bigint or string")),
            },
            "$sparse" => {
                let items = members.get("items").and_then(Json::as_object);
                let items = items.ok_or(Reason::InvalidTag { key: "items", expected: "an object" })?;
                Node::SparseArray(u32(members, tag)?, self.members(items)?)
            }
            "$function" => {
                let kind = optional_string(members, "kind")?.unwrap_or_else(|| "async".to_owned());
                let kind = FunctionKind::ALL.into_iter().find(|one| one.name() == kind);
                Node::Function(HostFunction {
                    number: u32(members, tag)?,
                    kind: kind.ok_or(Reason::InvalidTag { key: "kind", expected: "async, sync, notify or log" })?,
                    name: optional_string(members, "name")?.unwrap_or_default(),
                })
            }
            "$promise" => Node::Promise(u32(members, tag)?),
            _ => return Err(NOT_AN_OBJECT),
        })
    }

    fn items(&mut self, items: &[Json]) -> Result<Vec<Datum>, Reason> {
        items.iter().enumerate().map(|(index, item)| self.part(&format!("[{index}]"), item)).collect()
    }

    fn members(&mut self, members: &Map<String, Json>) -> Result<Vec<(String, Datum)>, Reason> {
        let member = |(key, member): (&String, &Json)| {
            let name = key.strip_prefix('$').unwrap_or(key);
            Ok((name.to_owned(), self.part(&format!(".{name}"), member)?))
        };
        members.iter().map(member).collect()
    }

    /// Reads a byte string: base64, or a reference to one that is attached.
    fn bytes(&mut self, members: &Map<String, Json>, key: &'static str) -> Result<Vec<u8>, Reason> {
        if let Some(Json::Object(reference)) = members.get(key) {
            let number = reference.get("$attachment").filter(|_| reference.len() == 1).and_then(Json::as_u64);
            let bytes = number.and_then(|number| self.attached.take(number));
            return bytes.ok_or(Reason::InvalidTag { key, expected: "base64, or an attachment that was received" });
        }
        BASE64_STANDARD.decode(string(members, key)?).map_err(|_| Reason::InvalidTag { key, expected: "base64" })
    }

    /// Reads a part of an object. `step` is the end of the path to it.
    fn part(&mut self, step: &str, json: &Json) -> Result<Datum, Reason> {
        let len = self.path.len();
        self.path += step;
        let datum = self.datum(json)?;
        self.path.truncate(len);
        Ok(datum)
    }
}

/// The tags, and the keys that belong to each. A definition has its `$value`.
const TAGS: [(&str, &[&str]); 17] = [
    ("$undefined", &[]),
    ("$number", &[]),
    ("$bigint", &[]),
    ("$date", &[]),
    ("$map", &[]),
    ("$set", &[]),
    ("$regexp", &["flags"]),
    ("$error", &["message", "stack", "cause"]),
    ("$bytes", &[]),
    ("$buffer", &["max"]),
    ("$view", &["of", "offset", "length"]),
    ("$boxed", &[]),
    ("$sparse", &["items"]),
    ("$function", &["kind", "name"]),
    ("$promise", &[]),
    ("$id", &["$value"]),
    ("$ref", &[]),
];

const NOT_AN_OBJECT: Reason = Reason::InvalidTag { key: "$value", expected: "an array or an object" };

/// The tag of an object that has one.
fn tag(members: &Map<String, Json>) -> Result<Option<&'static str>, Reason> {
    let Some(first) = members.keys().find(|key| key.starts_with('$') && !key.starts_with("$$")) else {
        return Ok(None);
    };
    let Some((tag, parts)) = TAGS.iter().find(|(tag, _)| members.contains_key(*tag)) else {
        return Err(Reason::UnknownTag(first.clone()));
    };
    match members.keys().find(|key| key != tag && !parts.contains(&key.as_str())) {
        Some(key) => Err(Reason::UnknownKey { tag, key: key.clone() }),
        None => Ok(Some(tag)),
    }
}

fn bigint(members: &Map<String, Json>) -> Result<BigInt, Reason> {
    let expected = "an integer as a string, decimal or 0x…";
    string(members, "$bigint")?.parse().map_err(|_| Reason::InvalidTag { key: "$bigint", expected })
}

fn string<'j>(members: &'j Map<String, Json>, key: &'static str) -> Result<&'j str, Reason> {
    members.get(key).and_then(Json::as_str).ok_or(Reason::InvalidTag { key, expected: "a string" })
}

fn optional_string(members: &Map<String, Json>, key: &'static str) -> Result<Option<String>, Reason> {
    members.contains_key(key).then(|| string(members, key).map(str::to_owned)).transpose()
}

fn integer(members: &Map<String, Json>, key: &'static str) -> Result<u64, Reason> {
    members.get(key).and_then(Json::as_u64).ok_or(Reason::InvalidTag { key, expected: "an integer of 0 or more" })
}

fn u32(members: &Map<String, Json>, key: &'static str) -> Result<u32, Reason> {
    let integer = integer(members, key)?;
    u32::try_from(integer).map_err(|_| Reason::InvalidTag { key, expected: "an integer below 2^32" })
}

fn optional_u32(members: &Map<String, Json>, key: &'static str) -> Result<Option<u32>, Reason> {
    members.contains_key(key).then(|| u32(members, key)).transpose()
}

fn special_number(json: &Json) -> Result<f64, Reason> {
    match json.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        Some("-0") => Ok(-0.0),
        _ => Err(Reason::InvalidTag { key: "$number", expected: "NaN, Infinity, -Infinity or -0" }),
    }
}
