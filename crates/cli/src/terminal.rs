//! Text that is safe to print, and colors.
//!
//! Logs, results and error messages come from hostile code. Their control characters are escaped before they reach a terminal:
//! commands (ESC, C1), and characters that mislead the reader (bidirectional controls, a carriage return that overwrites its
//! line).

use std::borrow::Cow;
use std::env;

use execbox::core::text::{escape, is_deceptive};

/// Escapes every control character but line feed and tab as `\uXXXX`.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_deceptive(character) && !matches!(character, '\n' | '\t'))
}

/// Escapes every control character, so that the text stays one line.
pub(crate) fn safe_line(text: &str) -> Cow<'_, str> {
    escape(text, is_deceptive)
}

/// JSON text for a terminal. Control characters can only occur inside of strings, where the escape has the same meaning.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    escape(json, |character| is_deceptive(character) && character != '\n')
}

/// Replaces every control character but the tab by one character, so that columns stay.
pub(crate) fn safe_source(line: &str) -> String {
    line.chars()
        .map(|character| if is_deceptive(character) && character != '\t' { '\u{fffd}' } else { character })
        .collect()
}

/// Whether to color the output to a stream.
pub(crate) fn colours(is_terminal: bool) -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(safe("a\x1b[2Jb\rc\u{9b}d\u{7f}\te\nf"), "a\\u001b[2Jb\\u000dc\\u009bd\\u007f\te\nf");
        assert_eq!(safe("\u{202e}evil\u{2069} \u{2028}"), "\\u202eevil\\u2069 \\u2028");
        assert_eq!(safe_line("a\nb\tc"), "a\\u000ab\\u0009c");
        assert_eq!(safe("plain – ünïcødé 🦀"), "plain – ünïcødé 🦀");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}31m\u{202e}\u{2028}\u{7f}\x1b"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = safe_json(&text);
        assert!(safe.chars().all(|character| character == '\n' || !is_deceptive(character)), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }

    #[test]
    fn source_keeps_its_columns() {
        assert_eq!(safe_source("a\x1b\u{202e}b\tc"), "a\u{fffd}\u{fffd}b\tc");
    }
}
