//! Reads JSON of clients as a Rust type, with errors that name the member at fault in words of JSON.

use execbox::core::text::{Keep, cut, escape};
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use serde_path_to_error::{Path, Segment};

/// Reads a value. Fails with a clause such as `"limit": expected an integer, got a string`.
pub(super) fn read<T: DeserializeOwned>(mut value: Json) -> Result<T, String> {
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let place = error.path();
        match expected::<T>(&mut value, place) {
            Some(Mismatch { expected, got }) => format!("{}expected {expected}, got {got}", shown(place)),
            None => shown(place) + &bounded(&error.inner().to_string(), MAX_REASON),
        }
    })
}

/// Members as Rust types expect them: without those that are `null`, which means that they are missing, and with integers in
/// place of numbers such as `5.0`, which are integers in JSON Schema.
pub(super) fn normalized(mut members: JsonObject) -> JsonObject {
    members.retain(|_, value| !value.is_null());
    for value in members.values_mut() {
        if let Some(integer) = value.as_f64().filter(|_| value.is_f64()).and_then(integer) {
            *value = integer.into();
        }
    }
    members
}

/// The integer that a number is, if no other integer is the same number.
fn integer(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() <= MAX_EXACT;
    is_exact.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// A value of another kind than its place has.
struct Mismatch {
    expected: String,
    got: String,
}

/// Finds the kinds of values that the place accepts: those with which the error is gone, or is at another place. `None` if there are none,
/// because a member is missing or unknown, for example.
fn expected<T: DeserializeOwned>(value: &mut Json, place: &Path) -> Option<Mismatch> {
    let got = std::mem::take(at(value, place)?);
    let mut accepts = |sample: Json| {
        *at(value, place)? = sample;
        match serde_path_to_error::deserialize::<_, T>(&*value) {
            Ok(_) => Some(()),
            Err(error) => (error.path().to_string() != place.to_string()).then_some(()),
        }
    };
    let mut kinds = Vec::new();
    if accepts(json!({})).is_some() {
        kinds.push("an object");
    } else if accepts(json!([])).is_some() {
        // serde also reads arrays as structs, so only if objects are not accepted.
        kinds.push("an array");
    }
    let samples = [("a string", json!("")), ("a boolean", json!(false))];
    kinds.extend(samples.into_iter().filter_map(|(kind, sample)| accepts(sample).map(|()| kind)));
    let numbers = [json!(0.5), json!(-1), json!(0)].map(|number| accepts(number).is_some());
    kinds.extend(match numbers {
        [true, ..] => Some("a number"),
        [_, true, _] => Some("an integer"),
        [.., true] => Some("a non-negative integer"),
        _ => None,
    });
    (!kinds.is_empty()).then(|| Mismatch { expected: kinds.join(" or "), got: described(&got) })
}

fn at<'a>(value: &'a mut Json, place: &Path) -> Option<&'a mut Json> {
    place.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => value.get_mut(key),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
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

/// The place as the beginning of an error; empty for the whole value.
fn shown(place: &Path) -> String {
    if place.iter().next().is_none() {
        String::new()
    } else {
        format!("\"{}\": ", bounded(&place.to_string(), MAX_PLACE))
    }
}

fn bounded(text: &str, max: usize) -> String {
    escape(&cut(text, max), Keep::Nothing).into_owned()
}

/// The largest integer that a number of JavaScript represents exactly: 2^53 - 1.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// The maximum length of a place and of a reason, in characters: both may contain text of the client.
const MAX_PLACE: usize = 100;
const MAX_REASON: usize = 200;

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether they are read is tested")]
    struct Sample {
        text: String,
        list: Option<Vec<u8>>,
        count: Option<usize>,
        ratio: Option<f64>,
        flag: Option<bool>,
        map: Option<serde_json::Map<String, Json>>,
    }

    #[test]
    fn errors_name_the_member_and_kinds_of_json() {
        for (value, expected) in [
            (json!({}), "missing field `text`"),
            (json!([]), "invalid length 0, expected struct Sample with 6 elements"),
            (json!({ "text": 1 }), "\"text\": expected a string, got 1"),
            (json!({ "text": null }), "\"text\": expected a string, got null"),
            (json!({ "text": "", "list": {} }), "\"list\": expected an array, got an object"),
            (json!({ "text": "", "list": [1, "x"] }), "\"list[1]\": expected a non-negative integer, got a string"),
            (json!({ "text": "", "count": -1 }), "\"count\": expected a non-negative integer, got -1"),
            (json!({ "text": "", "count": 1.5 }), "\"count\": expected a non-negative integer, got 1.5"),
            (json!({ "text": "", "ratio": [] }), "\"ratio\": expected a number, got an array"),
            (json!({ "text": "", "flag": "yes" }), "\"flag\": expected a boolean, got a string"),
            (json!({ "text": "", "map": "{}" }), "\"map\": expected an object, got a string"),
        ] {
            assert_eq!(read::<Sample>(value).unwrap_err(), expected);
        }
    }

    #[test]
    fn only_exact_integers_and_null_are_normalized() {
        let members = json!({
            "a": null, "b": 5.0, "c": -0.0, "d": 5.5, "e": 9_007_199_254_740_991.0, "f": 9_007_199_254_740_992.0, "g": 1e300,
            "h": [null, 5.0], "i": 7, "j": u64::MAX
        });
        let Json::Object(members) = members else { unreachable!() };
        let expected = json!({
            "b": 5, "c": 0, "d": 5.5, "e": 9_007_199_254_740_991_i64, "f": 9_007_199_254_740_992.0, "g": 1e300,
            "h": [null, 5.0], "i": 7, "j": u64::MAX
        });
        assert_eq!(Json::Object(normalized(members)), expected);
    }

    #[test]
    fn errors_are_short_and_visible() {
        let long = read::<Sample>(json!({ "text": "", "x\u{202e}".repeat(1_000): 1 })).unwrap_err();
        assert!(long.chars().count() < 4_000 && !long.contains('\u{202e}'), "{long}");
    }
}
