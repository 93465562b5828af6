//! Checks of values against JSON Schemas, with messages that a model can act on.

use std::fmt::Write as _;

use execbox_core::text::cut;
use jsonschema::Validator;
use serde_json::Value as Json;

/// How many failures of one value are told, and how much of each.
const MAX_FAILURES: usize = 8;
const MAX_CHARS: usize = 240;

/// A compiled JSON Schema.
///
/// Tools need none of this: their schemas are compiled and checked by their
/// [`Provider`](crate::Provider).
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    describes_object: bool,
}

impl Schema {
    /// Compiles a schema. References outside of it are not followed: nothing is ever fetched.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn compile(schema: &Json) -> Result<Self, String> {
        let validator = jsonschema::validator_for(schema).map_err(|error| cut(&error.to_string(), MAX_CHARS))?;
        let describes_object =
            schema.get("type").is_some_and(|kind| kind == "object") || schema.get("properties").is_some();
        Ok(Self { validator, describes_object })
    }

    /// What stands for an argument that the guest left out.
    pub(crate) fn omitted_input(schema: Option<&Self>) -> Json {
        match schema {
            Some(schema) if schema.describes_object => Json::Object(serde_json::Map::new()),
            _ => Json::Null,
        }
    }

    /// Checks a value. `what` names it in the paths of the message (`input`, `result`).
    ///
    /// # Errors
    /// Every failure with its path, as one line.
    pub fn check(&self, value: &Json, what: &str) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let mut message = String::new();
        let mut failures = self.validator.iter_errors(value);
        for failure in failures.by_ref().take(MAX_FAILURES) {
            let separator = if message.is_empty() { "" } else { "; " };
            let path = path_text(what, &failure.instance_path().to_string());
            let _ = write!(message, "{separator}{path}: {}", cut(&failure.to_string(), MAX_CHARS));
        }
        match failures.count() {
            0 => {}
            more => {
                let _ = write!(message, "; and {more} more");
            }
        }
        Err(message)
    }
}

/// A JSON pointer as guest code would write the place: `/items/3/at` → `input.items[3].at`.
fn path_text(what: &str, pointer: &str) -> String {
    let mut text = what.to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|b| b.is_ascii_digit()) {
            let _ = write!(text, "[{part}]");
        } else if execbox_core::names::is_property_name(&part) {
            let _ = write!(text, ".{part}");
        } else {
            let _ = write!(text, "[{part:?}]");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_failure_is_told_with_its_path() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {"q": {"type": "string"}, "items": {"items": {"type": "object", "required": ["at"]}}},
            "required": ["q"]
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({"q": "x"}), "input"), Ok(()));
        assert_eq!(
            schema.check(&json!({"items": [{}, 5, {"at": 1}]}), "input").unwrap_err(),
            "input: \"q\" is a required property; input.items[0]: \"at\" is a required property; \
             input.items[1]: 5 is not of type \"object\""
        );
    }

    #[test]
    fn long_failures_are_cut_and_many_are_counted() {
        let schema = Schema::compile(&json!({"items": {"type": "integer"}})).unwrap();
        let values: Json = (0..20).map(|_| json!("x".repeat(10_000))).collect();
        let message = schema.check(&values, "input").unwrap_err();
        assert!(message.len() < 4_000 && message.ends_with("; and 12 more"), "{}", message.len());
    }

    #[test]
    fn an_invalid_schema_says_what_is_wrong() {
        assert!(Schema::compile(&json!({"type": "strin"})).unwrap_err().contains("strin"));
        assert!(Schema::compile(&json!({"$ref": "https://example.com/other.json"})).is_err(), "nothing is fetched");
    }
}
