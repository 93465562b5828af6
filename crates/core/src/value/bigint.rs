//! Integers of any size, in two's complement. No arithmetic, which would be a reason to use `num-bigint`: they are only read and
//! written, with a bound on the work.

use std::fmt;
use std::str::FromStr;

/// A JavaScript `bigint`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BigInt(Box<[u8]>);

/// Longer numbers are written in hexadecimal: conversion to decimal takes time quadratic in the length, and a guest may return
/// its memory full of them.
const MAX_WRITTEN_DECIMAL_BYTES: usize = 256;

/// Longer numbers are read in hexadecimal only, for the same reason.
const MAX_READ_DECIMAL_BYTES: usize = 1024;

/// A group of decimal digits that fits in 64 bits.
const GROUP_DIGITS: usize = 18;
const GROUP: u64 = 10_u64.pow(GROUP_DIGITS as u32);

/// Groups for all digits of the longest number that is written in decimal: 256 bytes have 617.
const MAX_WRITTEN_DIGITS: usize = 35 * GROUP_DIGITS;

impl BigInt {
    /// Reads two's complement, little-endian. An empty slice is zero.
    pub fn from_le_bytes(bytes: &[u8]) -> Self {
        let mut bytes = if bytes.is_empty() { &[0] } else { bytes };
        while let [rest @ .., before, last] = bytes
            && *last == sign_extension(*before)
        {
            bytes = &bytes[..=rest.len()];
        }
        Self(bytes.into())
    }

    /// The shortest two's complement, little-endian; at least one byte.
    pub fn as_le_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number, if it fits in 128 bits.
    pub fn to_i128(&self) -> Option<i128> {
        let mut bytes = [if self.is_negative() { 0xff } else { 0 }; 16];
        bytes.get_mut(..self.0.len())?.copy_from_slice(&self.0);
        Some(i128::from_le_bytes(bytes))
    }

    fn is_negative(&self) -> bool {
        self.0.last().is_some_and(|last| last >> 7 == 1)
    }

    /// The absolute value, little-endian.
    fn magnitude(&self) -> Vec<u8> {
        let mut bytes = self.0.to_vec();
        if self.is_negative() {
            negate(&mut bytes);
        }
        bytes
    }

    fn from_magnitude(mut bytes: Vec<u8>, negative: bool) -> Self {
        bytes.push(0);
        if negative {
            negate(&mut bytes);
        }
        Self::from_le_bytes(&bytes)
    }
}

fn sign_extension(byte: u8) -> u8 {
    if byte >> 7 == 1 { 0xff } else { 0 }
}

fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes {
        (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
    }
}

impl From<i128> for BigInt {
    fn from(value: i128) -> Self {
        Self::from_le_bytes(&value.to_le_bytes())
    }
}

impl From<i64> for BigInt {
    fn from(value: i64) -> Self {
        i128::from(value).into()
    }
}

/// Writes decimal; numbers beyond 256 bytes in hexadecimal, as `0x…` or `-0x…`.
impl fmt::Display for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.magnitude();
        if self.is_negative() {
            f.write_str("-")?;
        }
        if magnitude.len() > MAX_WRITTEN_DECIMAL_BYTES {
            return write_hexadecimal(f, &magnitude);
        }
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
        let mut rest: Vec<u64> = magnitude.chunks(8).map(word).collect();
        let mut digits = [b'0'; MAX_WRITTEN_DIGITS];
        let mut start = digits.len();
        while !rest.is_empty() {
            let mut group = divide(&mut rest);
            rest.truncate(rest.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
            let end = start;
            while group != 0 {
                start -= 1;
                digits[start] = b'0' + (group % 10) as u8;
                group /= 10;
            }
            if !rest.is_empty() {
                start = end - GROUP_DIGITS; // with zeros before the group
            }
        }
        start = start.min(digits.len() - 1); // zero has a digit
        f.write_str(std::str::from_utf8(&digits[start..]).map_err(|_| fmt::Error)?)
    }
}

/// Divides a magnitude of words, the lowest first, by a group of digits. Returns the remainder.
///
/// A division of two words by one takes a multiplication by a reciprocal: N. Möller and T. Granlund, "Improved Division by
/// Invariant Integers", algorithm 4. It needs a divisor whose highest bit is set, so both sides are shifted.
fn divide(words: &mut [u64]) -> u64 {
    const SHIFT: u32 = GROUP.leading_zeros();
    const DIVISOR: u64 = GROUP << SHIFT;
    const RECIPROCAL: u64 = (u128::MAX / DIVISOR as u128 - (1 << 64)) as u64; // below 2^64, as the divisor is at least 2^63
    let mut remainder = words.last().map_or(0, |last| last >> (u64::BITS - SHIFT));
    let mut at = words.len();
    while at > 0 {
        at -= 1;
        let below = if at > 0 { words[at - 1] >> (u64::BITS - SHIFT) } else { 0 };
        let low = words[at] << SHIFT | below;
        let product = u128::from(RECIPROCAL) * u128::from(remainder);
        let estimate = product.wrapping_add(u128::from(remainder) << 64 | u128::from(low));
        let mut quotient = ((estimate >> 64) as u64).wrapping_add(1);
        let mut rest = low.wrapping_sub(quotient.wrapping_mul(DIVISOR));
        if rest > estimate as u64 {
            quotient = quotient.wrapping_sub(1);
            rest = rest.wrapping_add(DIVISOR);
        }
        if rest >= DIVISOR {
            quotient = quotient.wrapping_add(1);
            rest -= DIVISOR;
        }
        (words[at], remainder) = (quotient, rest);
    }
    remainder >> SHIFT
}

fn write_hexadecimal(f: &mut fmt::Formatter<'_>, magnitude: &[u8]) -> fmt::Result {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
    let mut words = magnitude.chunks(8).rev().map(word).skip_while(|word| *word == 0);
    write!(f, "{:#x}", words.next().unwrap_or(0))?;
    words.try_for_each(|word| write!(f, "{word:016x}"))
}

impl fmt::Debug for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}n")
    }
}

/// The string is not an integer, or has more decimal digits than fit in a kilobyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid integer: expected decimal or 0x…")]
pub struct ParseBigIntError;

impl FromStr for BigInt {
    type Err = ParseBigIntError;

    fn from_str(text: &str) -> Result<Self, ParseBigIntError> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let magnitude = match digits.strip_prefix("0x") {
            Some(hexadecimal) => from_hexadecimal(hexadecimal.as_bytes()),
            None => from_decimal(digits.as_bytes()),
        };
        Ok(Self::from_magnitude(magnitude.ok_or(ParseBigIntError)?, negative))
    }
}

fn from_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |&digit: &u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let pairs = digits.rchunks(2).map(|pair| pair.iter().try_fold(0, |value, d| Some(value << 4 | digit(d)?)));
    pairs.collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty())
}

fn from_decimal(digits: &[u8]) -> Option<Vec<u8>> {
    const MAX_DIGITS: usize = MAX_READ_DECIMAL_BYTES * 5 / 2;
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let mut words: Vec<u64> = Vec::new();
    for group in digits.rchunks(GROUP_DIGITS).rev() {
        let digit = |&digit: &u8| char::from(digit).to_digit(10).map(u64::from);
        let mut carry = group.iter().try_fold(0, |value, d| Some(value * 10 + digit(d)?))?;
        for word in &mut words {
            let value = u128::from(*word) * u128::from(GROUP) + u128::from(carry);
            *word = value as u64; // its low half
            carry = (value >> 64) as u64;
        }
        if carry > 0 {
            words.push(carry);
        }
    }
    Some(words.into_iter().flat_map(u64::to_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimal_and_hexadecimal_are_parsed_and_displayed() {
        let long = format!("1{}", "0123456789".repeat(60));
        for text in
            ["0", "-1", "127", "128", "-128", "-129", "1000000", "340282366920938463463374607431768211456", &long]
        {
            assert_eq!(text.parse::<BigInt>().unwrap().to_string(), text);
        }
        assert_eq!("-0xff".parse::<BigInt>(), Ok(BigInt::from(-255_i64)));
        assert_eq!("-0".parse::<BigInt>(), Ok(BigInt::from(0_i64)));
        for text in ["", "-", "0x", "1.5", "12n", "--1", "0xg", &"1".repeat(3000)] {
            assert_eq!(text.parse::<BigInt>(), Err(ParseBigIntError), "{text}");
        }
    }

    #[test]
    fn long_numbers_are_displayed_in_hexadecimal_without_zeros_before_them() {
        for zeros in 256..266 {
            let number = BigInt::from_le_bytes(&[&vec![0; zeros][..], &[0xff, 1, 0]].concat());
            let text = format!("0x1ff{}", "00".repeat(zeros));
            assert_eq!(number.to_string(), text);
            assert_eq!(format!("-{text}").parse::<BigInt>().unwrap().to_string(), format!("-{text}"));
            assert_eq!(text.parse(), Ok(number));
        }
    }

    proptest! {
        #[test]
        fn numbers_are_unchanged_by_display_and_parse(value in any::<i128>(), extension in 0_usize..4) {
            let number = BigInt::from(value);
            prop_assert_eq!(number.to_string(), value.to_string());
            prop_assert_eq!(number.to_i128(), Some(value));
            prop_assert_eq!(number.to_string().parse::<BigInt>(), Ok(number.clone()));
            let mut longer = value.to_le_bytes().to_vec();
            longer.extend(std::iter::repeat_n(if value < 0 { 0xff } else { 0 }, extension));
            prop_assert_eq!(BigInt::from_le_bytes(&longer), number);
        }

        #[test]
        fn long_decimals_are_displayed_as_they_are_parsed(zeros in 0_usize..40, digits in "[1-9][0-9]{0,570}") {
            let text = format!("{digits}{}", "0".repeat(zeros));
            prop_assert_eq!(text.parse::<BigInt>().unwrap().to_string(), text);
        }

        #[test]
        fn numbers_of_up_to_256_bytes_have_all_their_digits(bytes in prop::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 1..=256)) {
            let number = BigInt::from_le_bytes(&bytes);
            prop_assert_eq!(number.to_string().parse::<BigInt>(), Ok(number));
        }
    }
}
