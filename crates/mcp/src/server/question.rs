//! Calls as text for a person who decides about them.
//!
//! The person sees the whole call, or how much is missing: every key is shown, and of each long text the beginning, the end
//! and the number of characters between them. Texts of the program are in quotes, and remarks are outside of quotes, so that
//! no value looks like a remark about another one. Hidden characters are escaped, and runs of one character are counted:
//! `" " × 4200`.

use std::fmt::Write as _;
use std::iter::Peekable;

use execbox::Effect;
use execbox::policy::{NamedLine, NamedLines, ProposedCall};
use execbox_core::text::{Keep, cut, escape, is_hidden, push_escape};
use serde_json::{Map, Value as Json};

use crate::text::json_exceeds;

/// A call as text for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// The tool, the arguments, and the lines of the program that name the tool.
    pub text: String,
    /// Whether the text has all of the arguments.
    pub is_whole: bool,
}

/// A call that no text of the permitted length can show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnshowableCall {
    /// The arguments have too many keys and items.
    #[error(
        "its arguments cannot be shown to a person: with every text cut, their keys and items need more than {max} characters; \
         make calls with fewer of them"
    )]
    TooMany {
        /// The permitted length, in characters.
        max: usize,
    },
    /// The arguments are too long even for [`whole_question`].
    #[error("its arguments cannot be shown to a person: they have more than {max} bytes; make smaller calls")]
    TooLong {
        /// The permitted length as JSON, in bytes.
        max: usize,
    },
}

/// A call as text for a person, with arguments of at most 8 000 characters. If they are longer, texts and lists are
/// shortened, and the text says where.
pub fn question(call: &ProposedCall<'_>) -> Result<Question, UnshowableCall> {
    check_length(call)?;
    for level in &LEVELS {
        let mut arguments = Arguments { text: String::new(), room: MAX_QUESTION, level, is_whole: true };
        if arguments.value(call.input, 0).is_some() {
            let Arguments { text, is_whole, .. } = arguments;
            return Ok(Question { text: with_arguments(call, &text), is_whole });
        }
    }
    Err(UnshowableCall::TooMany { max: MAX_QUESTION })
}

/// A call as text with all of its arguments. Fails if they have more than 8 MiB as JSON.
pub fn whole_question(call: &ProposedCall<'_>) -> Result<String, UnshowableCall> {
    check_length(call)?;
    let mut arguments = Arguments { text: String::new(), room: usize::MAX, level: &LEVELS[0], is_whole: true };
    let _ = arguments.value(call.input, 0);
    Ok(with_arguments(call, &arguments.text))
}

fn check_length(call: &ProposedCall<'_>) -> Result<(), UnshowableCall> {
    match json_exceeds(call.input, MAX_WHOLE) {
        true => Err(UnshowableCall::TooLong { max: MAX_WHOLE }),
        false => Ok(()),
    }
}

fn with_arguments(call: &ProposedCall<'_>, arguments: &str) -> String {
    let effect = match call.effect {
        Effect::ReadOnly => "its server states that it changes nothing",
        Effect::Additive => "its server states that it adds something and overwrites nothing",
        Effect::Destructive => "its server states that it may remove or overwrite something",
        _ => "its server does not state whether it changes something",
    };
    let who = if call.program.is_some() { "A program" } else { "The client" };
    let mut text = format!("{who} wants to call {} ({effect}) with:\n\n{arguments}", call.name());
    let Some(NamedLines { lines, is_complete, .. }) = call.lines() else { return text };
    for NamedLine { function, number, text: line, .. } in lines.iter().take(MAX_LINES) {
        let file = function.as_deref().unwrap_or("the program");
        let _ = write!(text, "\n\nLine {number} of {file}: {}", cut(&escape(line, Keep::Nothing), MAX_LINE));
    }
    text += match (lines.len(), is_complete) {
        (0, true) => {
            "\n\nNo line of the program names the tool: the program computes the name, or uses another one for it."
        }
        (0, false) => "\n\nNo line of the program is known to name the tool.",
        (1..=MAX_LINES, true) => "",
        (1..=MAX_LINES, false) => "\n\nFurther lines may name the tool.",
        _ => "\n\nFurther lines name the tool.",
    };
    text
}

/// How much is shown of each text and key, in characters, and of each list, in items.
struct Level {
    text: usize,
    key: usize,
    items: usize,
}

const LEVELS: [Level; 6] = [
    Level { text: usize::MAX, key: usize::MAX, items: usize::MAX },
    Level { text: 2000, key: 300, items: 200 },
    Level { text: 600, key: 200, items: 60 },
    Level { text: 200, key: 100, items: 30 },
    Level { text: 100, key: 60, items: 12 },
    Level { text: 50, key: 30, items: 6 },
];

/// Arguments as text. The functions return `None` if there is no room.
struct Arguments<'a> {
    text: String,
    /// The number of characters that are left.
    room: usize,
    level: &'a Level,
    is_whole: bool,
}

impl Arguments<'_> {
    /// Recurses as deep as the value is nested: values of guests are nested 100 deep at most.
    fn value(&mut self, value: &Json, depth: usize) -> Option<()> {
        match value {
            Json::String(text) => self.string(text, self.level.text),
            Json::Array(items) => self.items(items, depth),
            Json::Object(members) => self.members(members, depth),
            value => self.push(&value.to_string()),
        }
    }

    fn members(&mut self, members: &Map<String, Json>, depth: usize) -> Option<()> {
        if members.is_empty() {
            return self.push("{}");
        }
        self.push("{")?;
        for (at, (key, value)) in members.iter().enumerate() {
            self.push(if at == 0 { "" } else { "," })?;
            self.line(depth + 1)?;
            self.string(key, self.level.key)?;
            self.push(": ")?;
            self.value(value, depth + 1)?;
        }
        self.line(depth)?;
        self.push("}")
    }

    /// Shows all items if any of them is a list or an object, which may have keys.
    fn items(&mut self, items: &[Json], depth: usize) -> Option<()> {
        self.push("[")?;
        if items.iter().any(|item| item.is_array() || item.is_object()) {
            for (at, item) in items.iter().enumerate() {
                self.push(if at == 0 { "" } else { "," })?;
                self.line(depth + 1)?;
                self.value(item, depth + 1)?;
            }
            self.line(depth)?;
            return self.push("]");
        }
        let shown = if items.len() > self.level.items { self.level.items / 2 } else { items.len() };
        let (head, rest) = items.split_at(shown);
        let (hidden, tail) = rest.split_at(rest.len().saturating_sub(shown).min(rest.len()));
        for (at, item) in head.iter().enumerate() {
            self.push(if at == 0 { "" } else { ", " })?;
            self.value(item, depth)?;
        }
        if !hidden.is_empty() {
            self.is_whole = false;
            self.push(&format!(", … {} of {} items not shown …", hidden.len(), items.len()))?;
        }
        for item in if hidden.is_empty() { &[] } else { tail } {
            self.push(", ")?;
            self.value(item, depth)?;
        }
        self.push("]")
    }

    /// A text in quotes, of about `max` characters.
    fn string(&mut self, text: &str, max: usize) -> Option<()> {
        let max = max.min(self.room);
        if let Some(quoted) = quoted(text, max) {
            return self.push(&quoted);
        }
        if self.level.text == usize::MAX {
            return None;
        }
        let head = length_within(text.chars(), max / 2);
        let count = text.chars().count();
        let tail = length_within(text.chars().rev(), max / 2).min(count - head);
        let start = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
        let end = text.char_indices().rev().nth(tail.wrapping_sub(1)).map_or(text.len(), |(at, _)| at);
        self.is_whole = false;
        let shown = |part: &str| quoted(part, usize::MAX).unwrap_or_default();
        self.push(&shown(&text[..start]))?;
        self.push(&format!(" … {} of {count} characters not shown … ", count - head - tail))?;
        self.push(&shown(&text[end..]))
    }

    fn line(&mut self, depth: usize) -> Option<()> {
        self.push("\n")?;
        self.push(&"  ".repeat(depth.min(MAX_INDENT)))
    }

    fn push(&mut self, text: &str) -> Option<()> {
        self.room = self.room.checked_sub(text.chars().count())?;
        self.text.push_str(text);
        Some(())
    }
}

/// `text` in quotes, with runs of one character as `" " × 20`. `None` if that is longer than `max` characters.
fn quoted(text: &str, max: usize) -> Option<String> {
    let (mut quoted, mut is_open) = (String::new(), false);
    let runs = Runs(text.chars().peekable());
    for (c, count) in runs {
        if count >= longest_run(c) {
            quoted.push_str(if is_open {
                "\" + \""
            } else if quoted.is_empty() {
                "\""
            } else {
                " + \""
            });
            push_quoted(&mut quoted, c);
            let _ = write!(quoted, "\" × {count}");
            is_open = false;
        } else {
            if !is_open {
                quoted.push_str(if quoted.is_empty() { "\"" } else { " + \"" });
                is_open = true;
            }
            (0..count).for_each(|_| push_quoted(&mut quoted, c));
        }
        // No character has more than 4 bytes.
        if quoted.len() / 4 > max {
            return None;
        }
    }
    if is_open {
        quoted.push('"');
    } else if quoted.is_empty() {
        quoted.push_str("\"\"");
    }
    (quoted.chars().count() <= max).then_some(quoted)
}

/// The runs of equal characters: each character with its count.
struct Runs<I: Iterator<Item = char>>(Peekable<I>);

impl<I: Iterator<Item = char>> Iterator for Runs<I> {
    type Item = (char, usize);

    fn next(&mut self) -> Option<(char, usize)> {
        let c = self.0.next()?;
        let mut count = 1;
        while self.0.next_if_eq(&c).is_some() {
            count += 1;
        }
        Some((c, count))
    }
}

/// The length from which a run of a character is shown as a count.
fn longest_run(c: char) -> usize {
    if is_blank(c) || c == ' ' { 9 } else { 33 }
}

/// Whether a character is escaped in quotes.
fn is_blank(c: char) -> bool {
    is_hidden(c) || (c.is_whitespace() && c != ' ')
}

fn push_quoted(quoted: &mut String, c: char) {
    match c {
        '"' => quoted.push_str("\\\""),
        '\\' => quoted.push_str("\\\\"),
        c if is_blank(c) => push_escape(quoted, c),
        c => quoted.push(c),
    }
}

/// How many of these characters fit into `max` characters of a quoted text.
fn length_within(characters: impl Iterator<Item = char>, max: usize) -> usize {
    let mut room = max;
    let fits = |c: &char| {
        let width = match *c {
            '"' | '\\' => 2,
            c if is_blank(c) => 10,
            _ => 1,
        };
        room.checked_sub(width).map(|left| room = left).is_some()
    };
    characters.take_while(fits).count()
}

/// The maximum length of the arguments of a question, in characters, and of those of a whole question as JSON, in bytes.
const MAX_QUESTION: usize = 8000;
const MAX_WHOLE: usize = 8 << 20;

/// The maximum length of a line, in characters, and the maximum number of lines that a question shows.
const MAX_LINE: usize = 200;
const MAX_LINES: usize = 3;

/// The maximum depth that is indented.
const MAX_INDENT: usize = 16;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Json) -> Option<(String, bool)> {
        LEVELS.iter().find_map(|level| {
            let mut arguments = Arguments { text: String::new(), room: MAX_QUESTION, level, is_whole: true };
            arguments.value(value, 0)?;
            assert!(arguments.text.chars().count() <= MAX_QUESTION);
            assert!(!arguments.text.chars().any(|c| is_hidden(c) && c != '\n'), "{}", arguments.text);
            Some((arguments.text, arguments.is_whole))
        })
    }

    #[test]
    fn short_arguments_are_shown_whole() {
        for (value, expected) in [
            (json!({ "id": 1, "text": "a \"b\"\\" }), "{\n  \"id\": 1,\n  \"text\": \"a \\\"b\\\"\\\\\"\n}"),
            (
                json!({ "a": [], "b": {}, "c": [1, "1", null] }),
                "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [1, \"1\", null]\n}",
            ),
            (json!([{ "a": [true] }, 2]), "[\n  {\n    \"a\": [true]\n  },\n  2\n]"),
            (json!(" ".repeat(4200) + "x"), "\" \" × 4200 + \"x\""),
            (json!("x\n\n".to_owned() + &"\n".repeat(9_998)), "\"x\" + \"\\n\" × 10000"),
            (json!("=".repeat(40) + &" ".repeat(8)), "\"=\" × 40 + \"        \""),
            (
                json!("\u{1b}[2J\u{202e}\u{200b}\u{e0041}\u{a0}\u{3164}"),
                "\"\\u001b[2J\\u202e\\u200b\\u{e0041}\\u00a0\\u3164\"",
            ),
            (json!(""), "\"\""),
        ] {
            assert_eq!(shown(&value), Some((expected.to_owned(), true)), "{value}");
        }
    }

    #[test]
    fn the_argument_behind_blanks_is_shown() {
        let (text, is_whole) = shown(&json!({ "a": " ".repeat(4200), "target": "PRODUCTION" })).unwrap();
        assert_eq!((&*text, is_whole), ("{\n  \"a\": \" \" × 4200,\n  \"target\": \"PRODUCTION\"\n}", true));
        let blanks: String = " \u{a0}\n\t".repeat(5_000);
        let (text, is_whole) = shown(&json!({ "a": blanks + "END", "target": "PRODUCTION" })).unwrap();
        assert!(text.contains("END\",\n  \"target\": \"PRODUCTION\"") && !is_whole, "{text}");
    }

    #[test]
    fn long_texts_keep_both_ends_and_every_key_is_shown() {
        let mut value =
            json!({ "first": 1, "nested": [{ "in": { "deep": "d".to_owned() + &"ab".repeat(50_000) + "e" } }] });
        value["k".to_owned() + &"key".repeat(5_000) + "z"] = json!("last");
        value["numbers"] = (0..10_000).collect();
        let (text, is_whole) = shown(&value).unwrap();
        assert!(!is_whole);
        for part in [
            "\"first\": 1",
            "\"nested\": [",
            "\"in\": {",
            "\"deep\": \"dab",
            "abe\"",
            "of 100002 characters not shown",
            "\"kkey",
            "keyz\": \"last\"",
            "of 15002 characters not shown",
            "\"numbers\": [0, 1",
            "9999]",
            "of 10000 items not shown",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn values_do_not_look_like_remarks() {
        let (text, _) =
            shown(&json!(["\" … 5 of 9 characters not shown … \"", "a\" × 20", "× 20", "\" + \""])).unwrap();
        assert_eq!(text, r#"["\" … 5 of 9 characters not shown … \"", "a\" × 20", "× 20", "\" + \""]"#);
    }

    #[test]
    fn keys_that_look_the_same_are_told_apart() {
        let (text, _) = shown(&json!({ "id": 1, "i\u{200b}d": 2, "id\u{fe0f}": 3, "\u{1b}[1A": 4, "id ": 5 })).unwrap();
        for key in ["\"id\": 1", "\"i\\u200bd\": 2", "\"id\\ufe0f\": 3", "\"\\u001b[1A\": 4", "\"id \": 5"] {
            assert!(text.contains(key), "{key}: {text}");
        }
    }

    #[test]
    fn what_has_too_many_keys_is_not_shown() {
        let many: Map<String, Json> = (0..10_000).map(|n| (format!("k{n}"), json!(n))).collect();
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert_eq!(shown(&Json::Object(many)), None);
        assert_eq!(shown(&json!(vec![json!({ "row": 1 }); 10_000])), None);
        assert_eq!(shown(&json!(vec![deep.clone(); 100])), None);
        assert!(shown(&deep).unwrap().1);
        assert_eq!(shown(&json!({ "a": vec![json!([]); 1_000_000] })), None);
    }
}
