//! Decimal numbers of any size, and how they are rounded.

use std::cmp::Ordering;

use serde::Deserialize;

/// The digits that a number can have, and the bound of its exponent.
pub(crate) const MAX_DIGITS: usize = 5000;

/// A finite number: `0.d₁d₂… × 10^point`. No digit is zero at either end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    digits: Vec<u8>,
    point: i32,
}

/// How a number between two others is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RoundingMode {
    /// Toward positive infinity.
    Ceil,
    /// Toward negative infinity.
    Floor,
    /// Away from zero.
    Expand,
    /// Toward zero.
    Trunc,
    /// To the nearest; a tie toward positive infinity.
    HalfCeil,
    /// To the nearest; a tie toward negative infinity.
    HalfFloor,
    /// To the nearest; a tie away from zero.
    #[default]
    HalfExpand,
    /// To the nearest; a tie toward zero.
    HalfTrunc,
    /// To the nearest; a tie to the even one.
    HalfEven,
}

impl Decimal {
    /// Reads `[-]digits[.digits][e[±]digits]`. Fails for other text, and beyond [`MAX_DIGITS`].
    pub(crate) fn parse(text: &str) -> Result<Decimal, String> {
        let invalid =
            || format!("invalid number: expected decimal digits, got {:?}", text.chars().take(40).collect::<String>());
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid())?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return Err(invalid());
        }
        if whole.len() + fraction.len() > MAX_DIGITS || exponent.unsigned_abs() as usize > MAX_DIGITS {
            return Err(format!("numbers of more than {MAX_DIGITS} digits cannot be formatted"));
        }
        let digits = whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0').collect();
        let point = i32::try_from(whole.len()).map_err(|_| invalid())? + exponent;
        Ok(Decimal { negative, digits, point }.normalized())
    }

    pub(crate) fn one() -> Decimal {
        Decimal { negative: false, digits: vec![1], point: 1 }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The power of ten of the first digit; 0 for zero.
    pub(crate) fn magnitude(&self) -> i32 {
        if self.is_zero() { 0 } else { self.point - 1 }
    }

    /// Multiplies by a power of ten.
    pub(crate) fn shift(&mut self, power: i32) {
        if !self.is_zero() {
            self.point += power;
        }
    }

    /// The digit for a power of ten.
    pub(crate) fn digit(&self, power: i32) -> u8 {
        let index = self.point - 1 - power;
        usize::try_from(index).ok().and_then(|index| self.digits.get(index)).copied().unwrap_or(0)
    }

    /// The nearest binary number to the absolute value.
    pub(crate) fn to_f64(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        format!("0.{digits}e{}", self.point).parse().unwrap_or_default()
    }

    /// The number of digits after the point.
    pub(crate) fn fraction_len(&self) -> i32 {
        (self.len() - self.point).max(0)
    }

    /// Rounds to a multiple of `increment × 10^power`.
    pub(crate) fn round(&mut self, power: i32, increment: u32, mode: RoundingMode) {
        let kept = self.point - power;
        if increment == 1 && kept >= self.len() {
            return;
        }
        let remainder = self.remainder(kept, increment);
        let half = self.tail_half(kept);
        let exact = remainder == 0 && half == Tail::Zero;
        if exact {
            return;
        }
        let up = match mode.direction(self.negative) {
            Direction::Away => true,
            Direction::Toward => false,
            Direction::Nearest(tie) => match compare_to_half(remainder, increment, half) {
                Ordering::Less => false,
                Ordering::Greater => true,
                Ordering::Equal => match tie {
                    Tie::Away => true,
                    Tie::Toward => false,
                    Tie::Even => self.quotient_is_odd(kept, increment, remainder),
                },
            },
        };
        self.cut(kept);
        // The digits are an integer of units of 10^power now.
        self.add(power, i64::from(if up { increment } else { 0 }) - i64::from(remainder));
    }

    fn len(&self) -> i32 {
        i32::try_from(self.digits.len()).unwrap_or(i32::MAX)
    }

    /// The first `kept` digits as a number, modulo `increment`.
    fn remainder(&self, kept: i32, increment: u32) -> u32 {
        if increment == 1 {
            return 0;
        }
        (0..kept).fold(0, |rest, index| (rest * 10 + self.at(index)) % increment)
    }

    fn at(&self, index: i32) -> u32 {
        usize::try_from(index).ok().and_then(|index| self.digits.get(index)).copied().unwrap_or(0).into()
    }

    /// What the digits after the first `kept` are.
    fn tail_half(&self, kept: i32) -> Tail {
        if kept >= self.len() {
            return Tail::Zero;
        }
        if kept < 0 {
            return if self.is_zero() { Tail::Zero } else { Tail::Below };
        }
        match self.at(kept) {
            0..5 => Tail::Below,
            5 if kept + 1 == self.len() => Tail::Half,
            _ => Tail::Above,
        }
    }

    fn quotient_is_odd(&self, kept: i32, increment: u32, remainder: u32) -> bool {
        let twice = increment * 2;
        let rest = (0..kept).fold(0, |rest, index| (rest * 10 + self.at(index)) % twice);
        rest != remainder
    }

    /// Keeps the first digits.
    fn cut(&mut self, kept: i32) {
        self.digits.truncate(usize::try_from(kept).unwrap_or(0));
        let power = self.point - kept;
        if self.digits.is_empty() {
            self.point = power;
        }
    }

    /// Adds `value × 10^power` to the absolute value, which has no digits below `power`; the sum is not negative.
    fn add(&mut self, power: i32, value: i64) {
        let units = usize::try_from(self.point - power).unwrap_or(0);
        self.digits.resize(units, 0);
        let mut carry = value;
        for digit in self.digits.iter_mut().rev() {
            if carry == 0 {
                break;
            }
            let sum = i64::from(*digit) + carry;
            *digit = u8::try_from(sum.rem_euclid(10)).unwrap_or(0);
            carry = sum.div_euclid(10);
        }
        let more: Vec<u8> = carry.max(0).to_string().bytes().map(|byte| byte - b'0').collect();
        self.point = power + i32::try_from(units + more.len()).unwrap_or(i32::MAX);
        self.digits.splice(0..0, more);
        let normalized = std::mem::take(self).normalized();
        *self = normalized;
    }

    fn normalized(mut self) -> Decimal {
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.point -= i32::try_from(zeros).unwrap_or(0);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.point = 0;
        }
        self
    }
}

/// What is cut off, in units of the last digit that is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    Zero,
    Below,
    Half,
    Above,
}

enum Direction {
    Away,
    Toward,
    Nearest(Tie),
}

enum Tie {
    Away,
    Toward,
    Even,
}

impl RoundingMode {
    fn direction(self, negative: bool) -> Direction {
        let away = |is_away: bool| if is_away { Direction::Away } else { Direction::Toward };
        let tie = |is_away: bool| Direction::Nearest(if is_away { Tie::Away } else { Tie::Toward });
        match self {
            RoundingMode::Ceil => away(!negative),
            RoundingMode::Floor => away(negative),
            RoundingMode::Expand => Direction::Away,
            RoundingMode::Trunc => Direction::Toward,
            RoundingMode::HalfCeil => tie(!negative),
            RoundingMode::HalfFloor => tie(negative),
            RoundingMode::HalfExpand => Direction::Nearest(Tie::Away),
            RoundingMode::HalfTrunc => Direction::Nearest(Tie::Toward),
            RoundingMode::HalfEven => Direction::Nearest(Tie::Even),
        }
    }
}

/// Compares `remainder + tail` with the half of `increment`.
fn compare_to_half(remainder: u32, increment: u32, tail: Tail) -> Ordering {
    let twice = remainder * 2;
    if twice == increment {
        return if tail == Tail::Zero { Ordering::Equal } else { Ordering::Greater };
    }
    if twice + 1 != increment {
        return twice.cmp(&increment);
    }
    match tail {
        Tail::Zero | Tail::Below => Ordering::Less,
        Tail::Half => Ordering::Equal,
        Tail::Above => Ordering::Greater,
    }
}
