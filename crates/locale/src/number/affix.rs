//! What is written before and after the digits: signs, currencies, percent signs and powers of ten.

use super::round::Rounded;
use super::{CurrencyDisplay, CurrencySign, NumberOptions, Style};
use crate::parts::Parts;
use crate::table::Locale;

/// The patterns around a number, in which `¤` stands for the currency, `%` and `-` for the signs.
pub(crate) struct Affixes {
    locale: Locale,
    positive: (&'static str, &'static str),
    negative: Option<(&'static str, &'static str)>,
    /// What is directly around the digits: the power of ten of the compact notation.
    inner: (&'static str, &'static str),
    /// Whether that stands for the digits, too: French `mille`.
    is_word: bool,
    currency: String,
    /// The kind of the part that is a percent sign.
    percent: &'static str,
}

impl Affixes {
    pub(crate) fn new(locale: Locale, options: &NumberOptions, rounded: &Rounded) -> Affixes {
        let mut subpatterns = pattern(locale, options).split(';').map(split);
        let mut affixes = Affixes {
            locale,
            positive: subpatterns.next().unwrap_or_default(),
            negative: subpatterns.next(),
            percent: if options.style == Style::Unit { "unit" } else { "percentSign" },
            is_word: rounded.pattern.is_some_and(|pattern| !pattern.contains('0')),
            inner: rounded.pattern.map(split).unwrap_or_default(),
            currency: if options.style == Style::Currency { currency(locale, options) } else { String::new() },
        };
        if affixes.inner.0.contains('¤') || affixes.inner.1.contains('¤') {
            affixes.positive = affixes.inner;
            affixes.inner = ("", "");
            affixes.negative = None;
        }
        affixes
    }

    /// The digits with what is around them.
    pub(crate) fn apply(&self, body: Parts, sign: Option<char>, finite: bool) -> Parts {
        let mut inner = Parts::default();
        self.push(&mut inner, self.inner.0, "compact");
        if !self.is_word {
            inner.append(body);
        }
        self.push(&mut inner, self.inner.1, "compact");
        let mut parts = Parts::default();
        let (prefix, suffix) = if let (Some('-'), Some(negative)) = (sign, self.negative) {
            negative
        } else {
            match sign {
                Some('-') => parts.push("minusSign", self.locale.text("symbol.minusSign")),
                Some(_) => parts.push("plusSign", self.locale.text("symbol.plusSign")),
                None => {}
            }
            self.positive
        };
        self.push(&mut parts, prefix, "compact");
        if prefix.ends_with('¤') && finite && self.currency.chars().next_back().is_some_and(is_spaced) {
            parts.push("literal", self.locale.text("number.space"));
        }
        parts.append(inner);
        if suffix.starts_with('¤') && finite && self.currency.chars().next().is_some_and(is_spaced) {
            parts.push("literal", self.locale.text("number.space"));
        }
        self.push(&mut parts, suffix, "compact");
        parts
    }

    fn push(&self, parts: &mut Parts, pattern: &str, kind: &'static str) {
        let mut run = String::new();
        let mut quoted = false;
        for char in pattern.chars() {
            let special = match char {
                '\'' => {
                    quoted = !quoted;
                    continue;
                }
                '¤' if !quoted => ("currency", self.currency.as_str()),
                '%' if !quoted => (self.percent, self.locale.text("symbol.percentSign")),
                '-' if !quoted => ("minusSign", self.locale.text("symbol.minusSign")),
                char => {
                    run.push(char);
                    continue;
                }
            };
            push_run(parts, &std::mem::take(&mut run), kind);
            parts.push(special.0, special.1);
        }
        push_run(parts, &run, kind);
    }
}

/// The pattern of a style. A number with the name of its currency or unit has that of decimal numbers.
pub(crate) fn pattern(locale: Locale, options: &NumberOptions) -> &'static str {
    let is_accounting = options.currency_sign == CurrencySign::Accounting;
    locale.text(match options.style {
        _ if options.has_percent_sign() => "number.percent",
        Style::Currency if options.currency_display == CurrencyDisplay::Name => "number.decimal",
        Style::Currency if is_accounting => "number.accounting",
        Style::Currency => "number.standard",
        Style::Decimal | Style::Percent | Style::Unit => "number.decimal",
    })
}

/// Puts a number in the place of `{0}`; what is around it is of a kind, except for spaces.
pub(crate) fn wrap(pattern: &str, kind: &'static str, number: Parts) -> Parts {
    let (before, after) = pattern.split_once("{0}").unwrap_or(("", pattern));
    let mut parts = Parts::default();
    push_run(&mut parts, before, kind);
    parts.append(number);
    push_run(&mut parts, after, kind);
    parts
}

fn push_run(parts: &mut Parts, run: &str, kind: &'static str) {
    let text = run.trim();
    if text.is_empty() || text == "(" || text == ")" {
        return parts.push("literal", run);
    }
    let start = run.len() - run.trim_start().len();
    parts.push("literal", &run[..start]);
    parts.push(kind, text);
    parts.push("literal", &run[start + text.len()..]);
}

/// The prefix and suffix of a pattern such as `¤#,##0.00`.
fn split(pattern: &'static str) -> (&'static str, &'static str) {
    let is_digit = |char: char| matches!(char, '#' | '0' | ',' | '.');
    let mut quoted = false;
    let bounds: Vec<usize> = pattern
        .char_indices()
        .filter(|(_, char)| {
            quoted ^= *char == '\'';
            !quoted && is_digit(*char)
        })
        .map(|(index, _)| index)
        .collect();
    match (bounds.first(), bounds.last()) {
        (Some(first), Some(last)) => (&pattern[..*first], &pattern[last + 1..]),
        _ => (pattern, ""),
    }
}

fn currency(locale: Locale, options: &NumberOptions) -> String {
    let code = options.currency.as_str();
    let symbol = || locale.get(&format!("currency.symbol.{code}"));
    let text = match options.currency_display {
        CurrencyDisplay::Symbol => symbol(),
        CurrencyDisplay::NarrowSymbol => locale.get(&format!("currency.narrow.{code}")).or_else(symbol),
        CurrencyDisplay::Code | CurrencyDisplay::Name => None,
    };
    text.unwrap_or(code).to_owned()
}

/// Whether a space is between this end of a currency and a digit.
fn is_spaced(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '.' | '/')
}
