//! How much memory JSON takes, estimated without allocating it.

use std::mem::size_of;

use serde_json::Value as Json;

/// About how many bytes of memory a value takes. Does not recurse.
pub fn of_json(value: &Json) -> usize {
    let mut bytes = size_of::<Json>();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        bytes += match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
            Json::String(text) => text.len(),
            Json::Array(items) => {
                waiting.extend(items);
                items.len() * size_of::<Json>()
            }
            Json::Object(members) => {
                waiting.extend(members.values());
                members.iter().map(|(name, _)| name.len() + MEMBER_BYTES).sum::<usize>() + OBJECT_BYTES
            }
        };
    }
    bytes
}

/// A member of an object: its entry and its place in the index.
const MEMBER_BYTES: usize = size_of::<String>() + size_of::<Json>() + 32;

/// An object that is not empty: its allocations are made for more members than it has.
const OBJECT_BYTES: usize = 2 * MEMBER_BYTES;
