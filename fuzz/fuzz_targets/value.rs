//! Bytes that claim to be a value: taken apart, they are JSON or a refusal; and what is JSON goes back in.

#![no_main]

use execbox_core::value::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(json) = Value::from_bytes(bytes).to_json("value", 1 << 20) {
        let again = Value::from_json(json.as_ref(), "value").expect("what came out goes in");
        assert_eq!(again.to_json("value", usize::MAX), Ok(json));
    }
});
