//! Text truncated to a length, with a mark.

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

#[cfg(test)]
mod tests {
    use super::truncate;

    #[test]
    fn text_is_truncated_by_characters_and_the_mark_counts_the_rest() {
        assert_eq!(truncate("äöü".into(), 3), "äöü");
        assert_eq!(truncate("äöüß!".into(), 3), "äöü\n… [truncated: 2 more characters]");
    }
}
