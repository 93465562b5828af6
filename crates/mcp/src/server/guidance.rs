//! What a description says about who should use a tool: deprecated tools, and tools that models should not call. It is
//! hostile text: the length that is read is bounded.

/// Whether a model should use a tool, by its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Guidance {
    Use,
    /// The tool is deprecated, and the tool to use instead, if the description names one.
    Deprecated {
        replacement: Option<String>,
    },
    /// The description says that models should not call the tool.
    NotForModels,
}

impl Guidance {
    pub(super) fn of(description: &str) -> Self {
        let words = words(description);
        if let Some(at) = (0..words.len()).find(|&at| announces(&words, at)) {
            return Self::Deprecated { replacement: replacement(&words, at) };
        }
        let plain: Vec<&str> = words.iter().map(|word| &*word.lower).filter(|word| *word != "\n").collect();
        if is_internal(&plain) { Self::NotForModels } else { Self::Use }
    }
}

/// A word, or a mark between words.
struct Word<'a> {
    text: &'a str,
    lower: String,
}

impl Word<'_> {
    fn is_name(&self) -> bool {
        self.text.starts_with(char::is_alphanumeric)
    }

    fn is_in(&self, list: &[&str]) -> bool {
        list.contains(&&*self.lower)
    }
}

/// The words of the beginning of a text, and the marks between them: ends of sentences and lines, and brackets.
fn words(text: &str) -> Vec<Word<'_>> {
    let text = text.char_indices().nth(MAX_TEXT).map_or(text, |(at, _)| &text[..at]);
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '\'' | '’');
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c.is_alphanumeric() {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => c.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        let name = word.trim_end_matches(['.', '-', '_', '\'', '’']);
        rest = match c.is_alphanumeric() {
            true => &rest[name.len()..],
            false => after,
        };
        let text = if c.is_alphanumeric() { name } else { word };
        // Emphasis, quotes, symbols and spaces are no marks.
        if c.is_alphanumeric() || "\n.:;,!?()[]/—–-".contains(c) {
            words.push(Word { text, lower: text.to_lowercase() });
        }
    }
    words
}

/// Whether the word at this position says that the tool itself is deprecated: it begins a sentence or line as a notice, it
/// stands in brackets, or a sentence says it of the tool.
fn announces(words: &[Word<'_>], at: usize) -> bool {
    if words[at].lower != "deprecated" {
        return false;
    }
    let before = &words[..at];
    let after = &words[at + 1..];
    match before.last() {
        None => is_notice(after),
        Some(word) if word.is_in(&["(", "["]) => is_tag(&before[..before.len() - 1], after),
        // In the middle of a sentence that continues on this line.
        Some(word) if word.lower == "\n" && words[at].text == "deprecated" && !is_strong_notice(after) => {
            is_said_of_tool(before)
        }
        Some(word) if word.is_in(ENDS) || word.is_in(&[":", "-", "—", "–"]) => is_notice(after),
        Some(_) => is_said_of_tool(before),
    }
}

/// Whether these words follow a notice, and not an adjective: `deprecated: …`, `deprecated since …`, not `deprecated APIs`.
fn is_notice(after: &[Word<'_>]) -> bool {
    match after {
        [] => true,
        [mark, next, ..] if mark.lower == "," => next.is_in(AFTER_NOTICE),
        [word, ..] if word.is_name() => word.is_in(AFTER_NOTICE),
        [mark, ..] => mark.lower != "/",
    }
}

/// Whether these words follow a notice that no sentence contains.
fn is_strong_notice(after: &[Word<'_>]) -> bool {
    after.first().is_some_and(|word| word.is_in(&[":", "-", "—", "–"]) || word.is_in(AFTER_NOTICE))
}

/// Whether a word in brackets is a tag of the tool: the brackets begin a text, or end a sentence or line.
fn is_tag(before: &[Word<'_>], after: &[Word<'_>]) -> bool {
    let starts = before.last().is_none_or(|word| word.is_in(ENDS));
    let closing = after.iter().take(MAX_CLAUSE).position(|word| word.is_in(&[")", "]"]));
    let ends = closing.is_some_and(|at| after.get(at + 1).is_none_or(|word| word.is_in(ENDS)));
    is_notice(after) && (starts || ends)
}

/// Whether the words before `deprecated` are `this tool is`, `it has been` or the like.
fn is_said_of_tool(before: &[Word<'_>]) -> bool {
    let before = &before[before.len().saturating_sub(MAX_CLAUSE)..];
    let start = before.iter().rposition(|word| word.is_in(ENDS) && word.lower != "\n").map_or(0, |at| at + 1);
    let sentence = before[start..].iter().map(|word| &*word.lower).filter(|word| *word != "\n");
    let mut sentence: Vec<&str> = sentence.collect();
    let length = sentence.len();
    while sentence.last().is_some_and(|word| ["is", "was", "has", "been", "now", "officially"].contains(word)) {
        sentence.pop();
    }
    let has_verb = sentence.len() < length;
    has_verb
        && match &*sentence {
            ["it" | "this"] => true,
            ["this" | "the", kind] => TOOLS.contains(kind),
            [.., before, "this", kind] => TOOLS.contains(kind) && !["if", "whether", "when", "unless"].contains(before),
            [name] => name.contains('_'),
            _ => false,
        }
}

/// The name after `use`, `replaced by` or the like: first behind the notice, then before it.
fn replacement(words: &[Word<'_>], notice: usize) -> Option<String> {
    let mut behind = (notice..words.len()).chain(0..notice);
    behind.find_map(|at| named(words, at))
}

/// The tool that is named behind `use` and the like at this position.
fn named(words: &[Word<'_>], at: usize) -> Option<String> {
    let before = at.checked_sub(1).map(|at| &*words[at].lower);
    let is_start = match (before, &*words[at].lower) {
        (_, "use" | "prefer" | "call") => {
            !before.is_some_and(|before| ["not", "don't", "to", "never"].contains(&before))
        }
        (Some("replaced" | "superseded"), "by" | "with") => true,
        (Some(before), "of") => before.starts_with("favo"), // in both spellings
        _ => false,
    };
    if !is_start {
        return None;
    }
    let mut rest = words[at + 1..].iter().filter(|word| word.lower != "\n");
    let name = rest.find(|word| !word.is_in(&["the", "new", "newer", "tool", "instead", "of", ":"]))?;
    let is_known_form = name.text.contains(['_', '-', '.']) || name.text.chars().skip(1).any(char::is_uppercase);
    let next = rest.next().map(|word| &*word.lower);
    let is_followed = next.is_none_or(|next| ["instead", "tool", ".", ")", "]", "!"].contains(&next));
    (name.is_name() && (is_known_form || is_followed) && name.text.chars().count() <= MAX_NAME)
        .then(|| name.text.to_owned())
}

/// Whether a description says that models should not call the tool.
fn is_internal(words: &[&str]) -> bool {
    (0..words.len()).any(|at| {
        let rest = &words[at..];
        matches!(
            rest,
            ["internal", "use", "only", ..]
                | ["for", "internal", "use", "." | ")" | ";", ..]
                | ["for", "internal", "use"]
        ) || is_prohibition(rest)
            || is_not_intended(rest)
    })
}

/// Whether these words begin with `model should not call this tool directly` or `do not call this tool directly`.
fn is_prohibition(words: &[&str]) -> bool {
    let rest = match words {
        [subject, "should" | "must" | "may" | "shall" | "can", "not" | "never", rest @ ..]
        | [subject, "should" | "must", "not" | "never", "ever", rest @ ..]
        | [subject, "shouldn't" | "mustn't" | "cannot" | "shouldn’t" | "mustn’t", rest @ ..]
            if MODELS.contains(subject) =>
        {
            rest
        }
        ["do" | "must" | "should", "not", rest @ ..] | ["never" | "don't" | "don’t", rest @ ..] => rest,
        _ => return false,
    };
    let (verb, rest) = match rest {
        [verb, "this", kind, rest @ ..] if TOOLS.contains(kind) => (verb, rest),
        [verb, "this" | "it", rest @ ..] => (verb, rest),
        _ => return false,
    };
    let ends = rest
        .first()
        .is_none_or(|next| ["directly", "yourself", "itself", "manually", ".", "!", ";", "—", "-", ")"].contains(next));
    ["call", "use", "invoke", "run"].contains(verb) && ends
}

/// Whether these words begin with `not intended to be called by the model` or the like.
fn is_not_intended(words: &[&str]) -> bool {
    let ["not", "intended" | "meant" | "designed" | "supposed", rest @ ..] = words else { return false };
    let clause = rest.iter().take(MAX_CLAUSE).take_while(|word| ![".", ";", "!"].contains(word));
    let clause: Vec<&str> = clause.copied().collect();
    let by = clause.iter().position(|word| ["by", "for"].contains(word) && !clause.is_empty());
    by.is_some() && clause.iter().any(|word| MODELS.contains(word))
}

/// The marks that end a sentence or line.
const ENDS: &[&str] = &["\n", ".", "!", "?"];

/// The words that follow a notice.
const AFTER_NOTICE: &[&str] = &[
    "since", "in", "use", "please", "as", "by", "alias", "tool", "method", "function", "instead", "prefer", "will",
    "replaced",
];

/// What descriptions call a tool, and what they call those who call it.
const TOOLS: &[&str] = &["tool", "function", "method", "endpoint", "command", "action", "operation", "api", "call"];
const MODELS: &[&str] = &["model", "models", "llm", "llms", "agent", "agents", "assistant", "assistants", "ai", "ais"];

/// The length of the beginning of a description that is read, and that of a replacement, in characters.
const MAX_TEXT: usize = 4_000;
const MAX_NAME: usize = 64;

/// The maximum number of words that are looked at on one side of a notice.
const MAX_CLAUSE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn deprecated(replacement: &str) -> Guidance {
        Guidance::Deprecated { replacement: Some(replacement.to_owned()).filter(|name| !name.is_empty()) }
    }

    #[test]
    fn deprecated_tools_are_found_wherever_it_is_said() {
        for (description, replacement) in [
            ("DEPRECATED: Use list_orders instead. Lists orders.", "list_orders"),
            ("Lists orders of a customer. DEPRECATED: use `list_orders` instead.", "list_orders"),
            ("[deprecated] Lists orders.", ""),
            ("Lists orders (deprecated).", ""),
            ("Lists orders (deprecated, use fetchOrders).", "fetchOrders"),
            ("Lists orders.\n\n**Deprecated** since 2.1, replaced by `orders.list`", "orders.list"),
            ("Lists orders.\n@deprecated in favor of the new search tool", "search"),
            ("Lists orders. This tool is deprecated.", ""),
            ("Note that this function has been\ndeprecated! Prefer list-orders.", "list-orders"),
            ("⚠️ Deprecated - use orders instead", "orders"),
            ("Use list_orders instead. It is now deprecated.", "list_orders"),
            ("Deprecated", ""),
        ] {
            assert_eq!(Guidance::of(description), deprecated(replacement), "{description:?}");
        }
    }

    #[test]
    fn tools_about_deprecated_things_are_not_deprecated() {
        for description in [
            "Lists deprecated functions of a module",
            "Deprecated APIs of a module, with the lines that call them",
            "Finds unused, deprecated, and private functions",
            "Checks whether a package is deprecated.",
            "Tells if this function is deprecated.",
            "Lists models; those that are deprecated come last.",
            "Deprecated/removed flags of a command.",
            "Marks names as (deprecated) in the list.",
            "Scans for @deprecated annotations.",
            "The parameter `limit` is deprecated.",
            "Lists functions that are unused or\ndeprecated.",
        ] {
            assert_eq!(Guidance::of(description), Guidance::Use, "{description:?}");
        }
    }

    #[test]
    fn tools_that_models_should_not_call_are_found() {
        for description in [
            "Stores a frame of the viewer. The model should NOT call this tool directly.",
            "Stores a frame. LLMs must never invoke this.",
            "Stores a frame. Agents shouldn't use it directly; use `show`.",
            "Stores a frame (internal use only)",
            "Stores a frame. Not intended to be called by the model.",
            "Stores a frame. It is not meant for use by agents.",
            "Do not call this tool directly.",
        ] {
            assert_eq!(Guidance::of(description), Guidance::NotForModels, "{description:?}");
        }
        for description in [
            "Do not use this tool for large files.",
            "The model should not call it more than once.",
            "Lists documents for internal use in a company.",
            "Creates a model. It should not take long.",
            "Use only for internal networks.",
        ] {
            assert_eq!(Guidance::of(description), Guidance::Use, "{description:?}");
        }
    }

    #[test]
    fn the_time_for_hostile_descriptions_is_bounded() {
        let started = std::time::Instant::now();
        for text in [
            "deprecated ",
            "(deprecated ",
            "it is deprecated ",
            "not intended ",
            "do not call this ",
            "x",
            "é.",
            "use ",
        ] {
            Guidance::of(&text.repeat((1 << 20) / text.len()));
        }
        assert!(started.elapsed() < std::time::Duration::from_mins(1), "{:?}", started.elapsed());
    }
}
