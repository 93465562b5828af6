//! Regular expressions of schemas, in time linear in the text.
//!
//! The syntax of ECMAScript is translated to that of the crate `regex`. What needs backtracking (look-around,
//! back-references) and what compiles to more than [`TIERS`] allow is not checked.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::unchecked::Reading;

/// A regular expression. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// The text in the schema.
    pub(super) text: Arc<str>,
    regex: Regex,
    /// The steps that some bytes of text take.
    steps: usize,
}

/// Why values are not checked against a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    /// The pattern is not a regular expression of ECMAScript.
    Invalid,
    /// The pattern cannot be matched in linear time, or is too large.
    Expensive,
}

impl Pattern {
    /// Compiles a regular expression of ECMAScript. [`Reading::Lenient`] also admits what is valid without the flag `u` only.
    pub(super) fn compile(text: &str, reading: Reading) -> Result<Self, Problem> {
        if text.len() > MAX_PATTERN {
            return Err(Problem::Expensive);
        }
        if jsonschema_regex::is_valid_ecma_regex(text) {
            return Self::of(text, text);
        }
        let escaped = (reading == Reading::Lenient).then(|| with_literals_escaped(text)).flatten();
        let escaped = escaped.filter(|escaped| jsonschema_regex::is_valid_ecma_regex(escaped));
        Self::of(text, &escaped.ok_or(Problem::Invalid)?)
    }

    /// The pattern `text` of a schema, which means `valid`.
    fn of(text: &str, valid: &str) -> Result<Self, Problem> {
        let nests = valid.bytes().filter(|&byte| byte == b'(' || byte == b'[').count();
        let translated = (nests <= MAX_GROUPS).then(|| jsonschema_regex::to_rust_regex(valid).ok()).flatten();
        let compiled = translated.and_then(|text| TIERS.iter().find_map(|tier| tier.compile(&text)));
        let (regex, steps) = compiled.ok_or(Problem::Expensive)?;
        Ok(Self { text: text.into(), regex, steps })
    }

    /// An upper bound for the memory and the work of [`compile`](Self::compile), in bytes.
    pub(super) fn cost(text: &str) -> usize {
        let escapes = text.bytes().filter(|&byte| matches!(byte, b'\\' | b'{' | b'}' | b'-')).count();
        COST + text.len().min(MAX_PATTERN) * escapes.min(MAX_PATTERN)
    }

    /// The steps of matching a text.
    pub(super) fn steps(&self, text: &str) -> usize {
        (text.len() / BYTES_PER_STEP + 1).saturating_mul(self.steps)
    }

    /// Whether the text matches somewhere.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// A pattern that is valid without the flag `u` only, as one with the same meaning that is valid with it: braces that are no
/// quantifier, and hyphens beside a class of characters (`[\w-.]`), are escaped. `None` where other dialects read it differently.
fn with_literals_escaped(pattern: &str) -> Option<String> {
    let mut escaped = String::with_capacity(2 * pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\\' => escape_length(rest),
            '[' => {
                let length = class_length(rest)?;
                escape_hyphens(&rest[..length], &mut escaped)?;
                rest = &rest[length..];
                continue;
            }
            '{' if quantifier_length(rest).is_some() => quantifier_length(rest)?,
            '{' if is_quantifier_elsewhere(rest) => return None,
            '{' | '}' => {
                escaped.push('\\');
                1
            }
            c => c.len_utf8(),
        };
        escaped.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Some(escaped)
}

/// The length of the escape at the start of `text`. Braces belong to it in `\p{…}`, `\P{…}` and `\u{…}`.
fn escape_length(text: &str) -> usize {
    let Some(escaped) = text[1..].chars().next() else { return 1 };
    let length = 1 + escaped.len_utf8();
    let braces = matches!(escaped, 'p' | 'P' | 'u') && text[length..].starts_with('{');
    let end = text.find('}').filter(|_| braces);
    end.map_or(length, |end| end + 1)
}

/// The length of the class at the start of `text`.
fn class_length(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        match text[at..].chars().next()? {
            ']' => return Some(at + 1),
            '\\' => at += escape_length(&text[at..]),
            c => at += c.len_utf8(),
        }
    }
}

/// Appends a class to `escaped`, with the hyphens escaped that are between two atoms of which one is a class, as `\w`. `None` if
/// another hyphen follows, which dialects read differently.
fn escape_hyphens(class: &str, escaped: &mut String) -> Option<()> {
    let mut atoms = Vec::new();
    let mut rest = &class[1..class.len() - 1];
    while let Some(c) = rest.chars().next() {
        let length = if c == '\\' { escape_length(rest) } else { c.len_utf8() };
        atoms.push(&rest[..length]);
        rest = &rest[length..];
    }
    let is_class = |at: usize| atoms.get(at).is_some_and(|atom| CLASSES.iter().any(|class| atom.starts_with(class)));
    escaped.push('[');
    for (at, atom) in atoms.iter().enumerate() {
        let is_between = *atom == "-" && at > 0 && at + 1 < atoms.len();
        if is_between && (is_class(at - 1) || is_class(at + 1)) {
            let is_last = at + 3 >= atoms.len();
            if [at.wrapping_sub(2), at.wrapping_sub(1), at + 1].iter().any(|near| atoms.get(*near) == Some(&"-"))
                || (atoms.get(at + 2) == Some(&"-") && !is_last)
            {
                return None;
            }
            escaped.push('\\');
        }
        escaped.push_str(atom);
    }
    escaped.push(']');
    Some(())
}

/// The length of the quantifier in braces at the start of `text`, if it is one.
fn quantifier_length(text: &str) -> Option<usize> {
    let (inside, _) = text[1..].split_once('}')?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!least.is_empty() && is_number(least) && is_number(most)).then_some(inside.len() + 2)
}

/// Whether other dialects read the brace at the start of `text` as a quantifier: `{,3}`, `{ 3 }`.
fn is_quantifier_elsewhere(text: &str) -> bool {
    let inside = text[1..].split_once('}').map_or("", |(inside, _)| inside);
    !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b' ')
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

/// Escapes for classes of characters.
const CLASSES: [&str; 8] = ["\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\p", "\\P"];

/// The longest regular expression that is checked, in bytes, and the most groups and classes in it.
const MAX_PATTERN: usize = 4 << 10;
const MAX_GROUPS: usize = 200;
