//! Reading the program: from a file, from standard input, or from the command line.
//!
//! Whether the text is a program is for the library to say; here it is made sure that it is text.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;

use crate::args::ProgramArguments;

/// Longer inputs are not read to their end, so that an endless one is refused too. Far above the
/// limit that the library sets for programs, and reports itself.
const MAX_BYTES: u64 = 16 << 20;

/// A program's text.
#[derive(Debug)]
pub(crate) struct Source {
    /// What it is called in messages: its path as it was given, `<stdin>` or `<eval>`.
    pub(crate) name: String,
    pub(crate) code: String,
}

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("there is no program: name a file, pipe one in, or give code by `-e CODE` (see `--help`)")]
    Missing,
    #[error("{name} is empty: there is nothing to run")]
    Empty { name: String },
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Why a file's text cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("cannot read {name}: there is no such file{}", hint_for_code(name))]
    NotFound { name: String },
    #[error("cannot read {name}: it is a directory; name a file in it")]
    Directory { name: String },
    #[error("cannot read {name}: {}", reason(error))]
    Unreadable { name: String, error: io::Error },
    #[error("{name} is not UTF-8 text: byte {byte} (in line {line}) is wrong; save the file as UTF-8")]
    NotUtf8 { name: String, byte: usize, line: usize },
    #[error("{name} is longer than {} MiB: that is no input for execbox", MAX_BYTES >> 20)]
    TooLong { name: String },
}

impl Source {
    /// The program that the command line asks for.
    pub(crate) fn read(program: ProgramArguments) -> Result<Self, SourceError> {
        let source = match (program.eval, program.file) {
            (Some(code), _) => Self { name: "<eval>".to_owned(), code },
            (None, Some(path)) if path.as_os_str() != "-" => {
                Self { name: path.display().to_string(), code: read_file(&path)? }
            }
            (None, None) if io::stdin().is_terminal() => return Err(SourceError::Missing),
            (None, _) => Self { name: "<stdin>".to_owned(), code: read_text(io::stdin().lock(), "<stdin>")? },
        };
        if source.code.trim().is_empty() {
            return Err(SourceError::Empty { name: source.name });
        }
        Ok(source)
    }
}

/// The text of a file.
pub(crate) fn read_file(path: &Path) -> Result<String, TextError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => read_text(file, &name),
        Err(error) => Err(unreadable(name, error)),
    }
}

/// All the text of a reader, without the mark that some editors put before UTF-8.
fn read_text(reader: impl Read, name: &str) -> Result<String, TextError> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(name.to_owned(), error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TextError::TooLong { name: name.to_owned() });
    }
    let mut text = String::from_utf8(bytes).map_err(|error| not_utf8(name, &error))?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

fn unreadable(name: String, error: io::Error) -> TextError {
    match error.kind() {
        io::ErrorKind::NotFound => TextError::NotFound { name },
        io::ErrorKind::IsADirectory => TextError::Directory { name },
        _ => TextError::Unreadable { name, error },
    }
}

fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> TextError {
    let valid = error.utf8_error().valid_up_to();
    let line = error.as_bytes()[..valid].split(|byte| *byte == b'\n').count();
    TextError::NotUtf8 { name: name.to_owned(), byte: valid + 1, line }
}

/// For code where the name of a file belongs.
fn hint_for_code(name: &str) -> &'static str {
    if name.contains([' ', '(', '+', ';', '=', '"', '\'']) { " (code is given by `-e CODE`)" } else { "" }
}

/// An error of the operating system without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_without_its_mark() {
        assert_eq!(read_text("\u{feff}1 + 1\n".as_bytes(), "a.ts").unwrap(), "1 + 1\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_pointed_at() {
        let error = read_text(&b"1;\n2;\xff"[..], "a.ts").unwrap_err();
        assert!(matches!(error, TextError::NotUtf8 { byte: 6, line: 2, .. }), "{error}");
    }

    #[test]
    fn an_endless_input_is_refused() {
        let error = read_text(io::repeat(b' '), "<stdin>").unwrap_err();
        assert!(matches!(error, TextError::TooLong { .. }), "{error}");
    }
}
