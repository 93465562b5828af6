//! Results that are too large for a model: the model reads an outline, and later programs read the whole by its handle.
//!
//! `await results.get("r…")` returns the whole, `await results.get({ handle, path: "items.3", offset: 100, limit: 50 })` a
//! part. Clients share the store. Handles are 128 random bits and cannot be guessed: a client reads only its own results.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use execbox::{Effect, Provider, ToolError};
use execbox_core::hint::near;
use execbox_core::memory;
use serde::Deserialize;
use serde_json::Value as Json;
use tokio::sync::Semaphore;

use super::finder;
use super::typed::{self, CallForm, bounded};

/// The name of the namespace.
pub(super) const NAMESPACE: &str = "results";

/// The results that are kept: the newest ones, within [`MAX_BYTES`].
#[derive(Default)]
pub(super) struct Results(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The results, oldest first.
    results: VecDeque<KeptResult>,
    bytes: usize,
}

struct KeptResult {
    handle: String,
    value: Arc<Json>,
    bytes: usize,
}

impl Results {
    /// Keeps a result, and returns its handle; `None` if it is too large to keep, or the system provides no random numbers.
    pub(super) fn keep(&self, value: Json) -> Option<String> {
        let bytes = memory::of_json(&value);
        if bytes > MAX_BYTES {
            return None;
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let handle = format!("r{:032x}", u128::from_ne_bytes(random));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.bytes + bytes > MAX_BYTES
            && let Some(oldest) = kept.results.pop_front()
        {
            kept.bytes -= oldest.bytes;
        }
        kept.bytes += bytes;
        kept.results.push_back(KeptResult { handle: handle.clone(), value: Arc::new(value), bytes });
        Some(handle)
    }

    fn get(&self, handle: &str) -> Option<Arc<Json>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.results.iter().find(|result| result.handle == handle)?;
        Some(Arc::clone(&found.value))
    }

    /// A provider that reads the results. Each call takes one of `turns`. `None` if one of `providers` has its name.
    pub(super) fn provider(self: &Arc<Self>, providers: &[Provider], turns: &Arc<Semaphore>) -> Option<Provider> {
        if providers.iter().any(|provider| provider.name() == NAMESPACE) {
            return None;
        }
        let get = finder::tool("get", self, turns, part)
            .description("Returns a result of an earlier program that was too large to show, or a part of it")
            .effect(Effect::ReadOnly);
        Provider::builder(NAMESPACE).name_failed_calls().tool(get).build().ok()
    }
}

#[derive(Deserialize)]
struct Request {
    handle: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    offset: usize,
    #[serde(default, deserialize_with = "typed::positive")]
    limit: Option<usize>,
}

/// The part that a request selects: of a list, items from `offset`; of a text, characters.
fn part(results: &Results, mut input: Json) -> Result<Json, ToolError> {
    const FORM: CallForm =
        CallForm { call: "results.get({ handle, path: \"items.0\", offset, limit })", short: Some("handle") };
    let Request { handle, path, offset, limit } = FORM.read(&mut input)?;
    let unknown = || {
        let handle = bounded(&handle, MAX_NAME);
        ToolError::invalid(format!("no result \"{handle}\": it is unknown, or not kept any more"))
    };
    let whole = results.get(&handle).ok_or_else(unknown)?;
    let limit = limit.unwrap_or(usize::MAX);
    Ok(match at(&whole, &path).map_err(ToolError::invalid)? {
        Json::Array(items) => items.iter().skip(offset).take(limit).cloned().collect(),
        Json::String(text) => Json::String(text.chars().skip(offset).take(limit).collect()),
        value => value.clone(),
    })
}

/// The value at a path of names and indices, such as `items.3.name`. An empty path is that of the whole.
///
/// # Errors
/// The part of the path that does not exist, and what its place has.
fn at<'a>(mut value: &'a Json, path: &str) -> Result<&'a Json, String> {
    let mut start = 0;
    for key in path.split('.').filter(|_| !path.is_empty()) {
        let member = match value {
            Json::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
            Json::Object(members) => members.get(key),
            _ => None,
        };
        let missing = || {
            let place = match path[..start].strip_suffix('.') {
                Some(parent) => format!("\"{}\"", bounded(parent, MAX_NAME)),
                None => "the result".to_owned(),
            };
            format!("no \"{}\" in {place}: it {}", bounded(key, MAX_NAME), contents(value, key))
        };
        value = member.ok_or_else(missing)?;
        start += key.len() + 1;
    }
    Ok(value)
}

/// What a value has in place of a member, as a clause.
fn contents(value: &Json, missing: &str) -> String {
    match value {
        Json::Array(items) => format!("has {} items", items.len()),
        Json::Object(members) if members.is_empty() => "has no members".to_owned(),
        Json::Object(members) => {
            let like = near(missing, members.keys().map(String::as_str));
            let others = members.keys().map(String::as_str).filter(|name| Some(*name) != like);
            let names = like.into_iter().chain(others).take(MAX_NAMES);
            let names: Vec<_> = names.map(|name| format!("\"{}\"", bounded(name, MAX_NAME))).collect();
            let more = members.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("has {}{more}", names.join(", "))
        }
        Json::String(text) => format!("is a text of {} characters", text.chars().count()),
        value => format!("is {value}"),
    }
}

/// The maximum number of names in an error, and the maximum length of each, in characters.
const MAX_NAMES: usize = 8;
const MAX_NAME: usize = 40;

/// The maximum memory of all results together, in bytes.
const MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn the_newest_results_are_kept_and_parts_can_be_read() {
        let results = Results::default();
        let get = |input: Json| part(&results, input).map_err(|error| error.to_string());
        let first = results.keep(json!({ "items": [{ "name": "a" }, { "name": "b" }, 3] })).unwrap();
        assert_eq!(get(json!(first)).unwrap()["items"][2], 3);
        let of = |path: &str, offset: usize, limit: usize| {
            get(json!({ "handle": first, "path": path, "offset": offset, "limit": limit }))
        };
        assert_eq!(of("items.1.name", 0, 9), Ok(json!("b")));
        assert_eq!(of("items", 1, 1), Ok(json!([{ "name": "b" }])));
        assert_eq!(get(json!({ "handle": first, "path": "", "limit": "1" })).unwrap()["items"][2], 3);
        assert!(results.keep(Json::String("x".repeat(MAX_BYTES))).is_none());
        for _ in 0..3 {
            results.keep(Json::String("x".repeat(MAX_BYTES / 3))).unwrap();
        }
        assert!(get(json!(first)).unwrap_err().contains("not kept any more"));
        assert!(results.0.lock().unwrap().bytes <= MAX_BYTES);
    }

    #[test]
    fn errors_of_paths_say_what_is_missing_and_what_is_there() {
        let many: Map<String, Json> = (0..1_000).map(|n| (format!("column{n}"), json!(n))).collect();
        let value = json!({ "rows": [{ "name": "Ada", "tags": [] }, {}], "total": 2, "many": many, "x\u{202e}": null });
        for (path, expected) in [
            ("rows.2", "no \"2\" in \"rows\": it has 2 items"),
            ("rows.-1", "no \"-1\" in \"rows\": it has 2 items"),
            ("rows.name", "no \"name\" in \"rows\": it has 2 items"),
            ("row", "no \"row\" in the result: it has \"rows\", \"total\", \"many\", \"x\\u202e\""),
            ("rows.0.nam", "no \"nam\" in \"rows.0\": it has \"name\", \"tags\""),
            ("rows.0.tags.0.id", "no \"0\" in \"rows.0.tags\": it has 0 items"),
            ("rows.0.name.first", "no \"first\" in \"rows.0.name\": it is a text of 3 characters"),
            ("rows.1.name", "no \"name\" in \"rows.1\": it has no members"),
            ("total.value", "no \"value\" in \"total\": it is 2"),
            (".total", "no \"\" in the result: it has \"rows\", \"total\", \"many\", \"x\\u202e\""),
        ] {
            assert_eq!(at(&value, path).unwrap_err(), expected);
        }
        let error = at(&value, &format!("many.{}", "column\u{202e}".repeat(1_000))).unwrap_err();
        assert!(
            error.ends_with(" and 992 more") && error.chars().count() < 400 && !error.contains('\u{202e}'),
            "{error}"
        );
    }
}
