//! Places in text: from byte offsets to lines and columns, and from compiled text to source.
//!
//! Lines end where ECMAScript says (`\n`, `\r\n`, `\r`, U+2028, U+2029); columns count UTF-16 units.

use execbox_core::language::Position;

/// The position of byte `offset` in `text`. An offset inside a character counts as its start, one
/// past the end as the end.
pub(crate) fn position(text: &str, offset: usize) -> Position {
    let mut position = Position { line: 1, column: 1 };
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if at + character.len_utf8() > offset {
            break;
        }
        let crlf = character == '\r' && characters.peek().is_some_and(|(_, next)| *next == '\n');
        match character {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' if !crlf => {
                position.line = position.line.saturating_add(1);
                position.column = 1;
            }
            _ if crlf => {}
            _ => position.column += if character.len_utf16() == 2 { 2 } else { 1 },
        }
    }
    position
}

/// One place that was printed, and where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mapping {
    pub(crate) compiled: Position,
    pub(crate) original: Position,
}

/// The way back from compiled text, ordered by place in it.
#[derive(Debug, Default)]
pub(crate) struct SourceMap {
    mappings: Vec<Mapping>,
}

impl SourceMap {
    pub(crate) fn new(mut mappings: Vec<Mapping>) -> Self {
        mappings.sort_unstable();
        Self { mappings }
    }

    /// The original of the closest mapped place at or before `compiled` on the same line.
    pub(crate) fn original(&self, compiled: Position) -> Option<Position> {
        let after = self.mappings.partition_point(|mapping| mapping.compiled <= compiled);
        let closest = self.mappings[..after].last()?;
        (closest.compiled.line == compiled.line).then_some(closest.original)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_utf_16_units_and_lines_end_everywhere() {
        let text = "a😀b\r\nc\rd\u{2028}é!";
        let at = |needle: char| position(text, text.find(needle).expect("it is there"));
        assert_eq!(at('b'), Position { line: 1, column: 4 });
        assert_eq!(at('c'), Position { line: 2, column: 1 });
        assert_eq!(at('d'), Position { line: 3, column: 1 });
        assert_eq!(at('!'), Position { line: 4, column: 2 });
        assert_eq!(position(text, 3), Position { line: 1, column: 2 });
        assert_eq!(position(text, usize::MAX), Position { line: 4, column: 3 });
    }
}
