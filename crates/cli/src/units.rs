//! Durations, sizes and counts as people write them.

use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use humantime::DurationError;

/// A text that is no duration, size or count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnitError {
    #[error("{0:?} is not a duration: write a number and a unit, for example `500ms`, `2s` or `1m`")]
    Duration(String),
    #[error("{0:?} is not a size: write a number and a unit, for example `512KiB`, `64MiB` or `1GB`")]
    Size(String),
    #[error("{0:?} is not a count: write a whole number, for example `100`")]
    Count(String),
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// A time: `2s`, `500ms`, `1m 30s`. A plain number is milliseconds.
pub(crate) fn duration(text: &str) -> Result<Duration, UnitError> {
    let text = text.trim();
    if is_whole_number(text) {
        return plain(text).map(Duration::from_millis);
    }
    humantime::parse_duration(text).map_err(|error| match error {
        DurationError::NumberOverflow => UnitError::TooLarge(text.to_owned()),
        _ => UnitError::Duration(text.to_owned()),
    })
}

/// A size in bytes: `64MiB` (powers of 1024), `64MB` (powers of 1000). A plain number is bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if is_whole_number(text) {
        return plain(text);
    }
    let size: ByteSize = text.parse().map_err(|_| UnitError::Size(text.to_owned()))?;
    // The parser counts no further than this, and says nothing of it.
    if size.as_u64() == u64::MAX {
        return Err(UnitError::TooLarge(text.to_owned()));
    }
    Ok(size.as_u64())
}

/// A whole number.
pub(crate) fn count(text: &str) -> Result<usize, UnitError> {
    let text = text.trim();
    if !is_whole_number(text) {
        return Err(UnitError::Count(text.to_owned()));
    }
    plain(text)
}

fn is_whole_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A whole number, which can only be too large.
fn plain<T: FromStr>(text: &str) -> Result<T, UnitError> {
    text.parse().map_err(|_| UnitError::TooLarge(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in
            [("2s", 2000), ("500ms", 500), ("1m 30s", 90_000), ("2000", 2000), (" 1.5s ", 1500), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "soon", "5 parsecs", "-5", "-5s", "1e3", "2 s s", "½s", "NaN"] {
            assert_eq!(duration(text), Err(UnitError::Duration(text.to_owned())), "{text}");
        }
        for text in ["99999999999999999999", "99999999999999999999s", "999999999999999999years"] {
            assert_eq!(duration(text), Err(UnitError::TooLarge(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in
            [("64MiB", 64 << 20), ("64mib", 64 << 20), ("1 GB", 1_000_000_000), ("1.5KiB", 1536), ("4096", 4096)]
        {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "lots", "64 MiBs", "-1", "-1MiB", "1.2.3MB", "MiB"] {
            assert_eq!(bytes(text), Err(UnitError::Size(text.to_owned())), "{text}");
        }
        for text in ["99999999999999999999", "99999999999EiB"] {
            assert_eq!(bytes(text), Err(UnitError::TooLarge(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(count("100"), Ok(100));
        assert_eq!(count("0"), Ok(0));
        for text in ["", "-1", "1.5", "ten", "1_000"] {
            assert_eq!(count(text), Err(UnitError::Count(text.to_owned())), "{text}");
        }
        assert_eq!(count("99999999999999999999"), Err(UnitError::TooLarge("99999999999999999999".to_owned())));
    }
}
