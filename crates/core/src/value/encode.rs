//! A [`Graph`] to bytes. A guest relies on what the host sends, so graphs that are inconsistent are rejected here.
//! Nothing recurses.

use std::collections::HashMap;

use super::error::{Reason, SerializationError};
use super::graph::{Datum, Graph, Node, NodeId, Primitive};
use super::wire::{self, put_key, put_number, put_string, put_varint};
use super::{Value, ViewKind};

impl Graph {
    /// The value as bytes. `what` names the value in the error.
    ///
    /// # Errors
    /// Fails where a part names an object that the graph does not have, where a view does not fit its buffer, and where a
    /// length does not fit 32 bits.
    pub fn to_value(&self, what: &str) -> Result<Value, SerializationError> {
        let mut encoder = Encoder {
            graph: self,
            out: Vec::new(),
            numbers: vec![None; self.len()],
            begun: 0,
            keys: HashMap::new(),
            open: Vec::new(),
        };
        let done = encoder.datum(self.root()).and_then(|()| {
            while let Some(open) = encoder.open.last_mut() {
                let part = open.next;
                open.next += 1;
                let node = open.node;
                encoder.part(node, part)?;
            }
            Ok(())
        });
        done.map_err(|reason| SerializationError::new(what, reason))?;
        Ok(Value::from_bytes(encoder.out))
    }
}

struct Encoder<'g> {
    graph: &'g Graph,
    out: Vec<u8>,
    /// The number that each object got when it began.
    numbers: Vec<Option<u32>>,
    begun: u32,
    keys: HashMap<&'g str, u32>,
    /// Objects whose parts are being written, innermost last.
    open: Vec<Open<'g>>,
}

struct Open<'g> {
    node: &'g Node,
    /// The number of the next part.
    next: usize,
}

impl<'g> Encoder<'g> {
    /// Writes part number `part` of the innermost object, or its end.
    fn part(&mut self, node: &'g Node, part: usize) -> Result<(), Reason> {
        let datum = match node {
            Node::Array(items) | Node::Set(items) => items.get(part),
            Node::Map(entries) => {
                entries.get(part / 2).map(|(key, value)| if part.is_multiple_of(2) { key } else { value })
            }
            Node::Object(members) | Node::SparseArray(_, members) => {
                let member = members.get(part);
                match member {
                    Some((key, _)) => put_key(&mut self.out, key, &mut self.keys),
                    None => put_varint(&mut self.out, wire::KEY_END),
                }
                member.map(|(_, member)| member)
            }
            Node::Error(error) if part == 0 => error.cause.as_ref(),
            _ => None,
        };
        if let Some(datum) = datum {
            return self.datum(datum);
        }
        self.open.pop();
        Ok(())
    }

    fn datum(&mut self, datum: &'g Datum) -> Result<(), Reason> {
        match datum {
            Datum::Undefined => self.out.push(wire::UNDEFINED),
            Datum::Null => self.out.push(wire::NULL),
            Datum::Primitive(primitive) => self.primitive(primitive),
            Datum::Node(id) => self.reference_or_node(*id)?,
        }
        Ok(())
    }

    fn primitive(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::Bool(false) => self.out.push(wire::FALSE),
            Primitive::Bool(true) => self.out.push(wire::TRUE),
            Primitive::Number(number) => put_number(&mut self.out, *number),
            Primitive::BigInt(number) => {
                self.out.push(wire::BIGINT);
                put_varint(&mut self.out, number.as_le_bytes().len() as u32);
                self.out.extend_from_slice(number.as_le_bytes());
            }
            Primitive::String(text) => {
                self.out.push(wire::STRING);
                put_string(&mut self.out, text);
            }
        }
    }

    fn reference_or_node(&mut self, id: NodeId) -> Result<(), Reason> {
        let number = self.numbers.get_mut(id.index()).ok_or(Reason::UnknownNode)?;
        if let Some(number) = *number {
            self.out.push(wire::REFERENCE);
            put_varint(&mut self.out, number);
            return Ok(());
        }
        *number = Some(self.begun);
        self.begun += 1;
        self.node(self.graph.get(id).ok_or(Reason::UnknownNode)?)
    }

    /// Writes an object up to its first part; the parts follow from [`part`](Self::part).
    fn node(&mut self, node: &'g Node) -> Result<(), Reason> {
        match node {
            Node::Array(items) => self.begin(node, wire::ARRAY, Some(items.len()))?,
            Node::Set(items) => self.begin(node, wire::SET, Some(items.len()))?,
            Node::Map(entries) => self.begin(node, wire::MAP, Some(entries.len()))?,
            Node::Object(_) => self.begin(node, wire::OBJECT, None)?,
            Node::SparseArray(len, _) => self.begin(node, wire::SPARSE, Some(*len as usize))?,
            Node::Date(time) => {
                self.out.push(wire::DATE);
                self.out.extend_from_slice(&time.to_number().to_le_bytes());
            }
            Node::RegExp { source, flags } => {
                self.out.push(wire::REGEXP);
                put_string(&mut self.out, source);
                put_string(&mut self.out, flags);
            }
            Node::Error(error) => {
                self.begin(node, wire::ERROR, None)?;
                put_string(&mut self.out, &error.name);
                let part = |there: bool, bit: u8| if there { bit } else { 0 };
                self.out.push(
                    part(error.message.is_some(), wire::ERROR_MESSAGE)
                        | part(error.stack.is_some(), wire::ERROR_STACK)
                        | part(error.cause.is_some(), wire::ERROR_CAUSE),
                );
                for text in [&error.message, &error.stack].into_iter().flatten() {
                    put_string(&mut self.out, text);
                }
            }
            Node::Buffer { bytes, max_len } => {
                let len = u32::try_from(bytes.len()).map_err(|_| Reason::TooManyParts)?;
                let max_len = max_len.map_or(Some(0), |max_len| max_len.max(len).checked_add(1));
                self.out.push(wire::BUFFER);
                put_varint(&mut self.out, len);
                put_varint(&mut self.out, max_len.ok_or(Reason::TooManyParts)?);
                self.out.extend_from_slice(bytes);
            }
            Node::View { kind, buffer, offset, len } => self.view(*kind, *buffer, *offset, *len)?,
            Node::Boxed(primitive) => {
                self.out.push(wire::BOXED);
                self.primitive(primitive);
            }
            Node::Function(function) => {
                self.out.push(wire::FUNCTION);
                put_varint(&mut self.out, function.number);
                self.out.push(function.kind as u8);
                put_string(&mut self.out, &function.name);
            }
            Node::Promise(number) => {
                self.out.push(wire::PROMISE);
                put_varint(&mut self.out, *number);
            }
        }
        Ok(())
    }

    fn begin(&mut self, node: &'g Node, tag: u8, len: Option<usize>) -> Result<(), Reason> {
        self.out.push(tag);
        if let Some(len) = len {
            put_varint(&mut self.out, u32::try_from(len).map_err(|_| Reason::TooManyParts)?);
        }
        self.open.push(Open { node, next: 0 });
        Ok(())
    }

    fn view(&mut self, kind: ViewKind, buffer: NodeId, offset: u32, len: Option<u32>) -> Result<(), Reason> {
        let Some(Node::Buffer { bytes, max_len }) = self.graph.get(buffer) else { return Err(Reason::InvalidView) };
        kind.range(bytes.len(), *max_len, offset, len).ok_or(Reason::InvalidView)?;
        self.out.push(wire::VIEW);
        self.out.push(kind as u8);
        put_varint(&mut self.out, offset);
        put_varint(&mut self.out, len.map_or(Some(0), |len| len.checked_add(1)).ok_or(Reason::TooManyParts)?);
        self.reference_or_node(buffer)
    }
}
