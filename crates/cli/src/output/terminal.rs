//! Text that is safe to print.
//!
//! Logs, results and error messages come from hostile code. Their hidden characters ([`is_hidden`]) are escaped before they
//! reach a terminal: commands (ESC, C1), characters that a reader does not see, and characters that mislead a reader
//! (bidirectional controls, a carriage return that overwrites its line). Those that ordinary text needs remain: see [`Keep`].

use std::borrow::Cow;

use execbox_core::text::{Keep, escape, escape_json, is_hidden};

/// Escapes text of several lines.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    escape(text, Keep::Lines)
}

/// Escapes text so that it remains one line.
pub(crate) fn safe_line(text: &str) -> Cow<'_, str> {
    escape(text, Keep::Joiners)
}

/// Escapes JSON text, whose value remains the same.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    escape_json(json, Keep::Joiners)
}

/// Replaces every hidden character but the tab by one character, so that columns do not change.
pub(crate) fn safe_source(line: &str) -> String {
    line.chars()
        .map(|character| if is_hidden(character) && character != '\t' { '\u{fffd}' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(safe("a\x1b[2Jb\rc\u{9b}d\u{7f}\te\nf"), "a\\u001b[2Jb\\rc\\u009bd\\u007f\te\nf");
        assert_eq!(safe("\u{202e}evil\u{2069} \u{2028}"), "\\u202eevil\\u2069 \\u2028");
        assert_eq!(safe_line("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(safe("a\u{200b}\u{3164}\u{e0041}\u{2800}"), "a\\u200b\\u3164\\u{e0041}\\u2800");
        assert_eq!(safe("plain – ünïcødé 🦀 ❤️"), "plain – ünïcødé 🦀 ❤️");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}31m\u{202e}\u{2028}\u{7f}\x1b\u{e0041}"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = safe_json(&text);
        assert!(safe.chars().all(|character| character == '\n' || !is_hidden(character)), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }

    #[test]
    fn source_keeps_its_columns() {
        assert_eq!(safe_source("a\x1b\u{202e}b\tc"), "a\u{fffd}\u{fffd}b\tc");
    }
}
