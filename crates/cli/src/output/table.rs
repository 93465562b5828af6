//! Tables: aligned columns, of which the last one is cut to the width of the terminal.

use anstyle::Style;
use execbox_core::text::cut;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::style::{self, Colors};
use crate::output::terminal::safe_line;

/// A cell: one line of text, whose control characters are escaped, and its style.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(style: Style, text: &str) -> Self {
        Self { text: safe_line(text).into_owned(), style }
    }

    /// A cell of the words of a text of several lines.
    pub(crate) fn of_words(style: Style, text: &str) -> Self {
        Self::new(style, &text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// A cell of at most `max` characters.
    pub(crate) fn cut(style: Style, text: &str, max: usize) -> Self {
        Self::new(style, &cut(text, max))
    }
}

/// Rows with the same number of cells.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
    /// The number of spaces before each row.
    indent: usize,
}

impl Table {
    pub(crate) fn new(indent: usize) -> Self {
        Self { rows: Vec::new(), indent }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// The lines for standard output. The last column has the rest of the terminal's width, and at least [`MIN_LAST`] columns.
    /// Without a terminal, it has at most [`MAX_LAST`].
    pub(crate) fn lines(&self) -> Vec<String> {
        self.cut_lines(style::width(), Colors::of_stdout())
    }

    /// The lines for standard output, of any length.
    pub(crate) fn whole_lines(&self) -> Vec<String> {
        self.lines_of(&self.widths(), usize::MAX, Colors::of_stdout())
    }

    fn cut_lines(&self, width: Option<usize>, colors: Colors) -> Vec<String> {
        let widths = self.widths();
        let others = widths.split_last().map_or(&[][..], |(_, others)| others);
        let before: usize = others.iter().filter(|width| **width > 0).map(|width| width + GAP).sum();
        let rest = width.map_or(MAX_LAST, |width| width.saturating_sub(self.indent + before).max(MIN_LAST));
        self.lines_of(&widths, rest, colors)
    }

    /// The widths of the columns.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widest = |column: usize| self.rows.iter().filter_map(|row| Some(row.get(column)?.text.width())).max();
        (0..columns).map(|column| widest(column).unwrap_or_default()).collect()
    }

    fn lines_of(&self, widths: &[usize], rest: usize, colors: Colors) -> Vec<String> {
        self.rows.iter().map(|row| self.line(row, widths, rest, colors)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], rest: usize, colors: Colors) -> String {
        let mut line = " ".repeat(self.indent);
        let mut gap = 0;
        let cells = row.iter().enumerate().filter(|(column, _)| widths[*column] > 0);
        for (column, cell) in cells {
            let is_last = column + 1 == widths.len();
            let text = if is_last { cut_to_width(&cell.text, rest) } else { cell.text.clone() };
            if !text.is_empty() {
                line += &" ".repeat(gap);
                gap = 0;
                line += &colors.paint(cell.style, &text);
            }
            gap += widths[column].saturating_sub(text.width()) + GAP;
        }
        line
    }
}

/// The beginning of a text that takes at most `max` columns, with `…` at its end if it is cut.
fn cut_to_width(text: &str, max: usize) -> String {
    if text.width() <= max {
        return text.to_owned();
    }
    let mut columns = 1;
    let fits = |c: &char| {
        columns += c.width().unwrap_or_default();
        columns <= max
    };
    let beginning: String = text.chars().take_while(fits).collect();
    format!("{}…", beginning.trim_end())
}

/// The columns between two cells.
const GAP: usize = 2;

/// The least width of the last column, and the most without a terminal.
const MIN_LAST: usize = 16;
const MAX_LAST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::{NAME, PLAIN};

    fn table() -> Table {
        let mut table = Table::new(2);
        table.row([Cell::new(NAME, "a"), Cell::new(PLAIN, ""), Cell::of_words(PLAIN, "one\x1b[2J line\nof text")]);
        table.row([Cell::new(NAME, "天気"), Cell::new(PLAIN, "x"), Cell::new(PLAIN, "天気天気天気天気天気天気")]);
        table
    }

    #[test]
    fn the_last_column_is_cut_to_the_width() {
        assert_eq!(
            table().cut_lines(Some(27), Colors(false)),
            ["  a        one\\u001b[2J li…", "  天気  x  天気天気天気天…"],
        );
        assert_eq!(table().cut_lines(Some(1), Colors(false))[0], "  a        one\\u001b[2J li…");
        assert_eq!(table().cut_lines(None, Colors(false))[0], "  a        one\\u001b[2J line of text");
    }

    #[test]
    fn columns_without_text_take_no_space() {
        let mut table = Table::new(0);
        table.row([Cell::new(NAME, "a"), Cell::new(PLAIN, ""), Cell::new(PLAIN, "b")]);
        assert_eq!(table.cut_lines(None, Colors(false)), ["a  b"]);
    }

    #[test]
    fn styles_do_not_change_the_columns() {
        assert_eq!(table().cut_lines(None, Colors(true))[1], "  \x1b[36m天気\x1b[0m  x  天気天気天気天気天気天気");
    }
}
