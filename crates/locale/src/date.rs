//! Dates and times: patterns for sets of fields, and the text of an instant.

use serde::Deserialize;

use crate::civil::Civil;
use crate::parts::Parts;
use crate::skeleton::{Element, Generator, default_hour, elements, join, unquoted};
use crate::table::Locale;
use crate::zone::{NameStyle, Zone};

/// The latest and the earliest instant of ECMAScript, in milliseconds.
pub const MAX_TIME: i64 = 8_640_000_000_000_000;
/// The length of a pattern, at most, in bytes.
const MAX_PATTERN: usize = 300;

/// The fields that a date or time shall have, as the options of `Intl.DateTimeFormat`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // The names are those of ECMA-402.
pub struct DateOptions {
    pub weekday: Option<String>,
    pub era: Option<String>,
    pub year: Option<String>,
    pub month: Option<String>,
    pub day: Option<String>,
    pub day_period: Option<String>,
    pub hour: Option<String>,
    pub minute: Option<String>,
    pub second: Option<String>,
    pub fractional_second_digits: Option<u8>,
    pub time_zone_name: Option<String>,
    pub hour12: Option<bool>,
    pub hour_cycle: Option<String>,
    pub date_style: Option<String>,
    pub time_style: Option<String>,
}

/// The pattern for these fields.
pub fn pattern(locale: Locale, options: &DateOptions) -> String {
    let hour = match (options.hour12, options.hour_cycle.as_deref()) {
        (Some(true), _) => Some('h'),
        (Some(false), _) => Some('H'),
        (None, cycle) => cycle.and_then(hour_of_cycle),
    };
    let pattern = if options.date_style.is_some() || options.time_style.is_some() {
        styled(locale, options, hour)
    } else {
        Generator::new(locale).best(&skeleton(options, hour))
    };
    match hour {
        Some(hour) => with_hour(&pattern, hour),
        None => pattern,
    }
}

/// The text of an instant in a zone. Fails for a pattern that is too long.
///
/// # Errors
///
/// Fails for an instant that is out of range, and for a pattern that is too long.
pub fn format(locale: Locale, pattern: &str, zone: &Zone, ms: i64) -> Result<Parts, String> {
    if pattern.len() > MAX_PATTERN || !(-MAX_TIME..=MAX_TIME).contains(&ms) {
        return Err("Invalid time value".to_owned());
    }
    let offset = zone.offset(ms);
    let civil = Civil::at(ms + i64::from(offset.seconds) * 1000);
    let writer =
        Writer { locale, zone, ms, civil, has_minutes: pattern.contains('m'), has_seconds: pattern.contains('s') };
    let mut parts = Parts::default();
    for element in elements(pattern) {
        match element {
            Element::Literal(text) => parts.push("literal", &unquoted(text)),
            Element::Field(letter, width) => writer.field(&mut parts, letter, width),
        }
    }
    Ok(parts)
}

/// The pattern of styles, such as `full` and `short`. With another hour than the locale's, the fields of that pattern.
fn styled(locale: Locale, options: &DateOptions, hour: Option<char>) -> String {
    let date = options.date_style.as_ref().map(|style| locale.text(&format!("date.{style}")));
    let time = options.time_style.as_ref().map(|style| locale.text(&format!("time.{style}")));
    let pattern = match (date, time) {
        (Some(date), Some(time)) => {
            let style = options.date_style.as_deref().unwrap_or("short");
            join(locale.text(&format!("glue.{style}")), time, date)
        }
        (date, time) => date.or(time).unwrap_or_default().to_owned(),
    };
    match hour {
        Some(hour) if time.is_some() && is_12(hour) != is_12(default_hour(locale)) => {
            let letters = elements(&pattern).filter_map(|element| match element {
                Element::Field('a' | 'B' | 'b', _) | Element::Literal(_) => None,
                Element::Field('h' | 'H' | 'k' | 'K', width) => Some(hour.to_string().repeat(width)),
                Element::Field(letter, width) => Some(letter.to_string().repeat(width)),
            });
            Generator::new(locale).best(&letters.collect::<String>())
        }
        _ => pattern,
    }
}

/// The fields as letters.
fn skeleton(options: &DateOptions, hour: Option<char>) -> String {
    let mut letters = String::new();
    let mut put = |letter: char, option: &Option<String>, widths: &[(&str, usize)]| {
        let width = option.as_deref().and_then(|value| widths.iter().find(|(name, _)| *name == value));
        letters.extend(std::iter::repeat_n(letter, width.map_or(0, |(_, width)| *width)));
    };
    let text = [("short", 3), ("long", 4), ("narrow", 5)];
    let digits = [("numeric", 1), ("2-digit", 2)];
    put('E', &options.weekday, &text);
    put('G', &options.era, &text);
    put('y', &options.year, &digits);
    put('M', &options.month, &[text.as_slice(), &digits].concat());
    put('d', &options.day, &digits);
    let hour = hour.unwrap_or('j');
    put(hour, &options.hour, &digits);
    put('B', &options.day_period, &[("short", 1), ("long", 4), ("narrow", 5)]);
    put('m', &options.minute, &digits);
    put('s', &options.second, &digits);
    letters.extend(std::iter::repeat_n('S', options.fractional_second_digits.unwrap_or(0).min(3).into()));
    let (letter, width) = match options.time_zone_name.as_deref() {
        Some("short") => ('z', 1),
        Some("long") => ('z', 4),
        Some("shortOffset") => ('O', 1),
        Some("longOffset") => ('O', 4),
        Some("shortGeneric") => ('v', 1),
        Some("longGeneric") => ('v', 4),
        _ => ('v', 0),
    };
    letters.extend(std::iter::repeat_n(letter, width));
    letters
}

fn hour_of_cycle(cycle: &str) -> Option<char> {
    match cycle {
        "h11" => Some('K'),
        "h12" => Some('h'),
        "h23" => Some('H'),
        "h24" => Some('k'),
        _ => None,
    }
}

fn is_12(hour: char) -> bool {
    matches!(hour, 'h' | 'K')
}

fn with_hour(pattern: &str, hour: char) -> String {
    let mut result = String::new();
    for element in elements(pattern) {
        match element {
            Element::Literal(text) => result.push_str(text),
            Element::Field('h' | 'H' | 'k' | 'K', width) => result.extend(std::iter::repeat_n(hour, width)),
            Element::Field(letter, width) => result.extend(std::iter::repeat_n(letter, width)),
        }
    }
    result
}

/// Writes the fields of an instant.
struct Writer<'a> {
    locale: Locale,
    zone: &'a Zone,
    ms: i64,
    civil: Civil,
    has_minutes: bool,
    has_seconds: bool,
}

impl Writer<'_> {
    fn field(&self, parts: &mut Parts, letter: char, width: usize) {
        let civil = &self.civil;
        let name = |width: usize| match width {
            4 => "wide",
            5 => "narrow",
            _ => "abbreviated",
        };
        let year = if civil.year > 0 { civil.year } else { 1 - civil.year };
        let text = |parts: &mut Parts, kind: &'static str, key: String, index: u8| {
            parts.push(kind, self.locale.item(&key, index.into()));
        };
        match letter {
            'G' => text(parts, "era", format!("era.{}", name(width)), u8::from(civil.year > 0)),
            'y' if width == 2 => number(parts, "year", year % 100, 2),
            'y' => number(parts, "year", year, width),
            'M' | 'L' if width < 3 => number(parts, "month", civil.month.into(), width),
            'M' => text(parts, "month", format!("month.format.{}", name(width)), civil.month - 1),
            'L' => text(parts, "month", format!("month.stand-alone.{}", name(width)), civil.month - 1),
            'E' => text(parts, "weekday", format!("day.format.{}", name(width)), civil.weekday),
            'c' => text(parts, "weekday", format!("day.stand-alone.{}", name(width)), civil.weekday),
            'd' => number(parts, "day", civil.day.into(), width),
            'a' => parts.push("dayPeriod", self.half(name(width))),
            'B' => parts.push("dayPeriod", self.period(name(width))),
            'h' => number(parts, "hour", i64::from((civil.hour + 11) % 12 + 1), width),
            'K' => number(parts, "hour", i64::from(civil.hour % 12), width),
            'H' => number(parts, "hour", civil.hour.into(), width),
            'k' => number(parts, "hour", i64::from((civil.hour + 23) % 24 + 1), width),
            'm' => number(parts, "minute", civil.minute.into(), width),
            's' => number(parts, "second", civil.second.into(), width),
            'S' => parts.push("fractionalSecond", &format!("{:03}", civil.millisecond)[..width.min(3)]),
            'z' | 'v' | 'O' => {
                let style = NameStyle { letter, long: width >= 4 };
                parts.push("timeZoneName", &self.zone.display(self.locale, style, self.ms));
            }
            _ => {}
        }
    }

    fn half(&self, width: &str) -> &'static str {
        let half = if self.civil.hour < 12 { "am" } else { "pm" };
        self.locale.text(&format!("period.format.{width}.{half}"))
    }

    /// The part of the day, such as `in the morning`; `noon` and `midnight` only at the full hour.
    fn period(&self, width: &str) -> &'static str {
        let hour = u32::from(self.civil.hour);
        let exact = (!self.has_minutes || self.civil.minute == 0) && (!self.has_seconds || self.civil.second == 0);
        let rules = self.locale.text("periods").split('|').filter_map(|rule| {
            let mut fields = rule.split(' ');
            let name = fields.next()?;
            Some((name, fields.next()?.parse::<u32>().ok()?, fields.next()?.parse::<u32>().ok()?))
        });
        let (points, spans): (Vec<_>, Vec<_>) = rules.partition(|(_, from, before)| from == before);
        let point = points.iter().find(|(name, at, _)| exact && *name == "noon" && *at == hour);
        let span = spans.iter().find(|(_, from, before)| {
            if from < before { (*from..*before).contains(&hour) } else { hour >= *from || hour < *before }
        });
        let name = point.or(span).map(|(name, ..)| *name);
        name.and_then(|name| self.locale.get(&format!("period.format.{width}.{name}")))
            .unwrap_or_else(|| self.half(width))
    }
}

fn number(parts: &mut Parts, kind: &'static str, value: i64, width: usize) {
    parts.push(kind, &format!("{value:0width$}"));
}
