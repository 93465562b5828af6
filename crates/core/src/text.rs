//! Formats untrusted text in messages: quoted, escaped and cut to a length.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Returns the first `max` characters of `text`, followed by `…` if there are more.
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Escapes each character that `is_escaped` selects as in JSON strings: `\\u001b`.
pub fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character is a command for a terminal or misleads the reader: C0, DEL, C1, the line and paragraph separators, and
/// the bidirectional controls.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text in single quotes, escaped, cut to 120 characters.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 120;
        f.write_str("'")?;
        for c in self.0.chars().take(MAX) {
            match c {
                '"' => f.write_str("\"")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        f.write_str(if self.0.chars().nth(MAX).is_some() { "…'" } else { "'" })
    }
}

/// Text with control characters and line terminators escaped.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => write!(f, "{}", c.escape_default()),
            c => f.write_char(c),
        })
    }
}

/// A size in the largest fitting unit: `64 MiB`, `1.5 KiB`, `100 bytes`.
pub fn bytes_text(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{} {unit}", (bytes as f64 / size as f64 * 100.0).round() / 100.0),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_line_terminators_are_escaped() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü!", 3), "äöü…");
        assert_eq!(OneLine("a\nb\u{2028}é").to_string(), "a\\nb\\u{2028}é");
        assert_eq!(Quoted("it's \"x\"\n").to_string(), "'it\\'s \"x\"\\n'");
    }

    #[test]
    fn sizes_are_printed_in_the_largest_unit() {
        for (bytes, text) in [(0, "0 bytes"), (1 << 10, "1 KiB"), (64 << 20, "64 MiB"), (3 << 29, "1.5 GiB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
