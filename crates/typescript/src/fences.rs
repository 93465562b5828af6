//! Removes Markdown fences around code.
//!
//! Text outside the code is replaced by spaces, one per UTF-16 unit, and line ends remain, so that lines and columns of
//! the code are those of the source. Only fences are recognized; other Markdown is not parsed.

use std::ops::Range;

use crate::Fault;

/// The code of a source that begins with a fence, in an otherwise blank text; `None` if it does not begin with one.
///
/// An unclosed fence ends with the source. A second fenced block is an error, because running only one of them would be
/// wrong.
pub(crate) fn opening(source: &str) -> Result<Option<String>, Fault> {
    if let Some(code) = one_line(source) {
        return Ok(Some(blank_outside(source, code)));
    }
    let mut blocks = Blocks::new(source);
    let Some(first) = blocks.next().filter(|block| blank(&source[..block.fence])) else { return Ok(None) };
    // `~~~x` is also an expression: without its other half it is not a fence.
    if !first.closed && source[first.fence..].starts_with('~') {
        return Ok(None);
    }
    match blocks.next() {
        Some(second) => Err(more_than_one(&second)),
        None => Ok(Some(blank_outside(source, first.code))),
    }
}

/// The code of a source that is prose around one closed block; `None` if it is not. `fault` is why the source is no code: the one
/// that is returned for several blocks, if it is before them.
pub(crate) fn amid_prose(source: &str, fault: &Fault) -> Result<Option<String>, Fault> {
    let mut blocks = Blocks::new(source);
    match (blocks.next(), blocks.next()) {
        (Some(only), None) if only.closed => Ok(Some(blank_outside(source, only.code))),
        (Some(first), Some(second)) if fault.offset <= first.fence => Err(more_than_one(&second)),
        _ => Ok(None),
    }
}

fn more_than_one(second: &Block) -> Fault {
    Fault::new("more than one fenced code block; write one script", second.fence)
}

/// The code in ```` ```js 1 + 1``` ````, all on one line.
fn one_line(source: &str) -> Option<Range<usize>> {
    let text = trim(source);
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    if inner.contains(['`', '\n', '\r']) || blank(inner) {
        return None;
    }
    let first_word = inner.split([' ', '\t']).next().unwrap_or_default();
    let info = if INFO_WORDS.contains(&first_word) { first_word.len() } else { 0 };
    let start = source.find("```")? + 3;
    Some(start + info..start + inner.len())
}

/// Words after a fence that name a language, where they could also be code.
const INFO_WORDS: [&str; 10] =
    ["js", "javascript", "ts", "typescript", "mjs", "mts", "cjs", "cts", "JavaScript", "TypeScript"];

/// A fenced block: where its fence begins, and where its code is.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    fence: usize,
    code: Range<usize>,
    closed: bool,
}

/// The fenced blocks of a source, in order.
struct Blocks<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Blocks<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, at: 0 }
    }

    /// The next line with its end, and where it starts.
    fn line(&mut self) -> Option<(usize, &'a str)> {
        let start = self.at;
        let line = self.source[start..].split_inclusive('\n').next()?;
        self.at = start + line.len();
        Some((start, line))
    }
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let (fence, marker) = loop {
            let (start, line) = self.line()?;
            if let Some(marker) = opening_marker(line) {
                break (start + line.len() - line.trim_start_matches(is_blank).len(), marker);
            }
        };
        let code = self.at;
        while let Some((start, line)) = self.line() {
            if closes(line, marker) {
                return Some(Block { fence, code: code..start, closed: true });
            }
        }
        Some(Block { fence, code: code..self.source.len(), closed: false })
    }
}

/// The three or more backticks or tildes that `line` opens a block with.
fn opening_marker(line: &str) -> Option<&str> {
    let line = trim(line);
    let fence = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(fence);
    let marker = &line[..line.len() - info.len()];
    (marker.len() >= 3 && !info.contains(fence)).then_some(marker)
}

/// Whether `line` closes the block that `marker` opened.
fn closes(line: &str, marker: &str) -> bool {
    trim(line).strip_prefix(marker).is_some_and(|rest| rest.chars().all(|c| marker.starts_with(c)))
}

/// `source` with everything outside `code` replaced by spaces.
fn blank_outside(source: &str, code: Range<usize>) -> String {
    let mut text = String::with_capacity(source.len());
    let blank = |text: &mut String, outside: &str| {
        for character in outside.chars() {
            match character {
                '\n' | '\r' | '\u{2028}' | '\u{2029}' => text.push(character),
                _ => text.extend(std::iter::repeat_n(' ', character.len_utf16())),
            }
        }
    };
    blank(&mut text, &source[..code.start]);
    text.push_str(&source[code.clone()]);
    blank(&mut text, &source[code.end..]);
    text
}

fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

fn blank(text: &str) -> bool {
    trim(text).is_empty()
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}
