//! The length of texts: truncates strings, and measures JSON.

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

#[cfg(test)]
mod tests {
    use super::truncate;

    #[test]
    fn text_is_truncated_by_characters_and_the_mark_counts_the_rest() {
        assert_eq!(truncate("äöü".into(), 3), "äöü");
        assert_eq!(truncate("äöüß!".into(), 3), "äöü\n… [truncated: 2 more characters]");
    }
}
