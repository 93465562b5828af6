//! Durations, sizes and counts, in the notation of options and files.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use execbox_core::text::bytes_text;
use humantime::DurationError;

/// A duration: `2s`, `500ms`, `1m 30s`. Only zero needs no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

/// A number of bytes: `64MiB` (powers of 1024), `64MB` (powers of 1000). Only zero needs no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnitError {
    #[error("expected a number and a unit, such as `500ms`, `2s` or `1m`")]
    Duration,
    #[error("expected a number and a unit, such as `512KiB`, `64MiB` or `1GB`")]
    Size,
    #[error("missing unit: use `{0}s` or `{0}ms`")]
    TimeUnit(u64),
    #[error("missing unit: use `{0}MiB`, or `{0}B` for bytes")]
    SizeUnit(u64),
    #[error("too large")]
    TooLarge,
}

/// The error of an option that takes a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CountError {
    #[error("expected a whole number of at least {min}")]
    NotWhole { min: u8 },
    #[error("expected a whole number of at most {}", u64::MAX)]
    TooLarge,
}

/// The value parser of options that take a whole number: a `u64`, a `usize` or a `NonZero`.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, CountError> {
    let min = u8::from("0".parse::<T>().is_err());
    text.parse().map_err(|_| match plain_number(text) {
        Some(Err(_)) => CountError::TooLarge,
        _ => CountError::NotWhole { min },
    })
}

impl Size {
    /// The number of bytes, capped to `usize`.
    pub(crate) fn len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        if let Some(number) = plain_number(text) {
            return zero(&number, UnitError::TimeUnit).map(|()| Self(Duration::ZERO));
        }
        humantime::parse_duration(text).map(Self).map_err(|error| match error {
            DurationError::NumberOverflow => UnitError::TooLarge,
            _ => UnitError::Duration,
        })
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        if let Some(number) = plain_number(text) {
            return zero(&number, UnitError::SizeUnit).map(|()| Self(0));
        }
        // The parser takes fractions without a unit for bytes.
        if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
            return Err(UnitError::Size);
        }
        match text.parse::<ByteSize>().map_err(|_| UnitError::Size)?.as_u64() {
            // The parser saturates without an error.
            u64::MAX => Err(UnitError::TooLarge),
            bytes => Ok(Self(bytes)),
        }
    }
}

/// Accepts a number without a unit if it is zero.
fn zero(number: &Result<u64, ParseIntError>, error: fn(u64) -> UnitError) -> Result<(), UnitError> {
    match number {
        Ok(0) => Ok(()),
        Ok(number) => Err(error(*number)),
        Err(_) => Err(UnitError::TooLarge),
    }
}

/// The number, if the text consists of digits alone; such a number can only be too large.
fn plain_number(text: &str) -> Option<Result<u64, ParseIntError>> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse())
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bytes_text(self.0).replace(' ', ""))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in
            [("2s", 2000), ("500ms", 500), ("1m 30s", 90_000), (" 1.5s ", 1500), ("0", 0), ("0s", 0)]
        {
            assert_eq!(text.parse(), Ok(Time(Duration::from_millis(milliseconds))), "{text}");
        }
        for text in ["", "soon", "5 parsecs", "-5", "-5s", "1e3", "2 s s", "½s", "NaN"] {
            assert_eq!(text.parse::<Time>(), Err(UnitError::Duration), "{text}");
        }
        assert_eq!("5".parse::<Time>(), Err(UnitError::TimeUnit(5)));
        for text in ["99999999999999999999", "99999999999999999999s", "999999999999999999years"] {
            assert_eq!(text.parse::<Time>(), Err(UnitError::TooLarge), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("1 GB", 1_000_000_000),
            ("1.5KiB", 1536),
            ("4096B", 4096),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Size(size)), "{text}");
        }
        for text in ["", "lots", "64 MiBs", "-1", "-1MiB", "1.2.3MB", "MiB", "64.5"] {
            assert_eq!(text.parse::<Size>(), Err(UnitError::Size), "{text}");
        }
        assert_eq!("64".parse::<Size>(), Err(UnitError::SizeUnit(64)));
        for text in ["99999999999999999999", "99999999999EiB"] {
            assert_eq!(text.parse::<Size>(), Err(UnitError::TooLarge), "{text}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!((count("0"), count("12")), (Ok(0_usize), Ok(12_u64)));
        for text in ["", "-1", "1.5", "ten", "1e3", "1 000"] {
            assert_eq!(count::<u64>(text), Err(CountError::NotWhole { min: 0 }), "{text}");
            assert_eq!(count::<NonZero<usize>>(text), Err(CountError::NotWhole { min: 1 }), "{text}");
        }
        assert_eq!(count::<NonZero<usize>>("0"), Err(CountError::NotWhole { min: 1 }));
        assert_eq!(count::<usize>("99999999999999999999"), Err(CountError::TooLarge));
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for time in ["5s", "1m 30s", "20ms"] {
            assert_eq!(time.parse::<Time>().unwrap().to_string(), time);
        }
        for size in ["64MiB", "1.5KiB", "2GiB"] {
            assert_eq!(size.parse::<Size>().unwrap().to_string(), size);
        }
    }
}
