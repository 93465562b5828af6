//! Formats untrusted text in messages: quoted, escaped and cut to a length.

mod hidden;
mod surrogates;

use std::borrow::Cow;
use std::fmt;

pub use self::hidden::{Keep, escape, escape_json, is_hidden, push_escape, strip};
pub use self::surrogates::mend_surrogates;

/// Returns the first `max` characters of `text`, followed by `…` if there are more.
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Truncates `text` to at most `max` characters and appends how many were removed.
pub fn truncate(mut text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let Some((at, _)) = text.char_indices().nth(max) else { return text };
    let removed = text[at..].chars().count();
    text.truncate(at);
    text + &format!("\n… [truncated: {removed} more characters]")
}

/// `text` with hidden characters escaped, truncated to at most `max` characters.
pub fn shown(text: String, max: usize) -> String {
    let (mut head, mut rest) = (text, 0);
    if let Some((at, _)) = head.char_indices().nth(max) {
        rest = head[at..].chars().count();
        head.truncate(at);
    }
    make_visible(&mut head);
    if let Some((at, _)) = head.char_indices().nth(max) {
        rest += head[at..].chars().count();
        head.truncate(at);
    }
    if rest > 0 { head + &format!("\n… [truncated: {rest} more characters]") } else { head }
}

/// Escapes the hidden characters of ordinary text.
pub fn make_visible(text: &mut String) {
    if let Cow::Owned(visible) = escape(text, Keep::Lines) {
        *text = visible;
    }
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
                c if is_hidden(c) => f.write_str(&escape(c.encode_utf8(&mut [0; 4]), Keep::Nothing))?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        f.write_str(if self.0.chars().nth(MAX).is_some() { "…'" } else { "'" })
    }
}

/// Text on one line, with hidden characters escaped.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self.0, Keep::Joiners))
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
        assert_eq!(OneLine("a\nb\u{2028}é").to_string(), "a\\nb\\u2028é");
        assert_eq!(Quoted("it's \"x\"\n").to_string(), "'it\\'s \"x\"\\n'");
    }

    #[test]
    fn sizes_are_printed_in_the_largest_unit() {
        for (bytes, text) in [(0, "0 bytes"), (1 << 10, "1 KiB"), (64 << 20, "64 MiB"), (3 << 29, "1.5 GiB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn text_is_truncated_by_characters_and_the_mark_counts_the_rest() {
        assert_eq!(truncate("äöü".into(), 3), "äöü");
        assert_eq!(truncate("äöüß!".into(), 3), "äöü\n… [truncated: 2 more characters]");
    }

    #[test]
    fn shown_text_is_escaped_and_no_longer_than_permitted() {
        assert_eq!(shown("a\u{200b}\n".into(), 9), "a\\u200b\n");
        assert_eq!(shown("\u{200b}".repeat(5), 9), "\\u200b\\u2\n… [truncated: 21 more characters]");
        assert_eq!(shown("x".repeat(12), 9), "xxxxxxxxx\n… [truncated: 3 more characters]");
    }
}
