//! Regular expressions of schemas, in time linear in the text.
//!
//! The syntax of ECMAScript is translated to that of the crate `regex`. What needs backtracking (look-around,
//! back-references) and what compiles to more than [`TIERS`] allow is not checked.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

/// A regular expression, or nothing if it is not checked. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) text: Arc<str>,
    compiled: Option<(Regex, usize)>,
}

impl Pattern {
    /// Compiles a regular expression of ECMAScript; `None` if it is not one.
    pub(super) fn compile(text: &str) -> Option<Self> {
        let is_short = text.len() <= MAX_PATTERN;
        if is_short && !jsonschema_regex::is_valid_ecma_regex(text) {
            return None;
        }
        let nests = text.bytes().filter(|&byte| byte == b'(' || byte == b'[').count();
        let translated = (is_short && nests <= MAX_GROUPS).then(|| jsonschema_regex::to_rust_regex(text).ok());
        let compiled = translated.flatten().and_then(|text| TIERS.iter().find_map(|tier| tier.compile(&text)));
        Some(Self { text: text.into(), compiled })
    }

    /// An upper bound for the memory and the work of [`compile`](Self::compile), in bytes.
    pub(super) fn cost(text: &str) -> usize {
        let escapes = text.bytes().filter(|&byte| byte == b'\\').count();
        COST + text.len().min(MAX_PATTERN) * escapes.min(MAX_PATTERN)
    }

    /// Whether values are checked against the pattern.
    pub(super) fn is_checked(&self) -> bool {
        self.compiled.is_some()
    }

    /// The steps of matching a text.
    pub(super) fn steps(&self, text: &str) -> usize {
        self.compiled.as_ref().map_or(1, |(_, steps)| (text.len() / BYTES_PER_STEP + 1).saturating_mul(*steps))
    }

    /// Whether the text matches somewhere; true if the pattern is not checked.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled.as_ref().is_none_or(|(regex, _)| regex.is_match(text))
    }
}

/// A size that a regular expression may compile to, and how many steps some bytes of text then take: every state may have
/// to be visited for every byte.
struct Tier {
    bytes: usize,
    steps: usize,
}

impl Tier {
    fn compile(&self, text: &str) -> Option<(Regex, usize)> {
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(self.bytes).dfa_size_limit(DFA_BYTES);
        builder.build().ok().map(|regex| (regex, self.steps))
    }
}

const TIERS: [Tier; 3] =
    [Tier { bytes: 16 << 10, steps: 1 }, Tier { bytes: 128 << 10, steps: 64 }, Tier { bytes: 1 << 20, steps: 1024 }];

/// How many bytes of text take one step of the first tier.
const BYTES_PER_STEP: usize = 4;

/// The cache of a regular expression while it is in use, in bytes.
const DFA_BYTES: usize = 256 << 10;

/// What is charged for each regular expression, in bytes.
const COST: usize = 64 << 10;

/// The longest regular expression that is checked, in bytes, and the most groups and classes in it.
const MAX_PATTERN: usize = 4 << 10;
const MAX_GROUPS: usize = 200;
