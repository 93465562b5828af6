//! Arbitrary text as JSON on a meter: the tree is that of serde_json, and as tagged JSON it is a graph or an error.

#![no_main]

use execbox_core::budget::{Budget, Meter};
use execbox_core::value::{Graph, JsonError, parse_json};
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;

fuzz_target!(|text: &str| {
    let budget = Budget::new(1 << 20);
    let mut meter = Meter::new(&budget, 1 << 16, &|| false);
    let parsed = parse_json(text, &mut meter);
    drop(meter);
    assert_eq!(budget.used(), 0);
    let tree = match (parsed, serde_json::from_str::<Json>(text)) {
        (Ok(tree), Ok(expected)) => {
            assert_eq!(tree, expected);
            tree
        }
        (Err(JsonError::Refused(_)), _) | (Err(_), Err(_)) => return,
        (parsed, expected) => panic!("{parsed:?}, {expected:?}"),
    };
    if let Ok(graph) = Graph::from_tagged_json(&tree, "value") {
        let written = graph.to_tagged_json("value", usize::MAX).expect("what was read can be written");
        assert_eq!(Graph::from_tagged_json(&written, "value").as_ref(), Ok(&graph));
    }
});
