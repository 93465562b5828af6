//! Plural categories of formatted numbers, by the rules of CLDR.

use crate::decimal::Decimal;
use crate::table::Locale;

const CATEGORIES: [&str; 5] = ["zero", "one", "two", "few", "many"];

/// A number as it is written: its value and how many digits follow its point.
pub(crate) struct Operand<'a> {
    pub(crate) value: &'a Decimal,
    pub(crate) fraction: i32,
    pub(crate) exponent: i32,
}

/// The category of a number: `one`, `other`, …; `kind` is `cardinal` or `ordinal`.
pub(crate) fn select(locale: Locale, kind: &str, operand: &Operand<'_>) -> &'static str {
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

fn holds(rule: &str, operand: &Operand<'_>) -> bool {
    rule.split(" or ").any(|all| all.split(" and ").all(|relation| relation_holds(relation, operand)))
}

/// A relation such as `n % 10 = 2..4` or `i != 0,1`.
fn relation_holds(relation: &str, operand: &Operand<'_>) -> bool {
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
    let value = operand.get(name.trim(), modulus);
    let within = value.is_some_and(|value| {
        right.trim().split(',').any(|range| match range.split_once("..") {
            Some((low, high)) => {
                low.parse().is_ok_and(|low: u64| low <= value) && high.parse().is_ok_and(|high: u64| value <= high)
            }
            None => range.parse() == Ok(value),
        })
    });
    within == equal
}

impl Operand<'_> {
    /// The operand `n`, `i`, `v`, `w`, `f`, `t`, `e` or `c`; nothing where it is no integer.
    fn get(&self, name: &str, modulus: Option<u64>) -> Option<u64> {
        let fraction = self.value.fraction_len();
        let integer = || self.digits(0, self.value.magnitude().max(0), modulus);
        match name {
            "n" if fraction > 0 => None,
            "n" | "i" => Some(integer()),
            "v" => u64::try_from(self.fraction).ok(),
            "w" => u64::try_from(fraction).ok(),
            "f" => Some(self.digits(-self.fraction, -1, modulus)),
            "t" => Some(self.digits(-fraction, -1, modulus)),
            _ => u64::try_from(self.exponent).ok(),
        }
    }

    /// The digits of these powers of ten as a number; more than 18 of them are reduced by the modulus, or kept as a large number.
    fn digits(&self, low: i32, high: i32, modulus: Option<u64>) -> u64 {
        let high = high.min(low + 5000);
        (low..=high).rev().fold(0_u64, |value, power| {
            let next = value.saturating_mul(10).saturating_add(self.value.digit(power).into());
            modulus.map_or(next.min(1 << 60), |modulus| next % modulus)
        })
    }
}
