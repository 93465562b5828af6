//! Graphs, their bytes, and their tagged JSON.

use execbox_core::value::{
    Datum, ErrorNode, Foreign, FunctionKind, Graph, Node, Reason, SerializationError, Value, ViewKind,
};
use execbox_testkit::graphs::any_graph;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

const BUDGET: usize = 1 << 20;

proptest! {
    #[test]
    fn any_graph_is_unchanged_as_bytes_and_as_json(graph in any_graph()) {
        let value = graph.to_value("value").unwrap();
        prop_assert_eq!(&value.to_graph("value", BUDGET).unwrap(), &graph);
        let json = graph.to_tagged_json("value", 1 << 30).unwrap();
        prop_assert_eq!(&Graph::from_tagged_json(&json, "value").unwrap(), &graph);
        let _ = value.to_json("value", BUDGET);
    }

    #[test]
    fn any_bytes_are_a_graph_or_an_error(bytes in prop::collection::vec(0_u8..26, 0..64)) {
        let value = Value::from_bytes(bytes);
        if let Ok(graph) = value.to_graph("value", BUDGET) {
            prop_assert_eq!(graph.to_value("value").unwrap().to_graph("value", BUDGET).unwrap(), graph);
        }
        let _ = value.to_json("value", BUDGET);
    }

    #[test]
    fn truncated_values_are_errors(graph in any_graph(), at in any::<prop::sample::Index>()) {
        let value = graph.to_value("value").unwrap();
        let cut = Value::from_bytes(&value.as_bytes()[..at.index(value.as_bytes().len())]);
        prop_assert!(cut.to_graph("value", BUDGET).is_err());
    }
}

fn reason(value: &Value, budget: usize) -> Reason {
    value.to_graph("result", budget).unwrap_err().reason
}

#[test]
fn deep_graphs_need_no_stack() {
    let deep = [[7, 1].repeat(1_000_000), vec![1]].concat();
    let graph = Value::from_bytes(deep.clone()).to_graph("result", 1 << 30).unwrap();
    assert_eq!(graph, graph.clone());
    assert_eq!(graph.to_value("result").unwrap().as_bytes(), deep);
    assert_eq!(graph.to_tagged_json("result", 1 << 30).unwrap_err().reason, Reason::TooDeep);
}

#[test]
fn values_beyond_the_budget_are_too_large() {
    let mut wide = vec![7, 0xff, 0xff, 0x03];
    wide.resize(wide.len() + 0xffff, 1);
    let wide = Value::from_bytes(wide).to_graph("result", 1 << 16).unwrap_err();
    assert_eq!(wide.reason, Reason::TooLarge(1 << 16));
    assert_eq!(
        wide.to_string(),
        "result is too large to cross: it takes more than 64 KiB of the host's memory; pass less, or page it"
    );
    let bytes = {
        let mut graph = Graph::default();
        let root = graph.bytes([0; 5000]);
        graph.set_root(root);
        graph
    };
    assert_eq!(reason(&bytes.to_value("v").unwrap(), 5000), Reason::TooLarge(5000));
}

#[test]
fn hostile_bytes_are_invalid() {
    for bytes in [
        &[][..],
        &[24],
        &[10, 0],
        &[7, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[14, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[18, 2, 0, 1],
        &[18, 2, 2, 1, 1],
        &[19, 2, 0, 3, 18, 1, 0, 9],
        &[19, 2, 0, 0, 18, 1, 0, 9],
        &[19, 3, 1, 1, 18, 2, 0, 9, 9],
        &[19, 2, 0, 1, 10, 0],
        &[19, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f, 18, 0, 0],
        &[20, 1],
        &[20, 8, 0],
        &[22, 1, 4, 0],
        &[12, 2, 1],
        &[8, 7],
        &[1, 1],
    ] {
        assert_eq!(reason(&Value::from_bytes(bytes), BUDGET), Reason::InvalidFormat, "{bytes:?}");
    }
    assert_eq!(reason(&Value::from_bytes([11, 1]), BUDGET), Reason::Foreign(Foreign::Symbol));
}

#[test]
fn inconsistent_graphs_are_errors() {
    let mut other = Graph::default();
    let far: Vec<Datum> = (0..9).map(|_| other.array([])).collect();
    let mut graph = Graph::default();
    let buffer = graph.add(Node::Buffer { bytes: vec![1, 2, 3], max_len: None });
    let Datum::Node(buffer) = buffer else { unreachable!() };
    let array = graph.array([Datum::Null]);
    let Datum::Node(array) = array else { unreachable!() };
    for (node, reason) in [
        (Node::Array(far), Reason::UnknownNode),
        (Node::View { kind: ViewKind::Int8, buffer, offset: 2, len: Some(2) }, Reason::InvalidView),
        (Node::View { kind: ViewKind::Int8, buffer: array, offset: 0, len: Some(0) }, Reason::InvalidView),
    ] {
        let root = graph.add(node);
        graph.set_root(root);
        let path = "answer".to_owned();
        assert_eq!(graph.to_value("answer").unwrap_err(), SerializationError::new(path, reason));
    }
}

#[test]
fn graphs_are_equal_if_no_program_can_tell_them_apart() {
    let array_of_two = |shared: bool| {
        let mut graph = Graph::default();
        let first = graph.array([]);
        let second = if shared { first.clone() } else { graph.array([]) };
        let root = graph.array([first, second]);
        graph.set_root(root);
        graph
    };
    assert_eq!(array_of_two(true), array_of_two(true));
    assert_ne!(array_of_two(true), array_of_two(false));
    assert_ne!(Graph::of(0.0), Graph::of(-0.0));
    assert_eq!(Graph::of(f64::NAN), Graph::of(-f64::NAN));
    // [[[…]]]: a cycle of one and a cycle of two cannot be the same, because their objects differ in number.
    let mut one = Graph::default();
    let root = one.array([]);
    one.set_root(root.clone());
    let Datum::Node(id) = root else { unreachable!() };
    *one.get_mut(id).unwrap() = Node::Array(vec![root.clone()]);
    let mut two = Graph::default();
    let (outer, inner) = (two.array([]), two.array([]));
    let (Datum::Node(a), Datum::Node(b)) = (&outer, &inner) else { unreachable!() };
    let (a, b) = (*a, *b);
    *two.get_mut(a).unwrap() = Node::Array(vec![inner]);
    *two.get_mut(b).unwrap() = Node::Array(vec![outer.clone()]);
    two.set_root(outer);
    assert_ne!(one, two);
    assert_eq!(two, two.to_value("v").unwrap().to_graph("v", BUDGET).unwrap());
}

#[test]
fn every_kind_of_value_has_tagged_json() {
    let tagged = json!({
        "plain": [1, 2.5, "x", true, null, {"$$id": 1, "$$$ref": 2}],
        "undefined": {"$undefined": true},
        "numbers": [{"$number": "NaN"}, {"$number": "Infinity"}, {"$number": "-Infinity"}, {"$number": "-0"}],
        "bigint": {"$bigint": "-170141183460469231731687303715884105729"},
        "date": [{"$date": 1_700_000_000_000_i64}, {"$date": null}],
        "map": {"$map": [["a", 1], [{"$set": [1]}, 2]]},
        "regexp": {"$regexp": "a/b", "flags": "gi"},
        "error": {"$error": "TypeError", "message": "m", "stack": "s", "cause": [1]},
        "bytes": {"$bytes": "AQID"},
        "buffer": {"$buffer": "AQID", "max": 8},
        "view": {"$view": "Int16Array", "of": {"$buffer": "AQIDBA=="}, "offset": 2, "length": 1},
        "boxed": {"$boxed": "x"},
        "sparse": {"$sparse": 4_294_967_295_u32, "items": {"7": "seven", "further": 1}},
        "function": {"$function": 5, "kind": "sync", "name": "f"},
        "promise": {"$promise": 6},
    });
    let graph = Graph::from_tagged_json(&tagged, "value").unwrap();
    assert_eq!(graph.to_tagged_json("value", 1 << 30).unwrap(), tagged);
    assert_eq!(graph.bytes_of(graph.member(graph.root(), "view").unwrap()), Some(&[3, 4][..]));
    assert_eq!(graph.to_value("value").unwrap().to_graph("value", BUDGET).unwrap(), graph);
}

/// A date of -0 became one of 0 when it was written; the comparison is that of JavaScript's `new Date`.
#[test]
fn dates_are_read_as_javascript_reads_them() {
    let dates = |times: [serde_json::Value; 6]| json!(times.map(|time| json!({"$date": time})));
    let written =
        dates([json!(-0.0), json!(1.9), json!(-1.9), json!(8.64e15), json!(8.640_000_000_000_001e15), json!(null)]);
    let read = dates([json!(0), json!(1), json!(-1), json!(8_640_000_000_000_000_i64), json!(null), json!(null)]);
    let graph = Graph::from_tagged_json(&written, "v").unwrap();
    assert_eq!(graph.to_tagged_json("v", 1 << 30).unwrap(), read);
    assert_eq!(Graph::from_tagged_json(&read, "v").unwrap(), graph);
    // As bytes: -0.
    let zero = Value::from_bytes([13, 0, 0, 0, 0, 0, 0, 0, 0x80]).to_graph("v", BUDGET).unwrap();
    assert_eq!(zero.to_tagged_json("v", 1 << 30).unwrap(), json!({"$date": 0}));
}

#[test]
fn references_may_precede_and_follow_their_object() {
    let forward =
        Graph::from_tagged_json(&json!([{"$ref": 7}, {"$id": 7, "$value": {"me": {"$ref": 7}}}]), "v").unwrap();
    let items = forward.items(forward.root()).unwrap();
    let (Datum::Node(first), Datum::Node(second)) = (&items[0], &items[1]) else { panic!() };
    assert_eq!(first, second);
    let json = forward.to_tagged_json("v", 1 << 30).unwrap();
    assert_eq!(json[1], json!({"$ref": json[0]["$id"]}));
    let turned = Graph::from_tagged_json(&json!([{"$value": [], "$id": 7}, {"$ref": 7}]), "v").unwrap();
    assert_eq!(turned.to_tagged_json("v", 1 << 30).unwrap(), json!([{"$id": 1, "$value": []}, {"$ref": 1}]));
    // Two views of one buffer.
    let shared = json!([
        {"$view": "Uint8Array", "of": {"$id": 1, "$value": {"$buffer": "AQI="}}, "offset": 0, "length": 2},
        {"$view": "DataView", "of": {"$ref": 1}, "offset": 1, "length": 1},
    ]);
    let graph = Graph::from_tagged_json(&shared, "v").unwrap();
    assert_eq!(Graph::from_tagged_json(&graph.to_tagged_json("v", 1 << 30).unwrap(), "v").unwrap(), graph);
}

#[test]
fn invalid_tags_are_errors_with_their_path() {
    let invalid = |key, expected| Reason::InvalidTag { key, expected };
    let not_an_object = || invalid("$value", "an array or an object");
    for (json, path, reason) in [
        (json!({"a": [{"$when": 1}]}), "args.a[0]", Reason::UnknownTag("$when".into())),
        (json!({"$date": 1, "at": 2}), "args", Reason::UnknownKey { tag: "$date", key: "at".into() }),
        (json!({"$$a": 1, "$set": []}), "args", Reason::UnknownKey { tag: "$set", key: "$$a".into() }),
        (json!({"$value": []}), "args", Reason::UnknownTag("$value".into())),
        (json!([{"$date": "today"}]), "args[0]", invalid("$date", "a number of milliseconds, or null")),
        (json!([{"$ref": 1}]), "args", Reason::UnknownId(1)),
        (json!([{"$id": 1, "$value": []}, {"$id": 1, "$value": []}]), "args[1]", Reason::DuplicateId(1)),
        (json!({"$id": 1, "$value": {"a": {"$id": 1, "$value": []}}}), "args.a", Reason::DuplicateId(1)),
        (json!({"$id": 1}), "args", not_an_object()),
        (json!({"$id": 1, "$value": 5}), "args", not_an_object()),
        (json!({"$id": 1, "$value": {"$ref": 1}}), "args", not_an_object()),
        (json!({"$ref": -1}), "args", invalid("$ref", "an integer of 0 or more")),
        (json!({"$promise": 4_294_967_296_u64}), "args", invalid("$promise", "an integer below 2^32")),
        (json!({"$bytes": "!"}), "args", invalid("$bytes", "base64")),
        (json!({"$bytes": 1}), "args", invalid("$bytes", "a string")),
        (json!({"$boxed": null}), "args", invalid("$boxed", "a boolean, number, bigint or string")),
        (json!({"$boxed": {"a": 1}}), "args", invalid("$boxed", "a boolean, number, bigint or string")),
        (json!({"$bigint": "1.5"}), "args", invalid("$bigint", "an integer as a string, decimal or 0x…")),
        (json!({"$map": [[1]]}), "args", invalid("$map", "an array of [key, value]")),
    ] {
        let error = Graph::from_tagged_json(&json, "args").unwrap_err();
        assert_eq!(error, SerializationError::new(path, reason), "{json}");
    }
}

#[test]
fn functions_promises_and_errors_are_added_to_graphs() {
    let mut graph = Graph::default();
    let (call, later) = (graph.function(3, FunctionKind::Async, "readFile"), graph.add(Node::Promise(0)));
    let error = graph.error("RangeError", "too far");
    let root = graph.object([("call", call), ("later", later), ("error", error)]);
    graph.set_root(root);
    assert_eq!(
        graph.to_tagged_json("v", 1 << 30).unwrap(),
        json!({
            "call": {"$function": 3, "kind": "async", "name": "readFile"},
            "later": {"$promise": 0},
            "error": {"$error": "RangeError", "message": "too far"},
        })
    );
    let json = Graph::from_json(&json!({"a": [1, {"$b": null}]}));
    assert_eq!(json.to_value("v").unwrap(), Value::from_json(Some(&json!({"a": [1, {"$b": null}]})), "v").unwrap());
    assert_eq!(ErrorNode::default().message, None);
}

/// The sender chooses the ids, and their order.
#[test]
fn many_ids_are_read_whatever_their_order() {
    const COUNT: u64 = 200_000;
    let object = |id: u64| json!({ "$id": id, "$value": [] });
    let ascending: Vec<Json> = (0..COUNT).map(object).collect();
    let descending: Vec<Json> = (0..COUNT).rev().map(object).collect();
    let [ascending, descending] =
        [ascending, descending].map(|items| Graph::from_tagged_json(&Json::Array(items), "value").unwrap());
    assert_eq!(ascending, descending);
    let unknown = json!([{ "$ref": 7 }, { "$ref": 3 }, object(5)]);
    assert_eq!(Graph::from_tagged_json(&unknown, "value").unwrap_err().reason, Reason::UnknownId(3));
}

#[test]
fn a_tree_of_tagged_json_has_a_budget_and_a_text_its_buffer() {
    let mut graph = Graph::default();
    let root = graph.array(vec![Datum::Undefined; 1000]);
    graph.set_root(root);
    let error = graph.to_tagged_json("result", 100_000).unwrap_err();
    assert_eq!((error.path.as_str(), error.reason), ("result", Reason::TooLarge(100_000)));
    let tree = graph.to_tagged_json("result", 1 << 20).unwrap();
    let mut text = vec![0; 20_001];
    assert_eq!(graph.write_tagged_json("result", &mut text), Ok(20_001));
    assert_eq!(serde_json::from_slice::<Json>(&text).unwrap(), tree);
    let error = graph.write_tagged_json("result", &mut text[..20_000]).unwrap_err();
    assert_eq!((error.path.as_str(), error.reason), ("result", Reason::TooLarge(20_000)));
}
