//! Bytes to a [`Graph`]. The bytes are hostile: nothing recurses, nothing is allocated by a length before the bytes are
//! there, and everything that is kept is charged to a budget.

use super::error::{Foreign, Reason};
use super::graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, Primitive, ViewKind};
use super::wire::{self, Keys, Reader};
use super::{BigInt, TimeValue};
use crate::budget::Meter;

pub(super) fn decode(bytes: &[u8], meter: &mut Meter<'_>) -> Result<Graph, Reason> {
    let mut decoder = Decoder {
        reader: Reader::new(bytes),
        keys: Keys::default(),
        keys_begun: 0,
        nodes: Vec::new(),
        open: Vec::new(),
        meter,
    };
    let root = decoder.datum()?;
    while let Some(open) = decoder.open.last().copied() {
        decoder.part(open)?;
    }
    if !decoder.reader.is_at_end() {
        return Err(Reason::InvalidFormat);
    }
    Ok(Graph::from_parts(decoder.nodes, root))
}

struct Decoder<'a, 'm, 's> {
    reader: Reader<'a>,
    keys: Keys<'a>,
    keys_begun: usize,
    /// The objects, in the order in which they begin. References are positions in this list.
    nodes: Vec<Node>,
    /// Objects whose parts are being read, innermost last.
    open: Vec<Open>,
    meter: &'m mut Meter<'s>,
}

/// An object that is being read, and how many of its parts are left.
#[derive(Clone, Copy)]
enum Open {
    Items(NodeId, usize),
    /// Read until the end mark.
    Members(NodeId),
    /// Entries, and whether the key of the current one has been read.
    Entries(NodeId, usize, bool),
    Cause(NodeId),
}

impl Decoder<'_, '_, '_> {
    /// Reads one part of the innermost object, and updates its state first: a part that is an object becomes the
    /// innermost.
    fn part(&mut self, open: Open) -> Result<(), Reason> {
        match open {
            Open::Items(_, 0) | Open::Entries(_, 0, _) => self.close(),
            Open::Items(node, left) => {
                self.replace(Open::Items(node, left - 1));
                let item = self.datum()?;
                if let Node::Array(items) | Node::Set(items) = self.node(node) {
                    items.push(item);
                }
            }
            Open::Members(node) => match self.keys.read(&mut self.reader, &mut self.keys_begun, self.meter)? {
                None => self.close(),
                Some(key) => {
                    self.meter.spend(size_of::<(String, Datum)>() + key.len())?;
                    let member = self.datum()?;
                    if let Node::Object(members) | Node::SparseArray(_, members) = self.node(node) {
                        members.push((key.to_owned(), member));
                    }
                }
            },
            Open::Entries(node, left, false) => {
                self.replace(Open::Entries(node, left, true));
                let key = self.datum()?;
                if let Node::Map(entries) = self.node(node) {
                    entries.push((key, Datum::Undefined));
                }
            }
            Open::Entries(node, left, true) => {
                self.replace(Open::Entries(node, left - 1, false));
                let value = self.datum()?;
                if let Node::Map(entries) = self.node(node)
                    && let Some(last) = entries.last_mut()
                {
                    last.1 = value;
                }
            }
            Open::Cause(node) => {
                self.close();
                let cause = self.datum()?;
                if let Node::Error(error) = self.node(node) {
                    error.cause = Some(cause);
                }
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.open.pop();
    }

    fn replace(&mut self, open: Open) {
        if let Some(top) = self.open.last_mut() {
            *top = open;
        }
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Reads a primitive, a reference, or the beginning of an object.
    fn datum(&mut self) -> Result<Datum, Reason> {
        self.meter.spend(size_of::<Datum>())?;
        let tag = self.reader.byte()?;
        let node = match tag {
            wire::REFERENCE => {
                let number = self.reader.varint()?;
                let is_known = (number as usize) < self.nodes.len();
                return is_known.then(|| NodeId(number).into()).ok_or(Reason::InvalidFormat);
            }
            wire::FOREIGN => {
                let kind = Foreign::from_kind(self.reader.byte()?).ok_or(Reason::InvalidFormat)?;
                return Err(Reason::Foreign(kind));
            }
            wire::ARRAY => {
                let len = self.reader.count()?;
                return self.begin(Node::Array(Vec::new()), |node| Open::Items(node, len));
            }
            wire::OBJECT => return self.begin(Node::Object(Vec::new()), Open::Members),
            wire::SPARSE => {
                let len = self.reader.varint()?;
                return self.begin(Node::SparseArray(len, Vec::new()), Open::Members);
            }
            wire::MAP => {
                let len = self.reader.count()?;
                return self.begin(Node::Map(Vec::new()), |node| Open::Entries(node, len, false));
            }
            wire::SET => {
                let len = self.reader.count()?;
                return self.begin(Node::Set(Vec::new()), |node| Open::Items(node, len));
            }
            wire::ERROR => return self.error(),
            wire::VIEW => return self.view(),
            wire::BUFFER => self.buffer()?,
            wire::DATE => Node::Date(TimeValue::from_milliseconds(self.reader.f64()?)),
            wire::REGEXP => Node::RegExp { source: self.string()?, flags: self.string()? },
            wire::BOXED => {
                let tag = self.reader.byte()?;
                Node::Boxed(self.primitive(tag)?)
            }
            wire::FUNCTION => {
                let number = self.reader.varint()?;
                let kind = FunctionKind::ALL.get(usize::from(self.reader.byte()?)).ok_or(Reason::InvalidFormat)?;
                Node::Function(HostFunction { number, kind: *kind, name: self.string()? })
            }
            wire::PROMISE => Node::Promise(self.reader.varint()?),
            // A getter removed the element while the guest copied the array.
            wire::UNDEFINED | wire::HOLE => return Ok(Datum::Undefined),
            wire::NULL => return Ok(Datum::Null),
            tag => return self.primitive(tag).map(Datum::Primitive),
        };
        Ok(self.add(node)?.into())
    }

    fn primitive(&mut self, tag: u8) -> Result<Primitive, Reason> {
        Ok(match tag {
            wire::FALSE => Primitive::Bool(false),
            wire::TRUE => Primitive::Bool(true),
            wire::INT => Primitive::Number(self.reader.int()?.into()),
            wire::F64 => Primitive::Number(self.reader.f64()?),
            wire::STRING => Primitive::String(self.string()?),
            wire::BIGINT => {
                let len = self.reader.count()?;
                self.meter.spend(len)?;
                Primitive::BigInt(BigInt::from_le_bytes(self.reader.bytes(len)?))
            }
            _ => return Err(Reason::InvalidFormat),
        })
    }

    fn error(&mut self) -> Result<Datum, Reason> {
        self.meter.spend(size_of::<ErrorNode>())?;
        let mut error = ErrorNode { name: self.string()?, ..ErrorNode::default() };
        let parts = self.reader.byte()?;
        if parts & wire::ERROR_MESSAGE != 0 {
            error.message = Some(self.string()?);
        }
        if parts & wire::ERROR_STACK != 0 {
            error.stack = Some(self.string()?);
        }
        let node = self.add(Node::Error(Box::new(error)))?;
        if parts & wire::ERROR_CAUSE != 0 {
            self.open.push(Open::Cause(node));
        }
        Ok(node.into())
    }

    fn buffer(&mut self) -> Result<Node, Reason> {
        let len = self.reader.varint()?;
        let max_len = self.reader.varint()?.checked_sub(1);
        if max_len.is_some_and(|max_len| max_len < len) {
            return Err(Reason::InvalidFormat);
        }
        let bytes = self.reader.bytes(len as usize)?;
        self.meter.spend(bytes.len())?;
        Ok(Node::Buffer { bytes: bytes.to_vec(), max_len })
    }

    /// A view precedes its buffer, unless the buffer has been read before.
    fn view(&mut self) -> Result<Datum, Reason> {
        let kind = *ViewKind::ALL.get(usize::from(self.reader.byte()?)).ok_or(Reason::InvalidFormat)?;
        let offset = self.reader.varint()?;
        let len = self.reader.varint()?.checked_sub(1);
        let (buffer, new_buffer) = match self.reader.byte()? {
            wire::BUFFER => (self.next_id(1)?, Some(self.buffer()?)),
            wire::REFERENCE => (NodeId(self.reader.varint()?), None),
            _ => return Err(Reason::InvalidFormat),
        };
        let Some(Node::Buffer { bytes, max_len }) = new_buffer.as_ref().or_else(|| self.nodes.get(buffer.index()))
        else {
            return Err(Reason::InvalidFormat);
        };
        kind.range(bytes.len(), *max_len, offset, len).ok_or(Reason::InvalidFormat)?;
        let view = self.add(Node::View { kind, buffer, offset, len })?;
        new_buffer.map(|buffer| self.add(buffer)).transpose()?;
        Ok(view.into())
    }

    fn add(&mut self, node: Node) -> Result<NodeId, Reason> {
        self.meter.spend(size_of::<Node>())?;
        let id = self.next_id(0)?;
        self.nodes.push(node);
        Ok(id)
    }

    /// The identity of the object that is added after `further` others.
    fn next_id(&self, further: usize) -> Result<NodeId, Reason> {
        u32::try_from(self.nodes.len() + further).map(NodeId).map_err(|_| Reason::TooManyParts)
    }

    fn begin(&mut self, node: Node, open: impl FnOnce(NodeId) -> Open) -> Result<Datum, Reason> {
        let id = self.add(node)?;
        self.open.push(open(id));
        Ok(id.into())
    }

    fn string(&mut self) -> Result<String, Reason> {
        let text = self.reader.string()?;
        self.meter.spend(text.len())?;
        Ok(text.to_owned())
    }
}
