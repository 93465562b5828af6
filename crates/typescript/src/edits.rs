//! Edits of a source that keep its lines.
//!
//! Erased text is replaced by spaces, one per UTF-16 unit, so that the text after it does not move. Inserted text moves the
//! rest of its line; each such place is recorded as a [`Shift`]. Where two edits overlap, the one that begins first wins:
//! an erased declaration hides every edit inside it.

use execbox_core::language::{Code, Position, Shift};

/// One change, by byte offsets. Ranges begin and end between characters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    start: u32,
    end: u32,
    change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Spaces, with `first` and `last` in place of the first and last character, which are ASCII.
    Blank { first: u8, last: u8 },
    /// The given text, followed by the line ends of the range.
    Replace(Box<str>),
}

/// The edits of one source, in any order.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    list: Vec<Edit>,
    /// The length of the inserted texts.
    texts: usize,
}

impl Edits {
    /// The memory of the edits.
    pub(crate) fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Edit>() + self.texts
    }

    /// The memory that [`apply`](Self::apply) takes.
    pub(crate) fn bytes_to_apply(&self, source: &str, after: &str) -> usize {
        let (count, texts) = self.replaced();
        let sorting = self.list.len() * size_of::<Edit>();
        source.len() + texts + after.len() + 2 * count * size_of::<Shift>() + sorting
    }

    /// The number of texts that are inserted, and their length.
    fn replaced(&self) -> (usize, usize) {
        let texts = self.list.iter().filter_map(|edit| match &edit.change {
            Change::Replace(text) => Some(text.len()),
            Change::Blank { .. } => None,
        });
        texts.fold((0, 0), |(count, bytes), text| (count + 1, bytes + text))
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
    }

    /// Erases a part of a statement.
    pub(crate) fn erase(&mut self, start: u32, end: u32) {
        self.blank(start, end, b' ', b' ');
    }

    /// Erases a statement or a class member; a `;` separates its neighbors.
    pub(crate) fn erase_item(&mut self, start: u32, end: u32) {
        self.blank(start, end, b';', b' ');
    }

    /// Erases a range, with `(` in place of its first character.
    pub(crate) fn erase_opening(&mut self, start: u32, end: u32) {
        self.blank(start, end, b'(', b' ');
    }

    /// Erases a range, with `)` in place of its last character.
    pub(crate) fn erase_closing(&mut self, start: u32, end: u32) {
        self.blank(start, end, b' ', b')');
    }

    fn blank(&mut self, start: u32, end: u32, first: u8, last: u8) {
        if start < end {
            self.list.push(Edit { start, end, change: Change::Blank { first, last } });
        }
    }

    pub(crate) fn replace(&mut self, start: u32, end: u32, text: impl Into<Box<str>>) {
        let text = text.into();
        self.texts += text.len();
        self.list.push(Edit { start, end, change: Change::Replace(text) });
    }

    /// Inserts `text`, which has no line end. Several insertions at one place keep their order.
    pub(crate) fn insert(&mut self, at: u32, text: impl Into<Box<str>>) {
        self.replace(at, at, text);
    }

    /// The edited source, followed by `after`.
    pub(crate) fn apply(mut self, source: &str, after: &str) -> Code {
        if self.list.is_empty() && after.is_empty() {
            return source.into();
        }
        // Insertions come before a range that begins at the same place, and long ranges before the edits that they hide.
        self.list.sort_by_key(|edit| (edit.start, edit.start != edit.end, std::cmp::Reverse(edit.end)));
        let (count, texts) = self.replaced();
        let mut writer = Writer::new(source, 2 * count, source.len() + texts + after.len());
        for edit in &self.list {
            if edit.start as usize >= writer.taken {
                writer.apply(edit);
            }
        }
        writer.keep(source.len());
        writer.text.push_str(after);
        Code { text: writer.text, shifts: writer.shifts }
    }
}

/// Writes an edited text and records where columns shift.
struct Writer<'s> {
    source: &'s str,
    text: String,
    shifts: Vec<Shift>,
    /// The bytes of the source that are written or skipped.
    taken: usize,
    /// The bytes of the source and of the text that the positions below include.
    counted_source: usize,
    counted_text: usize,
    in_source: Position,
    in_text: Position,
}

impl<'s> Writer<'s> {
    fn new(source: &'s str, shifts: usize, bytes: usize) -> Self {
        let start = Position { line: 1, column: 1 };
        Self {
            source,
            text: String::with_capacity(bytes),
            shifts: Vec::with_capacity(shifts),
            taken: 0,
            counted_source: 0,
            counted_text: 0,
            in_source: start,
            in_text: start,
        }
    }

    /// Copies the source up to byte `end`.
    fn keep(&mut self, end: usize) {
        self.text.push_str(&self.source[self.taken..end]);
        self.taken = end;
    }

    fn apply(&mut self, edit: &Edit) {
        self.keep(edit.start as usize);
        let end = edit.end as usize;
        let range = &self.source[self.taken..end];
        match &edit.change {
            Change::Blank { first, last } => self.blank(range, *first, *last),
            Change::Replace(text) => {
                self.shift(true);
                self.text.push_str(text);
                self.text.extend(range.chars().filter(|c| ends_line(*c)));
                self.taken = end;
                self.shift(false);
            }
        }
        self.taken = end;
    }

    fn blank(&mut self, range: &str, first: u8, last: u8) {
        for (at, character) in range.char_indices() {
            match character {
                _ if at == 0 && first != b' ' => self.text.push(first.into()),
                _ if at + 1 == range.len() && last != b' ' => self.text.push(last.into()),
                character if ends_line(character) => self.text.push(character),
                character => self.text.extend(std::iter::repeat_n(' ', character.len_utf16())),
            }
        }
    }

    /// Records that the text from here on corresponds to the source from here on.
    fn shift(&mut self, inserted: bool) {
        self.in_source = advance(self.in_source, &self.source[self.counted_source..self.taken]);
        self.in_text = advance(self.in_text, &self.text[self.counted_text..]);
        (self.counted_source, self.counted_text) = (self.taken, self.text.len());
        let Position { line, column } = self.in_text;
        self.shifts.push(Shift { line, column, source_column: self.in_source.column, inserted });
    }
}

/// The position after `text`, which begins at `position`.
fn advance(mut position: Position, text: &str) -> Position {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\r' && characters.peek() == Some(&'\n') {
            continue;
        }
        if ends_line(character) {
            position = Position { line: position.line.saturating_add(1), column: 1 };
        } else {
            position.column = position.column.saturating_add(character.len_utf16() as u32);
        }
    }
    position
}

/// Whether `character` ends a line, as defined by ECMAScript.
pub(crate) fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erased_text_keeps_positions() {
        let source = "let é: Map<'😀',\n T> = 1; done";
        let mut edits = Edits::default();
        edits.erase(source.find(':').unwrap() as u32, source.find(" =").unwrap() as u32);
        let code = edits.apply(source, "");
        assert_eq!(code.text, "let é           \n    = 1; done");
        assert!(code.shifts.is_empty());
        assert_eq!(code.text.encode_utf16().count(), source.encode_utf16().count());
    }

    #[test]
    fn insertions_are_recorded_as_shifts() {
        let mut edits = Edits::default();
        edits.insert(5, "return ");
        edits.insert(7, "!");
        let code = edits.apply("one;\ntwo;", "\nend");
        assert_eq!(code.text, "one;\nreturn tw!o;\nend");
        let at = |column| code.source_position(Position { line: 2, column }).column;
        assert_eq!([1, 3, 8, 9, 10, 11, 12].map(at), [1, 1, 1, 2, 3, 3, 4]);
        assert_eq!(code.source_position(Position { line: 1, column: 4 }), Position { line: 1, column: 4 });
    }

    #[test]
    fn an_earlier_edit_hides_the_edits_that_it_covers() {
        let mut edits = Edits::default();
        edits.erase(4, 6);
        edits.erase_item(2, 8);
        edits.insert(8, "x");
        edits.insert(2, "<");
        assert_eq!(edits.apply("0123456789", "").text, "01<;     x89");
    }
}
