//! Random graphs of every kind of object, with cycles, shared parts and views, as a program could make them.

use execbox_core::value::{BigInt, Datum, ErrorNode, Graph, Node, NodeId, Primitive, TimeValue, ViewKind};
use proptest::prelude::*;

/// A part of an object: a primitive, or the index of an object in the list, modulo the list's length.
#[derive(Debug, Clone)]
enum Part {
    Primitive(Datum),
    Object(usize),
}

#[derive(Debug, Clone)]
enum Spec {
    Array(Vec<Part>),
    Sparse(Vec<(u8, Part)>),
    Object(Vec<(String, Part)>),
    Date(f64),
    Map(Vec<(Part, Part)>),
    Set(Vec<Part>),
    RegExp(&'static str, &'static str),
    Error(&'static str, Option<String>, Option<Part>),
    Buffer(Vec<u8>, Option<u8>),
    View(u8, usize, u8, Option<u8>),
    Boxed(Primitive),
}

/// Graphs of up to 23 objects.
pub fn any_graph() -> impl Strategy<Value = Graph> {
    (prop::collection::vec(any_spec(), 1..24), any_part()).prop_map(|(specs, root)| build(&specs, &root))
}

/// Primitive values, among them the numbers that JSON cannot represent.
pub fn any_primitive() -> impl Strategy<Value = Datum> {
    prop_oneof![
        1 => Just(Datum::Undefined),
        1 => Just(Datum::Null),
        5 => any_boxable().prop_map(Datum::Primitive),
    ]
}

fn any_boxable() -> impl Strategy<Value = Primitive> {
    prop_oneof![
        any::<bool>().prop_map(Primitive::Bool),
        any::<i32>().prop_map(|n| Primitive::Number(n.into())),
        prop_oneof![Just(-0.0), Just(f64::NAN), Just(f64::INFINITY), any::<f64>()]
            .prop_map(|n| Primitive::Number(if n.is_nan() { f64::NAN } else { n })),
        prop_oneof![any::<i128>(), any::<i8>().prop_map(i128::from)].prop_map(|n| Primitive::BigInt(BigInt::from(n))),
        ".{0,6}".prop_map(Primitive::String),
    ]
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![any_primitive().prop_map(Part::Primitive), (0_usize..24).prop_map(Part::Object)]
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let parts = || prop::collection::vec(any_part(), 0..5);
    prop_oneof![
        parts().prop_map(Spec::Array),
        prop::collection::vec((any::<u8>(), any_part()), 0..4).prop_map(Spec::Sparse),
        prop::collection::vec(("[a-z$é]{1,2}|__proto__", any_part()), 0..5).prop_map(Spec::Object),
        prop_oneof![any::<f64>(), -9e15..9e15].prop_map(Spec::Date),
        prop::collection::vec((any_part(), any_part()), 0..4).prop_map(Spec::Map),
        parts().prop_map(Spec::Set),
        prop_oneof![Just(("a+\\/[b]", "gi")), Just(("", "")), Just(("(?<é>.)\\k<é>", "dsu"))]
            .prop_map(|(s, f)| Spec::RegExp(s, f)),
        (
            prop_oneof![Just("Error"), Just("TypeError"), Just("Custom")],
            any::<Option<String>>(),
            prop::option::of(any_part())
        )
            .prop_map(|(name, message, cause)| Spec::Error(name, message, cause)),
        (prop::collection::vec(any::<u8>(), 0..40), any::<Option<u8>>()).prop_map(|(b, m)| Spec::Buffer(b, m)),
        (0_u8..13, any::<usize>(), any::<u8>(), any::<Option<u8>>()).prop_map(|(k, b, o, l)| Spec::View(k, b, o, l)),
        any_boxable().prop_map(Spec::Boxed),
    ]
}

const KINDS: [ViewKind; 13] = [
    ViewKind::Uint8Clamped,
    ViewKind::Int8,
    ViewKind::Uint8,
    ViewKind::Int16,
    ViewKind::Uint16,
    ViewKind::Int32,
    ViewKind::Uint32,
    ViewKind::BigInt64,
    ViewKind::BigUint64,
    ViewKind::Float16,
    ViewKind::Float32,
    ViewKind::Float64,
    ViewKind::DataView,
];

fn build(specs: &[Spec], root: &Part) -> Graph {
    let mut graph = Graph::default();
    let ids: Vec<NodeId> = specs
        .iter()
        .map(|_| if let Datum::Node(id) = graph.add(Node::Date(TimeValue::INVALID)) { id } else { unreachable!() })
        .collect();
    let datum = |part: &Part| match part {
        Part::Primitive(datum) => datum.clone(),
        Part::Object(place) => Datum::Node(ids[place % ids.len()]),
    };
    for (spec, &id) in specs.iter().zip(&ids) {
        let node = match spec {
            Spec::Array(parts) => Node::Array(parts.iter().map(datum).collect()),
            Spec::Sparse(parts) => {
                let mut members: Vec<_> = parts.iter().map(|(at, part)| (u32::from(*at) * 3, datum(part))).collect();
                members.sort_by_key(|(at, _)| *at);
                members.dedup_by_key(|(at, _)| *at);
                let mut members: Vec<_> = members.into_iter().map(|(at, d)| (at.to_string(), d)).collect();
                members.push(("further".to_owned(), Datum::Null));
                Node::SparseArray(1000, members)
            }
            Spec::Object(parts) => {
                let mut members: Vec<(String, Datum)> = Vec::new();
                for (key, part) in parts {
                    if members.iter().all(|(known, _)| known != key) {
                        members.push((key.clone(), datum(part)));
                    }
                }
                Node::Object(members)
            }
            Spec::Date(milliseconds) => Node::Date(TimeValue::from_milliseconds(*milliseconds)),
            Spec::Map(parts) => {
                let mut entries: Vec<(Datum, Datum)> = Vec::new();
                for (key, value) in parts {
                    let key = as_key(datum(key));
                    if !entries.iter().any(|(known, _)| same(known, &key)) {
                        entries.push((key, datum(value)));
                    }
                }
                Node::Map(entries)
            }
            Spec::Set(parts) => {
                let mut items: Vec<Datum> = Vec::new();
                for item in parts {
                    let item = as_key(datum(item));
                    if !items.iter().any(|known| same(known, &item)) {
                        items.push(item);
                    }
                }
                Node::Set(items)
            }
            Spec::RegExp(source, flags) => Node::RegExp { source: (*source).into(), flags: (*flags).into() },
            Spec::Error(name, message, cause) => Node::Error(Box::new(ErrorNode {
                name: (*name).into(),
                message: message.clone(),
                stack: None,
                cause: cause.as_ref().map(datum),
            })),
            Spec::Buffer(bytes, max) => {
                let max_len = max.map(|more| u32::try_from(bytes.len()).unwrap() + u32::from(more));
                Node::Buffer { bytes: bytes.clone(), max_len }
            }
            Spec::View(kind, buffer, offset, len) => view(specs, &ids, *kind, *buffer, *offset, *len),
            Spec::Boxed(primitive) => Node::Boxed(primitive.clone()),
        };
        *graph.get_mut(id).unwrap() = node;
    }
    graph.set_root(datum(root));
    graph
}

/// A view of one of the buffers.
fn view(specs: &[Spec], ids: &[NodeId], kind: u8, buffer: usize, offset: u8, len: Option<u8>) -> Node {
    let mut buffers = specs.iter().zip(ids).filter_map(|(spec, id)| match spec {
        Spec::Buffer(bytes, max) => Some((u32::try_from(bytes.len()).unwrap(), max.is_some(), *id)),
        _ => None,
    });
    let count = buffers.clone().count().max(1);
    let Some((bytes, resizable, buffer)) = buffers.nth(buffer % count) else { return Node::Date(TimeValue::INVALID) };
    let kind = KINDS[usize::from(kind)];
    let size = kind.element_len();
    let offset = u32::from(offset) % (bytes / size + 1) * size;
    let most = (bytes - offset) / size;
    let len = match len {
        None if resizable => None,
        len => Some(u32::from(len.unwrap_or(0)) % (most + 1)),
    };
    Node::View { kind, buffer, offset, len }
}

/// A `Map` has no key -0.
fn as_key(datum: Datum) -> Datum {
    if datum.as_number() == Some(0.0) { Datum::from(0) } else { datum }
}

fn same(left: &Datum, right: &Datum) -> bool {
    match (left, right) {
        (Datum::Node(left), Datum::Node(right)) => left == right,
        (Datum::Node(_), _) | (_, Datum::Node(_)) => false,
        (left, right) => Graph::of(left.clone()) == Graph::of(right.clone()),
    }
}
