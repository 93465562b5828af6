//! Hidden characters: the one table, and the functions that make them visible.
//!
//! A character is hidden if a reader does not see it, or if it changes how a reader sees others: controls, format characters,
//! default-ignorable code points, separators of lines and paragraphs, and blanks that are not spaces. Language models read
//! them, and terminals obey some of them. Text is kept as it is while a program computes with it, and passes one of these
//! functions where it leaves for people or models.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Which hidden characters stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None. For questions and records: texts that differ look different.
    Nothing,
    /// The characters without which ordinary text is misspelled: joiners after a letter of a script that has them, and the
    /// selectors and joiners of emoji. At most one after a visible character.
    Joiners,
    /// The characters of [`Joiners`](Self::Joiners), and tabs and line breaks: line feeds, alone or after a carriage return.
    Lines,
}

/// Whether a reader does not see `character`, or sees others in another way because of it.
pub fn is_hidden(character: char) -> bool {
    let code = u32::from(character);
    if (0x20..0x7f).contains(&code) {
        return false;
    }
    let after = HIDDEN.partition_point(|(first, _)| *first <= code);
    after > 0 && code <= HIDDEN[after - 1].1
}

/// Replaces hidden characters by escapes of JavaScript: `\n`, `\u200b`, `\u{e0041}`.
pub fn escape(text: &str, keep: Keep) -> Cow<'_, str> {
    replace(text, keep, push_escape)
}

/// Replaces hidden characters in JSON text by escapes of JSON, which leave its value as it is: in valid JSON, they occur only in
/// strings. Line feeds and tabs between tokens stay.
pub fn escape_json(json: &str, keep: Keep) -> Cow<'_, str> {
    let keeps_space = |c| matches!(c, '\n' | '\t');
    replace(json, keep, |escaped, c| if keeps_space(c) { escaped.push(c) } else { push_json_escape(escaped, c) })
}

/// Removes hidden characters.
pub fn strip(text: &str, keep: Keep) -> Cow<'_, str> {
    replace(text, keep, |_, _| {})
}

/// Appends a character as an escape of JavaScript.
pub fn push_escape(text: &mut String, character: char) {
    match character {
        ..='\u{ffff}' => push_json_escape(text, character),
        _ => _ = write!(text, "\\u{{{:x}}}", u32::from(character)),
    }
}

fn push_json_escape(text: &mut String, character: char) {
    match character {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(text, "\\u{unit:04x}")),
    }
}

/// Calls `push` for each hidden character that is not kept, and copies the rest.
fn replace(text: &str, keep: Keep, push: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if is_plain(text, keep) {
        return Cow::Borrowed(text);
    }
    let (mut replaced, mut copied) = (String::new(), 0);
    let mut before = Before::default();
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        if !is_hidden(character) {
            before = Before { visible: Some(character), kept: None };
        } else if keep != Keep::Nothing && before.is_needed(character, next) {
            before.kept = Some(character);
        } else {
            before = Before::default();
            let is_break = matches!((character, next), ('\n' | '\t', _) | ('\r', Some('\n')));
            if keep != Keep::Lines || !is_break {
                replaced.push_str(&text[copied..at]);
                push(&mut replaced, character);
                copied = at + character.len_utf8();
            }
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    replaced.push_str(&text[copied..]);
    Cow::Owned(replaced)
}

/// Whether `text` is ASCII without controls, apart from those that are kept; most text is. Checked in chunks, which the
/// compiler vectorizes.
fn is_plain(text: &str, keep: Keep) -> bool {
    let is_kept = |byte: u8| keep == Keep::Lines && (byte == b'\n' || byte == b'\t');
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte) || is_kept(byte);
    text.as_bytes().chunks(64).all(|bytes| bytes.iter().fold(true, |plain, byte| plain & is_plain(*byte)))
}

/// The characters directly before a hidden character.
#[derive(Default)]
struct Before {
    /// The last visible character, if all characters after it are needed.
    visible: Option<char>,
    /// The last hidden character after `visible` that is needed.
    kept: Option<char>,
}

impl Before {
    /// Whether a hidden character is a part of ordinary text here.
    fn is_needed(&self, character: char, next: Option<char>) -> bool {
        let before = |is: fn(char) -> bool| self.visible.is_some_and(is);
        let is_first = self.kept.is_none();
        match character {
            '\u{200c}' | '\u{200d}' if is_first && before(is_joining) => true,
            '\u{200d}' => {
                before(is_pictograph) && matches!(self.kept, None | Some('\u{fe0f}')) && next.is_some_and(is_pictograph)
            }
            '\u{fe0e}' | '\u{fe0f}' => {
                let is_keycap = before(|c| matches!(c, '0'..='9' | '#' | '*')) && next == Some('\u{20e3}');
                is_first && (before(is_pictograph) || is_keycap)
            }
            '\u{180b}'..='\u{180f}' => is_first && before(|c| matches!(c, '\u{1820}'..='\u{18aa}')),
            // Signs of numbers and abbreviations, which fonts show.
            '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' => {
                is_first && next.is_some_and(is_joining)
            }
            _ => false,
        }
    }
}

/// Whether a character belongs to a script in which joiners change the shape of letters: Arabic, Syriac, those of India and Sri
/// Lanka, Myanmar, Khmer, Mongolian.
fn is_joining(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{77f}' | '\u{7c0}'..='\u{7ff}' | '\u{840}'..='\u{dff}' | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{18af}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
        && !is_hidden(character)
}

/// Whether a character is a symbol that may be shown as an emoji, or is in a block of such symbols.
fn is_pictograph(character: char) -> bool {
    matches!(character, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{214f}' | '\u{2190}'..='\u{23ff}'
        | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Ranges of code points, in order: the categories Cc, Cf, Zl and Zp and the property `Default_Ignorable_Code_Point` of
/// Unicode 16, and what is blank although Unicode calls it visible: braille without dots, a filler, a musical null.
#[rustfmt::skip]
const HIDDEN: [(u32, u32); 30] = [
    (0x0, 0x1f), (0x7f, 0x9f), (0xad, 0xad), (0x34f, 0x34f), (0x600, 0x605), (0x61c, 0x61c), (0x6dd, 0x6dd),
    (0x70f, 0x70f), (0x890, 0x891), (0x8e2, 0x8e2), (0x115f, 0x1160), (0x17b4, 0x17b5), (0x180b, 0x180f),
    (0x200b, 0x200f), (0x2028, 0x202e), (0x2060, 0x206f), (0x2800, 0x2800), (0x3164, 0x3164), (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff), (0xffa0, 0xffa0), (0xfff0, 0xfffb), (0x110bd, 0x110bd), (0x110cd, 0x110cd), (0x13430, 0x1343f),
    (0x16fe4, 0x16fe4), (0x1bca0, 0x1bca3), (0x1d159, 0x1d159), (0x1d173, 0x1d17a), (0xe0000, 0xe0fff),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists of the standard: `DerivedGeneralCategory.txt` for Cf, `DerivedCoreProperties.txt` for the property.
    #[test]
    #[rustfmt::skip]
    fn the_table_has_what_unicode_calls_hidden_and_blanks() {
        let format = [
            0xad..=0xad, 0x600..=0x605, 0x61c..=0x61c, 0x6dd..=0x6dd, 0x70f..=0x70f, 0x890..=0x891, 0x8e2..=0x8e2,
            0x180e..=0x180e, 0x200b..=0x200f, 0x202a..=0x202e, 0x2060..=0x2064, 0x2066..=0x206f, 0xfeff..=0xfeff,
            0xfff9..=0xfffb, 0x110bd..=0x110bd, 0x110cd..=0x110cd, 0x13430..=0x1343f, 0x1bca0..=0x1bca3,
            0x1d173..=0x1d17a, 0xe0001..=0xe0001, 0xe0020..=0xe007f,
        ];
        let ignorable = [
            0xad..=0xad, 0x34f..=0x34f, 0x61c..=0x61c, 0x115f..=0x1160, 0x17b4..=0x17b5, 0x180b..=0x180f,
            0x200b..=0x200f, 0x202a..=0x202e, 0x2060..=0x206f, 0x3164..=0x3164, 0xfe00..=0xfe0f, 0xfeff..=0xfeff,
            0xffa0..=0xffa0, 0xfff0..=0xfff8, 0x1bca0..=0x1bca3, 0x1d173..=0x1d17a, 0xe0000..=0xe0fff,
        ];
        let others = [0x2028, 0x2029, 0x2800, 0x16fe4, 0x1d159];
        for character in '\0'..=char::MAX {
            let code = u32::from(character);
            let is_listed = |ranges: &[std::ops::RangeInclusive<u32>]| ranges.iter().any(|range| range.contains(&code));
            let expected =
                character.is_control() || is_listed(&format) || is_listed(&ignorable) || others.contains(&code);
            assert_eq!(is_hidden(character), expected, "{code:x}");
        }
    }

    #[test]
    fn each_hidden_character_is_escaped_and_can_be_read_back() {
        for character in ('\0'..=char::MAX).filter(|character| is_hidden(*character)) {
            let text = format!("a{character}b");
            let escaped = escape(&text, Keep::Joiners);
            assert!(escaped.starts_with("a\\") && !escaped.chars().any(is_hidden), "{escaped:?}");
            assert_eq!(strip(&text, Keep::Joiners), "ab");
            let json = serde_json::to_string(&text).unwrap();
            let escaped = escape_json(&json, Keep::Nothing);
            assert!(!escaped.chars().any(is_hidden), "{escaped:?}");
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "plain – ünïcødé 🦀, 日本語, 한국어, עברית, العربية, ไทย",
            "می‌خواهم",   // With a zero-width non-joiner.
            "क्‍ष শ্রী‌ ශ්‍රී", // With joiners.
            "❤️ 👨‍👩‍👧 ❤️‍🔥 👩🏽‍💻 🏳️‍🌈 ☎︎ 1️⃣ #️⃣",
            "\u{1820}\u{180b}",
            "\u{6dd}\u{661}",
        ] {
            assert_eq!(escape(text, Keep::Joiners), text);
            assert!(matches!(strip(text, Keep::Lines), Cow::Borrowed(_)));
        }
        let lines = "a\tb\nc\r\nd";
        assert!(matches!(escape(lines, Keep::Lines), Cow::Borrowed(_)));
        assert_eq!(escape(lines, Keep::Joiners), "a\\tb\\nc\\r\\nd");
    }

    #[test]
    fn what_only_looks_like_ordinary_text_is_escaped() {
        for (text, expected) in [
            ("a\u{200d}b\u{200c}", "a\\u200db\\u200c"),
            ("🦀\u{fe0f}\u{fe0f}\u{fe0e}", "🦀\u{fe0f}\\ufe0f\\ufe0e"),
            ("🦀\u{fe01}\u{e0141}", "🦀\\ufe01\\u{e0141}"),
            ("🦀\u{200d}a", "🦀\\u200da"),
            ("م\u{200c}\u{200d}\u{200c}", "م\u{200c}\\u200d\\u200c"),
            ("م\u{200b}\u{200c}", "م\\u200b\\u200c"),
            ("🏴\u{e0067}\u{e007f}", "🏴\\u{e0067}\\u{e007f}"),
            ("\u{600}\u{600}\u{661}", "\\u0600\u{600}\u{661}"),
            ("1\u{fe0f}2", "1\\ufe0f2"),
            ("b\rc\x1b[2J\u{9b}\u{7f}\u{85}", "b\\u000dc\\u001b[2J\\u009b\\u007f\\u0085"),
        ] {
            let expected = expected.replace("\\u000d", "\\r");
            assert_eq!(escape(text, Keep::Lines), expected);
        }
        assert_eq!(escape("❤\u{fe0f}", Keep::Nothing), "❤\\ufe0f");
        assert_eq!(escape("a\r\r\n", Keep::Lines), "a\\r\r\n");
    }

    #[test]
    fn text_of_any_size_takes_linear_time() {
        for text in ["a".repeat(4 << 20), "日".repeat(1 << 20), "\u{200b}".repeat(1 << 20), "\r".repeat(1 << 20)] {
            let escaped = escape(&text, Keep::Lines);
            assert!(!escaped.chars().any(is_hidden));
        }
    }
}
