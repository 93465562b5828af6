//! Untrusted text, made safe to print: prose in comments, string literals, names.
//!
//! Two guarantees. `*/` appears in the output only where a comment ends: in prose and in literals it is `*\/`. And no character
//! appears that a person would not see: prose loses all of them except those that ordinary text needs (`Keep::Joiners`),
//! literals contain them as escapes.

use std::iter::Peekable;

use execbox_core::text::{Keep, is_hidden, push_escape, strip};

/// The white space in front of a line.
pub(super) fn pad(indent: usize) -> String {
    "  ".repeat(indent)
}

/// A doc comment as whole lines, or nothing for no lines.
pub(super) fn comment(lines: &[String], indent: usize) -> String {
    let pad = pad(indent);
    match lines {
        [] => String::new(),
        [line] => format!("{pad}/** {line} */\n"),
        lines => {
            let body: String =
                lines.iter().map(|line| format!("{pad} * {line}").trim_end().to_owned() + "\n").collect();
            format!("{pad}/**\n{body}{pad} */\n")
        }
    }
}

/// A description as the lines of a comment: capped, without what cannot be seen, unable to end the comment.
pub(super) fn prose(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in capped(&visible(text)).lines() {
        let line = line.trim_end();
        let after_blank = lines.last().is_none_or(String::is_empty);
        if !(line.is_empty() && after_blank) {
            lines.push(unclosing(line));
        }
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if let [first, ..] = lines.as_mut_slice() {
        *first = first.trim_start().to_owned();
    }
    lines
}

/// [`prose`] on one line.
pub(super) fn prose_line(text: &str) -> String {
    prose(text).iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn capped(text: &str) -> String {
    let mut chars = text.chars();
    let mut kept: String = chars.by_ref().take(MAX_DESCRIPTION).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Replaces `*/` by `*\/`. Must come last: dropping a character can bring `*` and `/` together.
fn unclosing(line: &str) -> String {
    line.replace("*/", "*\\/")
}

/// `text` without hidden characters and terminal escapes, every line break a `\n`.
fn visible(text: &str) -> String {
    let mut seen = String::new();
    let mut chars = text.trim_start().chars().take(MAX_SCANNED).peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => seen.push('\n'),
            '\t' => seen.push(' '),
            c => seen.push(c),
        }
    }
    strip(&seen, Keep::Lines).into_owned()
}

/// Skips what follows ESC: a control sequence, or the one character of a short escape.
fn skip_escape(chars: &mut Peekable<impl Iterator<Item = char>>) {
    if chars.next_if_eq(&'[').is_some() {
        skip_control_sequence(chars);
    } else {
        chars.next_if(|c| matches!(c, '!'..='~'));
    }
}

/// Skips parameters and the final byte of a control sequence (`31m`).
fn skip_control_sequence(chars: &mut Peekable<impl Iterator<Item = char>>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// `text` as a string literal of TypeScript.
pub(super) fn string_literal(text: &str) -> String {
    let mut literal = String::from('"');
    let mut last = '"';
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '/' if last == '*' => literal.push_str("\\/"),
            c if is_hidden(c) => push_escape(&mut literal, c),
            c => literal.push(c),
        }
        last = c;
    }
    literal + "\""
}

/// `name` as the name of a property: bare where it can be.
pub(super) fn property_name(name: &str) -> String {
    if is_plain_identifier(name) { name.to_owned() } else { string_literal(name) }
}

fn is_plain_identifier(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    name.starts_with(|c: char| word(c) && !c.is_ascii_digit()) && name.chars().all(word)
}

/// `text` as a type's name, in `PascalCase`: so it never is a keyword, all of which are lower case, and never
/// contains the `__` that sets off a number. Nothing if it has no ASCII letter or digit.
pub(super) fn type_name(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.map(capitalized).collect::<String>().chars().take(MAX_TYPE_NAME).collect();
    if name.is_empty() {
        return None;
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(format!("Type{name}"));
    }
    Some(if GLOBAL_TYPES.contains(&name.as_str()) { name + "Type" } else { name })
}

fn capitalized(word: &str) -> String {
    let (head, tail) = word.split_at(1);
    head.to_ascii_uppercase() + tail
}

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1_000;

/// How many characters of a description are read, including hidden ones.
const MAX_SCANNED: usize = 8_000;

/// The longest name of a type.
const MAX_TYPE_NAME: usize = 64;

/// Types every program has. A type that hid one of them would change what `Promise<…>` means, or mislead a reader.
#[rustfmt::skip]
const GLOBAL_TYPES: &[&str] = &[
    "Array", "ArrayBuffer", "AsyncIterable", "AsyncIterator", "Awaited", "BigInt", "Boolean", "Capitalize",
    "DataView", "Date", "Error", "Exclude", "Extract", "Function", "Generator", "Infinity", "Iterable", "Iterator",
    "JSON", "Lowercase", "Map", "Math", "NaN", "NonNullable", "Number", "Object", "Omit", "Parameters", "Partial",
    "Pick", "Promise", "PromiseLike", "PropertyKey", "Proxy", "Readonly", "ReadonlyArray", "Record", "RegExp",
    "Required", "ReturnType", "Set", "String", "Symbol", "Uint8Array", "Uppercase", "WeakMap", "WeakSet",
];
