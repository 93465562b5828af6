//! Plural categories of formatted numbers, by the rules of CLDR.

use crate::decimal::Decimal;
use crate::table::Locale;

/// The categories in the order in which ICU looks at their rules.
const CATEGORIES: [&str; 5] = ["few", "many", "one", "two", "zero"];

/// A number as it is written: its value, how many digits follow its point, and the power of ten that is written as a word.
pub(crate) struct Operand {
    value: Decimal,
    fraction: i32,
    exponent: i32,
}

/// The category of a number: `one`, `other`, …; `kind` is `cardinal` or `ordinal`.
pub(crate) fn select(locale: Locale, kind: &str, operand: &Operand) -> &'static str {
    CATEGORIES
        .into_iter()
        .find(|name| locale.get(&format!("plural.{kind}.{name}")).is_some_and(|rule| holds(rule, operand)))
        .unwrap_or("other")
}

/// The categories that a locale has, in the order of CLDR.
pub(crate) fn categories(locale: Locale, kind: &str) -> Vec<&'static str> {
    let found = CATEGORIES.into_iter().filter(|name| locale.get(&format!("plural.{kind}.{name}")).is_some());
    found.chain(["other"]).collect()
}

fn holds(rule: &str, operand: &Operand) -> bool {
    rule.split(" or ").any(|all| all.split(" and ").all(|relation| relation_holds(relation, operand)))
}

/// A relation such as `n % 10 = 2..4` or `i != 0,1`.
fn relation_holds(relation: &str, operand: &Operand) -> bool {
    let (left, right, equal) = match relation.split_once(" != ") {
        Some((left, right)) => (left, right, false),
        None => match relation.split_once(" = ") {
            Some((left, right)) => (left, right, true),
            None => return false,
        },
    };
    let (name, modulus) = match left.split_once(" % ") {
        Some((name, modulus)) => (name, modulus.trim().parse().ok()),
        None => (left, None),
    };
    let value = operand.get(name.trim()).map(|value| modulus.map_or(value, |modulus: f64| value % modulus));
    let within = value.is_some_and(|value| {
        right.trim().split(',').any(|range| {
            let (low, high) = range.split_once("..").unwrap_or((range, range));
            low.parse().is_ok_and(|low: f64| low <= value) && high.parse().is_ok_and(|high: f64| value <= high)
        })
    });
    within == equal
}

impl Operand {
    /// The operands of `mantissa × 10^exponent`, where `fraction` digits of the mantissa are written.
    pub(crate) fn new(mantissa: &Decimal, fraction: i32, exponent: i32) -> Operand {
        let mut value = mantissa.clone();
        value.shift(exponent);
        Operand { value, fraction: (fraction - exponent).max(0), exponent }
    }

    /// The operand `n`, `i`, `v`, `w`, `f`, `t`, `e` or `c`. `n` is nothing for a number that is no integer.
    fn get(&self, name: &str) -> Option<f64> {
        let fraction = self.value.fraction_len();
        match name {
            "n" if fraction > 0 => None,
            "n" => Some(self.value.to_f64()),
            "i" => Some(self.digits(0, 17)),
            "v" => Some(self.fraction.into()),
            "w" => Some(fraction.into()),
            "f" => Some(self.digits(-self.fraction, -1)),
            "t" => Some(self.digits(-fraction, -1)),
            _ => Some(self.exponent.into()),
        }
    }

    /// The digits of these powers of ten as a number. As in ICU, only 18 of them count.
    fn digits(&self, low: i32, high: i32) -> f64 {
        (low..=high.min(low + 17)).rev().fold(0.0, |value, power| value * 10.0 + f64::from(self.value.digit(power)))
    }
}
