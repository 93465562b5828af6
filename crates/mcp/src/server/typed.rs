//! Reads arguments, in any form in which clients and models send what a type means, with errors in words of JSON.
//!
//! Arguments are an object, and the type says what its members are: `5.0` and `"5"` are integers where an integer is expected,
//! `null` and `""` are a missing member where they are not expected, 0 and 1 are booleans where a boolean is expected, a value is
//! a list of one where a list is expected, and a text is the JSON in it where another value is expected.

use std::fmt::Display;
use std::num::NonZeroUsize;

use execbox::ToolError;
use execbox_core::budget::Meter;
use execbox_core::hint::near;
use execbox_core::text::{Keep, cut, escape};
use execbox_core::value::parse_json;
use serde::de::value::Error as NotRead;
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json, json};
use serde_path_to_error::{Path, Segment};

/// How code calls a tool of a namespace.
pub(super) struct CallForm {
    /// The call, for errors: `store.get({ key })`.
    pub(super) call: &'static str,
    /// The member that an argument which is a string stands for.
    pub(super) short: Option<&'static str>,
}

impl CallForm {
    /// Reads the argument of a call. What it means replaces it in `input`, which is an object afterwards.
    pub(super) fn read<T: DeserializeOwned>(&self, input: &mut Json) -> Result<T, ToolError> {
        let read = match (&mut *input, self.short) {
            (Json::String(text), Some(member)) => {
                let member = (member.to_owned(), std::mem::take(text).into());
                *input = Json::Object(Map::from_iter([member]));
                read(input)
            }
            (Json::Array(_) | Json::Bool(_) | Json::Number(_), Some(_)) => {
                Err(format!("expected a string or one object, got {}", described(input)))
            }
            _ => read(input),
        };
        read.map_err(|error| ToolError::invalid(format!("write {}: {error}", self.call)))
    }
}

/// Reads arguments. What they mean replaces them in `value`, which is an object afterwards.
///
/// # Errors
/// A clause such as `"limit": expected a positive integer, got a string`.
pub(super) fn read<T: DeserializeOwned>(value: &mut Json) -> Result<T, String> {
    if let Json::String(text) = &*value
        && let Some(object @ Json::Object(_)) = parsed(text)
    {
        *value = object;
    } else if value.is_null() {
        *value = json!({});
    }
    let Json::Object(members) = value else { return Err(format!("expected one object, got {}", described(value))) };
    let known = fields::<T>();
    members.retain(|key, value| known.is_empty() || known.contains(&key.as_str()) || !is_absent(value));
    if let Some(unknown) = unknown(members, known) {
        return Err(unknown);
    }
    for _ in 0..MAX_REPAIRS {
        match serde_path_to_error::deserialize::<_, T>(&*value) {
            Ok(read) => return Ok(read),
            Err(error) if repair::<T>(value, error.path()) => {}
            Err(_) => break,
        }
    }
    read_strictly(value)
}

/// Reads a value as it is. In an error, other kinds of values are tried in the place of the one at fault.
pub(super) fn read_strictly<T: DeserializeOwned>(value: &mut Json) -> Result<T, String> {
    let read = serde_path_to_error::deserialize(&*value);
    read.map_err(|error| message::<T>(value, error.path(), &error.inner().to_string()))
}

/// A positive integer, or none.
pub(super) fn positive<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    Ok(Option::<NonZeroUsize>::deserialize(value)?.map(NonZeroUsize::get))
}

/// A text, or none if it is empty.
pub(super) fn stated<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(value)?.filter(|text| !text.is_empty()))
}

/// Whether a member means that there is none. Models fill optional members so.
fn is_absent(value: &Json) -> bool {
    value.is_null() || value == ""
}

/// The note of an answer to a number above the maximum, which was reduced.
pub(super) fn reduced<N: Copy + PartialOrd + Display>(name: &str, wanted: N, max: N) -> Option<String> {
    (wanted > max).then(|| format!("`{name}` was reduced from {wanted} to {max}, the maximum"))
}

/// Puts what a value means in its place. Returns false if the place accepts none of its meanings.
fn repair<T: DeserializeOwned>(value: &mut Json, place: &Path) -> bool {
    let mut parent = place.iter();
    let Some(last) = parent.next_back() else { return false };
    let Some(got) = at(value, place.iter()).map(Json::take) else { return false };
    if let Segment::Map { key } = last
        && is_absent(&got)
        && let Some(Json::Object(members)) = at(value, parent)
    {
        members.remove(key);
        return true;
    }
    for meaning in meanings(&got) {
        if accepts::<T>(value, place, meaning) {
            return true;
        }
    }
    if let Some(value) = at(value, place.iter()) {
        *value = got;
    }
    false
}

/// What a value can mean where its kind is not expected.
fn meanings(got: &Json) -> impl Iterator<Item = Json> {
    let inner = match got {
        Json::String(text) => parsed(text),
        _ => None,
    };
    let exact = inner.as_ref().unwrap_or(got).as_f64().and_then(integer);
    let boolean = exact.filter(|exact| matches!(exact, 0 | 1)).map(|exact| Json::Bool(exact == 1));
    exact.map(Json::from).into_iter().chain(inner).chain(boolean).chain([json!([got])])
}

/// The JSON in a text.
fn parsed(text: &str) -> Option<Json> {
    parse_json(text, &mut Meter::alone(MAX_PARSED_BYTES)).ok()
}

/// The integer that a number is, if no other integer is the same number.
fn integer(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() <= MAX_EXACT;
    is_exact.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// Puts a value in a place. Returns whether the type accepts it there.
fn accepts<T: DeserializeOwned>(value: &mut Json, place: &Path, new: Json) -> bool {
    let Some(old) = at(value, place.iter()) else { return false };
    *old = new;
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&*value) else { return true };
    let (error, place) = (error.path().to_string(), place.to_string());
    error.strip_prefix(&*place).is_none_or(|rest| !rest.is_empty() && !rest.starts_with(['.', '[']))
}

fn at<'a, 'p>(value: &'a mut Json, mut place: impl Iterator<Item = &'p Segment>) -> Option<&'a mut Json> {
    place.try_fold(value, |value, segment| match segment {
        Segment::Map { key } => value.get_mut(key),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

/// The error of a value that cannot be read, because of what is at `place`.
fn message<T: DeserializeOwned>(value: &mut Json, place: &Path, reason: &str) -> String {
    if let Some(missing) = reason.strip_prefix("missing field `") {
        return format!("missing \"{}\"", missing.trim_end_matches('`'));
    }
    let shown = match place.iter().next() {
        Some(_) => format!("\"{}\": ", bounded(&place.to_string(), MAX_NAME)),
        None => String::new(),
    };
    let got = at(value, place.iter()).map(|got| described(got));
    match (kinds::<T>(value, place), got) {
        (kinds, Some(got)) if !kinds.is_empty() => format!("{shown}expected {}, got {got}", kinds.join(" or ")),
        _ => shown + &bounded(reason, MAX_REASON),
    }
}

/// The kinds of values that a place accepts.
fn kinds<T: DeserializeOwned>(value: &mut Json, place: &Path) -> Vec<&'static str> {
    let mut accepts = |sample: Json| accepts::<T>(value, place, sample);
    let mut kinds = Vec::new();
    if accepts(json!({})) {
        kinds.push("an object");
    } else if accepts(json!([])) {
        // serde also reads arrays as structs, so only if objects are not accepted.
        kinds.push("an array");
    }
    let samples = [("a string", json!("")), ("a boolean", json!(false))];
    kinds.extend(samples.into_iter().filter_map(|(kind, sample)| accepts(sample).then_some(kind)));
    let numbers = [json!(0.5), json!(-1), json!(0), json!(1)].map(accepts);
    kinds.extend(match numbers {
        [true, ..] => Some("a number"),
        [_, true, ..] => Some("an integer"),
        [_, _, true, _] => Some("a non-negative integer"),
        [.., true] => Some("a positive integer"),
        _ => None,
    });
    kinds
}

/// The error of the first member that is not known.
fn unknown(members: &Map<String, Json>, known: &[&str]) -> Option<String> {
    let unknown = members.keys().find(|key| !known.is_empty() && !known.contains(&key.as_str()))?;
    let hint = match near(unknown, known.iter().copied()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("known: {}", known.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")),
    };
    Some(format!("unknown member \"{}\"; {hint}", bounded(unknown, MAX_NAME)))
}

/// The names of the members of a struct; none for other types.
fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut found: &[_] = &[];
    let _: Result<T, _> = T::deserialize(Fields(&mut found));
    found
}

/// Deserializes nothing, and records the names of members.
struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = NotRead;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NotRead> {
        Err(NotRead::custom(""))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NotRead> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A value in an error: long ones only by their kind.
pub(super) fn described(value: &Json) -> String {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::String(_) => "a string".to_owned(),
        Json::Array(_) => "an array".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}

/// A text of a client or program in an error.
pub(super) fn bounded(text: &str, max: usize) -> String {
    escape(&cut(text, max), Keep::Nothing).into_owned()
}

/// The largest integer that a number of JavaScript represents exactly: 2^53 - 1.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// The maximum number of values that are replaced by what they mean. For each, all arguments are read again.
const MAX_REPAIRS: usize = 16;

/// The maximum memory of the JSON in a text, in bytes.
const MAX_PARSED_BYTES: usize = 32 << 20;

/// The maximum length of a name and of a reason, in characters: both may contain text of the client.
const MAX_NAME: usize = 100;
const MAX_REASON: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Default)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        text: String,
        list: Option<Vec<String>>,
        #[serde(default)]
        counts: Vec<u8>,
        #[serde(default)]
        offset: usize,
        #[serde(default, deserialize_with = "positive")]
        max_items: Option<usize>,
        ratio: Option<f64>,
        #[serde(default)]
        flag: bool,
        map: Option<Map<String, Json>>,
    }

    const FORM: CallForm = CallForm { call: "samples.get({ text })", short: Some("text") };

    fn read_one(mut value: Json) -> Result<Sample, String> {
        read(&mut value)
    }

    #[test]
    fn errors_name_the_member_and_kinds_of_json() {
        for (value, expected) in [
            (json!({}), "missing \"text\""),
            (json!([]), "expected one object, got an array"),
            (json!(7), "expected one object, got 7"),
            (json!("[1]"), "expected one object, got a string"),
            (json!({ "text": 1 }), "\"text\": expected a string, got 1"),
            (json!({ "text": null }), "missing \"text\""),
            (json!({ "text": "", "list": {} }), "\"list\": expected an array, got an object"),
            (json!({ "text": "", "list": ["a", 1] }), "\"list[1]\": expected a string, got 1"),
            (json!({ "text": "", "counts": [1, "x"] }), "\"counts[1]\": expected a non-negative integer, got a string"),
            (json!({ "text": "", "counts": [300] }), "\"counts[0]\": expected a non-negative integer, got 300"),
            (json!({ "text": "", "offset": -1 }), "\"offset\": expected a non-negative integer, got -1"),
            (json!({ "text": "", "offset": "1.5" }), "\"offset\": expected a non-negative integer, got a string"),
            (json!({ "text": "", "offset": 1e300 }), "\"offset\": expected a non-negative integer, got 1e+300"),
            (json!({ "text": "", "maxItems": 0 }), "\"maxItems\": expected a positive integer, got 0"),
            (json!({ "text": "", "maxItems": "0" }), "\"maxItems\": expected a positive integer, got a string"),
            (json!({ "text": "", "ratio": [] }), "\"ratio\": expected a number, got an array"),
            (json!({ "text": "", "flag": "yes" }), "\"flag\": expected a boolean, got a string"),
            (json!({ "text": "", "flag": 2 }), "\"flag\": expected a boolean, got 2"),
            (json!({ "text": "", "counts": [""] }), "\"counts[0]\": expected a non-negative integer, got a string"),
            (json!({ "text": "", "map": "{" }), "\"map\": expected an object, got a string"),
            (json!({ "text": "", "map": [{}] }), "\"map\": expected an object, got an array"),
            (json!({ "text": "", "maxitems": 1 }), "unknown member \"maxitems\"; did you mean \"maxItems\"?"),
            (json!({ "txt": "a" }), "unknown member \"txt\"; did you mean \"text\"?"),
            (
                json!({ "colour": "a" }),
                "unknown member \"colour\"; known: \"text\", \"list\", \"counts\", \"offset\", \"maxItems\", \"ratio\", \
                 \"flag\", \"map\"",
            ),
        ] {
            assert_eq!(read_one(value.clone()).unwrap_err(), expected, "{value}");
        }
    }

    #[test]
    fn values_are_read_as_what_they_mean() {
        let map = json!({ "a": [null, 5.0] }).as_object().cloned();
        for (value, expected) in [
            (json!({ "text": "7" }), Sample::default()),
            (json!("{\"text\": \"7\", \"flag\": \"true\"}"), Sample { flag: true, ..Sample::default() }),
            (
                json!({
                    "text": "7", "list": null, "counts": null, "offset": null, "maxItems": null, "ratio": null, "flag": null,
                    "map": null
                }),
                Sample::default(),
            ),
            (
                json!({ "text": "7", "offset": 9_007_199_254_740_991.0 }),
                Sample { offset: 9_007_199_254_740_991, ..Sample::default() },
            ),
            (
                json!({ "text": "7", "offset": " 12 ", "maxItems": "3.0" }),
                Sample { offset: 12, max_items: Some(3), ..Sample::default() },
            ),
            (
                json!({ "text": "7", "list": "", "counts": "", "offset": "", "maxItems": "", "ratio": "", "flag": "", "map": "" }),
                Sample::default(),
            ),
            (json!({ "text": "7", "colour": null, "": "", "maxitems": "" }), Sample::default()),
            (json!({ "text": "7", "flag": 1 }), Sample { flag: true, ..Sample::default() }),
            (json!({ "text": "7", "flag": "1.0", "offset": 1 }), Sample { flag: true, offset: 1, ..Sample::default() }),
            (json!({ "text": "7", "flag": 0 }), Sample::default()),
            (json!({ "text": "7", "ratio": "0.5" }), Sample { ratio: Some(0.5), ..Sample::default() }),
            (json!({ "text": "7", "list": "a.b" }), Sample { list: Some(vec!["a.b".to_owned()]), ..Sample::default() }),
            (
                json!({ "text": "7", "list": "[\"a\"]" }),
                Sample { list: Some(vec!["a".to_owned()]), ..Sample::default() },
            ),
            (json!({ "text": "7", "list": "5" }), Sample { list: Some(vec!["5".to_owned()]), ..Sample::default() }),
            (json!({ "text": "7", "counts": 7 }), Sample { counts: vec![7], ..Sample::default() }),
            (json!({ "text": "7", "counts": "[1, 2]" }), Sample { counts: vec![1, 2], ..Sample::default() }),
            (json!({ "text": "7", "counts": [1.0, "2"] }), Sample { counts: vec![1, 2], ..Sample::default() }),
            (json!({ "text": "7", "map": "{\"a\": [null, 5.0]}" }), Sample { map, ..Sample::default() }),
        ] {
            let expected = Sample { text: "7".to_owned(), ..expected };
            assert_eq!(read_one(value.clone()), Ok(expected), "{value}");
        }
    }

    #[test]
    fn strings_stand_for_a_member_and_errors_show_the_form() {
        assert_eq!(FORM.read::<Sample>(&mut json!("{}")).unwrap().text, "{}");
        let error = FORM.read::<Sample>(&mut json!([])).unwrap_err().to_string();
        assert_eq!(error, "write samples.get({ text }): expected a string or one object, got an array");
        let mut input = json!({ "text": "7", "ratio": 5.0 });
        FORM.read::<Sample>(&mut input).unwrap();
        assert_eq!(input.to_string(), r#"{"text":"7","ratio":5.0}"#, "what the type accepts stays");
    }

    #[test]
    fn errors_are_short_and_work_is_bounded() {
        let long = "x\u{202e}".repeat(1_000);
        for value in [json!({ "text": "", &long: 1 }), json!({ "text": "", "flag": long }), json!({ "text": [long] })] {
            let error = read_one(value).unwrap_err();
            assert!(error.chars().count() < 1_000 && !error.contains('\u{202e}'), "{error}");
        }
        let many = read_one(json!({ "text": "", "counts": vec!["1"; 1_000] })).unwrap_err();
        assert_eq!(many, "\"counts[16]\": expected a non-negative integer, got a string");
        let deep = "[".repeat(100_000);
        assert_eq!(
            read_one(json!({ "text": "", "map": deep })).unwrap_err(),
            "\"map\": expected an object, got a string"
        );
    }
}
