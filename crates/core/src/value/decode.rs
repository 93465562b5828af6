//! Bytes taken apart into a [`Graph`]. Whoever wrote the bytes is hostile: nothing recurses, nothing is allocated by a
//! length that was not seen, and everything that is kept is paid for from a budget.

use super::graph::{Datum, ErrorNode, FunctionKind, Graph, HostFunction, Node, NodeId, ViewKind};
use super::wire::{self, Malformed, Reader};
use super::{BigInt, Foreign, too_large};

/// Why bytes were not taken apart.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    #[error("{}", too_large(*.0))]
    TooLarge(usize),
    #[error("{0}")]
    Foreign(&'static str),
    #[error("is not in the format of values")]
    Malformed,
}

impl From<Malformed> for Reason {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

pub(super) fn decode(bytes: &[u8], budget: usize) -> Result<Graph, Reason> {
    let mut decoder = Decoder {
        reader: Reader::new(bytes),
        keys: Vec::new(),
        nodes: Vec::new(),
        open: Vec::new(),
        budget,
        left: budget,
    };
    let root = decoder.datum()?;
    while let Some(open) = decoder.open.last().copied() {
        decoder.go_on(open)?;
    }
    if !decoder.reader.is_at_end() {
        return Err(Reason::Malformed);
    }
    Ok(Graph::from_parts(decoder.nodes, root))
}

struct Decoder<'a> {
    reader: Reader<'a>,
    keys: Vec<&'a str>,
    /// In the order in which they begin: what references count.
    nodes: Vec<Node>,
    /// Objects whose parts are being read, innermost last.
    open: Vec<Open>,
    budget: usize,
    /// Of the budget.
    left: usize,
}

/// An object that is being read, and what is left of it.
#[derive(Clone, Copy)]
enum Open {
    Items(NodeId, usize),
    /// Until their end is read.
    Members(NodeId),
    /// Entries, and whether the last one has its key already.
    Entries(NodeId, usize, bool),
    Cause(NodeId),
}

impl<'a> Decoder<'a> {
    /// Reads one part of the innermost object. Its frame is brought up to date first: what the part is may be another
    /// object, which then is the innermost.
    fn go_on(&mut self, open: Open) -> Result<(), Reason> {
        match open {
            Open::Items(_, 0) | Open::Entries(_, 0, _) => self.open.truncate(self.open.len() - 1),
            Open::Items(node, left) => {
                self.replace(Open::Items(node, left - 1));
                let item = self.datum()?;
                if let Node::Array(items) | Node::Set(items) = self.node(node) {
                    items.push(item);
                }
            }
            Open::Members(node) => match self.key()? {
                None => self.open.truncate(self.open.len() - 1),
                Some(key) => {
                    self.spend(size_of::<(String, Datum)>() + key.len())?;
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
                self.open.truncate(self.open.len() - 1);
                let cause = self.datum()?;
                if let Node::Error(error) = self.node(node) {
                    error.cause = Some(cause);
                }
            }
        }
        Ok(())
    }

    fn replace(&mut self, open: Open) {
        if let Some(top) = self.open.last_mut() {
            *top = open;
        }
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// Reads a primitive, a reference, or the beginning of an object.
    fn datum(&mut self) -> Result<Datum, Reason> {
        self.spend(size_of::<Datum>())?;
        let tag = self.reader.byte()?;
        let node = match tag {
            wire::REFERENCE => {
                let number = self.reader.varint()?;
                return if (number as usize) < self.nodes.len() {
                    Ok(NodeId(number).into())
                } else {
                    Err(Reason::Malformed)
                };
            }
            wire::FOREIGN => {
                let kind = Foreign::from_kind(self.reader.byte()?).ok_or(Reason::Malformed)?;
                return Err(Reason::Foreign(kind.advice()));
            }
            wire::ARRAY => {
                let len = self.length()?;
                return self.begin(Node::Array(Vec::new()), |node| Open::Items(node, len));
            }
            wire::OBJECT => return self.begin(Node::Object(Vec::new()), Open::Members),
            wire::SPARSE => {
                let len = self.reader.varint()?;
                return self.begin(Node::SparseArray(len, Vec::new()), Open::Members);
            }
            wire::MAP => {
                let len = self.length()?;
                return self.begin(Node::Map(Vec::new()), |node| Open::Entries(node, len, false));
            }
            wire::SET => {
                let len = self.length()?;
                return self.begin(Node::Set(Vec::new()), |node| Open::Items(node, len));
            }
            wire::ERROR => return self.error(),
            wire::VIEW => return self.view(),
            wire::BUFFER => self.buffer()?,
            wire::DATE => Node::Date(self.reader.f64()?),
            wire::REGEXP => Node::RegExp { source: self.string()?, flags: self.string()? },
            wire::BOXED => {
                let tag = self.reader.byte()?;
                match self.primitive(tag)? {
                    Datum::Undefined | Datum::Null => return Err(Reason::Malformed),
                    primitive => Node::Boxed(primitive),
                }
            }
            wire::FUNCTION => {
                let number = self.reader.varint()?;
                let kind = FunctionKind::ALL.get(usize::from(self.reader.byte()?)).ok_or(Reason::Malformed)?;
                Node::Function(HostFunction { number, kind: *kind, name: self.string()? })
            }
            wire::PROMISE => Node::Promise(self.reader.varint()?),
            tag => return self.primitive(tag),
        };
        Ok(self.add(node)?.into())
    }

    /// What has no identity. A hole is left by a getter that removed an element while it was being copied.
    fn primitive(&mut self, tag: u8) -> Result<Datum, Reason> {
        Ok(match tag {
            wire::UNDEFINED | wire::HOLE => Datum::Undefined,
            wire::NULL => Datum::Null,
            wire::FALSE => Datum::Bool(false),
            wire::TRUE => Datum::Bool(true),
            wire::INT => Datum::Number(self.reader.int()?.into()),
            wire::F64 => Datum::Number(self.reader.f64()?),
            wire::STRING => Datum::String(self.string()?),
            wire::BIGINT => {
                let len = self.length()?;
                self.spend(len)?;
                Datum::BigInt(BigInt::from_le_bytes(self.reader.bytes(len)?))
            }
            _ => return Err(Reason::Malformed),
        })
    }

    fn error(&mut self) -> Result<Datum, Reason> {
        self.spend(size_of::<ErrorNode>())?;
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
        if max_len.is_some_and(|most| most < len) {
            return Err(Reason::Malformed);
        }
        let bytes = self.reader.bytes(len as usize)?;
        self.spend(bytes.len())?;
        Ok(Node::Buffer { bytes: bytes.to_vec(), max_len })
    }

    /// A view begins before its buffer, but there is none without it.
    fn view(&mut self) -> Result<Datum, Reason> {
        let kind = *ViewKind::ALL.get(usize::from(self.reader.byte()?)).ok_or(Reason::Malformed)?;
        let offset = self.reader.varint()?;
        let len = self.reader.varint()?.checked_sub(1);
        let view = self.add(Node::Promise(0))?; // holds the place
        let buffer = match self.reader.byte()? {
            wire::BUFFER => {
                let buffer = self.buffer()?;
                self.add(buffer)?
            }
            wire::REFERENCE => NodeId(self.reader.varint()?),
            _ => return Err(Reason::Malformed),
        };
        let Some(Node::Buffer { bytes, max_len }) = self.nodes.get(buffer.0 as usize) else {
            return Err(Reason::Malformed);
        };
        kind.range(bytes.len(), *max_len, offset, len).ok_or(Reason::Malformed)?;
        *self.node(view) = Node::View { kind, buffer, offset, len };
        Ok(view.into())
    }

    fn add(&mut self, node: Node) -> Result<NodeId, Reason> {
        self.spend(size_of::<Node>())?;
        let id = NodeId(u32::try_from(self.nodes.len()).map_err(|_| Reason::TooLarge(self.budget))?);
        self.nodes.push(node);
        Ok(id)
    }

    fn begin(&mut self, node: Node, open: impl FnOnce(NodeId) -> Open) -> Result<Datum, Reason> {
        let id = self.add(node)?;
        self.open.push(open(id));
        Ok(id.into())
    }

    /// A count of things that take a byte each at least.
    fn length(&mut self) -> Result<usize, Reason> {
        let len = self.reader.varint()? as usize;
        if len <= self.reader.left() { Ok(len) } else { Err(Reason::Malformed) }
    }

    fn string(&mut self) -> Result<String, Reason> {
        let text = self.reader.string()?;
        self.spend(text.len())?;
        Ok(text.to_owned())
    }

    /// The next key of an object; `None` at its end.
    fn key(&mut self) -> Result<Option<&'a str>, Reason> {
        match self.reader.varint()? {
            wire::KEY_END => Ok(None),
            wire::KEY_NEW => {
                let key = self.reader.string()?;
                self.spend(size_of::<&str>())?;
                self.keys.push(key);
                Ok(Some(key))
            }
            known => {
                let key = self.keys.get((known - wire::KEY_KNOWN) as usize);
                key.copied().map(Some).ok_or(Reason::Malformed)
            }
        }
    }

    fn spend(&mut self, cost: usize) -> Result<(), Reason> {
        self.left = self.left.checked_sub(cost).ok_or(Reason::TooLarge(self.budget))?;
        Ok(())
    }
}
