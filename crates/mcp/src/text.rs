//! Texts: truncates strings, measures JSON, and finds names in code.

/// Truncates `text` to at most `max` characters and appends how many were removed.
pub(crate) fn truncate(mut text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let Some((at, _)) = text.char_indices().nth(max) else { return text };
    let removed = text[at..].chars().count();
    text.truncate(at);
    text + &format!("\n… [truncated: {removed} more characters]")
}

/// Whether `value` has more than `max` bytes as JSON. Writes nothing to memory.
pub(crate) fn json_exceeds(value: &impl serde::Serialize, max: usize) -> bool {
    serde_json::to_writer(Remaining(max), value).is_err()
}

/// A writer that fails after this number of bytes.
struct Remaining(usize);

impl std::io::Write for Remaining {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The words of code: names, keywords and numbers, also those in strings and comments. Identifiers are whole words.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_in_name(c)).filter(|word| !word.is_empty())
}

/// Whether a character can be in an identifier.
pub(crate) fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use super::{truncate, words};

    #[test]
    fn text_is_truncated_by_characters_and_the_mark_counts_the_rest() {
        assert_eq!(truncate("äöü".into(), 3), "äöü");
        assert_eq!(truncate("äöüß!".into(), 3), "äöü\n… [truncated: 2 more characters]");
    }
    #[test]
    fn identifiers_are_whole_words() {
        let code = "await echo.h_1($h,hé,h$)/*h*/;`${h}`; 'x-h' [h]??.h\u{200d}";
        let found: Vec<&str> = words(code).collect();
        let expected = ["await", "echo", "h_1", "$h", "hé", "h$", "h", "$", "h", "x", "h", "h", "h\u{200d}"];
        assert_eq!(found, expected);
    }
}
