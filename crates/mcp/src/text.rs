//! Functions for texts: escape hidden characters in JSON, measure JSON, and find names in code.
//!
//! What clients, users and models read passes these functions where it leaves. What programs compute with does not.

use std::borrow::Cow;

use execbox_core::text::{Keep, escape};
pub(crate) use execbox_core::text::{make_visible, shown, truncate};
use serde_json::{Map, Value as Json};

/// Escapes the hidden characters in all strings and keys of a value. No member is lost: a key that then equals another one
/// gets an underscore.
pub(crate) fn make_json_visible(value: &mut Json) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Json::String(text) => make_visible(text),
            Json::Array(items) => waiting.extend(items),
            Json::Object(members) => {
                if members.keys().any(|key| matches!(escape(key, Keep::Lines), Cow::Owned(_))) {
                    make_keys_visible(members);
                }
                waiting.extend(members.values_mut());
            }
            _ => {}
        }
    }
}

fn make_keys_visible(members: &mut Map<String, Json>) {
    let (mut visible, all) = (Map::new(), std::mem::take(members));
    for (mut key, value) in all {
        make_visible(&mut key);
        while visible.contains_key(&key) {
            key.push('_');
        }
        visible.insert(key, value);
    }
    *members = visible;
}

/// Escapes hidden characters in the texts and descriptions of a result of MCP. Names, URIs and data stay as they are.
pub(crate) fn make_texts_visible(value: &mut Json) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Json::Array(items) => waiting.extend(items),
            Json::Object(members) => texts(members, &mut waiting),
            _ => {}
        }
    }
}

fn texts<'a>(members: &'a mut Map<String, Json>, waiting: &mut Vec<&'a mut Json>) {
    for (name, member) in members {
        match (name.as_str(), member) {
            ("text" | "description" | "title", Json::String(text)) => make_visible(text),
            (_, member) => waiting.push(member),
        }
    }
}

/// Whether `value` has more than `max` bytes as JSON. Writes nothing to memory.
pub(crate) fn json_exceeds(value: &impl serde::Serialize, max: usize) -> bool {
    json_length(value, max).is_none()
}

/// The length of `value` as JSON, in bytes; `None` if it is more than `max`. Writes nothing to memory.
pub(crate) fn json_length(value: &impl serde::Serialize, max: usize) -> Option<usize> {
    let mut remaining = Remaining(max);
    serde_json::to_writer(&mut remaining, value).ok()?;
    Some(max - remaining.0)
}

/// A writer that fails after this number of bytes.
struct Remaining(usize);

impl std::io::Write for Remaining {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The words of code: names, keywords and numbers, also those in strings and comments. Identifiers are whole words.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_in_name(c)).filter(|word| !word.is_empty())
}

/// Whether a character can be in an identifier.
pub(crate) fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{make_json_visible, words};

    #[test]
    fn identifiers_are_whole_words() {
        let code = "await echo.h_1($h,hé,h$)/*h*/;`${h}`; 'x-h' [h]??.h\u{200d}";
        let found: Vec<&str> = words(code).collect();
        let expected = ["await", "echo", "h_1", "$h", "hé", "h$", "h", "$", "h", "x", "h", "h", "h\u{200d}"];
        assert_eq!(found, expected);
    }

    #[test]
    fn visible_json_keeps_its_shape_and_ordinary_text() {
        let mut value =
            json!({ "a\u{200b}": ["\u{e0041}x", { "\u{1b}": "❤️\r\n\tمی‌خواهم" }], "a\\u200b": 2, "n": 1.5 });
        make_json_visible(&mut value);
        let expected =
            json!({ "a\\u200b": ["\\u{e0041}x", { "\\u001b": "❤️\r\n\tمی‌خواهم" }], "a\\u200b_": 2, "n": 1.5 });
        assert_eq!(value, expected);
    }
}
