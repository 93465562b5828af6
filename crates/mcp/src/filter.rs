//! Filters of the tools of a server: which can be called, which clients see, and which need approval. What a filter denies is
//! removed before the catalog is made.

use std::fmt;

use execbox::Effect;
pub use execbox::policy::Pattern;
use execbox_core::hint::near;
use execbox_core::names::safe_name;

/// Selects the tools of one server by their names, and by the effects that the server states. By default, every tool passes.
///
/// A tool that does not pass is not imported: it can be neither found nor called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFilter {
    /// If not empty, only tools that match one of these patterns pass.
    pub allow: Vec<Pattern>,
    /// Tools that match one of these patterns do not pass; overrides `allow`.
    pub deny: Vec<Pattern>,
    /// Only tools pass whose server states that they change nothing. The statement is not verified.
    pub read_only: bool,
    /// Tools that match one of these patterns are shown to clients, too, which call them without code. The others are only
    /// found by searches.
    pub expose: Vec<Pattern>,
}

impl ToolFilter {
    execbox_core::setters! {
        allow: Vec<Pattern>,
        deny: Vec<Pattern>,
        read_only: bool,
        expose: Vec<Pattern>,
    }

    /// Whether the tool with this name and effect passes. Patterns match the name on the server or the safe name in guest code.
    pub fn passes(&self, tool: &str, effect: Effect) -> bool {
        let is_harmless = !self.read_only || effect == Effect::ReadOnly;
        is_harmless
            && (self.allow.is_empty() && self.deny.is_empty() || {
                let names = Names::of(tool);
                let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| names.match_any(pattern));
                (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
            })
    }

    /// Whether clients see the tool with these names.
    pub fn exposes(&self, names: &[&str]) -> bool {
        any_matches(&self.expose, names)
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.allow.iter().chain(&self.deny).chain(&self.expose)
    }
}

/// Selects the tools whose calls a person must approve. By default, no tool is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AskFilter {
    /// Tools with these effects, as their servers state them.
    pub effect: Option<AskEffect>,
    /// Tools that match one of these patterns.
    pub tools: Vec<Pattern>,
    /// Tools that match one of these patterns need no approval; overrides the other fields.
    pub never: Vec<Pattern>,
}

/// The effects of calls that a person must approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AskEffect {
    /// Calls that may remove or overwrite something, and all calls of tools whose servers state no effect.
    Destructive,
    /// All calls except those of tools whose servers state that they change nothing.
    Writes,
    /// All calls.
    All,
}

impl AskEffect {
    /// The names of the effects.
    pub const NAMES: [&'static str; 3] = ["destructive", "writes", "all"];

    /// The effect with this name: `destructive`, `writes` or `all`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "destructive" => Some(Self::Destructive),
            "writes" => Some(Self::Writes),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    fn includes(self, effect: Effect) -> bool {
        match self {
            Self::Destructive => matches!(effect, Effect::Destructive | Effect::Unstated),
            Self::Writes => effect != Effect::ReadOnly,
            Self::All => true,
        }
    }
}

impl AskFilter {
    execbox_core::setters! {
        effect: impl Into<Option<AskEffect>>,
        tools: Vec<Pattern>,
        never: Vec<Pattern>,
    }

    /// Adds the name of an effect ([`AskEffect::named`]) or a pattern to the selection.
    pub fn add(&mut self, text: &str) {
        match AskEffect::named(text) {
            Some(effect) => self.effect = self.effect.max(Some(effect)),
            None => self.tools.push(Pattern::new(text)),
        }
    }

    /// Whether effect or patterns select a tool. Patterns match any of its names.
    pub fn selects(&self, names: &[&str], effect: Effect) -> bool {
        self.effect.is_some_and(|asked| asked.includes(effect)) || any_matches(&self.tools, names)
    }

    /// The words in place of a pattern that are similar to the name of an effect, each with that name.
    pub(crate) fn similar_to_effects(&self) -> impl Iterator<Item = (&Pattern, &'static str)> {
        let words = self.tools.iter().filter(|pattern| !pattern.as_str().contains('*'));
        words.filter_map(|word| Some((word, near(word.as_str(), AskEffect::NAMES.into_iter())?)))
    }

    /// Whether a person is never asked about the tool with these names.
    pub fn exempts(&self, names: &[&str]) -> bool {
        any_matches(&self.never, names)
    }
}

fn any_matches(patterns: &[Pattern], names: &[&str]) -> bool {
    patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
}

/// A pattern that matches no tool of a server. It may be misspelled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmatchedPattern {
    /// The pattern.
    pub pattern: Pattern,
    /// The file, position and path of the pattern, if a configuration has it.
    pub place: Option<String>,
    /// The name of a tool that is similar to the pattern, or that begins like it.
    pub suggestion: Option<String>,
    /// Whether the pattern was to deny tools, or to ask for approval of their calls.
    pub is_protective: bool,
}

/// `PLACE: no tool matches PATTERN; did you mean TOOL?`
impl fmt::Display for UnmatchedPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "no tool matches {:?}", self.pattern.as_str())?;
        self.suggestion.iter().try_for_each(|name| write!(f, "; did you mean {name:?}?"))
    }
}

/// The name that is most similar to a pattern, or whose beginning is most similar to that of a pattern before its first `*`.
pub(crate) fn nearest<'a>(pattern: &Pattern, names: &[&'a str]) -> Option<&'a str> {
    let Some((start, _)) = pattern.as_str().split_once('*') else {
        return near(pattern.as_str(), names.iter().copied());
    };
    let length = start.chars().count() + 1; // A letter may be missing.
    let beginning = |name: &'a str| &name[..name.char_indices().nth(length).map_or(name.len(), |(at, _)| at)];
    let found = near(start, names.iter().map(|name| beginning(name)))?;
    names.iter().copied().find(|name| beginning(name) == found)
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
        Self { own: tool, safe: safe_name(tool) }
    }

    fn match_any(&self, pattern: &Pattern) -> bool {
        pattern.matches(self.own) || pattern.matches(&self.safe)
    }
}

#[cfg(test)]
mod tests {
    use super::{AskFilter, Effect, Pattern, ToolFilter};

    fn filter(allow: &[&str], deny: &[&str]) -> ToolFilter {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(*text)).collect();
        ToolFilter { allow: patterns(allow), deny: patterns(deny), ..ToolFilter::default() }
    }

    #[test]
    fn deny_overrides_allow_and_patterns_match_either_name() {
        let passes = |filter: ToolFilter, tool: &str| filter.passes(tool, Effect::Unstated);
        assert!(passes(filter(&[], &[]), "delete-all"));
        assert!(passes(filter(&["get*"], &[]), "get_x") && !passes(filter(&["get*"], &[]), "put_x"));
        assert!(!passes(filter(&["*"], &["delete*"]), "delete-all"));
        assert!(!passes(filter(&[], &["delete_all"]), "delete-all"), "the name in guest code");
        assert!(!passes(filter(&[], &["delete-all"]), "delete-all"), "the name on the server");
    }

    #[test]
    fn a_person_is_asked_by_effect_or_by_name() {
        use Effect::{Additive, Destructive, ReadOnly, Unstated};
        let filter = |texts: &[&str]| {
            let mut filter = AskFilter::default();
            for text in texts {
                filter.add(text);
            }
            filter
        };
        for (asked, effects) in [
            (&[][..], &[][..]),
            (&["destructive"], &[Destructive, Unstated]),
            (&["writes"], &[Destructive, Unstated, Additive]),
            (&["writes", "destructive"], &[Destructive, Unstated, Additive]),
            (&["all"], &[Destructive, Unstated, Additive, ReadOnly]),
            (&["put*"], &[]),
        ] {
            for effect in [ReadOnly, Unstated, Additive, Destructive] {
                assert_eq!(filter(asked).selects(&["get"], effect), effects.contains(&effect), "{asked:?} {effect:?}");
            }
        }
        let names = ["send-mail", "send_mail"];
        assert!(filter(&["send-*"]).selects(&names, ReadOnly) && filter(&["send_mail"]).selects(&names, ReadOnly));
        let trusted = AskFilter { never: vec![Pattern::new("send*")], ..AskFilter::default() };
        assert!(trusted.exempts(&names) && !trusted.exempts(&["get"]));
    }

    #[test]
    fn only_tools_that_state_it_are_read_only() {
        let filter = ToolFilter { read_only: true, ..filter(&[], &["secret"]) };
        for effect in [Effect::Unstated, Effect::Additive, Effect::Destructive] {
            assert!(!filter.passes("get", effect), "{effect:?}");
        }
        assert!(filter.passes("get", Effect::ReadOnly) && !filter.passes("secret", Effect::ReadOnly));
    }
}
