//! Patterns of dates from the fields that they shall have, as ICU's `DateTimePatternGenerator` finds them.
//!
//! A locale has patterns for some sets of fields. The nearest one is taken, and its fields get the widths that were asked for.
//! Fields that it lacks are appended; a date and a time are joined.

use crate::table::Locale;

/// The number of kinds of fields, in the order of ICU.
const FIELDS: usize = 16;
const MONTH: usize = 3;
const WEEKDAY: usize = 6;
const DAY_PERIOD: usize = 10;
const HOUR: usize = 11;
const MINUTE: usize = 12;
const SECOND: usize = 13;
const FRACTION: usize = 14;
const YEAR: usize = 1;
/// The fields of a date.
const DATE: u32 = (1 << DAY_PERIOD) - 1;

/// The names of the fields in `append.*` and `field.*`.
const NAMES: [&str; FIELDS] = [
    "Era",
    "Year",
    "Quarter",
    "Month",
    "Week",
    "F5",
    "Day-Of-Week",
    "F7",
    "F8",
    "Day",
    "DayPeriod",
    "Hour",
    "Minute",
    "Second",
    "F14",
    "Timezone",
];

const NARROW: i32 = -0x101;
const SHORT: i32 = -0x103;
const LONG: i32 = -0x104;
const NUMERIC: i32 = 0x100;
const DELTA: i32 = 0x10;
const EXTRA: i32 = 0x10000;
const MISSING: i32 = 0x1000;

/// A field as it is asked for: a letter of a pattern and its width. `kind` says how near it is to others; 0 is no field.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Field {
    letter: char,
    width: usize,
    kind: i32,
}

/// The fields of a pattern.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Skeleton([Field; FIELDS]);

/// A pattern of the locale with its fields.
struct Candidate {
    skeleton: Skeleton,
    pattern: String,
    /// Whether the locale states the fields.
    specified: bool,
}

/// The nearest pattern, with the sets of fields that it lacks and has in addition.
struct Nearest<'a> {
    candidate: &'a Candidate,
    missing: u32,
    extra: u32,
}

/// Finds patterns of a locale.
pub(crate) struct Generator {
    locale: Locale,
    hour: char,
    candidates: Vec<Candidate>,
}

/// One element of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element<'a> {
    /// A letter and how often it is repeated.
    Field(char, usize),
    Literal(&'a str),
}

impl Generator {
    pub(crate) fn new(locale: Locale) -> Generator {
        let mut generator = Generator { locale, hour: default_hour(locale), candidates: Vec::new() };
        for item in ["G", "y", "M", "E", "d", "a", "H", "m", "s", "S", "v"] {
            generator.add(item, item, false);
        }
        for style in ["full", "long", "medium", "short"] {
            for kind in ["date", "time"] {
                let pattern = locale.text(&format!("{kind}.{style}"));
                generator.add(pattern, pattern, false);
            }
        }
        let (first, others): (Vec<_>, Vec<_>) = locale
            .all("skeleton.")
            .into_iter()
            .partition(|(skeleton, _)| locale.text("skeletons").split('|').any(|own| own == *skeleton));
        for (skeleton, pattern) in first.into_iter().chain(others) {
            generator.add(skeleton, pattern, true);
        }
        generator.candidates.sort_by_key(|candidate| candidate.skeleton.first());
        generator
    }

    /// The pattern for the fields of a skeleton such as `yMMMdjm`, in which `j` is the hour of the locale.
    pub(crate) fn best(&self, skeleton: &str) -> String {
        let letters = skeleton.replace('j', &self.hour.to_string());
        let wanted = Skeleton::parse(&letters);
        let nearest = self.nearest(&wanted, 0);
        if nearest.missing == 0 && nearest.extra == 0 {
            return self.adjust(&nearest.candidate.pattern, &wanted, nearest.candidate, false);
        }
        let fields = wanted.mask();
        let date = self.appended(&wanted, fields & DATE);
        let time = self.appended(&wanted, fields & !DATE);
        match (date, time) {
            (None, None) => String::new(),
            (Some(only), None) | (None, Some(only)) => only,
            (Some(date), Some(time)) => {
                let style = match (wanted.0[MONTH].width, wanted.0[WEEKDAY].width) {
                    (4, 1..) => "full",
                    (4, 0) => "long",
                    (3, _) => "medium",
                    _ => "short",
                };
                join(self.locale.text(&format!("glue.{style}")), &time, &date)
            }
        }
    }

    fn add(&mut self, skeleton: &str, pattern: &str, specified: bool) {
        let skeleton = Skeleton::parse(skeleton);
        let candidate = Candidate { skeleton, pattern: pattern.to_owned(), specified };
        match self.candidates.iter_mut().find(|other| other.skeleton.same_kinds(&skeleton)) {
            Some(other) if specified => *other = candidate,
            Some(_) => {}
            None => self.candidates.push(candidate),
        }
    }

    /// The nearest pattern for the fields of a mask; 0 stands for all.
    fn nearest(&self, wanted: &Skeleton, mask: u32) -> Nearest<'_> {
        let mut best = Nearest { candidate: &self.candidates[0], missing: u32::MAX, extra: 0 };
        let mut least = i32::MAX;
        for candidate in &self.candidates {
            let (distance, missing, extra) = wanted.distance(&candidate.skeleton, mask);
            if distance < least || (distance == least && best.missing < missing) {
                least = distance;
                best = Nearest { candidate, missing, extra };
            }
            if distance == 0 {
                break;
            }
        }
        best
    }

    /// A pattern with all fields of a mask: the nearest one, and those that it lacks after it.
    fn appended(&self, wanted: &Skeleton, mask: u32) -> Option<String> {
        if mask == 0 {
            return None;
        }
        let nearest = self.nearest(wanted, mask);
        let mut pattern = self.adjust(&nearest.candidate.pattern, wanted, nearest.candidate, false);
        let (mut missing, mut before) = (nearest.missing, 0);
        // As in ICU, what is still missing after a field was appended is left out.
        while missing != 0 && missing != before {
            const BOTH: u32 = (1 << SECOND) | (1 << FRACTION);
            if missing & BOTH == 1 << FRACTION && mask & BOTH == BOTH {
                pattern = self.adjust(&pattern, wanted, nearest.candidate, true);
                missing &= !(1 << FRACTION);
                continue;
            }
            let next = self.nearest(wanted, missing);
            let more = self.adjust(&next.candidate.pattern, wanted, next.candidate, false);
            let found = missing & !next.missing;
            let name = NAMES[found.checked_ilog2().unwrap_or(0) as usize];
            let format = self.locale.get(&format!("append.{name}")).unwrap_or("{0} ├{2}: {1}┤");
            let title = format!("'{}'", self.locale.get(&format!("field.{name}")).unwrap_or(name));
            pattern = join(format, &pattern, &more).replace("{2}", &title);
            missing = next.missing;
            before = missing;
        }
        Some(pattern)
    }

    /// The pattern with the letters and widths that are wanted; `fraction` appends the fraction to the seconds.
    fn adjust(&self, pattern: &str, wanted: &Skeleton, candidate: &Candidate, fraction: bool) -> String {
        let mut result = String::new();
        for element in elements(pattern) {
            let (letter, width) = match element {
                Element::Literal(text) => {
                    result.push_str(text);
                    continue;
                }
                Element::Field(letter, width) => (letter, width),
            };
            let Some((index, kind)) = classify(letter, width) else {
                push_field(&mut result, letter, width);
                continue;
            };
            let asked = wanted.0[index];
            if fraction && index == SECOND {
                push_field(&mut result, letter, width);
                result.push_str(self.locale.text("symbol.decimal"));
                push_field(&mut result, 'S', wanted.0[FRACTION].width);
            } else if asked.kind == 0 {
                push_field(&mut result, letter, width);
            } else {
                let (letter, width) = self.adjusted(index, Field { letter, width, kind }, asked, candidate);
                push_field(&mut result, letter, width);
            }
        }
        result
    }

    /// The letter and width of a field of a pattern for which another one is asked.
    fn adjusted(&self, index: usize, found: Field, asked: Field, candidate: &Candidate) -> (char, usize) {
        let stated = candidate.skeleton.0[index];
        let wide = if asked.letter == 'E' { asked.width.max(3) } else { asked.width };
        let is_matched = stated.width == asked.width || (found.kind > 0) != (stated.kind > 0);
        let is_kept = matches!(index, MINUTE | SECOND) || candidate.specified && is_matched;
        let width = if is_kept { found.width } else { wide };
        let letter = match index {
            HOUR if asked.letter == self.hour => self.hour,
            HOUR | MONTH | WEEKDAY | YEAR => found.letter,
            _ => asked.letter,
        };
        (if letter == 'E' && width < 3 { 'e' } else { letter }, width)
    }
}

impl Skeleton {
    /// The fields of a skeleton or a pattern.
    fn parse(pattern: &str) -> Skeleton {
        let mut fields = [Field::default(); FIELDS];
        for element in elements(pattern) {
            if let Element::Field(letter, width) = element
                && let Some((index, kind)) = classify(letter, width)
            {
                fields[index] = Field { letter, width, kind };
            }
        }
        let second = classify('s', 1).map_or(0, |(_, kind)| kind);
        if fields[MINUTE].kind != 0 && fields[FRACTION].kind != 0 && fields[SECOND].kind == 0 {
            fields[SECOND] = Field { letter: 's', width: 1, kind: second };
        }
        match fields[HOUR].letter {
            'h' | 'K' if fields[DAY_PERIOD].kind == 0 => {
                fields[DAY_PERIOD] = Field { letter: 'a', width: 1, kind: SHORT }
            }
            'H' | 'k' => fields[DAY_PERIOD] = Field::default(),
            _ => {}
        }
        Skeleton(fields)
    }

    fn same_kinds(&self, other: &Skeleton) -> bool {
        self.0.iter().zip(&other.0).all(|(one, two)| one.kind == two.kind)
    }

    fn mask(&self) -> u32 {
        (0..FIELDS).filter(|index| self.0[*index].kind != 0).fold(0, |mask, index| mask | 1 << index)
    }

    /// The letter of the first field, by which ICU orders patterns.
    fn first(&self) -> char {
        let first = |field: &&Field| field.kind != 0 && field.letter != 'a';
        match self.0.iter().find(first).map_or('z', |field| field.letter) {
            'L' => 'M',
            'c' => 'E',
            'h' | 'K' | 'k' => 'H',
            letter => letter,
        }
    }

    /// The distance of a pattern, the fields that it lacks, and those that it has in addition.
    fn distance(&self, other: &Skeleton, mask: u32) -> (i32, u32, u32) {
        let (mut distance, mut missing, mut extra) = (0, 0, 0);
        for index in 0..FIELDS {
            let bit = 1 << index;
            let wanted = if mask != 0 && mask & bit == 0 { 0 } else { self.0[index].kind };
            let found = other.0[index].kind;
            if wanted == found {
                continue;
            }
            if wanted == 0 {
                distance += EXTRA;
                extra |= bit;
            } else if found == 0 {
                distance += MISSING;
                missing |= bit;
            } else {
                distance += (wanted - found).abs();
            }
        }
        (distance, missing, extra)
    }
}

/// The hour that a locale writes: `h` or `H`.
pub(crate) fn default_hour(locale: Locale) -> char {
    if locale.text("time.short").contains('h') { 'h' } else { 'H' }
}

/// The field of a letter, and how near it is to others of that field.
fn classify(letter: char, width: usize) -> Option<(usize, i32)> {
    let long = i32::try_from(width).unwrap_or(1);
    let text = |delta: i32| match width {
        4 => LONG - delta,
        5 => NARROW - delta,
        _ => SHORT - delta,
    };
    let either = |delta: i32| if width < 3 { NUMERIC + delta + long } else { text(delta) };
    Some(match letter {
        'G' => (0, text(0)),
        'y' => (YEAR, NUMERIC + long),
        'M' => (MONTH, either(0)),
        'L' => (MONTH, either(DELTA)),
        'E' => (WEEKDAY, text(0)),
        'c' => (WEEKDAY, if width < 3 { NUMERIC + 2 * DELTA + long } else { text(2 * DELTA) }),
        'd' => (9, NUMERIC + long),
        'a' => (DAY_PERIOD, text(0)),
        'B' => (DAY_PERIOD, text(3 * DELTA)),
        'h' => (HOUR, NUMERIC + long),
        'K' => (HOUR, NUMERIC + DELTA + long),
        'H' => (HOUR, NUMERIC + 10 * DELTA + long),
        'k' => (HOUR, NUMERIC + 11 * DELTA + long),
        'm' => (MINUTE, NUMERIC + long),
        's' => (SECOND, NUMERIC + long),
        'S' => (FRACTION, NUMERIC + long),
        'z' => (15, text(0)),
        'O' => (15, text(DELTA)),
        'v' => (15, text(2 * DELTA)),
        _ => return None,
    })
}

/// The fields and literals of a pattern; quotes are part of literals.
pub(crate) fn elements(pattern: &str) -> impl Iterator<Item = Element<'_>> {
    let mut rest = pattern;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if first.is_ascii_alphabetic() {
            rest.find(|char| char != first).unwrap_or(rest.len())
        } else if first == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |at| at + 2)
        } else {
            rest.find(|char: char| char.is_ascii_alphabetic() || char == '\'').unwrap_or(rest.len())
        };
        let (element, after) = rest.split_at(end);
        rest = after;
        Some(if first.is_ascii_alphabetic() { Element::Field(first, element.len()) } else { Element::Literal(element) })
    })
}

/// A literal of a pattern without its quotes.
pub(crate) fn unquoted(literal: &str) -> String {
    if literal == "''" { "'".to_owned() } else { literal.replace('\'', "") }
}

/// Puts texts in the places of `{0}` and `{1}`.
pub(crate) fn join(format: &str, first: &str, second: &str) -> String {
    let mut result = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('{') {
        result.push_str(&rest[..at]);
        match rest.get(at..at + 3) {
            Some("{0}") => result.push_str(first),
            Some("{1}") => result.push_str(second),
            other => result.push_str(other.unwrap_or_default()),
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    result + rest
}

fn push_field(pattern: &mut String, letter: char, width: usize) {
    pattern.extend(std::iter::repeat_n(letter, width));
}
