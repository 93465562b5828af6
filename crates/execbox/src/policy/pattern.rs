//! Patterns for names of tools.

/// A tool name in which `*` matches any text, including none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern. Any text is valid.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return name == self.0 };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(mut left) = name.strip_prefix(head).and_then(|name| name.strip_suffix(tail)) else { return false };
        // The first match of each piece leaves the most text for the pieces after it.
        for piece in middle.split('*') {
            let Some((_, after)) = left.split_once(piece) else { return false };
            left = after;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Pattern;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, matching, others) in [
            ("get", &["get"][..], &["gets", "forget", ""][..]),
            ("get*", &["get", "get_issue"], &["forget", "ge"]),
            ("*get", &["get", "forget"], &["gets"]),
            ("*", &["", "x"], &[]),
            ("a*b", &["ab", "a_b", "abb"], &["a", "b", "ba", "abc"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("*a*b*", &["ab", "xaxbx"], &["ba", "b"]),
            ("a**b", &["ab", "axb"], &["a"]),
            ("a*bc*c", &["abcc", "axbcxc"], &["abc"]),
        ] {
            for name in matching.iter().chain(others) {
                assert_eq!(Pattern::new(pattern).matches(name), matching.contains(name), "{pattern} {name}");
            }
        }
    }

    proptest! {
        /// Compares with a direct implementation of the definition.
        #[test]
        fn patterns_match_as_defined(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            fn matches(pattern: &[u8], name: &[u8]) -> bool {
                match pattern.split_first() {
                    None => name.is_empty(),
                    Some((b'*', rest)) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
                    Some((c, rest)) => name.split_first().is_some_and(|(n, name)| n == c && matches(rest, name)),
                }
            }
            prop_assert_eq!(Pattern::new(pattern.clone()).matches(&name), matches(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
