//! The namespace `store`: JSON values by key, for later programs.
//!
//! `await store.set({ key, value })`, `await store.get(key)`, `await store.list({ prefix })`, `await store.delete(key)`.
//!
//! `await store.update({ key, update })` reads and replaces a value until no other program has changed it in between. For this
//! there are `store.entry(key)`, which gives the value with its revision, and `store.replace({ key, value, revision })`, which
//! writes only if that is still the revision. Revisions are hashes of texts: equal values may have the same one, which is
//! harmless, because the new value depends on the old one only.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox::{Effect, Provider, Tool, ToolError};
use execbox_core::budget::Meter;
use execbox_core::memory;
use execbox_core::value::parse_json;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, Semaphore};

use super::super::finder;
use super::super::typed::{CallForm, bounded, positive};
use super::{MAX_ENTRY_BYTES, MAX_KEY_BYTES, StateArea, StateError, StateStore, page, update};

/// The name of the namespace.
pub(in super::super) const NAMESPACE: &str = "store";

type Store = Arc<dyn StateStore>;

/// The provider of the namespace. Each call takes one of `turns`.
pub(super) fn provider(store: &Store, turns: &Arc<Semaphore>) -> Option<Provider> {
    let store = &Arc::new(Arc::clone(store));
    let get = finder::tool("get", store, turns, get)
        .description("Returns the value that an earlier program has stored, or null")
        .effect(Effect::ReadOnly);
    let entry = finder::tool("entry", store, turns, entry)
        .description("Returns a value, or null, with the revision that store.replace needs")
        .effect(Effect::ReadOnly);
    let set = finder::tool("set", store, turns, set)
        .description("Stores a JSON value for later programs, in place of an earlier one");
    let list = finder::tool("list", store, turns, list)
        .description("Returns the keys that begin with a prefix, sorted")
        .effect(Effect::ReadOnly);
    let delete = finder::tool("delete", store, turns, delete)
        .description("Deletes a key; returns whether there was one")
        .effect(Effect::Destructive)
        .keep_reserved_name();
    let tools = [get, entry, set, replacing(store, turns), update::tool(), list, delete];
    Provider::builder(NAMESPACE).name_failed_calls().tools(tools).build().ok()
}

/// The tool `replace`. Calls that are refused are answered one after the other, with pauses: programs that try again at once
/// would hinder one another.
fn replacing(store: &Arc<Store>, turns: &Arc<Semaphore>) -> Tool {
    let (store, turns, refused) = (Arc::clone(store), Arc::clone(turns), Arc::<Mutex<()>>::default());
    let tool = Tool::new("replace", move |input, _| {
        let (store, turns, refused) = (Arc::clone(&store), Arc::clone(&turns), Arc::clone(&refused));
        async move {
            let is_replaced = finder::run_blocking(&turns, move || replace(&store, input)).await??;
            if !is_replaced {
                let _turn = refused.lock().await;
                tokio::time::sleep(PAUSE).await;
            }
            Ok(is_replaced.into())
        }
    });
    tool.description("Stores a value if its revision is still that of store.entry; returns whether it was")
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

/// The members of a call that stores a value, which is not copied.
#[derive(Deserialize)]
struct Entry {
    key: String,
    #[serde(rename = "value")]
    _value: IgnoredAny,
}

#[derive(Deserialize)]
struct Replacement {
    key: String,
    #[serde(rename = "value")]
    _value: IgnoredAny,
    revision: String,
}

#[derive(Deserialize)]
struct Selection {
    #[serde(default)]
    prefix: String,
    #[serde(default, deserialize_with = "positive")]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

fn get(store: &Store, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "store.get(key)", short: Some("key") };
    let key = key(&FORM, &mut input)?;
    value(&key, store.get(StateArea::Values, &key).map_err(failed)?)
}

fn entry(store: &Store, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "store.entry(key)", short: Some("key") };
    let key = key(&FORM, &mut input)?;
    let text = store.get(StateArea::Values, &key).map_err(failed)?;
    Ok(json!({ "revision": revision(text.as_deref()), "value": value(&key, text)? }))
}

/// The value of a text that is stored.
fn value(key: &str, text: Option<String>) -> Result<Json, ToolError> {
    let Some(text) = text else { return Ok(Json::Null) };
    // Another program may have written the state.
    parse_json(&text, &mut Meter::alone(MAX_PARSED_BYTES)).map_err(|error| {
        let key = bounded(key, MAX_KEY_BYTES);
        ToolError::new(format!("the value of \"{key}\" cannot be read: {error}; delete it or store another one"))
    })
}

/// What identifies the text of a key.
fn revision(text: Option<&str>) -> String {
    let Some(text) = text else { return ABSENT.to_owned() };
    let hash: [u8; 32] = Sha256::digest(text).into();
    format!("{:032x}", u128::from_be_bytes(std::array::from_fn(|at| hash[at])))
}

fn set(store: &Store, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "store.set({ key, value })", short: None };
    let Entry { key, .. } = FORM.read(&mut input)?;
    check(&key)?;
    store.set(StateArea::Values, &key, text(&input["value"])?).map_err(failed)?;
    Ok(Json::Null)
}

/// Stores a value if the revision is still the one of the call. Returns whether it was.
fn replace(store: &Store, mut input: Json) -> Result<bool, ToolError> {
    const FORM: CallForm = CallForm { call: "store.replace({ key, value, revision })", short: None };
    let Replacement { key, revision: wanted, .. } = FORM.read(&mut input)?;
    check(&key)?;
    let text = text(&input["value"])?;
    let present = store.get(StateArea::Values, &key).map_err(failed)?;
    if revision(present.as_deref()) != wanted {
        return Ok(false);
    }
    store.replace(StateArea::Values, &key, present.as_deref(), text).map_err(failed)
}

/// A value as JSON of at most [`MAX_ENTRY_BYTES`].
fn text(value: &Json) -> Result<String, ToolError> {
    let bytes = memory::of_json(value);
    if bytes > MAX_VALUE_BYTES {
        return Err(ToolError::invalid(format!(
            "the value takes {bytes} bytes of memory; the limit is {MAX_VALUE_BYTES}: store it in parts"
        )));
    }
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

fn list(store: &Store, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "store.list({ prefix, offset, limit })", short: Some("prefix") };
    let Selection { prefix, limit, offset } = FORM.read(&mut input)?;
    let is_possible = prefix.len() <= MAX_KEY_BYTES;
    let all = if is_possible { store.list(StateArea::Values, &prefix).map_err(failed)? } else { Vec::new() };
    let (keys, mut result) = page(all, offset, limit);
    result["keys"] = keys.into_iter().map(|entry| json!({ "key": entry.key, "bytes": entry.bytes })).collect();
    Ok(result)
}

fn delete(store: &Store, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm = CallForm { call: "store.delete(key)", short: Some("key") };
    Ok(store.delete(StateArea::Values, &key(&FORM, &mut input)?).map_err(failed)?.into())
}

/// The key that a call names.
fn key(form: &CallForm, input: &mut Json) -> Result<String, ToolError> {
    let Key { key } = form.read(input)?;
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

/// The revision of a key without a value.
const ABSENT: &str = "none";

/// The pause between answers to refused calls of `replace`.
const PAUSE: Duration = Duration::from_millis(1);

/// The maximum memory of a value that is stored, and of one that is read, which is counted in more detail, in bytes.
const MAX_VALUE_BYTES: usize = 32 << 20;
const MAX_PARSED_BYTES: usize = 4 * MAX_VALUE_BYTES;
