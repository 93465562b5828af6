//! Lists that nest deeper than JSON is read: what is too deep is replaced, so that the other entries are not lost.

/// A JSON text in which each object and list that is nested deeper than [`MAX_DEPTH`] is replaced by [`TOO_DEEP`].
pub(super) fn without_too_deep(text: &str) -> String {
    let mut shallow = String::with_capacity(text.len());
    let (mut depth, mut kept, mut in_string, mut at) = (0_usize, 0, false, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                if depth == MAX_DEPTH {
                    shallow += &text[kept..at];
                    shallow += TOO_DEEP;
                }
                depth += 1;
            }
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth >= MAX_DEPTH {
                    kept = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if depth <= MAX_DEPTH {
        shallow += &text[kept..];
    }
    shallow
}

/// How deep the rest may nest: less than `serde_json` reads.
const MAX_DEPTH: usize = 100;

/// No schema, so that it is reported as a part that cannot be read.
const TOO_DEEP: &str = "\"(nested too deep)\"";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    fn nested(depth: usize, inner: &str) -> String {
        format!("{}{inner}{}", "{\"a\":[".repeat(depth), ",1]}".repeat(depth))
    }

    #[test]
    fn what_is_nested_too_deep_is_replaced() {
        let text = format!(r#"{{"x":"[[{{\"","deep":{},"y":[{{}}]}}"#, nested(1_000, "0"));
        let read: Json = serde_json::from_str(&without_too_deep(&text)).unwrap();
        assert_eq!((&read["x"], &read["y"]), (&json!("[[{\""), &json!([{}])));
        let last = (0..48).fold(&read["deep"], |deep, _| &deep["a"][0]);
        assert_eq!(*last, json!({ "a": [{ "a": "(nested too deep)" }, 1] }));
    }

    proptest! {
        #[test]
        fn shallow_texts_are_unchanged_and_no_text_panics(text in r#"[\[\]{}",:\\aé0]{0,40}"#) {
            prop_assert_eq!(without_too_deep(&text), &*text);
            let _ = without_too_deep(&nested(49, &text));
            let _ = without_too_deep(&("[".repeat(101) + &text));
        }
    }
}
