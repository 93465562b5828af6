//! Repetitions in cases: `⟦TEXT × N⟧` stands for N copies of the text.
//!
//! In the text, `%i` is the number of the copy, from 1, and `%p` is the number before it. Repetitions nest: the inner one is
//! expanded first, and its `%i` is its own.

/// Expands every repetition.
pub(crate) fn expand(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(end) = text.find('⟧') {
        let start = text[..end].rfind('⟦').unwrap_or_else(|| panic!("⟧ without ⟦: {text}"));
        let inner = &text[start + '⟦'.len_utf8()..end];
        let (repeated, count) = inner.rsplit_once(" × ").unwrap_or_else(|| panic!("no ` × `: {inner}"));
        let count: u64 = count.parse().unwrap_or_else(|_| panic!("not a count: {count}"));
        let repeated = repetition(repeated, count);
        text.replace_range(start..end + '⟧'.len_utf8(), &repeated);
    }
    assert!(!text.contains('⟦'), "⟦ without ⟧");
    text
}

fn repetition(text: &str, count: u64) -> String {
    if !text.contains('%') {
        return text.repeat(usize::try_from(count).unwrap());
    }
    (1..=count).map(|i| text.replace("%i", &i.to_string()).replace("%p", &(i - 1).to_string())).collect()
}
