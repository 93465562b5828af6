//! The code frame: the lines of the source around an error, which `annotate-snippets` renders.
//!
//! Lines end as in ECMAScript, and columns count UTF-16 units, as in every position.

use std::ops::Range;

use execbox::Position;

use crate::output::terminal;

/// The number of lines before that of the error.
const LINES_BEFORE: usize = 2;

/// Lines of the source, with a span in the last one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The number of the first line.
    pub(crate) first_line: usize,
    /// The lines, safe to print.
    pub(crate) text: String,
    /// The span of the error, in bytes of `text`.
    pub(crate) span: Range<usize>,
}

impl Frame {
    /// The frame around `position`; `None` if the source has no such line.
    pub(crate) fn around(code: &str, position: Position) -> Option<Self> {
        let last = usize::try_from(position.line).ok()?.checked_sub(1)?;
        let first = last.saturating_sub(LINES_BEFORE);
        let mut text = String::new();
        for line in lines(code).skip(first).take(last - first) {
            text += &terminal::safe_source(line);
            text.push('\n');
        }
        let line = lines(code).nth(last)?;
        let (before, rest) = line.split_at(byte_of(line, position.column));
        let (word, after) = rest.split_at(word_len(rest));
        text += &terminal::safe_source(before);
        let start = text.len();
        text += &terminal::safe_source(word);
        let span = start..text.len();
        text += &terminal::safe_source(after);
        Some(Self { first_line: first + 1, text, span })
    }
}

/// The lines of a source.
fn lines(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(code);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r', '\u{2028}', '\u{2029}']) else { return rest.take() };
        let (line, after) = text.split_at(end);
        let terminator = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        rest = Some(&after[terminator..]);
        Some(line)
    })
}

/// The byte offset of a column. A column past the end is the end.
fn byte_of(line: &str, column: u32) -> usize {
    let mut next_column = 1;
    for (at, character) in line.char_indices() {
        if next_column >= column as usize {
            return at;
        }
        next_column += character.len_utf16();
    }
    line.len()
}

/// The length of the identifier at the start of a text, or of its first character.
fn word_len(text: &str) -> usize {
    let word: usize = text
        .chars()
        .take_while(|character| character.is_alphanumeric() || matches!(character, '_' | '$'))
        .map(char::len_utf8)
        .sum();
    if word > 0 { word } else { text.chars().next().map_or(0, char::len_utf8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: &str, line: u32, column: u32) -> Option<(usize, String, String)> {
        let frame = Frame::around(code, Position { line, column })?;
        Some((frame.first_line, frame.text[frame.span].to_owned(), frame.text))
    }

    #[test]
    fn the_word_at_the_place_is_found() {
        let code = "one\ntwo\n  three + four\nfive";
        assert_eq!(shown(code, 3, 11), Some((1, "four".into(), "one\ntwo\n  three + four".into())));
        assert_eq!(shown(code, 3, 9), Some((1, "+".into(), "one\ntwo\n  three + four".into())));
        assert_eq!(shown(code, 4, 1).unwrap().0, 2);
    }

    #[test]
    fn columns_count_utf16_units_and_lines_end_as_in_javascript() {
        assert_eq!(shown("a\r\nb\rc\u{2028}'🦀' + x", 4, 8), Some((2, "x".into(), "b\nc\n'🦀' + x".into())));
    }

    #[test]
    fn what_would_drive_the_terminal_is_replaced_in_its_place() {
        assert_eq!(shown("'\x1b' + x", 1, 7), Some((1, "x".into(), "'\u{fffd}' + x".into())));
    }

    #[test]
    fn places_that_are_not_there_do_no_harm() {
        assert_eq!(shown("one", 2, 1), None);
        assert_eq!(shown("one", 0, 0), None);
        assert_eq!(shown("one", u32::MAX, 1), None);
        assert_eq!(shown("one", 1, u32::MAX), Some((1, String::new(), "one".into())));
        assert_eq!(shown("", 1, 1), Some((1, String::new(), String::new())));
    }
}
