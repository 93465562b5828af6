//! Graphs as tagged JSON, in both directions.
//!
//! The table of tags is in the documentation of [`super`].

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value as Json, json};

use super::error::{Reason, SerializationError};
use super::graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, Primitive, ViewKind};
use super::{BigInt, MAX_JSON_DEPTH, TimeValue};

// ---- Graphs to JSON -----------------------------------------------------------------------------

impl Graph {
    /// The value as [tagged JSON](crate::value#tagged-json). `what` names the value in the error.
    ///
    /// # Errors
    /// Fails where the value nests deeper than [`MAX_JSON_DEPTH`], and where it refers to an object of another graph.
    pub fn to_tagged_json(&self, what: &str) -> Result<Json, SerializationError> {
        let mut writer = Writer { graph: self, uses: self.uses(), written: vec![false; self.len()] };
        writer.datum(self.root(), 0).map_err(|reason| SerializationError::new(what, reason))
    }

    /// How many references to each object the root reaches: 0, 1, or 2 for more.
    fn uses(&self) -> Vec<u8> {
        let mut uses = vec![0_u8; self.len()];
        let mut open = Vec::new();
        let mut found = vec![self.root()];
        loop {
            for datum in found.drain(..) {
                if let Datum::Node(id) = datum
                    && let Some(count) = uses.get_mut(id.index())
                {
                    *count = (*count + 1).min(2);
                    if *count == 1 {
                        open.push(*id);
                    }
                }
            }
            let Some(node) = open.pop().and_then(|id| self.get(id)) else { return uses };
            match node {
                Node::Array(items) | Node::Set(items) => found.extend(items),
                Node::SparseArray(_, members) | Node::Object(members) => found.extend(members.iter().map(|(_, m)| m)),
                Node::Map(entries) => found.extend(entries.iter().flat_map(|(key, value)| [key, value])),
                Node::Error(error) => found.extend(&error.cause),
                Node::View { buffer, .. } => {
                    if let Some(count) = uses.get_mut(buffer.index()) {
                        *count = (*count + 1).min(2);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Recurses as deep as the JSON that it writes.
struct Writer<'g> {
    graph: &'g Graph,
    uses: Vec<u8>,
    written: Vec<bool>,
}

impl<'g> Writer<'g> {
    fn datum(&mut self, datum: &Datum, depth: usize) -> Result<Json, Reason> {
        Ok(match datum {
            Datum::Undefined => json!({"$undefined": true}),
            Datum::Null => Json::Null,
            Datum::Primitive(value) => primitive(value),
            Datum::Node(id) => self.node(*id, depth)?,
        })
    }

    fn node(&mut self, id: NodeId, depth: usize) -> Result<Json, Reason> {
        if depth == MAX_JSON_DEPTH {
            return Err(Reason::TooDeep);
        }
        let graph: &'g Graph = self.graph;
        let node = graph.get(id).ok_or(Reason::UnknownNode)?;
        if self.uses[id.index()] < 2 {
            return self.content(node, depth + 1);
        }
        if std::mem::replace(&mut self.written[id.index()], true) {
            return Ok(json!({"$ref": id.0}));
        }
        let value = self.content(node, depth + 1)?;
        Ok(json!({"$id": id.0, "$value": value}))
    }

    fn content(&mut self, node: &Node, depth: usize) -> Result<Json, Reason> {
        Ok(match node {
            Node::Array(items) => self.items(items, depth)?,
            Node::Set(items) => json!({"$set": self.items(items, depth)?}),
            Node::Object(members) => self.members(members, depth)?,
            Node::SparseArray(len, members) => json!({"$sparse": len, "items": self.members(members, depth)?}),
            Node::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok(Json::Array(vec![self.datum(key, depth)?, self.datum(value, depth)?])));
                json!({"$map": entries.collect::<Result<Vec<_>, Reason>>()?})
            }
            Node::Date(time) => json!({"$date": time.milliseconds()}),
            Node::RegExp { source, flags } => json!({"$regexp": source, "flags": flags}),
            Node::Error(error) => {
                let mut parts = Map::from_iter([("$error".to_owned(), json!(error.name))]);
                parts.extend(error.message.iter().map(|message| ("message".to_owned(), json!(message))));
                parts.extend(error.stack.iter().map(|stack| ("stack".to_owned(), json!(stack))));
                if let Some(cause) = &error.cause {
                    parts.insert("cause".to_owned(), self.datum(cause, depth)?);
                }
                Json::Object(parts)
            }
            Node::Buffer { bytes, max_len: None } => json!({"$buffer": BASE64_STANDARD.encode(bytes)}),
            Node::Buffer { bytes, max_len } => json!({"$buffer": BASE64_STANDARD.encode(bytes), "max": max_len}),
            Node::View { kind, buffer, offset, len } => self.view(*kind, *buffer, *offset, *len, depth)?,
            Node::Boxed(value) => json!({"$boxed": primitive(value)}),
            Node::Function(function) => {
                json!({"$function": function.number, "kind": function.kind.name(), "name": function.name})
            }
            Node::Promise(number) => json!({"$promise": number}),
        })
    }

    fn items(&mut self, items: &[Datum], depth: usize) -> Result<Json, Reason> {
        items.iter().map(|item| self.datum(item, depth)).collect()
    }

    fn members(&mut self, members: &[(String, Datum)], depth: usize) -> Result<Json, Reason> {
        let members = members.iter().map(|(key, member)| {
            let key = if key.starts_with('$') { format!("${key}") } else { key.clone() };
            Ok((key, self.datum(member, depth)?))
        });
        members.collect::<Result<Map<_, _>, Reason>>().map(Json::Object)
    }

    fn view(
        &mut self,
        kind: ViewKind,
        buffer: NodeId,
        offset: u32,
        len: Option<u32>,
        depth: usize,
    ) -> Result<Json, Reason> {
        let graph: &'g Graph = self.graph;
        if let Some(Node::Buffer { bytes, max_len: None }) = graph.get(buffer)
            && (kind, offset, len.map(|len| len as usize)) == (ViewKind::Uint8, 0, Some(bytes.len()))
            && self.uses[buffer.index()] < 2
        {
            return Ok(json!({"$bytes": BASE64_STANDARD.encode(bytes)}));
        }
        let mut view = json!({"$view": kind.name(), "of": self.node(buffer, depth)?, "offset": offset});
        if let Some(len) = len {
            view["length"] = json!(len);
        }
        Ok(view)
    }
}

fn primitive(value: &Primitive) -> Json {
    match value {
        Primitive::Bool(value) => Json::Bool(*value),
        Primitive::Number(value) => number(*value),
        Primitive::BigInt(value) => json!({"$bigint": value.to_string()}),
        Primitive::String(text) => Json::String(text.clone()),
    }
}

fn number(value: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let special = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ if value == 0.0 && value.is_sign_negative() => "-0",
        _ if value.fract() == 0.0 && value.abs() <= EXACT => return json!(value as i64),
        _ => return json!(value),
    };
    json!({"$number": special})
}

// ---- JSON to graphs -----------------------------------------------------------------------------

impl Graph {
    /// The value that [tagged JSON](crate::value#tagged-json) describes. Recurses as deep as the JSON nests. `what` names
    /// the value in the error.
    ///
    /// # Errors
    /// Fails at the first object whose tag is unknown or invalid.
    pub fn from_tagged_json(json: &Json, what: &str) -> Result<Self, SerializationError> {
        let mut reader = Reader { nodes: Vec::new(), names: Vec::new(), path: what.to_owned() };
        let read = reader.datum(json).and_then(|root| {
            let unknown = reader.names.iter().find(|name| !name.defined);
            unknown.map_or(Ok(root), |name| Err(Reason::UnknownId(name.id)))
        });
        match read {
            Ok(root) => Ok(Self::from_parts(reader.nodes.into_iter().flatten().collect(), root)),
            Err(reason) => Err(SerializationError::new(reader.path, reason)),
        }
    }
}

struct Reader {
    /// `None` for objects that are not read yet. Once every `$id` is defined, none are left.
    nodes: Vec<Option<Node>>,
    /// Sorted by `id`.
    names: Vec<Name>,
    /// The path to the current part. Reading stops at an error, so it is then the path to the part at fault.
    path: String,
}

/// The object of an `$id`.
struct Name {
    id: u64,
    node: NodeId,
    defined: bool,
}

impl Reader {
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
        match self.names.binary_search_by_key(&id, |name| name.id) {
            Ok(at) if defines && self.names[at].defined => Err(Reason::DuplicateId(id)),
            Ok(at) => {
                self.names[at].defined |= defines;
                Ok(self.names[at].node)
            }
            Err(at) => {
                let node = self.add(None);
                self.names.insert(at, Name { id, node, defined: defines });
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
                let bytes = bytes(members, tag)?;
                let len = u32::try_from(bytes.len()).ok();
                let buffer = self.add(Some(Node::Buffer { bytes, max_len: None }));
                Node::View { kind: ViewKind::Uint8, buffer, offset: 0, len }
            }
            "$buffer" => Node::Buffer { bytes: bytes(members, tag)?, max_len: optional_u32(members, "max")? },
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

fn bytes(members: &Map<String, Json>, key: &'static str) -> Result<Vec<u8>, Reason> {
    BASE64_STANDARD.decode(string(members, key)?).map_err(|_| Reason::InvalidTag { key, expected: "base64" })
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
