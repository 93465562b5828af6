//! Dates of the proleptic Gregorian calendar.

/// A date and time without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    /// The astronomical year: 0 is 1 BC.
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: u8,
    /// From 1.
    pub(crate) day: u8,
    /// From 0, which is Sunday.
    pub(crate) weekday: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) millisecond: u16,
}

impl Civil {
    /// The date and time at milliseconds of the epoch, of local time.
    // The remainders are in the ranges of the types.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn at(ms: i64) -> Civil {
        let days = ms.div_euclid(86_400_000);
        let rest = ms.rem_euclid(86_400_000);
        let shifted = days + 719_468;
        let cycle = shifted.div_euclid(146_097);
        let day_of_cycle = shifted.rem_euclid(146_097);
        let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Civil {
            year: year_of_cycle + cycle * 400 + i64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
            hour: (rest / 3_600_000) as u8,
            minute: (rest / 60_000 % 60) as u8,
            second: (rest / 1000 % 60) as u8,
            millisecond: (rest % 1000) as u16,
        }
    }
}

/// The days of the epoch of a date.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * 146_097 + day_of_cycle - 719_468
}
