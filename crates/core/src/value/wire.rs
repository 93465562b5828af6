//! The byte format of values: its tags, and reading and writing of lengths, numbers, strings and keys.
//!
//! The tags and the functions that write are public for engines, which write the values of their guests.
//! `super::json`, `super::decode` and `super::encode` read and write whole values.

// The tags are described in the table of `super`.
#![allow(missing_docs)]

use std::collections::HashMap;

use super::error::Reason;
use crate::budget::Meter;

pub const UNDEFINED: u8 = 0;
pub const NULL: u8 = 1;
pub const FALSE: u8 = 2;
pub const TRUE: u8 = 3;
pub const INT: u8 = 4;
pub const F64: u8 = 5;
pub const STRING: u8 = 6;
pub const ARRAY: u8 = 7;
pub const OBJECT: u8 = 8;
pub const HOLE: u8 = 9;
pub const REFERENCE: u8 = 10;
pub const FOREIGN: u8 = 11;
pub const BIGINT: u8 = 12;
pub const DATE: u8 = 13;
pub const MAP: u8 = 14;
pub const SET: u8 = 15;
pub const REGEXP: u8 = 16;
pub const ERROR: u8 = 17;
pub const BUFFER: u8 = 18;
pub const VIEW: u8 = 19;
pub const BOXED: u8 = 20;
pub const SPARSE: u8 = 21;
pub const FUNCTION: u8 = 22;
pub const PROMISE: u8 = 23;

/// The parts of an [`ERROR`], as bits.
pub const ERROR_MESSAGE: u8 = 1;
pub const ERROR_STACK: u8 = 2;
pub const ERROR_CAUSE: u8 = 4;

/// A key is [`KEY_NEW`] and its text, or [`KEY_KNOWN`] plus its number; [`KEY_END`] ends the object.
pub const KEY_END: u32 = 0;
pub const KEY_NEW: u32 = 1;
pub const KEY_KNOWN: u32 = 2;

/// The bytes end early or are not in the format: [`Reason::InvalidFormat`], without its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<Malformed> for Reason {
    fn from(_: Malformed) -> Self {
        Self::InvalidFormat
    }
}

/// Reads the parts of a value. It never reads past the end, and never allocates.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(first)
    }

    pub(super) fn varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0_u32;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            let bits = u32::from(byte & 0x7f);
            value |= bits.checked_shl(shift).filter(|v| v >> shift == bits).ok_or(Malformed)?;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    pub(super) fn int(&mut self) -> Result<i32, Malformed> {
        let zigzag = self.varint()?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    pub(super) fn f64(&mut self) -> Result<f64, Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A count of parts that take at least one byte each.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.varint()? as usize;
        if count <= self.rest.len() { Ok(count) } else { Err(Malformed) }
    }

    pub(super) fn string(&mut self) -> Result<&'a str, Malformed> {
        let len = self.varint()? as usize;
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Malformed)
    }
}

/// A length or number: LEB128.
pub fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A tag and an integer.
pub fn put_int(out: &mut Vec<u8>, value: i32) {
    out.push(INT);
    put_varint(out, (value << 1 ^ value >> 31).cast_unsigned());
}

/// A tag and a number.
pub fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.push(F64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A tag and a number: as an integer if it is one of 32 bits; negative zero is not.
pub fn put_number(out: &mut Vec<u8>, value: f64) {
    let integer = value as i32;
    if f64::from(integer).to_bits() == value.to_bits() {
        put_int(out, integer);
    } else {
        put_f64(out, value);
    }
}

/// A length and UTF-8, without a tag. No string on the host is as long as 4 GiB: it would not fit in a guest.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    put_varint(out, u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(text.as_bytes());
}

/// Writes the text of a key the first time, and its number after that.
pub(super) fn put_key<'k>(out: &mut Vec<u8>, key: &'k str, known: &mut HashMap<&'k str, u32>) {
    let next = known.len() as u32;
    if let Some(number) = known.get(key) {
        put_varint(out, KEY_KNOWN + number);
    } else {
        known.insert(key, next);
        put_varint(out, KEY_NEW);
        put_string(out, key);
    }
}

/// The distinct keys of a value that is being read, by number.
#[derive(Default)]
pub(super) struct Keys<'a>(Vec<&'a str>);

impl<'a> Keys<'a> {
    /// Reads the next key of an object; `None` at the object's end. `begun` is the number of distinct keys that precede
    /// the reader's position: a part of a value that is read a second time has its keys already.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'a>,
        begun: &mut usize,
        meter: &mut Meter<'_>,
    ) -> Result<Option<&'a str>, Reason> {
        match reader.varint()? {
            KEY_END => Ok(None),
            KEY_NEW => {
                let key = reader.string()?;
                if *begun == self.0.len() {
                    meter.spend(size_of::<&str>())?;
                    self.0.push(key);
                }
                *begun += 1;
                Ok(Some(key))
            }
            known => {
                let key = self.0.get((known - KEY_KNOWN) as usize);
                key.copied().map(Some).ok_or(Reason::InvalidFormat)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_they_were_written() {
        for value in [0, 1, -1, 63, 64, -64, -65, i32::MAX, i32::MIN] {
            let mut out = Vec::new();
            put_int(&mut out, value);
            assert_eq!(Reader::new(&out[1..]).int(), Ok(value));
        }
    }

    #[test]
    fn a_varint_of_more_than_32_bits_is_malformed() {
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(), Ok(u32::MAX));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint(), Err(Malformed));
        assert_eq!(Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).varint(), Err(Malformed));
    }

    #[test]
    fn a_length_beyond_the_end_is_malformed() {
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, b'x']).string(), Err(Malformed));
    }
}
