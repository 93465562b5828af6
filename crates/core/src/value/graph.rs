//! A decoded value: a graph of objects, with cycles and shared references.
//!
//! Objects are in one list and refer to each other by position, so nothing here recurses: neither dropping nor comparing a
//! graph depends on its depth. [`super::encode`] and [`super::decode`] convert graphs to bytes and back,
//! [`super::tagged`] to JSON and back.

use serde_json::Value as Json;

use super::{BigInt, TimeValue};

/// A value: anything that `structuredClone` can copy, and functions and promises of the host.
///
/// ```
/// use execbox_core::value::{Datum, Graph, Node, TimeValue, Value};
///
/// let mut graph = Graph::default();
/// let when = graph.add(Node::Date(TimeValue::from_milliseconds(0.0)));
/// let row = graph.object([("id", Datum::from(7)), ("at", when)]);
/// graph.set_root(row);
///
/// let value: Value = graph.to_value("row")?;
/// let same = value.to_graph("row", 1 << 20)?;
/// assert_eq!(same, graph);
/// assert_eq!(same.member(same.root(), "id").and_then(Datum::as_number), Some(7.0));
/// assert_eq!(same.to_tagged_json("row", 1 << 20)?, serde_json::json!({"id": 7, "at": {"$date": 0}}));
/// # Ok::<_, execbox_core::value::SerializationError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    root: Datum,
}

/// A part of a value. The values that cross are those that the structured clone algorithm copies, and functions and promises of
/// the host; no more are added.
#[derive(Debug, Clone, Default)]
pub enum Datum {
    /// `undefined`.
    #[default]
    Undefined,
    /// `null`.
    Null,
    /// A primitive other than `undefined` and `null`.
    Primitive(Primitive),
    /// An object of the same graph.
    Node(NodeId),
}

/// A primitive that can be boxed: any but `undefined`, `null` and symbols. No more are added, as to [`Datum`].
#[derive(Debug, Clone)]
#[allow(missing_docs)] // named after the JavaScript types
pub enum Primitive {
    Bool(bool),
    Number(f64),
    BigInt(BigInt),
    String(String),
}

/// Identifies an object within its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// An object: a part of a value that has an identity. No more are added, as to [`Datum`].
#[derive(Debug, Clone)]
pub enum Node {
    /// An array without holes.
    Array(Vec<Datum>),
    /// An array with holes or with properties other than items: its length, and its own properties, items among them.
    SparseArray(u32, Vec<(String, Datum)>),
    /// A plain object: its own properties, in order.
    Object(Vec<(String, Datum)>),
    /// A `Date`.
    Date(TimeValue),
    /// Keys and values, in order.
    Map(Vec<(Datum, Datum)>),
    /// Values, in order.
    Set(Vec<Datum>),
    /// A regular expression.
    RegExp {
        /// The pattern, without slashes.
        source: String,
        /// A subset of `dgimsuvy`.
        flags: String,
    },
    /// An error.
    Error(Box<ErrorNode>),
    /// An `ArrayBuffer`.
    Buffer {
        /// The content.
        bytes: Vec<u8>,
        /// The maximum length of a resizable buffer, in bytes.
        max_len: Option<u32>,
    },
    /// A typed array or a `DataView`.
    View {
        /// The class.
        kind: ViewKind,
        /// The [`Buffer`](Self::Buffer) of the view.
        buffer: NodeId,
        /// The start within the buffer, in bytes.
        offset: u32,
        /// The number of elements; `None` tracks the end of a resizable buffer.
        len: Option<u32>,
    },
    /// `Object(primitive)`.
    Boxed(Primitive),
    /// A function of the host, callable in the guest.
    Function(HostFunction),
    /// A promise that the host settles: see [`Guest::settle`](crate::engine::Guest::settle). Each number is used for one
    /// promise only. Numbers are positions in a table of the guest, so they should be counted from 0.
    Promise(u32),
}

/// The parts of an error.
#[derive(Debug, Clone, Default)]
pub struct ErrorNode {
    /// The name. In the guest, the error is an instance of the ECMAScript error class of that name, or else of `Error`.
    pub name: String,
    /// The message, if the error has one.
    pub message: Option<String>,
    /// The stack, in positions of the code that the engine ran. Errors of the host have none.
    pub stack: Option<String>,
    /// The `cause`, if the error has one.
    pub cause: Option<Datum>,
}

/// A function of the host that a guest can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFunction {
    /// Identifies the function in calls. The host chooses the number.
    pub number: u32,
    /// How calls are answered.
    pub kind: FunctionKind,
    /// The `name` property of the function in the guest.
    pub name: String,
}

/// How calls of a host function are answered: no more ways are added, as the specification fixes them. The discriminant is the kind byte of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FunctionKind {
    /// The call returns a promise of the answer.
    Async,
    /// The call blocks the guest until it is answered.
    Sync,
    /// The call returns `undefined`; the host is notified. The arguments count against the memory limit.
    Notify,
    /// As `Notify`, for logs: arguments beyond the log limits are dropped, and values that cannot be copied are described.
    Log,
}

impl FunctionKind {
    pub(super) const ALL: [Self; 4] = [Self::Async, Self::Sync, Self::Notify, Self::Log];

    /// The name of the kind in tagged JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
            Self::Notify => "notify",
            Self::Log => "log",
        }
    }
}

/// The kinds of views; no more are added, as to [`Datum`]. The discriminant is the kind byte of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // named after the constructors, without `Array`
pub enum ViewKind {
    Uint8Clamped,
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    BigInt64,
    BigUint64,
    Float16,
    Float32,
    Float64,
    DataView,
}

impl ViewKind {
    pub(super) const ALL: [Self; 13] = [
        Self::Uint8Clamped,
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::BigInt64,
        Self::BigUint64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::DataView,
    ];

    /// The constructor's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uint8Clamped => "Uint8ClampedArray",
            Self::Int8 => "Int8Array",
            Self::Uint8 => "Uint8Array",
            Self::Int16 => "Int16Array",
            Self::Uint16 => "Uint16Array",
            Self::Int32 => "Int32Array",
            Self::Uint32 => "Uint32Array",
            Self::BigInt64 => "BigInt64Array",
            Self::BigUint64 => "BigUint64Array",
            Self::Float16 => "Float16Array",
            Self::Float32 => "Float32Array",
            Self::Float64 => "Float64Array",
            Self::DataView => "DataView",
        }
    }

    /// The length of one element in bytes; 1 for a `DataView`.
    pub fn element_len(self) -> u32 {
        match self {
            Self::Uint8Clamped | Self::Int8 | Self::Uint8 | Self::DataView => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::BigInt64 | Self::BigUint64 | Self::Float64 => 8,
        }
    }

    /// The bytes of the buffer that the view covers; `None` if the view is invalid.
    pub(super) fn range(
        self,
        buffer_len: usize,
        max_len: Option<u32>,
        offset: u32,
        len: Option<u32>,
    ) -> Option<std::ops::Range<usize>> {
        let start = offset as usize;
        let end = match len {
            Some(len) => start.checked_add((len as usize).checked_mul(self.element_len() as usize)?)?,
            None if max_len.is_some() => buffer_len,
            None => return None,
        };
        (offset.is_multiple_of(self.element_len()) && start <= end && end <= buffer_len).then_some(start..end)
    }
}

// ---- Building -----------------------------------------------------------------------------------

impl Graph {
    /// A value without objects.
    pub fn of(primitive: impl Into<Datum>) -> Self {
        Self { nodes: Vec::new(), root: primitive.into() }
    }

    /// A JSON value. Recurses as deep as the JSON nests.
    pub fn from_json(json: &Json) -> Self {
        let mut graph = Self::default();
        graph.root = graph.add_json(json);
        graph
    }

    /// Adds a JSON value as a part of another value.
    pub(crate) fn add_json(&mut self, json: &Json) -> Datum {
        match json {
            Json::Null => Datum::Null,
            Json::Bool(value) => (*value).into(),
            Json::Number(number) => number.as_f64().unwrap_or(f64::NAN).into(),
            Json::String(text) => text.as_str().into(),
            Json::Array(items) => {
                let items = items.iter().map(|item| self.add_json(item)).collect();
                self.add(Node::Array(items))
            }
            Json::Object(members) => {
                let members = members.iter().map(|(key, member)| (key.clone(), self.add_json(member))).collect();
                self.add(Node::Object(members))
            }
        }
    }

    /// Adds an object.
    pub fn add(&mut self, node: Node) -> Datum {
        Datum::Node(self.add_node(node))
    }

    fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId::at(self.nodes.len() - 1)
    }

    /// Adds a plain object.
    pub fn object<K: Into<String>>(&mut self, members: impl IntoIterator<Item = (K, Datum)>) -> Datum {
        self.add(Node::Object(members.into_iter().map(|(key, member)| (key.into(), member)).collect()))
    }

    /// Adds an array.
    pub fn array(&mut self, items: impl IntoIterator<Item = Datum>) -> Datum {
        self.add(Node::Array(items.into_iter().collect()))
    }

    /// Adds a `Uint8Array` with a buffer of its own.
    pub fn bytes(&mut self, bytes: impl Into<Vec<u8>>) -> Datum {
        let bytes = bytes.into();
        let len = u32::try_from(bytes.len()).ok();
        let buffer = self.add_node(Node::Buffer { bytes, max_len: None });
        self.add(Node::View { kind: ViewKind::Uint8, buffer, offset: 0, len })
    }

    /// Adds an error.
    pub fn error(&mut self, name: impl Into<String>, message: impl Into<String>) -> Datum {
        let error = ErrorNode { name: name.into(), message: Some(message.into()), ..ErrorNode::default() };
        self.add(Node::Error(Box::new(error)))
    }

    /// Adds a function of the host.
    pub fn function(&mut self, number: u32, kind: FunctionKind, name: impl Into<String>) -> Datum {
        self.add(Node::Function(HostFunction { number, kind, name: name.into() }))
    }

    /// Moves another graph into this one. Returns its root, to become a part of this graph's value.
    pub fn append(&mut self, mut other: Self) -> Datum {
        let NodeId(by) = NodeId::at(self.nodes.len());
        other.nodes.iter_mut().for_each(|node| node.shift(by));
        self.nodes.append(&mut other.nodes);
        other.root.shift(by);
        other.root
    }

    /// Removes the stacks of all errors.
    pub(crate) fn forget_stacks(&mut self) {
        for node in &mut self.nodes {
            if let Node::Error(error) = node {
                error.stack = None;
            }
        }
    }

    /// Shortens the value to about `room` bytes: the beginning is kept, and `…` marks what is omitted.
    pub(crate) fn shorten(&mut self, room: usize) {
        let mut room = Room(room);
        room.keeps(&mut self.root);
        let mut seen = vec![false; self.nodes.len()];
        // Objects that are being shortened and the number of the current part, innermost last.
        let mut open = Vec::new();
        let mut next = self.root.node_id();
        loop {
            if let Some(NodeId(id)) = next
                && let Some(seen) = seen.get_mut(id as usize)
                && !std::mem::replace(seen, true)
            {
                self.shorten_bulk(id as usize, &mut room);
                open.push((id as usize, 0));
            }
            let Some((id, part)) = open.last_mut() else { return };
            let node = &mut self.nodes[*id];
            next = match node.shorten_part(*part, &mut room) {
                Some(Ok(object)) => {
                    *part += 1;
                    object
                }
                Some(Err(BudgetExceeded)) => {
                    node.cut_off(*part);
                    open.pop();
                    None
                }
                None => {
                    open.pop();
                    None
                }
            };
        }
    }

    /// Replaces an object whose own bytes do not fit.
    fn shorten_bulk(&mut self, id: usize, room: &mut Room) {
        let viewed = match self.nodes[id] {
            Node::View { buffer, .. } => self.get(buffer),
            _ => None,
        };
        let bulk = match viewed.unwrap_or(&self.nodes[id]) {
            Node::Buffer { bytes, .. } => bytes.len(),
            Node::RegExp { source, .. } => source.len(),
            Node::Function(function) => function.name.len(),
            Node::Boxed(Primitive::String(text)) => text.len(),
            _ => 0,
        };
        if !room.take(bulk) {
            self.nodes[id] = Node::Array(vec![Datum::from("…")]);
        }
    }

    /// Sets the value of this graph.
    pub fn set_root(&mut self, root: Datum) {
        self.root = root;
    }

    pub(super) fn from_parts(nodes: Vec<Node>, root: Datum) -> Self {
        Self { nodes, root }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    // ---- Reading --------------------------------------------------------------------------------

    /// The value of this graph.
    pub fn root(&self) -> &Datum {
        &self.root
    }

    /// An object of this graph; `None` for a `NodeId` of another.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// An object of this graph, mutably. Cycles are made by changing an object after it was added.
    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id.index())
    }

    /// All objects, including those that are not reachable from the root.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// All objects, with their ids.
    pub fn nodes_with_ids(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId::at(index), node))
    }

    /// The object of `datum`; `None` for a primitive.
    pub fn node(&self, datum: &Datum) -> Option<&Node> {
        if let Datum::Node(id) = datum { self.get(*id) } else { None }
    }

    /// The items of an array.
    pub fn items(&self, datum: &Datum) -> Option<&[Datum]> {
        if let Some(Node::Array(items)) = self.node(datum) { Some(items) } else { None }
    }

    /// A property of a plain object. A compromised guest can repeat a name; the last one counts.
    pub fn member(&self, datum: &Datum, key: &str) -> Option<&Datum> {
        let Some(Node::Object(members)) = self.node(datum) else { return None };
        members.iter().rfind(|(name, _)| name == key).map(|(_, member)| member)
    }

    /// The bytes of an `ArrayBuffer` or of a view.
    pub fn bytes_of(&self, datum: &Datum) -> Option<&[u8]> {
        match self.node(datum)? {
            Node::Buffer { bytes, .. } => Some(bytes),
            &Node::View { kind, buffer, offset, len } => {
                let Node::Buffer { bytes, max_len } = self.get(buffer)? else { return None };
                bytes.get(kind.range(bytes.len(), *max_len, offset, len)?)
            }
            _ => None,
        }
    }
}

/// How many bytes are left.
struct Room(usize);

struct BudgetExceeded;

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether there is room for the beginning of a part of a value. The parts of an object are counted one by one.
    fn keeps(&mut self, datum: &mut Datum) -> bool {
        /// Bounds for a number, or the tag and length of anything else; and for an object with its end or mark.
        const PART: usize = 10;
        const OBJECT: usize = 24;
        match datum {
            Datum::Node(_) => self.take(OBJECT),
            Datum::Primitive(Primitive::BigInt(number)) => self.take(PART + number.as_le_bytes().len()),
            Datum::Primitive(Primitive::String(text)) => {
                let keeps = self.take(PART);
                *text = self.cut(std::mem::take(text));
                keeps
            }
            _ => self.take(PART),
        }
    }

    /// The beginning of a string that there is room for, with a mark if it is cut.
    fn cut(&mut self, mut text: String) -> String {
        let left = self.0;
        if !self.take(text.len()) {
            text.truncate(text.floor_char_boundary(left));
            text.push('…');
        }
        text
    }
}

impl Node {
    /// Shortens part number `part`; a map has its keys and values in turn. Returns the object that the part is, if it is
    /// one; `None` after the last part.
    fn shorten_part(&mut self, part: usize, room: &mut Room) -> Option<Result<Option<NodeId>, BudgetExceeded>> {
        if let Self::Error(error) = self
            && part == 0
        {
            error.stack = None;
            error.message = error.message.take().map(|message| room.cut(message));
        }
        let (key_len, datum) = match self {
            Self::Array(items) | Self::Set(items) => (0, items.get_mut(part)?),
            Self::Object(members) | Self::SparseArray(_, members) => {
                let (key, member) = members.get_mut(part)?;
                (key.len(), member)
            }
            Self::Map(entries) => {
                let (key, value) = entries.get_mut(part / 2)?;
                (0, if part.is_multiple_of(2) { key } else { value })
            }
            Self::Error(error) if part == 0 => (0, error.cause.as_mut()?),
            _ => return None,
        };
        let keeps = room.take(key_len) && room.keeps(datum);
        Some(if keeps { Ok(datum.node_id()) } else { Err(BudgetExceeded) })
    }

    /// Replaces the parts from number `part` on by a mark.
    fn cut_off(&mut self, part: usize) {
        let mark = || Datum::from("…");
        match self {
            Self::Array(items) | Self::Set(items) => {
                items.truncate(part);
                items.push(mark());
            }
            Self::Object(members) | Self::SparseArray(_, members) => {
                members.truncate(part);
                members.push(("…".to_owned(), mark()));
            }
            Self::Map(entries) => {
                entries.truncate(part / 2);
                entries.push((mark(), mark()));
            }
            Self::Error(error) => error.cause = None,
            _ => {}
        }
    }

    /// Adds `by` to the positions of the objects that the node refers to.
    fn shift(&mut self, by: u32) {
        match self {
            Self::Array(items) | Self::Set(items) => items.iter_mut().for_each(|item| item.shift(by)),
            Self::SparseArray(_, members) | Self::Object(members) => {
                for (_, member) in members {
                    member.shift(by);
                }
            }
            Self::Map(entries) => {
                for (key, value) in entries {
                    key.shift(by);
                    value.shift(by);
                }
            }
            Self::Error(error) => error.cause.iter_mut().for_each(|cause| cause.shift(by)),
            Self::View { buffer, .. } => buffer.0 += by,
            Self::Date(_)
            | Self::RegExp { .. }
            | Self::Buffer { .. }
            | Self::Boxed(_)
            | Self::Function(_)
            | Self::Promise(_) => {}
        }
    }
}

impl NodeId {
    /// The object at a position. Four billion objects do not fit in memory.
    pub(super) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The position of the object among the [`nodes`](Graph::nodes).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Datum {
    fn shift(&mut self, by: u32) {
        if let Self::Node(id) = self {
            id.0 += by;
        }
    }

    fn node_id(&self) -> Option<NodeId> {
        if let Self::Node(id) = self { Some(*id) } else { None }
    }

    /// The content of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Primitive(Primitive::String(text)) = self { Some(text) } else { None }
    }

    /// The value of a number.
    pub fn as_number(&self) -> Option<f64> {
        if let Self::Primitive(Primitive::Number(number)) = self { Some(*number) } else { None }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Primitive(Primitive::Bool(value)) = self { Some(*value) } else { None }
    }

    /// Whether the part is `undefined`.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }
}

impl From<bool> for Datum {
    fn from(value: bool) -> Self {
        Self::Primitive(Primitive::Bool(value))
    }
}

impl From<i32> for Datum {
    fn from(value: i32) -> Self {
        f64::from(value).into()
    }
}

impl From<u32> for Datum {
    fn from(value: u32) -> Self {
        f64::from(value).into()
    }
}

impl From<f64> for Datum {
    fn from(value: f64) -> Self {
        Self::Primitive(Primitive::Number(value))
    }
}

impl From<&str> for Datum {
    fn from(value: &str) -> Self {
        value.to_owned().into()
    }
}

impl From<String> for Datum {
    fn from(value: String) -> Self {
        Self::Primitive(Primitive::String(value))
    }
}

impl From<BigInt> for Datum {
    fn from(value: BigInt) -> Self {
        Self::Primitive(Primitive::BigInt(value))
    }
}

impl From<NodeId> for Datum {
    fn from(id: NodeId) -> Self {
        Self::Node(id)
    }
}

// ---- Comparing ----------------------------------------------------------------------------------

/// Two graphs are equal if no program can tell them apart: they have the same shape, sharing, order of properties and
/// primitives. Objects that are not reachable from the root do not count.
impl PartialEq for Graph {
    fn eq(&self, other: &Self) -> bool {
        let mut comparison =
            Comparison { left: vec![None; self.nodes.len()], right: vec![None; other.nodes.len()], open: Vec::new() };
        if !comparison.equal(&self.root, &other.root) {
            return false;
        }
        while let Some((left, right)) = comparison.open.pop() {
            let (Some(left), Some(right)) = (self.get(left), other.get(right)) else { return false };
            if !comparison.equal_nodes(left, right) {
                return false;
            }
        }
        true
    }
}

struct Comparison {
    /// The object on the other side that corresponds to each object, as far as known.
    left: Vec<Option<NodeId>>,
    right: Vec<Option<NodeId>>,
    /// Pairs whose parts are not compared yet.
    open: Vec<(NodeId, NodeId)>,
}

impl Comparison {
    fn equal(&mut self, left: &Datum, right: &Datum) -> bool {
        match (left, right) {
            (Datum::Undefined, Datum::Undefined) | (Datum::Null, Datum::Null) => true,
            (Datum::Primitive(left), Datum::Primitive(right)) => left == right,
            (Datum::Node(left), Datum::Node(right)) => self.pair(*left, *right),
            _ => false,
        }
    }

    fn pair(&mut self, left: NodeId, right: NodeId) -> bool {
        let known = (self.left.get_mut(left.index()), self.right.get_mut(right.index()));
        let (Some(of_left), Some(of_right)) = known else { return false };
        match (*of_left, *of_right) {
            (None, None) => {
                (*of_left, *of_right) = (Some(right), Some(left));
                self.open.push((left, right));
                true
            }
            (of_left, of_right) => of_left == Some(right) && of_right == Some(left),
        }
    }

    fn equal_nodes(&mut self, left: &Node, right: &Node) -> bool {
        match (left, right) {
            (Node::Array(left), Node::Array(right)) | (Node::Set(left), Node::Set(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.equal(left, right))
            }
            (Node::SparseArray(left_len, left), Node::SparseArray(right_len, right)) => {
                left_len == right_len && self.equal_members(left, right)
            }
            (Node::Object(left), Node::Object(right)) => self.equal_members(left, right),
            (Node::Date(left), Node::Date(right)) => left == right,
            (Node::Map(left), Node::Map(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| self.equal(&left.0, &right.0) && self.equal(&left.1, &right.1))
            }
            (Node::RegExp { source, flags }, Node::RegExp { source: other_source, flags: other_flags }) => {
                source == other_source && flags == other_flags
            }
            (Node::Error(left), Node::Error(right)) => {
                let cause = match (&left.cause, &right.cause) {
                    (Some(left), Some(right)) => self.equal(left, right),
                    (left, right) => left.is_none() && right.is_none(),
                };
                cause && left.name == right.name && left.message == right.message && left.stack == right.stack
            }
            (Node::Buffer { bytes, max_len }, Node::Buffer { bytes: other_bytes, max_len: other_max_len }) => {
                bytes == other_bytes && max_len == other_max_len
            }
            (
                Node::View { kind, buffer, offset, len },
                Node::View { kind: other_kind, buffer: other_buffer, offset: other_offset, len: other_len },
            ) => (kind, offset, len) == (other_kind, other_offset, other_len) && self.pair(*buffer, *other_buffer),
            (Node::Boxed(left), Node::Boxed(right)) => left == right,
            (Node::Function(left), Node::Function(right)) => left == right,
            (Node::Promise(left), Node::Promise(right)) => left == right,
            _ => false,
        }
    }

    fn equal_members(&mut self, left: &[(String, Datum)], right: &[(String, Datum)]) -> bool {
        left.len() == right.len()
            && left.iter().zip(right).all(|(left, right)| left.0 == right.0 && self.equal(&left.1, &right.1))
    }
}

/// As `Object.is`: NaN equals itself, and 0 does not equal -0.
impl PartialEq for Primitive {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Number(left), Self::Number(right)) => same_number(*left, *right),
            (Self::BigInt(left), Self::BigInt(right)) => left == right,
            (Self::String(left), Self::String(right)) => left == right,
            _ => false,
        }
    }
}

fn same_number(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}
