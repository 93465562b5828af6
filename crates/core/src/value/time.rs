//! The time of a `Date`.

/// The farthest from 1970 that a `Date` can be, in milliseconds.
const FARTHEST: f64 = 8.64e15;

/// The time value of a `Date`: whole milliseconds since 1970, at most 8.64e15 of them to either side; or invalid.
///
/// Times from outside are read as JavaScript's `new Date(number)` reads them, so that a value is the same before and after it
/// was in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeValue(Option<i64>);

impl TimeValue {
    /// The time of `new Date(NaN)`.
    pub const INVALID: Self = Self(None);

    /// The time of `new Date(milliseconds)`: without the fraction; invalid where that is not in the range.
    pub fn from_milliseconds(milliseconds: f64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // the fraction is what is to be dropped, the rest fits
        Self((milliseconds.abs() <= FARTHEST).then_some(milliseconds as i64))
    }

    /// Milliseconds since 1970; `None` if it is invalid.
    pub fn milliseconds(self) -> Option<i64> {
        self.0
    }

    /// What `getTime()` gives: milliseconds since 1970, or NaN.
    #[allow(clippy::cast_precision_loss)] // 8.64e15 is below 2^53
    pub fn to_number(self) -> f64 {
        self.0.map_or(f64::NAN, |milliseconds| milliseconds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results are those of `new Date(number).getTime()`.
    #[test]
    fn a_number_becomes_the_time_that_javascript_makes_of_it() {
        for (number, time) in [
            (0.0, Some(0)),
            (-0.0, Some(0)),
            (1.9, Some(1)),
            (-1.9, Some(-1)),
            (-0.5, Some(0)),
            (8.64e15, Some(8_640_000_000_000_000)),
            (-8.64e15, Some(-8_640_000_000_000_000)),
            (8.640_000_000_000_001e15, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
            (f64::NAN, None),
        ] {
            assert_eq!(TimeValue::from_milliseconds(number), TimeValue(time), "{number}");
        }
        assert!(TimeValue::from_milliseconds(-0.0).to_number().is_sign_positive());
        assert!(TimeValue::INVALID.to_number().is_nan());
    }
}
