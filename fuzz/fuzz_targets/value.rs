//! Bytes that claim to be a value: taken apart, they are JSON or a graph or a refusal; and what they are goes back in.

#![no_main]

use execbox_core::value::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let value = Value::from_bytes(bytes);
    if let Ok(graph) = value.to_graph("value", 1 << 20) {
        let again = graph.to_value("value").expect("what came out goes in");
        assert_eq!(again.to_graph("value", usize::MAX), Ok(graph));
    }
    if let Ok(json) = value.to_json("value", 1 << 20) {
        let again = Value::from_json(json.as_ref(), "value").expect("what came out goes in");
        assert_eq!(again.to_json("value", usize::MAX), Ok(json));
    }
});
