//! Integers of any size, in two's complement. No arithmetic.

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

/// A group of decimal digits that fits in 32 bits.
const GROUP_DIGITS: usize = 9;
const GROUP: u64 = 1_000_000_000;

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
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
        let mut rest: Vec<u32> = magnitude.chunks(4).map(word).collect();
        let mut groups = Vec::new();
        while groups.is_empty() || !rest.is_empty() {
            let mut remainder = 0;
            for word in rest.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*word);
                *word = (value / GROUP) as u32; // it fits, because the remainder is below the divisor
                remainder = value % GROUP;
            }
            groups.push(remainder);
            rest.truncate(rest.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
        }
        write!(f, "{}", groups.pop().unwrap_or_default())?;
        groups.iter().rev().try_for_each(|group| write!(f, "{group:0GROUP_DIGITS$}"))
    }
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
    let mut words: Vec<u32> = Vec::new();
    for group in digits.rchunks(GROUP_DIGITS).rev() {
        let digit = |&digit: &u8| char::from(digit).to_digit(10).map(u64::from);
        let mut carry = group.iter().try_fold(0, |value, d| Some(value * 10 + digit(d)?))?;
        for word in &mut words {
            let value = u64::from(*word) * GROUP + carry;
            *word = value as u32; // its low 32 bits
            carry = value >> 32;
        }
        if carry > 0 {
            words.push(carry as u32);
        }
    }
    Some(words.into_iter().flat_map(u32::to_le_bytes).collect())
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
    }
}
