//! Rust values to JSON, with an error for NaN and infinities, which `serde_json` silently converts to `null`.

use serde::Serialize;
use serde_json::Value as Json;
use serde_value::Value as Tree;

/// Converts a value to JSON. Fails if it has no form in JSON or contains a number that is not finite.
///
/// The value is searched for such numbers only if there is a `null` that one could have become. Integers of 128 bits beside
/// `null` fail, because `serde-value` does not have them.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Json, String> {
    let json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    if has_null(&json) {
        let tree = serde_value::to_value(value).map_err(|error| format!("beside null, {error}"))?;
        if let Some((path, what)) = not_finite(&tree) {
            return Err(format!("result{path} is {what}; use null or a finite number"));
        }
    }
    Ok(json)
}

fn has_null(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Array(items) => items.iter().any(has_null),
        Json::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// The path of a number that is not finite, and what it is.
fn not_finite(tree: &Tree) -> Option<(String, &'static str)> {
    let is_nan = match tree {
        Tree::F32(number) if !number.is_finite() => number.is_nan(),
        Tree::F64(number) if !number.is_finite() => number.is_nan(),
        Tree::Option(Some(part)) | Tree::Newtype(part) => return not_finite(part),
        Tree::Seq(items) => {
            let mut found = items.iter().enumerate().filter_map(|(at, item)| Some((at, not_finite(item)?)));
            return found.next().map(|(at, (path, what))| (format!("[{at}]{path}"), what));
        }
        Tree::Map(members) => {
            let mut found = members.iter().filter_map(|(key, member)| Some((key, not_finite(member)?)));
            return found.next().map(|(key, (path, what))| (format!(".{}{path}", text(key)), what));
        }
        _ => return None,
    };
    Some((String::new(), if is_nan { "NaN" } else { "infinite" }))
}

/// A key as it is in JSON.
fn text(key: &Tree) -> String {
    match key {
        Tree::String(key) => key.clone(),
        key => serde_json::to_string(key).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;

    #[derive(Serialize)]
    enum Shape {
        Circle(f64),
        Square { side: f32 },
        Pair(Option<f64>, ()),
    }

    #[test]
    fn numbers_that_are_not_finite_fail_with_their_path() {
        let error = |value: Result<Json, String>| value.unwrap_err();
        assert_eq!(error(to_json(&f64::NAN)), "result is NaN; use null or a finite number");
        assert_eq!(
            error(to_json(&[Some(1.0), Some(f64::INFINITY)])),
            "result[1] is infinite; use null or a finite number"
        );
        let by_name = BTreeMap::from([("a", vec![Shape::Circle(1.0)]), ("b", vec![Shape::Square { side: f32::NAN }])]);
        assert_eq!(error(to_json(&by_name)), "result.b[0].Square.side is NaN; use null or a finite number");
        let pair = Shape::Pair(Some(f64::NEG_INFINITY), ());
        assert_eq!(error(to_json(&pair)), "result.Pair[0] is infinite; use null or a finite number");
        assert_eq!(error(to_json(&Shape::Circle(f64::NAN))), "result.Circle is NaN; use null or a finite number");
    }

    #[test]
    fn null_stays_null() {
        assert_eq!(to_json(&(None::<f64>, (), 1.5)), Ok(json!([null, null, 1.5])));
        assert_eq!(to_json(&BTreeMap::from([(1, None::<f64>)])), Ok(json!({ "1": null })));
        assert_eq!(to_json(&1_u128), Ok(json!(1)));
        for result in [to_json(&(1_u128, None::<f64>)), to_json(&(1_u128, f64::NAN))] {
            assert_eq!(result, Err("beside null, u128 is not supported".to_owned()));
        }
        assert!(to_json(&BTreeMap::from([([1], 1)])).is_err(), "keys are strings");
    }
}
