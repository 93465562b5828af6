//! The difference of two texts, as a unified diff.

use std::time::Duration;

use similar::TextDiff;

use crate::output::style::{self, Colors};
use crate::output::terminal::safe_line;

/// The lines of a unified diff, with their control characters escaped. Empty if the texts are equal.
pub(crate) fn unified(old: &str, new: &str, names: [&str; 2], colors: Colors) -> Vec<String> {
    let diff = TextDiff::configure().timeout(LIMIT).diff_lines(old, new);
    let text = diff.unified_diff().context_radius(CONTEXT).header(names[0], names[1]).to_string();
    text.lines().map(|line| painted(line, colors)).collect()
}

fn painted(line: &str, colors: Colors) -> String {
    // Tabs are indentation.
    let text = line.split('\t').map(safe_line).collect::<Vec<_>>().join("\t");
    match line.as_bytes().first() {
        Some(b'+') => colors.paint(style::SUCCESS, &text),
        Some(b'-') => colors.paint(style::ERROR, &text),
        Some(b'@') => colors.paint(style::NAME, &text),
        _ => text,
    }
}

/// The number of lines before and after those that differ.
const CONTEXT: usize = 3;

/// After this time, the diff may be longer than it has to be.
const LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_unified_and_escaped() {
        let diff = |old, new| unified(old, new, ["a", "b"], Colors(false)).join("\n");
        assert_eq!(
            diff("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n\tx\u{1b}\n"),
            "--- a\n+++ b\n@@ -2,4 +2,4 @@\n 2\n 3\n 4\n-5\n+\tx\\u001b"
        );
        assert_eq!(diff("1", "1\n"), "--- a\n+++ b\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+1");
        assert_eq!(diff("1\n", "1\n"), "");
    }
}
