//! How a number is rounded and scaled before its digits are written.

use super::{CompactDisplay, Notation, Number, NumberOptions, RoundingType, Style, TrailingZeroDisplay};
use crate::decimal::Decimal;
use crate::plural::{self, Operand};
use crate::table::Locale;

/// A number whose digits are known.
pub(crate) struct Rounded {
    pub(crate) value: Decimal,
    /// The number of digits after the point.
    pub(crate) fraction: i32,
    /// The exponent that is written.
    pub(crate) exponent: Option<i32>,
    /// The power of ten that the compact notation writes as a word or letter.
    pub(crate) compact: i32,
    /// The pattern of that.
    pub(crate) pattern: Option<&'static str>,
    /// `nan` or `infinity`, which have no digits.
    pub(crate) special: Option<&'static str>,
}

impl Rounded {
    pub(crate) fn is_finite(&self) -> bool {
        self.special.is_none()
    }

    /// What plural rules see.
    pub(crate) fn operand(&self) -> Operand {
        Operand::new(&self.value, self.fraction, self.exponent.unwrap_or(self.compact))
    }

    fn special(kind: &'static str) -> Rounded {
        Rounded {
            value: Decimal::default(),
            fraction: 0,
            exponent: None,
            compact: 0,
            pattern: None,
            special: Some(kind),
        }
    }
}

pub(crate) fn round(locale: Locale, options: &NumberOptions, number: &Number) -> Rounded {
    let decimal = match number {
        Number::Nan => return Rounded::special("nan"),
        Number::Infinite { .. } => return Rounded::special("infinity"),
        Number::Finite(decimal) => decimal,
    };
    match options.notation {
        Notation::Standard => digits(options, decimal.clone()),
        Notation::Scientific => {
            let rounded = scaled(options, decimal, &|magnitude| magnitude);
            Rounded { exponent: Some(rounded.compact), compact: 0, ..rounded }
        }
        Notation::Engineering => {
            let rounded = scaled(options, decimal, &|magnitude| magnitude.div_euclid(3) * 3);
            Rounded { exponent: Some(rounded.compact), compact: 0, ..rounded }
        }
        Notation::Compact => compact(locale, options, decimal),
    }
}

fn compact(locale: Locale, options: &NumberOptions, decimal: &Decimal) -> Rounded {
    let key = match (options.style, options.compact_display) {
        (Style::Currency, _) if options.currency_display != super::CurrencyDisplay::Name => "compact.currency",
        (_, CompactDisplay::Short) => "compact.short",
        (_, CompactDisplay::Long) => "compact.long",
    };
    let pattern = |magnitude: i32, plural: &str| {
        let magnitude = magnitude.min(14);
        let get = |plural: &str| locale.get(&format!("{key}.{magnitude}.{plural}"));
        get(plural).or_else(|| get("other")).filter(|pattern| is_compact(pattern))
    };
    let power = |magnitude: i32| {
        let zeros = |pattern: &str| i32::try_from(pattern.matches('0').count()).unwrap_or(0);
        pattern(magnitude, "other").map_or(0, |pattern| magnitude.min(14) + 1 - zeros(pattern))
    };
    let rounded = scaled(options, decimal, &power);
    let is_one = rounded.value == Decimal::one();
    let plural = plural::select(locale, "cardinal", &Operand::new(&rounded.value, rounded.fraction, 0));
    let magnitude = rounded.value.magnitude() + rounded.compact;
    let pattern = match decimal.is_zero() {
        true => None,
        false if is_one => {
            pattern(magnitude, "1").filter(|pattern| !pattern.contains('0')).or_else(|| pattern(magnitude, plural))
        }
        false => pattern(magnitude, plural),
    };
    Rounded { pattern, ..rounded }
}

/// Whether a pattern has more than digits and a currency.
fn is_compact(pattern: &str) -> bool {
    pattern.chars().any(char::is_alphabetic)
}

/// Rounds the number divided by a power of ten that depends on its magnitude, which rounding may increase.
fn scaled(options: &NumberOptions, decimal: &Decimal, power: &dyn Fn(i32) -> i32) -> Rounded {
    let shifted = |by: i32| {
        let mut value = decimal.clone();
        value.shift(-by);
        digits(options, value)
    };
    if decimal.is_zero() {
        return shifted(0);
    }
    let magnitude = decimal.magnitude();
    let by = power(magnitude);
    let rounded = shifted(by);
    if rounded.value.is_zero() || rounded.value.magnitude() + by == magnitude {
        return Rounded { compact: by, ..rounded };
    }
    let by = power(magnitude + 1);
    Rounded { compact: by, ..shifted(by) }
}

/// Rounds to the digits that the options ask for.
fn digits(options: &NumberOptions, mut value: Decimal) -> Rounded {
    let by_fraction = -options.maximum_fraction_digits;
    let magnitude = value.magnitude();
    let by_significant = magnitude - options.maximum_significant_digits + 1;
    let power = match options.rounding_type {
        RoundingType::FractionDigits => by_fraction,
        RoundingType::SignificantDigits => by_significant,
        RoundingType::MorePrecision => by_fraction.min(by_significant),
        RoundingType::LessPrecision => by_fraction.max(by_significant),
    };
    value.round(power, options.rounding_increment, options.rounding_mode);
    let grown = !value.is_zero() && value.magnitude() != magnitude;
    let significant_is_finer = if grown && by_fraction == by_significant {
        by_significant < by_fraction
    } else {
        by_significant <= by_fraction
    };
    let is_significant = match options.rounding_type {
        RoundingType::FractionDigits => false,
        RoundingType::SignificantDigits => true,
        RoundingType::MorePrecision => significant_is_finer,
        RoundingType::LessPrecision => !significant_is_finer,
    };
    let least = if is_significant {
        options.minimum_significant_digits - 1 - value.magnitude()
    } else {
        options.minimum_fraction_digits
    };
    let mut fraction = value.fraction_len().max(least).max(0);
    if options.trailing_zero_display == TrailingZeroDisplay::StripIfInteger && value.fraction_len() == 0 {
        fraction = 0;
    }
    Rounded { value, fraction, exponent: None, compact: 0, pattern: None, special: None }
}
