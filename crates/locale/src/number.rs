//! Numbers: digits, grouping, notations, currencies and units.

mod affix;
mod round;

use serde::Deserialize;

use crate::decimal::{Decimal, RoundingMode};
use crate::parts::Parts;
use crate::plural;
use crate::skeleton::join;
use crate::table::{COMMON, Locale};
use affix::{Affixes, wrap};
use round::Rounded;

/// The options of `Intl.NumberFormat`, as `resolvedOptions` returns them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NumberOptions {
    /// What the number is.
    pub style: Style,
    /// The code of a currency, in upper case.
    pub currency: String,
    /// How a currency is written.
    pub currency_display: CurrencyDisplay,
    /// Whether negative amounts are in parentheses.
    pub currency_sign: CurrencySign,
    /// A unit of ECMA-402, or two with `-per-`.
    pub unit: String,
    /// How a unit is written.
    pub unit_display: UnitDisplay,
    /// How large numbers are written.
    pub notation: Notation,
    /// The names of powers of ten in the compact notation.
    pub compact_display: CompactDisplay,
    /// Which numbers have a sign.
    pub sign_display: SignDisplay,
    /// Which numbers have separators of groups.
    pub use_grouping: Grouping,
    /// The number of digits before the point, at least.
    pub minimum_integer_digits: i32,
    /// The number of digits after the point, at least.
    pub minimum_fraction_digits: i32,
    /// The number of digits after the point, at most.
    pub maximum_fraction_digits: i32,
    /// The number of significant digits, at least.
    pub minimum_significant_digits: i32,
    /// The number of significant digits, at most.
    pub maximum_significant_digits: i32,
    /// Which of these bounds hold.
    pub rounding_type: RoundingType,
    /// The direction of rounding.
    pub rounding_mode: RoundingMode,
    /// The number of units of the last digit that results are multiples of; 0 and 1 are the same.
    pub rounding_increment: u32,
    /// Whether integers are written without digits after the point.
    pub trailing_zero_display: TrailingZeroDisplay,
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$case:meta])* $choice:ident),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[allow(missing_docs)] // The names are those of ECMA-402.
        pub enum $name { $($(#[$case])* $choice),* }
    )*};
}

choices! {
    /// The option `style`.
    Style { #[default] Decimal, Percent, Currency, Unit }
    /// The option `currencyDisplay`.
    CurrencyDisplay { #[default] Symbol, NarrowSymbol, Code, Name }
    /// The option `currencySign`.
    CurrencySign { #[default] Standard, Accounting }
    /// The option `unitDisplay`.
    UnitDisplay { #[default] Short, Narrow, Long }
    /// The option `notation`.
    Notation { #[default] Standard, Scientific, Engineering, Compact }
    /// The option `compactDisplay`.
    CompactDisplay { #[default] Short, Long }
    /// The option `signDisplay`.
    SignDisplay { #[default] Auto, Never, Always, ExceptZero, Negative }
    /// The option `useGrouping`.
    Grouping { #[default] Auto, Always, Min2, Never }
    /// Which bounds of digits hold.
    RoundingType { #[default] FractionDigits, SignificantDigits, MorePrecision, LessPrecision }
    /// The option `trailingZeroDisplay`.
    TrailingZeroDisplay { #[default] Auto, StripIfInteger }
}

/// A number that can be formatted.
#[derive(Clone, Debug)]
enum Number {
    Nan,
    Infinite { negative: bool },
    Finite(Decimal),
}

/// Formats a number. `value` is `NaN`, `Infinity`, `-Infinity` or decimal digits as JavaScript writes them.
///
/// # Errors
///
/// Fails for another value, and for a currency or unit that has no data.
pub fn format(locale: Locale, options: &NumberOptions, value: &str) -> Result<Parts, String> {
    let options = &options.bounded();
    let number = match parse(value)? {
        Number::Finite(mut decimal) => {
            if options.style == Style::Percent {
                decimal.shift(2);
            }
            Number::Finite(decimal)
        }
        other => other,
    };
    let rounded = round::round(locale, options, &number);
    let sign = sign(options.sign_display, &number, &rounded);
    let body = body(locale, options, &rounded);
    let affixes = Affixes::new(locale, options, &rounded);
    let signed = affixes.apply(body, sign, rounded.is_finite());
    match options.style {
        Style::Currency if options.currency_display == CurrencyDisplay::Name => {
            Ok(named_currency(locale, options, category(locale, "cardinal", &rounded), signed))
        }
        Style::Unit | Style::Percent if !options.has_percent_sign() => {
            unit(locale, options, category(locale, "cardinal", &rounded), signed)
        }
        _ => Ok(signed),
    }
}

impl NumberOptions {
    /// The options with each number in the range that ECMA-402 has for it.
    fn bounded(&self) -> NumberOptions {
        NumberOptions {
            minimum_integer_digits: self.minimum_integer_digits.clamp(1, 21),
            minimum_fraction_digits: self.minimum_fraction_digits.clamp(0, 100),
            maximum_fraction_digits: self.maximum_fraction_digits.clamp(0, 100),
            minimum_significant_digits: self.minimum_significant_digits.clamp(1, 21),
            maximum_significant_digits: self.maximum_significant_digits.clamp(1, 21),
            rounding_increment: self.rounding_increment.clamp(1, 5000),
            ..self.clone()
        }
    }

    /// Whether the number is written as a percentage by the pattern for these; with other options `percent` is a unit.
    fn has_percent_sign(&self) -> bool {
        let is_percent = match self.style {
            Style::Percent => true,
            Style::Unit => {
                (self.unit == "percent" || self.unit.starts_with("percent-per-"))
                    && self.unit_display != UnitDisplay::Long
            }
            Style::Decimal | Style::Currency => false,
        };
        is_percent && self.notation != Notation::Compact
    }
}

/// The plural category of a number that is formatted with these options; `kind` is `cardinal` or `ordinal`.
///
/// # Errors
///
/// Fails for a value that [`format()`] refuses.
pub fn plural(locale: Locale, kind: &str, options: &NumberOptions, value: &str) -> Result<&'static str, String> {
    let number = parse(value)?;
    Ok(category(locale, kind, &round::round(locale, &options.bounded(), &number)))
}

fn category(locale: Locale, kind: &str, rounded: &Rounded) -> &'static str {
    if rounded.is_finite() { plural::select(locale, kind, &rounded.operand()) } else { "other" }
}

/// The number of digits after the point that amounts of a currency have.
pub fn currency_digits(code: &str) -> i32 {
    COMMON.get(&format!("digits.{code}")).and_then(|digits| digits.parse().ok()).unwrap_or(2)
}

fn parse(value: &str) -> Result<Number, String> {
    Ok(match value {
        "NaN" => Number::Nan,
        "Infinity" => Number::Infinite { negative: false },
        "-Infinity" => Number::Infinite { negative: true },
        digits => Number::Finite(Decimal::parse(digits)?),
    })
}

/// The sign that is written: `-`, `+` or none.
fn sign(display: SignDisplay, number: &Number, rounded: &Rounded) -> Option<char> {
    let (negative, zero) = match number {
        Number::Nan => (false, true),
        Number::Infinite { negative } => (*negative, false),
        Number::Finite(_) => (rounded.value.negative, rounded.value.is_zero()),
    };
    let shown = match display {
        SignDisplay::Auto => negative,
        SignDisplay::Never => false,
        SignDisplay::Always => true,
        SignDisplay::ExceptZero => !zero,
        SignDisplay::Negative => negative && !zero,
    };
    shown.then_some(if negative { '-' } else { '+' })
}

/// The digits with their separators.
fn body(locale: Locale, options: &NumberOptions, rounded: &Rounded) -> Parts {
    let mut parts = Parts::default();
    if let Some(special) = rounded.special {
        parts.push(special, locale.text(&format!("symbol.{special}")));
        return parts;
    }
    integer(locale, options, rounded, &mut parts);
    if rounded.fraction > 0 {
        parts.push("decimal", locale.text("symbol.decimal"));
        let digits: String =
            (1..=rounded.fraction).map(|place| char::from(b'0' + rounded.value.digit(-place))).collect();
        parts.push("fraction", &digits);
    }
    if let Some(exponent) = rounded.exponent {
        parts.push("exponentSeparator", locale.text("symbol.exponential"));
        if exponent < 0 {
            parts.push("exponentMinusSign", locale.text("symbol.minusSign"));
        }
        parts.push("exponentInteger", &exponent.abs().to_string());
    }
    parts
}

fn integer(locale: Locale, options: &NumberOptions, rounded: &Rounded, parts: &mut Parts) {
    let count = (rounded.value.magnitude() + 1).max(options.minimum_integer_digits).max(1);
    let (primary, secondary) = group_sizes(locale, options);
    let least = match options.use_grouping {
        Grouping::Never => i32::MAX,
        Grouping::Always => 1,
        Grouping::Auto if options.notation != Notation::Compact => minimum_grouping(locale),
        Grouping::Auto | Grouping::Min2 => minimum_grouping(locale).max(2),
    };
    // Grouping depends on how many digits the number has, with those that are only zeros.
    let grouped = count >= least.saturating_add(primary);
    let mut digits = String::new();
    for power in (0..count).rev() {
        digits.push(char::from(b'0' + rounded.value.digit(power)));
        if grouped && power >= primary && (power - primary) % secondary == 0 {
            parts.push("integer", &std::mem::take(&mut digits));
            parts.push("group", locale.text("symbol.group"));
        }
    }
    parts.push("integer", &digits);
}

fn minimum_grouping(locale: Locale) -> i32 {
    locale.text("number.grouping").parse().unwrap_or(1)
}

/// The number of digits in the last group, and in those before it, as the pattern for the style has them.
fn group_sizes(locale: Locale, options: &NumberOptions) -> (i32, i32) {
    let pattern = affix::pattern(locale, options).split(['.', ';']).next().unwrap_or_default();
    let is_digit = |char: &char| matches!(char, '#' | '0' | ',');
    let digits: String = pattern.chars().filter(is_digit).collect();
    let sizes: Vec<i32> = digits.rsplit(',').map(|group| i32::try_from(group.len()).unwrap_or(3)).collect();
    match sizes.as_slice() {
        [primary, secondary, _, ..] => (*primary, *secondary),
        [primary, _] => (*primary, *primary),
        _ => (3, 3),
    }
}

fn named_currency(locale: Locale, options: &NumberOptions, plural: &str, number: Parts) -> Parts {
    let code = options.currency.as_str();
    let by_count = |key: &str| locale.get(&format!("{key}.{plural}")).or_else(|| locale.get(&format!("{key}.other")));
    let name = by_count(&format!("currency.name.{code}")).or_else(|| locale.get(&format!("currency.title.{code}")));
    let pattern = by_count("currency.pattern").unwrap_or("{0} {1}");
    wrap(&pattern.replace("{1}", name.unwrap_or(code)), "currency", number)
}

fn unit(locale: Locale, options: &NumberOptions, plural: &str, number: Parts) -> Result<Parts, String> {
    let width = match options.unit_display {
        UnitDisplay::Short => "short",
        UnitDisplay::Narrow => "narrow",
        UnitDisplay::Long => "long",
    };
    let get = |unit: &str, count: &str| locale.get(&format!("unit.{width}.{unit}.{count}"));
    let counted = |unit: &str, count: &str| get(unit, count).or_else(|| get(unit, "other"));
    let unit = if options.style == Style::Percent { "percent" } else { options.unit.as_str() };
    let unknown = || format!("unknown unit {unit:?}");
    if let Some(pattern) = counted(unit, plural) {
        return Ok(wrap(pattern, "unit", number));
    }
    let (above, below) = unit.split_once("-per-").ok_or_else(unknown)?;
    let numerator = counted(above, plural).ok_or_else(unknown)?;
    let pattern = if let Some(per) = get(below, "per") {
        per.replace("{0}", numerator)
    } else {
        let name = counted(below, "one").ok_or_else(unknown)?.replace("{0}", "");
        join(locale.text(&format!("unit.{width}.per")), numerator, name.trim())
    };
    Ok(wrap(&pattern, "unit", number))
}
