//! The order of text.

use std::cmp::Ordering;

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use serde::Deserialize;

use crate::table::Locale;

/// The length of a text, at most, in units of UTF-16.
pub const MAX_TEXT: usize = 16 * 1024;

/// The options of `Intl.Collator`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CollateOptions {
    /// `base`, `accent`, `case` or `variant`.
    pub sensitivity: Option<String>,
    /// Whether digits are compared as numbers.
    pub numeric: bool,
    /// `upper`, `lower` or `false`.
    pub case_first: Option<String>,
    /// Whether punctuation is ignored.
    pub ignore_punctuation: bool,
}

/// Compares texts.
///
/// # Errors
///
/// Fails for texts that are too long.
pub fn compare(locale: Locale, options: &CollateOptions, left: &str, right: &str) -> Result<Ordering, String> {
    if left.encode_utf16().count() > MAX_TEXT || right.encode_utf16().count() > MAX_TEXT {
        return Err(format!(
            "texts of more than {MAX_TEXT} characters cannot be compared by locale; compare them with < or ==="
        ));
    }
    Ok(collator(locale, options)?.compare(left, right))
}

fn collator(locale: Locale, options: &CollateOptions) -> Result<CollatorBorrowed<'static>, String> {
    let tag: icu_locale_core::Locale = locale.tag.parse().map_err(|_| format!("invalid locale {}", locale.tag))?;
    let mut preferences = CollatorPreferences::from(&tag);
    preferences.numeric_ordering = options.numeric.then_some(CollationNumericOrdering::True);
    preferences.case_first = match options.case_first.as_deref() {
        Some("upper") => Some(CollationCaseFirst::Upper),
        Some("lower") => Some(CollationCaseFirst::Lower),
        _ => None,
    };
    let mut settings = CollatorOptions::default();
    (settings.strength, settings.case_level) = match options.sensitivity.as_deref() {
        Some("base") => (Some(Strength::Primary), None),
        Some("accent") => (Some(Strength::Secondary), None),
        Some("case") => (Some(Strength::Primary), Some(CaseLevel::On)),
        _ => (Some(Strength::Tertiary), None),
    };
    settings.alternate_handling = options.ignore_punctuation.then_some(AlternateHandling::Shifted);
    Collator::try_new(preferences, settings).map_err(|error| error.to_string())
}
