//! Arbitrary bytes as a value: reading gives JSON, a graph or an error, and what was read can be written and read again.

#![no_main]

use execbox_core::value::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let value = Value::from_bytes(bytes);
    if let Ok(graph) = value.to_graph("value", 1 << 20) {
        let again = graph.to_value("value").expect("a value that was read can be written");
        assert_eq!(again.to_graph("value", usize::MAX), Ok(graph));
    }
    if let Ok(json) = value.to_json("value", 1 << 20) {
        let again = Value::from_json(json.as_ref(), "value").expect("a value that was read can be written");
        assert_eq!(again.to_json("value", usize::MAX), Ok(json));
    }
});
