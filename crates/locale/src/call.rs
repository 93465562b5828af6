//! The entry point for a guest.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::collate::{self, CollateOptions};
use crate::date::{self, DateOptions};
use crate::number::{self, NumberOptions};
use crate::plural;
use crate::table::{COMMON, Locale};
use crate::zone::Zone;

/// Calls a function with arguments: an array of its name and what it takes. `src/intl.js` is the caller.
///
/// Requests are hostile: this function does not panic, and its time is bounded by that of a request of 1 MiB, which is the most
/// that an engine passes on.
///
/// # Errors
///
/// Fails with the message of a `RangeError`.
pub fn call(request: &Value) -> Result<Value, String> {
    let arguments = Arguments(request.as_array().map(Vec::as_slice).unwrap_or_default());
    match arguments.text(0)? {
        "tag" => tag(arguments.text(1)?),
        "locales" => Ok(Locale::tags().collect()),
        "zone" => Ok(zone(arguments.text(1)?)?.name.into()),
        "datePattern" => Ok(date::pattern(arguments.locale(1)?, &arguments.options::<DateOptions>(2)?).into()),
        "date" => Ok(date(&arguments)?.text().into()),
        "dateParts" => Ok(date(&arguments)?.to_value()),
        "number" => Ok(number(&arguments)?.text().into()),
        "numberParts" => Ok(number(&arguments)?.to_value()),
        "currencyDigits" => Ok(number::currency_digits(arguments.text(1)?).into()),
        "plural" => {
            let options = arguments.options::<NumberOptions>(3)?;
            Ok(number::plural(arguments.locale(1)?, arguments.text(2)?, &options, arguments.text(4)?)?.into())
        }
        "pluralCategories" => Ok(plural::categories(arguments.locale(1)?, arguments.text(2)?).into()),
        "compare" => {
            let options = arguments.options::<CollateOptions>(2)?;
            let order = collate::compare(arguments.locale(1)?, &options, arguments.text(3)?, arguments.text(4)?)?;
            Ok((order as i8).into())
        }
        "text" => Ok(arguments.locale(1)?.get(arguments.text(2)?).into()),
        "names" => Ok(names(arguments.text(1)?)),
        other => Err(format!("unknown function {other:?}")),
    }
}

/// The arguments of a guest, of which nothing is known.
struct Arguments<'a>(&'a [Value]);

impl Arguments<'_> {
    fn text(&self, index: usize) -> Result<&str, String> {
        self.0.get(index).and_then(Value::as_str).ok_or_else(|| format!("invalid argument {index}: expected a string"))
    }

    fn locale(&self, index: usize) -> Result<Locale, String> {
        let tag = self.text(index)?;
        Locale::find(tag).ok_or_else(|| format!("locale {tag} is not available"))
    }

    fn options<T: DeserializeOwned>(&self, index: usize) -> Result<T, String> {
        let value = self.0.get(index).unwrap_or(&Value::Null);
        T::deserialize(value).map_err(|error| format!("invalid argument {index}: {error}"))
    }

    fn integer(&self, index: usize) -> Result<i64, String> {
        let value = self.0.get(index);
        // A number of JavaScript can arrive with a fraction of zero.
        let number = value.and_then(|value| value.as_i64().or_else(|| value.as_f64().and_then(whole)));
        number.ok_or_else(|| format!("invalid argument {index}: expected an integer"))
    }
}

/// A number of JavaScript as an integer, in the range of dates.
// The range of dates is exact in both types.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn whole(number: f64) -> Option<i64> {
    (number.abs() <= date::MAX_TIME as f64 && number.fract() == 0.0).then_some(number as i64)
}

/// The canonical tag of a locale, the available locale that it names, and its keywords.
/// What is known of a language tag. `isElsewhere`: other hosts have its language, but not this crate.
fn tag(text: &str) -> Result<Value, String> {
    let invalid = || format!("Invalid language tag: {}", text.chars().take(100).collect::<String>());
    if text.len() > 200 || text.contains('_') {
        return Err(invalid());
    }
    let (language, rest) = text.split_at(text.find('-').unwrap_or(text.len()));
    if (5..=8).contains(&language.len()) && language.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        // Valid, and the language of no locale: as in `toLocaleString("default")`.
        let rest: icu_locale_core::Locale = format!("und{rest}").parse().map_err(|_| invalid())?;
        let tag = rest.to_string().replacen("und", &language.to_ascii_lowercase(), 1);
        return Ok(json!({ "tag": tag, "name": tag, "found": null, "isElsewhere": false, "keywords": {} }));
    }
    let locale: icu_locale_core::Locale = text.parse().map_err(|_| invalid())?;
    let name = locale.id.to_string();
    let keywords = locale.extensions.unicode.keywords.iter();
    let keywords: Map<String, Value> =
        keywords.map(|(key, value)| (key.to_string(), value.to_string().into())).collect();
    let found = Locale::find(&name).map(|locale| locale.tag);
    let languages = COMMON.get("languages").unwrap_or_default();
    let is_elsewhere = found.is_none() && languages.split('|').any(|language| language == locale.id.language.as_str());
    Ok(json!({
        "tag": locale.to_string(),
        "name": name,
        "found": found,
        "isElsewhere": is_elsewhere,
        "keywords": keywords,
    }))
}

/// The text of an instant by a pattern, or by the fields for which a pattern is found.
fn date(arguments: &Arguments<'_>) -> Result<crate::Parts, String> {
    let locale = arguments.locale(1)?;
    let zone = zone(arguments.text(3)?)?;
    let time = arguments.integer(4)?;
    match arguments.text(2) {
        Ok(pattern) => date::format(locale, pattern, &zone, time),
        Err(_) => date::format(locale, &date::pattern(locale, &arguments.options::<DateOptions>(2)?), &zone, time),
    }
}

fn zone(name: &str) -> Result<Zone, String> {
    let shown = || name.chars().take(100).collect::<String>();
    Zone::find(name).ok_or_else(|| format!("Invalid time zone specified: {}", shown()))
}

fn number(arguments: &Arguments<'_>) -> Result<crate::Parts, String> {
    number::format(arguments.locale(1)?, &arguments.options::<NumberOptions>(2)?, arguments.text(3)?)
}

/// Names for `supportedValuesOf`: `currencies` or `timezones`.
fn names(kind: &str) -> Value {
    let known = matches!(kind, "currencies" | "timezones");
    COMMON.get(kind).filter(|_| known).map_or(Value::Null, |names| names.split('|').collect())
}
