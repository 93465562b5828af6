//! Positions in text: from byte offsets to lines and columns.
//!
//! Lines end as defined by ECMAScript (`\n`, `\r\n`, `\r`, U+2028, U+2029); columns count UTF-16 units.

use execbox_core::language::Position;

/// The position of byte `offset` in `text`. An offset inside a character counts as its start, one
/// past the end as the end.
pub(crate) fn position(text: &str, offset: usize) -> Position {
    Cursor::new(text).position(offset)
}

/// Finds the positions of ascending offsets in one pass over the text.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    position: Position,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0, position: Position { line: 1, column: 1 } }
    }

    /// The position of `offset`, or of the cursor if that is further on.
    pub(crate) fn position(&mut self, offset: usize) -> Position {
        let mut characters = self.text[self.at..].chars().peekable();
        while let Some(character) = characters.next() {
            if self.at + character.len_utf8() > offset {
                break;
            }
            self.at += character.len_utf8();
            let crlf = character == '\r' && characters.peek() == Some(&'\n');
            match character {
                '\n' | '\r' | '\u{2028}' | '\u{2029}' if !crlf => {
                    self.position.line = self.position.line.saturating_add(1);
                    self.position.column = 1;
                }
                _ if crlf => {}
                _ => self.position.column += if character.len_utf16() == 2 { 2 } else { 1 },
            }
        }
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_utf_16_units_and_lines_end_everywhere() {
        let text = "a😀b\r\nc\rd\u{2028}é!";
        let at = |needle: char| position(text, text.find(needle).expect("the text contains it"));
        assert_eq!(at('b'), Position { line: 1, column: 4 });
        assert_eq!(at('c'), Position { line: 2, column: 1 });
        assert_eq!(at('d'), Position { line: 3, column: 1 });
        assert_eq!(at('!'), Position { line: 4, column: 2 });
        assert_eq!(position(text, 3), Position { line: 1, column: 2 });
        assert_eq!(position(text, usize::MAX), Position { line: 4, column: 3 });
    }
}
