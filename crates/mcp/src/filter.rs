//! Patterns that allow and deny the tools of a server.

use execbox_core::names::SafeNames;

/// Selects the tools of one server by their names. Without patterns, every tool passes.
///
/// A tool that does not pass is not imported: it can be neither found nor called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If not empty, only tools that match one of these patterns pass.
    pub allow: Vec<Pattern>,
    /// Tools that match one of these patterns do not pass; overrides `allow`.
    pub deny: Vec<Pattern>,
}

impl ToolFilter {
    /// Whether the tool with this name passes. Patterns match the name on the server or the safe name in guest code.
    pub fn passes(&self, tool: &str) -> bool {
        self.patterns().next().is_none() || {
            let names = Names::of(tool);
            let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| names.match_any(pattern));
            (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
        }
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.allow.iter().chain(&self.deny)
    }
}

/// The patterns of a filter that have matched no tool so far; they may be misspelled.
pub(crate) struct UnmatchedPatterns<'a>(Vec<&'a Pattern>);

impl<'a> UnmatchedPatterns<'a> {
    pub(crate) fn new(filter: &'a ToolFilter) -> Self {
        Self(filter.patterns().collect())
    }

    /// Removes the patterns that match this tool, whether it passes or not.
    pub(crate) fn record(&mut self, tool: &str) {
        if !self.0.is_empty() {
            let names = Names::of(tool);
            self.0.retain(|pattern| !names.match_any(pattern));
        }
    }

    pub(crate) fn into_patterns(self) -> Vec<Pattern> {
        self.0.into_iter().cloned().collect()
    }
}

/// The two names of a tool that patterns are matched against.
struct Names<'a> {
    own: &'a str,
    safe: String,
}

impl<'a> Names<'a> {
    fn of(tool: &'a str) -> Self {
        Self { own: tool, safe: SafeNames::default().assign(tool) }
    }

    fn match_any(&self, pattern: &Pattern) -> bool {
        pattern.matches(self.own) || pattern.matches(&self.safe)
    }
}

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

    use super::{Pattern, ToolFilter};

    fn filter(allow: &[&str], deny: &[&str]) -> ToolFilter {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(*text)).collect();
        ToolFilter { allow: patterns(allow), deny: patterns(deny) }
    }

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

    #[test]
    fn deny_overrides_allow_and_patterns_match_either_name() {
        assert!(filter(&[], &[]).passes("delete-all"));
        assert!(filter(&["get*"], &[]).passes("get_x") && !filter(&["get*"], &[]).passes("put_x"));
        assert!(!filter(&["*"], &["delete*"]).passes("delete-all"));
        assert!(!filter(&[], &["delete_all"]).passes("delete-all"), "the name in guest code");
        assert!(!filter(&[], &["delete-all"]).passes("delete-all"), "the name on the server");
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
