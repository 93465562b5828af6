//! The format of tools files. `execbox run --help` shows an example.
//!
//! Unknown keys and duplicate names are rejected. Errors name the path of keys, the line and the column.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

/// The providers of a file.
///
/// # Errors
/// The text is not JSON, or has another shape.
pub(super) fn parse(text: &str) -> Result<Vec<(String, ProviderEntry)>, FormatError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed: Result<ToolsFile, _> = serde_path_to_error::deserialize(&mut deserializer);
    let file = parsed.map_err(|error| {
        let path = error.path().to_string();
        FormatError::new(if path == "." { "" } else { &path }, error.inner())
    })?;
    deserializer.end().map_err(|error| FormatError::new("", &error))?;
    Ok(file.providers.0)
}

/// Invalid JSON, or JSON of another shape. The message follows the name of the file and a colon.
#[derive(Debug, thiserror::Error)]
#[error("{line}:{column}: {place}: {message}")]
pub(crate) struct FormatError {
    line: usize,
    column: usize,
    /// The path of the key, or `invalid JSON`.
    place: String,
    message: String,
}

impl FormatError {
    fn new(path: &str, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let message = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text).to_owned();
        let place = match (error.is_data(), path) {
            (false, _) => "invalid JSON",
            (true, "") => "invalid file of tools",
            (true, path) => path,
        };
        Self { line, column: column.max(1), place: place.to_owned(), message }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `providers`")]
struct ToolsFile {
    #[serde(rename = "$comment", default)]
    _comment: IgnoredAny,
    providers: Entries<ProviderEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a provider: an object with `tools`")]
pub(super) struct ProviderEntry {
    #[serde(rename = "$comment", default)]
    _comment: IgnoredAny,
    pub(super) description: Option<String>,
    pub(super) tools: Entries<ToolEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a tool: an object with `answers`")]
pub(super) struct ToolEntry {
    #[serde(rename = "$comment", default)]
    _comment: IgnoredAny,
    pub(super) description: Option<String>,
    /// The JSON Schema of inputs.
    #[serde(default, deserialize_with = "present")]
    pub(super) input: Option<Json>,
    /// The JSON Schema of results.
    #[serde(default, deserialize_with = "present")]
    pub(super) output: Option<Json>,
    pub(super) answers: Vec<AnswerEntry>,
    /// The time before every answer; a duration as in `--timeout`.
    pub(super) delay: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an answer: an object with `returns` or `fails`")]
pub(super) struct AnswerEntry {
    #[serde(rename = "$comment", default)]
    _comment: IgnoredAny,
    /// The part of the input that selects this answer.
    #[serde(default, deserialize_with = "present")]
    pub(super) when: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    pub(super) returns: Option<Json>,
    /// The message of a `tool_error`.
    pub(super) fails: Option<String>,
}

/// Distinguishes `null` from an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A JSON object with unique names, in order.
#[derive(Debug)]
pub(super) struct Entries<T>(pub(super) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of named entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = HashSet::new();
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("duplicate name {name:?}")));
            }
            entries.push((name, map.next_value()?));
        }
        Ok(Entries(entries))
    }
}
