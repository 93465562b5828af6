//! Graphs as JSON, and back: for command lines, and for protocols that speak JSON.
//!
//! The table is in the documentation of [`super`].

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value as Json, json};

use super::MAX_JSON_DEPTH;
use super::graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, ViewKind};
use super::json::Refusal;

// ---- Graphs to JSON -----------------------------------------------------------------------------

impl Graph {
    /// The value as tagged JSON: see [its table](crate::value#tagged-json).
    ///
    /// # Errors
    /// Refused where it nests deeper than [`MAX_JSON_DEPTH`], and where it refers to an object that it does not have.
    pub fn to_tagged_json(&self, what: &str) -> Result<Json, Refusal> {
        let mut writer = Writer { graph: self, uses: self.uses(), written: vec![false; self.len()] };
        writer.datum(self.root(), 0).map_err(|reason| Refusal { path: what.to_owned(), reason })
    }

    /// How often each object is referred to from what the root reaches, as far as it matters: up to twice.
    fn uses(&self) -> Vec<u8> {
        let mut uses = vec![0_u8; self.len()];
        let mut open = Vec::new();
        let mut found = vec![self.root()];
        loop {
            for datum in found.drain(..) {
                if let Datum::Node(id) = datum
                    && let Some(count) = uses.get_mut(id.0 as usize)
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
                    if let Some(count) = uses.get_mut(buffer.0 as usize) {
                        *count = (*count + 1).min(2);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Recurses as deep as the JSON nests that it writes.
struct Writer<'g> {
    graph: &'g Graph,
    uses: Vec<u8>,
    written: Vec<bool>,
}

impl<'g> Writer<'g> {
    fn datum(&mut self, datum: &Datum, depth: usize) -> Result<Json, String> {
        Ok(match datum {
            Datum::Undefined => json!({"$undefined": true}),
            Datum::Null => Json::Null,
            Datum::Bool(value) => Json::Bool(*value),
            Datum::Number(value) => number(*value),
            Datum::BigInt(value) => json!({"$bigint": value.to_string()}),
            Datum::String(text) => Json::String(text.clone()),
            Datum::Node(id) => self.node(*id, depth)?,
        })
    }

    fn node(&mut self, id: NodeId, depth: usize) -> Result<Json, String> {
        if depth == MAX_JSON_DEPTH {
            return Err(format!("nests deeper than {MAX_JSON_DEPTH} levels"));
        }
        let graph: &'g Graph = self.graph;
        let node = graph.get(id).ok_or("refers to an object that its graph does not have")?;
        if self.uses[id.0 as usize] < 2 {
            return self.content(node, depth + 1);
        }
        if std::mem::replace(&mut self.written[id.0 as usize], true) {
            return Ok(json!({"$ref": id.0}));
        }
        let value = self.content(node, depth + 1)?;
        Ok(json!({"$id": id.0, "$value": value}))
    }

    fn content(&mut self, node: &Node, depth: usize) -> Result<Json, String> {
        Ok(match node {
            Node::Array(items) => self.items(items, depth)?,
            Node::Set(items) => json!({"$set": self.items(items, depth)?}),
            Node::Object(members) => self.members(members, depth)?,
            Node::SparseArray(len, members) => json!({"$sparse": len, "items": self.members(members, depth)?}),
            Node::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok(Json::Array(vec![self.datum(key, depth)?, self.datum(value, depth)?])));
                json!({"$map": entries.collect::<Result<Vec<_>, String>>()?})
            }
            Node::Date(time) if time.is_finite() => json!({"$date": number(*time)}),
            Node::Date(_) => json!({"$date": null}),
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
            Node::Boxed(primitive) => json!({"$boxed": self.datum(primitive, depth)?}),
            Node::Function(function) => {
                json!({"$function": function.number, "kind": function.kind.name(), "name": function.name})
            }
            Node::Promise(number) => json!({"$promise": number}),
        })
    }

    fn items(&mut self, items: &[Datum], depth: usize) -> Result<Json, String> {
        items.iter().map(|item| self.datum(item, depth)).collect()
    }

    fn members(&mut self, members: &[(String, Datum)], depth: usize) -> Result<Json, String> {
        let members = members.iter().map(|(key, member)| {
            let key = if key.starts_with('$') { format!("${key}") } else { key.clone() };
            Ok((key, self.datum(member, depth)?))
        });
        members.collect::<Result<Map<_, _>, String>>().map(Json::Object)
    }

    fn view(
        &mut self,
        kind: ViewKind,
        buffer: NodeId,
        offset: u32,
        len: Option<u32>,
        depth: usize,
    ) -> Result<Json, String> {
        let graph: &'g Graph = self.graph;
        if let Some(Node::Buffer { bytes, max_len: None }) = graph.get(buffer)
            && (kind, offset, len.map(|len| len as usize)) == (ViewKind::Uint8, 0, Some(bytes.len()))
            && self.uses[buffer.0 as usize] < 2
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
    /// The value that tagged JSON says. Recurses as deep as the JSON nests. `what` names it in the refusal.
    ///
    /// # Errors
    /// Refused at the first object that uses a tag in another way than [the table](crate::value#tagged-json) says.
    pub fn from_tagged_json(json: &Json, what: &str) -> Result<Self, Refusal> {
        let mut reader = Reader { graph: Self::default(), names: Vec::new(), path: what.to_owned() };
        let read = reader.datum(json).and_then(|root| {
            let unnamed = reader.names.iter().find(|name| !name.defined);
            unnamed.map_or(Ok(root), |name| Err(format!("has a $ref to {}, which is no $id", name.id)))
        });
        match read {
            Ok(root) => {
                reader.graph.set_root(root);
                Ok(reader.graph)
            }
            Err(reason) => Err(Refusal { path: reader.path, reason }),
        }
    }
}

struct Reader {
    graph: Graph,
    /// In the order of their `id`.
    names: Vec<Name>,
    /// Where it stands: kept where reading failed.
    path: String,
}

/// An object that references name.
struct Name {
    id: u64,
    node: NodeId,
    defined: bool,
}

impl Reader {
    fn datum(&mut self, json: &Json) -> Result<Datum, String> {
        match json {
            Json::Null => Ok(Datum::Null),
            Json::Bool(value) => Ok(Datum::Bool(*value)),
            Json::Number(number) => Ok(Datum::Number(number.as_f64().unwrap_or(f64::NAN))),
            Json::String(text) => Ok(Datum::String(text.clone())),
            Json::Array(_) => self.object(json, None),
            Json::Object(members) => match tag(members)? {
                Some("$undefined") => Ok(Datum::Undefined),
                Some("$number") => special_number(&members["$number"]).map(Datum::Number),
                Some("$bigint") => {
                    let text = text(members, "$bigint")?;
                    text.parse().map(Datum::BigInt).map_err(|error| format!("has a $bigint that {error}"))
                }
                Some("$ref") => self.name(whole(members, "$ref")?, false).map(Datum::Node),
                Some("$id") => {
                    let node = self.name(whole(members, "$id")?, true)?;
                    let value = members.get("$value").ok_or("has an $id without a $value")?;
                    self.object(value, Some(node))
                }
                _ => self.object(json, None),
            },
        }
    }

    /// The place of the object that references call `id`: made by whoever comes first.
    fn name(&mut self, id: u64, defines: bool) -> Result<NodeId, String> {
        match self.names.binary_search_by_key(&id, |name| name.id) {
            Ok(at) if defines && self.names[at].defined => Err(format!("has the $id {id} twice")),
            Ok(at) => {
                self.names[at].defined |= defines;
                Ok(self.names[at].node)
            }
            Err(at) => {
                let node = self.place();
                self.names.insert(at, Name { id, node, defined: defines });
                Ok(node)
            }
        }
    }

    /// A place for an object that is yet to be read.
    fn place(&mut self) -> NodeId {
        self.graph.add_node(Node::Promise(0))
    }

    /// Reads an object into `place`, or into one of its own.
    fn object(&mut self, json: &Json, place: Option<NodeId>) -> Result<Datum, String> {
        let place = place.unwrap_or_else(|| self.place());
        let node = match json {
            Json::Array(items) => Node::Array(self.items(items)?),
            Json::Object(members) => self.tagged(members)?,
            _ => return Err("has a $value that is no object".to_owned()),
        };
        if let Some(there) = self.graph.get_mut(place) {
            *there = node;
        }
        Ok(Datum::Node(place))
    }

    fn tagged(&mut self, members: &Map<String, Json>) -> Result<Node, String> {
        let Some(tag) = tag(members)? else { return Ok(Node::Object(self.members(members)?)) };
        let content = &members[tag];
        Ok(match tag {
            "$date" if content.is_null() => Node::Date(f64::NAN),
            "$date" => Node::Date(content.as_f64().ok_or("has a $date that is no number of milliseconds")?),
            "$set" => Node::Set(self.items(content.as_array().ok_or("has a $set that is no array")?)?),
            "$map" => {
                let entries = content.as_array().ok_or("has a $map that is no array")?;
                let entries = entries.iter().map(|entry| match entry.as_array().map(Vec::as_slice) {
                    Some([key, value]) => Ok((self.datum(key)?, self.datum(value)?)),
                    _ => Err("has a $map whose entries are not [key, value]".to_owned()),
                });
                Node::Map(entries.collect::<Result<_, _>>()?)
            }
            "$regexp" => Node::RegExp {
                source: text(members, tag)?.to_owned(),
                flags: optional_text(members, "flags")?.unwrap_or_default(),
            },
            "$error" => Node::Error(Box::new(ErrorNode {
                name: text(members, tag)?.to_owned(),
                message: optional_text(members, "message")?,
                stack: optional_text(members, "stack")?,
                cause: members.get("cause").map(|cause| self.datum(cause)).transpose()?,
            })),
            "$bytes" => {
                let bytes = bytes(members, tag)?;
                let len = u32::try_from(bytes.len()).ok();
                let buffer = self.graph.add_node(Node::Buffer { bytes, max_len: None });
                Node::View { kind: ViewKind::Uint8, buffer, offset: 0, len }
            }
            "$buffer" => Node::Buffer { bytes: bytes(members, tag)?, max_len: optional_u32(members, "max")? },
            "$view" => {
                let name = text(members, tag)?;
                let kind = ViewKind::ALL.into_iter().find(|kind| kind.name() == name);
                let kind = kind.ok_or("has a $view that is no typed array and no DataView")?;
                let Datum::Node(buffer) = self.datum(members.get("of").ok_or("has a $view of nothing")?)? else {
                    return Err("has a $view of what is no buffer".to_owned());
                };
                let offset = optional_u32(members, "offset")?.unwrap_or_default();
                Node::View { kind, buffer, offset, len: optional_u32(members, "length")? }
            }
            "$boxed" => Node::Boxed(self.datum(content)?),
            "$sparse" => {
                let len = u32::try_from(whole(members, tag)?).map_err(|_| "has a $sparse that is no length")?;
                let items = members.get("items").and_then(Json::as_object).ok_or("has a $sparse without items")?;
                Node::SparseArray(len, self.members(items)?)
            }
            "$function" => {
                let kind = optional_text(members, "kind")?.unwrap_or_else(|| "async".to_owned());
                let kind = FunctionKind::ALL.into_iter().find(|one| one.name() == kind);
                Node::Function(HostFunction {
                    number: u32::try_from(whole(members, tag)?).map_err(|_| "has a $function that is no number")?,
                    kind: kind.ok_or("has a $function of a kind that there is not")?,
                    name: optional_text(members, "name")?.unwrap_or_default(),
                })
            }
            "$promise" => {
                Node::Promise(u32::try_from(whole(members, tag)?).map_err(|_| "has a $promise that is no number")?)
            }
            _ => return Err("has a $value that is no object".to_owned()),
        })
    }

    fn items(&mut self, items: &[Json]) -> Result<Vec<Datum>, String> {
        items.iter().enumerate().map(|(index, item)| self.at(&format!("[{index}]"), item)).collect()
    }

    fn members(&mut self, members: &Map<String, Json>) -> Result<Vec<(String, Datum)>, String> {
        let member = |(key, member): (&String, &Json)| {
            let name = key.strip_prefix('$').unwrap_or(key);
            Ok((name.to_owned(), self.at(&format!(".{name}"), member)?))
        };
        members.iter().map(member).collect()
    }

    /// Reads a part of an object, with the path to it.
    fn at(&mut self, step: &str, json: &Json) -> Result<Datum, String> {
        let len = self.path.len();
        self.path += step;
        let datum = self.datum(json)?;
        self.path.truncate(len);
        Ok(datum)
    }
}

/// The tags, and the keys that belong to each.
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

/// The tag of an object that has one.
fn tag(members: &Map<String, Json>) -> Result<Option<&'static str>, String> {
    let Some(first) = members.keys().find(|key| key.starts_with('$') && !key.starts_with("$$")) else {
        return Ok(None);
    };
    let Some((tag, parts)) = TAGS.iter().find(|(tag, _)| members.contains_key(*tag)) else {
        return Err(format!("has the tag {first}, which there is not; a key {first:?} is written \"${first}\""));
    };
    match members.keys().find(|key| key != tag && !parts.contains(&key.as_str())) {
        Some(other) => Err(format!("has a {tag} with the key {other:?}, which is no part of it")),
        None => Ok(Some(tag)),
    }
}

fn text<'j>(members: &'j Map<String, Json>, key: &str) -> Result<&'j str, String> {
    members.get(key).and_then(Json::as_str).ok_or_else(|| format!("has a {key} that is no text"))
}

fn optional_text(members: &Map<String, Json>, key: &str) -> Result<Option<String>, String> {
    members.contains_key(key).then(|| text(members, key).map(str::to_owned)).transpose()
}

fn whole(members: &Map<String, Json>, key: &str) -> Result<u64, String> {
    members.get(key).and_then(Json::as_u64).ok_or_else(|| format!("has a {key} that is no whole number"))
}

fn optional_u32(members: &Map<String, Json>, key: &str) -> Result<Option<u32>, String> {
    if !members.contains_key(key) {
        return Ok(None);
    }
    u32::try_from(whole(members, key)?).map(Some).map_err(|_| format!("has a {key} beyond 32 bits"))
}

fn bytes(members: &Map<String, Json>, key: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(text(members, key)?).map_err(|_| format!("has a {key} that is not base64"))
}

fn special_number(json: &Json) -> Result<f64, String> {
    match json.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        Some("-0") => Ok(-0.0),
        _ => Err("has a $number that is none of NaN, Infinity, -Infinity and -0".to_owned()),
    }
}
