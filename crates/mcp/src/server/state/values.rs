//! The namespace `store`: JSON values by key, for later programs.
//!
//! `await store.set({ key, value })`, `await store.get(key)`, `await store.list({ prefix })`, `await store.delete(key)`.

use std::io;
use std::sync::Arc;

use execbox::core::budget::Meter;
use execbox::core::memory;
use execbox::core::value::parse_json;
use execbox::{Effect, Provider, ToolError};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use super::super::finder;
use super::{MAX_ENTRY_BYTES, MAX_KEY_BYTES, StateArea, StateError, StateStore, page, read};

/// The name of the namespace.
pub(super) const NAMESPACE: &str = "store";

type Store = Arc<dyn StateStore>;

/// The provider of the namespace. Each call takes one of `turns`.
pub(super) fn provider(store: &Store, turns: &Arc<Semaphore>) -> Option<Provider> {
    let store = &Arc::new(Arc::clone(store));
    let by_key = || {
        json!({ "anyOf": [{ "type": "string" }, {
            "type": "object",
            "properties": { "key": { "type": "string" } },
            "required": ["key"],
            "additionalProperties": false
        }] })
    };
    let get = finder::tool("get", store, turns, get)
        .description("Returns the value that an earlier program has stored, or null")
        .input_schema(by_key())
        .effect(Effect::ReadOnly);
    let set = finder::tool("set", store, turns, set)
        .description("Stores a JSON value for later programs, in place of an earlier one")
        .input_schema(json!({
            "type": "object",
            "properties": { "key": { "type": "string" }, "value": {} },
            "required": ["key", "value"],
            "additionalProperties": false
        }));
    let list = finder::tool("list", store, turns, list)
        .description("Returns the keys that begin with a prefix, sorted")
        .input_schema(json!({ "anyOf": [{ "type": ["string", "null"] }, {
            "type": "object",
            "properties": {
                "prefix": { "type": "string" },
                "limit": { "type": "integer", "minimum": 1 },
                "offset": { "type": "integer", "minimum": 0 }
            },
            "additionalProperties": false
        }] }))
        .effect(Effect::ReadOnly);
    let delete = finder::tool("delete", store, turns, delete)
        .description("Deletes a key; returns whether there was one")
        .input_schema(by_key())
        .effect(Effect::Destructive)
        .keep_reserved_name();
    Provider::builder(NAMESPACE).name_failed_calls().tools([get, set, list, delete]).build().ok()
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    value: Json,
}

#[derive(Deserialize, Default)]
struct Selection {
    #[serde(default)]
    prefix: String,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

fn get(store: &Store, input: Json) -> Result<Json, ToolError> {
    let key = key(input)?;
    let Some(text) = store.get(StateArea::Values, &key).map_err(failed)? else { return Ok(Json::Null) };
    // Another program may have written the state.
    let mut meter = Meter::alone(MAX_PARSED_BYTES);
    parse_json(&text, &mut meter)
        .map_err(|error| ToolError::new(format!("the value of {key:?} cannot be read: {error}")))
}

fn set(store: &Store, input: Json) -> Result<Json, ToolError> {
    let Entry { key, value } = read(input)?;
    check(&key)?;
    let bytes = memory::of_json(&value);
    if bytes > MAX_VALUE_BYTES {
        return Err(ToolError::invalid(format!(
            "the value takes {bytes} bytes of memory; the limit is {MAX_VALUE_BYTES}: store it in parts"
        )));
    }
    store.set(StateArea::Values, &key, text(&value)?).map_err(failed)?;
    Ok(Json::Null)
}

/// A value as JSON of at most [`MAX_ENTRY_BYTES`].
fn text(value: &Json) -> Result<String, ToolError> {
    let mut text = Bounded(Vec::new());
    let too_long = format!("the value has more than {MAX_ENTRY_BYTES} bytes as JSON: store it in parts");
    serde_json::to_writer(&mut text, value).map_err(|_| ToolError::invalid(too_long))?;
    String::from_utf8(text.0).map_err(|error| ToolError::new(error.to_string()))
}

/// A writer that fails after [`MAX_ENTRY_BYTES`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_ENTRY_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn list(store: &Store, input: Json) -> Result<Json, ToolError> {
    let Selection { prefix, limit, offset } = match input {
        Json::Null => Selection::default(),
        Json::String(prefix) => Selection { prefix, ..Selection::default() },
        input => read(input)?,
    };
    let is_possible = prefix.len() <= MAX_KEY_BYTES;
    let all = if is_possible { store.list(StateArea::Values, &prefix).map_err(failed)? } else { Vec::new() };
    let total = all.len();
    let (keys, next) = page(all, offset, limit);
    let keys: Vec<Json> = keys.into_iter().map(|entry| json!({ "key": entry.key, "bytes": entry.bytes })).collect();
    let mut result = json!({ "total": total, "keys": keys });
    if let Some(next) = next {
        result["nextOffset"] = next.into();
    }
    Ok(result)
}

fn delete(store: &Store, input: Json) -> Result<Json, ToolError> {
    Ok(store.delete(StateArea::Values, &key(input)?).map_err(failed)?.into())
}

/// The key that a call names.
fn key(input: Json) -> Result<String, ToolError> {
    let key = match input {
        Json::String(key) => key,
        input => read::<Key>(input)?.key,
    };
    check(&key).map(|()| key)
}

fn check(key: &str) -> Result<(), ToolError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Ok(());
    }
    Err(ToolError::invalid(format!("invalid key of {} bytes: expected 1 to {MAX_KEY_BYTES}", key.len())))
}

fn failed(error: StateError) -> ToolError {
    match error {
        StateError::Full { .. } => ToolError::new(format!("the store is full: {error} (`store.delete(key)`)")),
        error => ToolError::new(error.to_string()),
    }
}

/// The maximum memory of a value that is stored, and of one that is read, which is counted in more detail, in bytes.
const MAX_VALUE_BYTES: usize = 32 << 20;
const MAX_PARSED_BYTES: usize = 4 * MAX_VALUE_BYTES;
