//! Requests that no `intl.js` makes: they return or fail, without a panic and without long work.

use execbox_locale::call;
use execbox_locale::collate::MAX_TEXT;
use serde_json::{Value, json};

const FUNCTIONS: [&str; 15] = [
    "tag",
    "locales",
    "zone",
    "datePattern",
    "date",
    "dateParts",
    "number",
    "numberParts",
    "currencyDigits",
    "plural",
    "pluralCategories",
    "compare",
    "text",
    "names",
    "none",
];

/// Values that are wrong, or at a bound, for some argument of each function.
fn values() -> Vec<Value> {
    let long = "9".repeat(100_000);
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(8_640_000_000_000_001_i64),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!("en-US"),
        json!("en-US-u-nu-latn-x-y"),
        json!("\u{0}"),
        json!("é"),
        json!("'"),
        json!("yyyy''MMMM'"),
        json!("{0}"),
        json!("+1:"),
        json!("+é1"),
        json!("UTC"),
        json!("1e5001"),
        json!("1e-5000"),
        json!("1e99999999999"),
        json!("-"),
        json!("."),
        json!("99999.5"),
        json!("-0"),
        json!("NaN"),
        json!(long),
        json!("y".repeat(300)),
        json!("é".repeat(70_000)),
        json!([]),
        json!([["en"]]),
        json!({}),
        json!({ "style": 1 }),
        json!({ "useGrouping": false }),
        json!({ "style": "currency", "currency": "\u{0}=\n", "notation": "compact", "currencyDisplay": "name" }),
        json!({ "style": "unit", "unit": "meter-per-" }),
        json!({ "style": "unit", "unit": "-per--per-" }),
        json!({ "maximumFractionDigits": i32::MAX, "minimumFractionDigits": i32::MAX }),
        json!({ "maximumFractionDigits": i32::MIN, "minimumIntegerDigits": i32::MAX }),
        json!({ "roundingType": "significantDigits", "minimumSignificantDigits": i32::MAX, "maximumSignificantDigits": i32::MIN }),
        json!({ "roundingIncrement": u32::MAX, "roundingMode": "halfEven" }),
        json!({ "roundingIncrement": 0 }),
        json!({ "weekday": "none", "hour": "numeric", "fractionalSecondDigits": 255, "dateStyle": "none", "timeStyle": "full" }),
        json!({ "fractionalSecondDigits": 9, "minute": "numeric", "hourCycle": "h99" }),
    ]
}

#[test]
fn any_request_returns_or_fails() {
    let values = values();
    for request in &values {
        let _ = call(request);
    }
    for name in FUNCTIONS {
        for first in &values {
            let _ = call(&json!([name, first]));
            for second in &values {
                for third in ["America/New_York", "12345.678"] {
                    let _ = call(&json!([name, "en-US", first, third, second]));
                    let _ = call(&json!([name, "fr-FR", first, second, third]));
                }
            }
        }
    }
}

#[test]
fn numbers_beyond_the_bounds_are_refused() {
    let format = |value: &str| call(&json!(["number", "en-US", {}, value]));
    assert_eq!(format(&"9".repeat(5001)), Err("numbers of more than 5000 digits cannot be formatted".to_owned()));
    assert_eq!(format("1e5001"), Err("numbers of more than 5000 digits cannot be formatted".to_owned()));
    assert!(format(&"9".repeat(5000)).is_ok());
}

#[test]
fn texts_beyond_the_bounds_are_refused() {
    let compare = |length: usize| call(&json!(["compare", "en-US", {}, "a".repeat(length), "b"]));
    assert_eq!(compare(MAX_TEXT), Ok(json!(-1)));
    assert!(compare(MAX_TEXT + 1).is_err());
}
