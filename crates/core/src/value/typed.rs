//! JSON as a Rust type.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// A JSON value that does not fit a Rust type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} does not fit: {reason}")]
#[non_exhaustive]
pub struct TypeMismatch {
    /// The path to the part, for example `result.items[3].at`.
    pub path: String,
    /// What serde expected there, and what it found.
    pub reason: String,
}

/// Converts JSON to a Rust type. `what` names the value in the error, for example `result`.
///
/// # Errors
/// The value does not fit the type.
pub fn from_json<T: DeserializeOwned>(json: &Json, what: &str) -> Result<T, TypeMismatch> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = match error.path().to_string().as_str() {
            "." => what.to_owned(),
            path if path.starts_with('[') => format!("{what}{path}"),
            path => format!("{what}.{path}"),
        };
        TypeMismatch { path, reason: error.inner().to_string() }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;

    #[test]
    fn a_mismatch_names_the_path() {
        let error = |json: Json| from_json::<Vec<BTreeMap<String, u8>>>(&json, "result").unwrap_err().to_string();
        assert_eq!(error(json!("x")), "result does not fit: invalid type: string \"x\", expected a sequence");
        assert_eq!(error(json!([{}, 7])), "result[1] does not fit: invalid type: integer `7`, expected a map");
        assert_eq!(error(json!([{ "a": 300 }])), "result[0].a does not fit: invalid value: integer `300`, expected u8");
        assert_eq!(from_json(&json!({ "a": [1] }), "result"), Ok(BTreeMap::from([("a".to_owned(), (1,))])));
        assert_eq!(from_json::<BTreeMap<String, u8>>(&json!({ "a": null }), "x").unwrap_err().path, "x.a");
    }
}
