//! Text cut to a length, with a mark that says so.

/// `text` in at most `most` characters and a mark that tells how many are missing.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let Some((at, _)) = text.char_indices().nth(most) else { return text };
    let missing = text[at..].chars().count();
    text.truncate(at);
    text + &format!("\n… [cut here: {missing} more characters]")
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn characters_are_counted_and_what_is_missing_is_told() {
        assert_eq!(cut("äöü".into(), 3), "äöü");
        assert_eq!(cut("äöüß!".into(), 3), "äöü\n… [cut here: 2 more characters]");
    }
}
