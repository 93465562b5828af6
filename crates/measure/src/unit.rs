//! Units of figures, and how figures are printed.

use execbox_core::text::bytes_text;
use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Time.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Throughput.
    #[serde(rename = "programs/s")]
    ProgramsPerSecond,
    /// Memory.
    #[serde(rename = "bytes")]
    Bytes,
}

impl Unit {
    /// Whether a larger figure is a better one.
    pub fn is_higher_better(self) -> bool {
        self == Self::ProgramsPerSecond
    }

    /// A figure as text, with three digits and a unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Milliseconds if value >= 1000.0 => format!("{} s", digits(value / 1000.0)),
            Self::Milliseconds if value < 1.0 => format!("{} µs", digits(value * 1000.0)),
            Self::Milliseconds => format!("{} ms", digits(value)),
            Self::ProgramsPerSecond => format!("{value:.0}/s"),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number of bytes
            Self::Bytes => bytes_text(value as u64),
        }
    }
}

fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        let milliseconds = [0.016_23, 0.5, 3.214, 31.26, 650.4, 1234.0].map(|value| Unit::Milliseconds.text(value));
        assert_eq!(milliseconds, ["16.2 µs", "500 µs", "3.21 ms", "31.3 ms", "650 ms", "1.23 s"]);
        assert_eq!(Unit::ProgramsPerSecond.text(61_834.4), "61834/s");
        assert_eq!(Unit::Bytes.text(26_214_400.0), "25 MiB");
    }
}
