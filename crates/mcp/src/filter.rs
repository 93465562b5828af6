//! Which tools of a server there are at all: patterns that allow and deny.

use execbox_core::names::SafeNames;

/// Patterns over the tools of one server. Without any, every tool passes.
///
/// A tool that does not pass is not there: it is neither searched nor described nor callable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If there are any, a tool must fit one of them.
    pub allow: Vec<Pattern>,
    /// A tool that fits one of them does not pass, whatever allows it.
    pub deny: Vec<Pattern>,
}

impl ToolFilter {
    /// Whether there is a tool of that name. Patterns may mean its own name or the one that guest code calls.
    pub fn passes(&self, tool: &str) -> bool {
        self.patterns().next().is_none() || {
            let names = Names::of(tool);
            let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| names.fit(pattern));
            (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
        }
    }

    /// All patterns.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.allow.iter().chain(&self.deny)
    }
}

/// Of the patterns of a filter, those that no tool has fitted: they may be misspelt.
pub(crate) struct Unused<'a>(Vec<&'a Pattern>);

impl<'a> Unused<'a> {
    pub(crate) fn new(filter: &'a ToolFilter) -> Self {
        Self(filter.patterns().collect())
    }

    /// There is a tool of that name, whether it passes or not.
    pub(crate) fn see(&mut self, tool: &str) {
        if !self.0.is_empty() {
            let names = Names::of(tool);
            self.0.retain(|pattern| !names.fit(pattern));
        }
    }

    pub(crate) fn into_patterns(self) -> Vec<Pattern> {
        self.0.into_iter().cloned().collect()
    }
}

/// What a pattern may call a tool.
struct Names<'a> {
    own: &'a str,
    safe: String,
}

impl<'a> Names<'a> {
    fn of(tool: &'a str) -> Self {
        Self { own: tool, safe: SafeNames::default().assign(tool) }
    }

    fn fit(&self, pattern: &Pattern) -> bool {
        pattern.fits(self.own) || pattern.fits(&self.safe)
    }
}

/// A name in which `*` stands for any text, the empty one included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Every text is a pattern.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `name` is such a name.
    pub fn fits(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return name == self.0 };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(mut left) = name.strip_prefix(head).and_then(|name| name.strip_suffix(tail)) else { return false };
        // The first place for each piece leaves the most room for those after it.
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
    fn a_star_is_any_text() {
        for (pattern, fitting, others) in [
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
            for name in fitting.iter().chain(others) {
                assert_eq!(Pattern::new(pattern).fits(name), fitting.contains(name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn deny_wins_and_either_name_counts() {
        assert!(filter(&[], &[]).passes("delete-all"));
        assert!(filter(&["get*"], &[]).passes("get_x") && !filter(&["get*"], &[]).passes("put_x"));
        assert!(!filter(&["*"], &["delete*"]).passes("delete-all"));
        assert!(!filter(&[], &["delete_all"]).passes("delete-all"), "as guest code calls it");
        assert!(!filter(&[], &["delete-all"]).passes("delete-all"), "as the server calls it");
    }

    proptest! {
        /// Against the definition, word for word.
        #[test]
        fn patterns_fit_what_they_should(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            fn fits(pattern: &[u8], name: &[u8]) -> bool {
                match pattern.split_first() {
                    None => name.is_empty(),
                    Some((b'*', rest)) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
                    Some((c, rest)) => name.split_first().is_some_and(|(n, name)| n == c && fits(rest, name)),
                }
            }
            prop_assert_eq!(Pattern::new(pattern.clone()).fits(&name), fits(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
