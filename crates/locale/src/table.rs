//! Tables of text: lines `key=value` in the order of their bytes, which are searched without being parsed.

/// A table, as `data/generate.mjs` writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(pub(crate) &'static str);

/// What holds for all locales.
pub(crate) const COMMON: Table = Table(include_str!("../data/common.txt"));

const ENGLISH: Table = Table(include_str!("../data/en.txt"));
const NONE: Table = Table("");
const DE: Table = Table(include_str!("../data/de.txt"));
const ES: Table = Table(include_str!("../data/es.txt"));
const FR: Table = Table(include_str!("../data/fr.txt"));
const SV: Table = Table(include_str!("../data/sv.txt"));

macro_rules! locales {
    ($($tag:literal $table:expr;)*) => {
        const LOCALES: &[Locale] = &[$(Locale { tag: $tag, table: $table }),*];
    };
}

locales! {
    "en" NONE;
    "en-US" NONE;
    "en-AU" Table(include_str!("../data/en-AU.txt"));
    "en-CA" Table(include_str!("../data/en-CA.txt"));
    "en-GB" Table(include_str!("../data/en-GB.txt"));
    "en-IN" Table(include_str!("../data/en-IN.txt"));
    "de" DE;
    "de-DE" DE;
    "es" ES;
    "es-ES" ES;
    "fr" FR;
    "fr-FR" FR;
    "sv" SV;
    "sv-SE" SV;
}

/// A locale whose data is available.
#[derive(Clone, Copy, Debug)]
pub struct Locale {
    /// The canonical tag.
    pub tag: &'static str,
    table: Table,
}

impl Locale {
    /// The locale with a canonical tag.
    pub fn find(tag: &str) -> Option<Locale> {
        LOCALES.iter().find(|locale| locale.tag == tag).copied()
    }

    /// The tags of all locales.
    pub fn tags() -> impl Iterator<Item = &'static str> {
        LOCALES.iter().map(|locale| locale.tag)
    }

    /// The territory whose conventions hold.
    pub(crate) fn region(&self) -> &'static str {
        match self.tag {
            "en" => "US",
            "sv" => "SE",
            "de" => "DE",
            "es" => "ES",
            "fr" => "FR",
            tag => &tag[3..],
        }
    }

    /// The value of a key; English where the locale says nothing else.
    pub(crate) fn get(&self, key: &str) -> Option<&'static str> {
        self.table.get(key).or_else(|| ENGLISH.get(key)).filter(|value| !value.is_empty())
    }

    /// The value of a key that every locale has.
    pub(crate) fn text(&self, key: &str) -> &'static str {
        self.get(key).unwrap_or_default()
    }

    /// One of the values that `|` separates.
    pub(crate) fn item(&self, key: &str, index: usize) -> &'static str {
        self.text(key).split('|').nth(index).unwrap_or_default()
    }

    /// All keys with a prefix, without it, and their values.
    pub(crate) fn all(&self, prefix: &str) -> Vec<(&'static str, &'static str)> {
        let mut found: Vec<_> = self.table.all(prefix).collect();
        let own = found.len();
        for (key, value) in ENGLISH.all(prefix) {
            if !found[..own].iter().any(|(name, _)| *name == key) {
                found.push((key, value));
            }
        }
        found.retain(|(_, value)| !value.is_empty());
        found
    }
}

impl Table {
    /// The value of a key.
    pub(crate) fn get(self, key: &str) -> Option<&'static str> {
        let rest = &self.0[self.first(&format!("{key}="))..];
        let line = rest.split('\n').next()?;
        line.strip_prefix(key)?.strip_prefix('=')
    }

    /// All keys with a prefix, without it, and their values.
    pub(crate) fn all(self, prefix: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        let rest = &self.0[self.first(prefix)..];
        rest.lines().map_while(move |line| line.strip_prefix(prefix)?.split_once('='))
    }

    /// The offset of the first line that is not less than `key`.
    fn first(self, key: &str) -> usize {
        let (mut low, mut high) = (0, self.0.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let start = self.0.as_bytes()[..middle].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let end = self.0.as_bytes()[middle..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(self.0.len(), |at| middle + at + 1);
            if self.0.as_bytes()[start..end] < *key.as_bytes() {
                low = end;
            } else {
                high = start;
            }
        }
        low
    }
}
