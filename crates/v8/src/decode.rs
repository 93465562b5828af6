//! Values of the host, in the guest.
//!
//! Nothing is looked up or called that guest code can replace.

use execbox_core::value::{Datum, ErrorNode, Graph, HostFunction, Node, NodeId, Primitive, Value as Encoded, ViewKind};
use v8::{Array, Global, Local, Map, Object, PinScope, PropertyAttribute, Set, Value};

use crate::run::Run;
use crate::text::{string, symbol};
use crate::{functions, stack};

/// Why a value was not made.
#[derive(Debug)]
pub(crate) enum Failed {
    /// V8 cannot make it, an invalid regular expression for example: an exception is pending.
    Thrown,
    /// The bytes are not in the format, which the host never sends.
    Malformed,
}

/// Makes a value.
pub(crate) fn decode<'s>(scope: &mut PinScope<'s, '_>, run: &Run, value: &Encoded) -> Result<Local<'s, Value>, Failed> {
    if !run.memory.has_room_for(value.as_bytes().len()) {
        run.stop_out_of_memory(scope);
        return Err(Failed::Thrown);
    }
    if run.has_modules || value.as_bytes().len() <= SMALL {
        let graph = value.to_graph("value", usize::MAX).map_err(|_| Failed::Malformed)?;
        Decoder { run, graph: &graph, made: Vec::new() }.whole(scope)
    } else {
        json(scope, value)
    }
}

/// Values of scripts that have more bytes are read as JSON.
const SMALL: usize = 64;

/// Values of scripts are JSON. V8 reads large ones faster than calls of its API make them.
fn json<'s>(scope: &mut PinScope<'s, '_>, value: &Encoded) -> Result<Local<'s, Value>, Failed> {
    let mut text = Vec::with_capacity(value.as_bytes().len() * 2);
    value.write_json(&mut text).map_err(|_| Failed::Malformed)?;
    let text = v8::String::new_from_utf8(scope, &text, v8::NewStringType::Normal).ok_or(Failed::Thrown)?;
    v8::json::parse(scope, text).ok_or(Failed::Thrown)
}

struct Decoder<'r, 's> {
    run: &'r Run,
    graph: &'r Graph,
    /// The objects of the graph, by position.
    made: Vec<Local<'s, Value>>,
}

impl<'s> Decoder<'_, 's> {
    /// Makes all objects, and then their parts: so parts can refer to any object.
    fn whole(mut self, scope: &mut PinScope<'s, '_>) -> Result<Local<'s, Value>, Failed> {
        let undefined: Local<'_, Value> = v8::undefined(scope).into();
        let nodes: Vec<&Node> = self.graph.nodes().collect();
        self.made.resize(nodes.len(), undefined);
        // A view can precede its buffer.
        for views in [false, true] {
            for (index, node) in nodes.iter().enumerate() {
                if matches!(node, Node::View { .. }) == views {
                    self.made[index] = self.empty(scope, node)?;
                }
            }
        }
        for (index, node) in nodes.iter().enumerate() {
            self.fill(scope, self.made[index], node)?;
        }
        self.datum(scope, self.graph.root())
    }

    fn datum(&self, scope: &mut PinScope<'s, '_>, datum: &Datum) -> Result<Local<'s, Value>, Failed> {
        Ok(match datum {
            Datum::Undefined => v8::undefined(scope).into(),
            Datum::Null => v8::null(scope).into(),
            Datum::Primitive(value) => primitive(scope, value)?,
            Datum::Node(id) => self.node(*id)?,
        })
    }

    fn node(&self, id: NodeId) -> Result<Local<'s, Value>, Failed> {
        self.made.get(id.index()).copied().ok_or(Failed::Malformed)
    }

    /// The object without its parts.
    fn empty(&self, scope: &mut PinScope<'s, '_>, node: &Node) -> Result<Local<'s, Value>, Failed> {
        Ok(match node {
            Node::Array(items) => {
                // The items are own properties from the beginning: setting them runs no setters of prototypes.
                let undefined = v8::undefined(scope).into();
                Array::new_with_elements(scope, &vec![undefined; items.len()]).into()
            }
            Node::SparseArray(len, _) => {
                let array = Array::new(scope, 0);
                let (key, len) = (symbol(scope, "length"), v8::Integer::new_from_unsigned(scope, *len));
                array.set(scope, key.into(), len.into());
                array.into()
            }
            Node::Object(_) => Object::new(scope).into(),
            Node::Date(time) => v8::Date::new(scope, time.to_number()).ok_or(Failed::Thrown)?.into(),
            Node::Map(_) => Map::new(scope).into(),
            Node::Set(_) => Set::new(scope).into(),
            Node::RegExp { source, flags } => regexp(scope, source, flags)?,
            Node::Error(error) => self.error(scope, error)?.into(),
            Node::Buffer { bytes, max_len } => self.buffer(scope, bytes, *max_len)?,
            Node::View { kind, buffer, offset, len } => self.view(scope, *kind, self.node(*buffer)?, *offset, *len)?,
            Node::Boxed(value) => primitive(scope, value)?.to_object(scope).ok_or(Failed::Thrown)?.into(),
            Node::Function(HostFunction { number, kind, name }) => {
                functions::bridged(scope, *number, *kind, name).ok_or(Failed::Thrown)?.into()
            }
            Node::Promise(number) => {
                let resolver = v8::PromiseResolver::new(scope).ok_or(Failed::Thrown)?;
                let kept = Global::new(scope, resolver);
                self.run.host_promises.borrow_mut().insert(*number, kept);
                resolver.get_promise(scope).into()
            }
        })
    }

    fn fill(&self, scope: &mut PinScope<'s, '_>, value: Local<'s, Value>, node: &Node) -> Result<(), Failed> {
        match node {
            Node::Array(items) => {
                let array: Local<'_, Object> = value.cast();
                for (index, item) in items.iter().enumerate() {
                    let item = self.datum(scope, item)?;
                    array.set_index(scope, index as u32, item).ok_or(Failed::Thrown)?;
                }
            }
            Node::Object(members) | Node::SparseArray(_, members) => {
                let object: Local<'_, Object> = value.cast();
                for (key, member) in members {
                    let key = string(scope, key).ok_or(Failed::Thrown)?;
                    let member = self.datum(scope, member)?;
                    object.create_data_property(scope, key.into(), member).ok_or(Failed::Thrown)?;
                }
            }
            Node::Map(entries) => {
                let map: Local<'_, Map> = value.cast();
                for (key, entry) in entries {
                    let (key, entry) = (self.datum(scope, key)?, self.datum(scope, entry)?);
                    map.set(scope, key, entry).ok_or(Failed::Thrown)?;
                }
            }
            Node::Set(values) => {
                let set: Local<'_, Set> = value.cast();
                for entry in values {
                    let entry = self.datum(scope, entry)?;
                    set.add(scope, entry).ok_or(Failed::Thrown)?;
                }
            }
            Node::Error(error) => {
                if let Some(cause) = &error.cause {
                    let cause = self.datum(scope, cause)?;
                    hidden(scope, value.cast(), "cause", cause);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn error(&self, scope: &mut PinScope<'s, '_>, error: &ErrorNode) -> Result<Local<'s, Object>, Failed> {
        let text = string(scope, error.message.as_deref().unwrap_or_default()).ok_or(Failed::Thrown)?;
        let made: Local<'_, Object> = v8::Exception::error(scope, text).cast();
        if error.message.is_none() {
            let key = symbol(scope, "message");
            made.delete(scope, key.into());
        }
        match self.run.realm.error_prototype(scope, &error.name) {
            Some(prototype) => {
                made.set_prototype(scope, prototype);
            }
            None => {
                let name = string(scope, &error.name).ok_or(Failed::Thrown)?;
                hidden(scope, made, "name", name.into());
            }
        }
        // The error has the stack that the host gave it or none, not the place where it was decoded.
        let stack = error.stack.as_deref().unwrap_or_default();
        stack::set(scope, self.run, made, stack);
        let text = match &error.stack {
            Some(stack) => string(scope, stack).ok_or(Failed::Thrown)?.into(),
            None => v8::undefined(scope).into(),
        };
        hidden(scope, made, "stack", text);
        Ok(made)
    }

    fn buffer(
        &self,
        scope: &mut PinScope<'s, '_>,
        bytes: &[u8],
        max_len: Option<u32>,
    ) -> Result<Local<'s, Value>, Failed> {
        let buffer: Local<'s, v8::ArrayBuffer> = match max_len {
            Some(max_len) => {
                let arguments =
                    [bytes.len() as u32, max_len].map(|len| v8::Integer::new_from_unsigned(scope, len).into());
                call(scope, &self.run.realm.new_resizable, &arguments)?.cast()
            }
            None => self.call_new_buffer(scope, bytes.len())?,
        };
        let store = buffer.get_backing_store();
        for (cell, byte) in store.iter().zip(bytes) {
            cell.set(*byte);
        }
        Ok(buffer.into())
    }

    /// V8 ends the process where its API cannot allocate a buffer; in JavaScript it throws.
    fn call_new_buffer(&self, scope: &mut PinScope<'s, '_>, len: usize) -> Result<Local<'s, v8::ArrayBuffer>, Failed> {
        let len = v8::Integer::new_from_unsigned(scope, len as u32).into();
        Ok(call(scope, &self.run.realm.new_buffer, &[len])?.cast())
    }

    fn view(
        &self,
        scope: &mut PinScope<'s, '_>,
        kind: ViewKind,
        buffer: Local<'s, Value>,
        offset: u32,
        len: Option<u32>,
    ) -> Result<Local<'s, Value>, Failed> {
        let kind = v8::Integer::new_from_unsigned(scope, u32::from(kind as u8)).into();
        let offset = v8::Integer::new_from_unsigned(scope, offset).into();
        let len = match len {
            Some(len) => v8::Integer::new_from_unsigned(scope, len).into(),
            None => v8::undefined(scope).into(),
        };
        call(scope, &self.run.realm.new_view, &[kind, buffer, offset, len])
    }
}

/// Calls an intrinsic.
fn call<'s>(
    scope: &mut PinScope<'s, '_>,
    function: &Global<v8::Function>,
    arguments: &[Local<'s, Value>],
) -> Result<Local<'s, Value>, Failed> {
    let function = Local::new(scope, function);
    let undefined = v8::undefined(scope).into();
    function.call(scope, undefined, arguments).ok_or(Failed::Thrown)
}

/// Defines a property that is not enumerable.
pub(crate) fn hidden(
    scope: &mut PinScope<'_, '_>,
    object: Local<'_, Object>,
    name: &'static str,
    value: Local<'_, Value>,
) {
    let key = symbol(scope, name);
    object.define_own_property(scope, key.into(), value, PropertyAttribute::DONT_ENUM);
}

fn primitive<'s>(scope: &mut PinScope<'s, '_>, value: &Primitive) -> Result<Local<'s, Value>, Failed> {
    Ok(match value {
        Primitive::Bool(value) => v8::Boolean::new(scope, *value).into(),
        Primitive::Number(value) => v8::Number::new(scope, *value).into(),
        Primitive::String(text) => string(scope, text).ok_or(Failed::Thrown)?.into(),
        Primitive::BigInt(value) => bigint(scope, value.as_le_bytes())?,
    })
}

/// Converts a `BigInt` from two's complement to sign and magnitude.
fn bigint<'s>(scope: &mut PinScope<'s, '_>, bytes: &[u8]) -> Result<Local<'s, Value>, Failed> {
    let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    let extension = if is_negative { 0xff } else { 0 };
    let mut words: Vec<u64> = bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [extension; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
        .collect();
    if is_negative {
        let mut carry = true;
        for word in &mut words {
            (*word, carry) = (!*word).overflowing_add(u64::from(carry));
        }
        if carry {
            words.push(1);
        }
    }
    v8::BigInt::new_from_words(scope, is_negative, &words).map(Into::into).ok_or(Failed::Thrown)
}

fn regexp<'s>(scope: &mut PinScope<'s, '_>, source: &str, flags: &str) -> Result<Local<'s, Value>, Failed> {
    let source = string(scope, source).ok_or(Failed::Thrown)?;
    let mut options = v8::RegExpCreationFlags::empty();
    for flag in flags.chars() {
        options |= match flag {
            'd' => v8::RegExpCreationFlags::HAS_INDICES,
            'g' => v8::RegExpCreationFlags::GLOBAL,
            'i' => v8::RegExpCreationFlags::IGNORE_CASE,
            'm' => v8::RegExpCreationFlags::MULTILINE,
            's' => v8::RegExpCreationFlags::DOT_ALL,
            'u' => v8::RegExpCreationFlags::UNICODE,
            'v' => v8::RegExpCreationFlags::UNICODE_SETS,
            'y' => v8::RegExpCreationFlags::STICKY,
            _ => return Err(Failed::Malformed),
        };
    }
    v8::RegExp::new(scope, source, options).map(Into::into).ok_or(Failed::Thrown)
}
