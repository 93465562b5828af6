//! JSON Schemas, and validation errors that a model can act on.

use std::fmt::Write as _;

use execbox_core::text::cut;
use jsonschema::Validator;
use serde_json::Value as Json;

/// The number of violations in a [`ValidationError`].
const MAX_VIOLATIONS: usize = 8;
/// The length of the message of a violation, in characters.
const MAX_CHARS: usize = 240;

/// A compiled JSON Schema.
///
/// Tools do not need it: a [`Provider`](crate::Provider) compiles and checks the schemas of its tools.
///
/// ```
/// use execbox::Schema;
/// use serde_json::json;
///
/// # fn main() -> Result<(), execbox::SchemaError> {
/// let schema = Schema::compile(&json!({ "type": "object", "properties": { "q": { "type": "string" } } }))?;
/// let error = schema.check(&json!({ "q": 1 }), "input").unwrap_err();
/// assert_eq!(error.to_string(), "input.q: 1 is not of type \"string\"");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    describes_object: bool,
}

/// Why a JSON value is not a JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

/// How a value violates a schema: the first 8 violations, and the number of others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct ValidationError {
    violations: Vec<Violation>,
    more: usize,
}

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Where in the value, as JavaScript would write it: `input.items[3].at`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl ValidationError {
    /// The violations, at most 8.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn render(&self) -> String {
        let violations = self.violations.iter().map(|Violation { path, message }| format!("{path}: {message}"));
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        violations.chain(more).collect::<Vec<_>>().join("; ")
    }
}

impl Schema {
    /// Compiles a schema. References to other documents fail: nothing is fetched.
    ///
    /// # Errors
    /// The value is not a JSON Schema.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let validator =
            jsonschema::validator_for(schema).map_err(|error| SchemaError(cut(&error.to_string(), MAX_CHARS)))?;
        let describes_object =
            schema.get("type").is_some_and(|kind| kind == "object") || schema.get("properties").is_some();
        Ok(Self { validator, describes_object })
    }

    /// The value of an argument that the guest omitted: `{}` for a schema that describes an object, else `null`.
    pub(crate) fn omitted_input(schema: Option<&Self>) -> Json {
        match schema {
            Some(schema) if schema.describes_object => Json::Object(serde_json::Map::new()),
            _ => Json::Null,
        }
    }

    /// Checks a value. The paths of the error start with `name`: `input`, `result`.
    ///
    /// # Errors
    /// The violations.
    pub fn check(&self, value: &Json, name: &str) -> Result<(), ValidationError> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let mut errors = self.validator.iter_errors(value);
        let violations = errors.by_ref().take(MAX_VIOLATIONS).map(|error| Violation {
            path: path_text(name, &error.instance_path().to_string()),
            message: cut(&error.to_string(), MAX_CHARS),
        });
        Err(ValidationError { violations: violations.collect(), more: errors.count() })
    }
}

/// A JSON pointer as JavaScript: `/items/3/at` becomes `input.items[3].at`.
fn path_text(name: &str, pointer: &str) -> String {
    let mut text = name.to_owned();
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
    fn each_violation_has_its_path() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {"q": {"type": "string"}, "items": {"items": {"type": "object", "required": ["at"]}}},
            "required": ["q"]
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({"q": "x"}), "input"), Ok(()));
        assert_eq!(
            schema.check(&json!({"items": [{}, 5, {"at": 1}]}), "input").unwrap_err().to_string(),
            "input: \"q\" is a required property; input.items[0]: \"at\" is a required property; \
             input.items[1]: 5 is not of type \"object\""
        );
    }

    #[test]
    fn long_messages_are_cut_and_violations_beyond_eight_are_counted() {
        let schema = Schema::compile(&json!({"items": {"type": "integer"}})).unwrap();
        let values: Json = (0..20).map(|_| json!("x".repeat(10_000))).collect();
        let error = schema.check(&values, "input").unwrap_err();
        assert_eq!((error.violations().len(), &*error.violations()[7].path), (8, "input[7]"));
        let message = error.to_string();
        assert!(message.len() < 4_000 && message.ends_with("; and 12 more"), "{}", message.len());
    }

    #[test]
    fn an_invalid_schema_is_rejected_with_a_reason() {
        assert!(Schema::compile(&json!({"type": "strin"})).unwrap_err().to_string().contains("strin"));
        assert!(Schema::compile(&json!({"$ref": "https://example.com/other.json"})).is_err(), "nothing is fetched");
    }
}
