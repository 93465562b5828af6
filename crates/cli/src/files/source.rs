//! The program: read from a file, from standard input, or from the command line.
//!
//! The module checks that the program is UTF-8 text; the library parses it.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use nix::fcntl::OFlag;
use serde_json::Value as Json;

use crate::error::{CliError, reason};

#[derive(Debug, Args)]
pub(crate) struct ProgramArguments {
    /// Read the program from FILE; `-`, or no FILE in a pipe, reads standard input
    #[arg(value_name = "FILE", conflicts_with = "eval")]
    pub(crate) file: Option<PathBuf>,

    /// Run CODE instead of a file
    #[arg(short, long, value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
}

/// The number of bytes after which reading stops, so that an endless input is rejected. Far above the default of
/// `--max-source`, which the library checks.
const MAX_BYTES: u64 = 16 << 20;

/// A program's text.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path as given, `<stdin>` or `<eval>`.
    pub(crate) name: String,
    pub(crate) code: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("no program given: name a file, pipe one in, or use `-e CODE` (see `--help`)")]
    Missing,
    #[error("{name} is empty")]
    Empty { name: String },
    #[error("{name} is a configuration, not a program; for its servers, use `--config {name}` with a program")]
    Configuration { name: String },
    #[error(transparent)]
    Text(#[from] TextError),
}

impl CliError for SourceError {}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("cannot read {name}: no such file{}", hint_for_code(name))]
    NotFound { name: String },
    #[error("cannot read {name}: is a directory; name a file in it")]
    Directory { name: String },
    #[error("cannot read {name}: {kind}; name a regular file, or use `-` where standard input is accepted")]
    NotRegular { name: String, kind: &'static str },
    #[error("cannot read {name}: {}", reason(error))]
    Unreadable { name: String, error: io::Error },
    #[error("{name} is not UTF-8 text: invalid byte {byte}, in line {line}; save the file as UTF-8")]
    NotUtf8 { name: String, byte: usize, line: usize },
    #[error("{name} is longer than {} MiB", MAX_BYTES >> 20)]
    TooLong { name: String },
}

impl Source {
    /// Reads the program that the arguments name.
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
        if is_configuration(&source.code) {
            return Err(SourceError::Configuration { name: source.name });
        }
        Ok(source)
    }
}

/// Whether the text is a configuration of MCP servers: as a program, it would only return itself.
fn is_configuration(text: &str) -> bool {
    let is_candidate = text.trim_start().starts_with('{') && text.contains("\"mcpServers\"");
    is_candidate && serde_json::from_str::<Json>(text).is_ok_and(|json| json["mcpServers"].is_object())
}

/// The text of a file.
pub(crate) fn read_file(path: &Path) -> Result<String, TextError> {
    let name = path.display().to_string();
    match open(path) {
        Ok(Ok(file)) => read_text(file, &name),
        Ok(Err(kind)) => Err(TextError::NotRegular { name, kind }),
        Err(error) => Err(unreadable(name, error)),
    }
}

/// Opens a regular file, or a descriptor that the caller has opened (`/dev/fd/3`, as the shell passes `<(command)`). Other
/// files might never end, or opening them might block for ever: the inner error names the kind of the file.
pub(crate) fn open(path: &Path) -> io::Result<Result<File, &'static str>> {
    if is_descriptor(path) { File::open(path).map(Ok) } else { open_regular(path) }
}

/// Whether a path names a descriptor of this process.
pub(crate) fn is_descriptor(path: &Path) -> bool {
    DESCRIPTORS.iter().any(|descriptor| path.starts_with(descriptor))
}

/// Opens a regular file. The inner error names the kind of another file.
pub(crate) fn open_regular(path: &Path) -> io::Result<Result<File, &'static str>> {
    // Opening a FIFO waits for its writer, unless it is opened without waiting.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    Ok(match () {
        () if kind.is_file() => Ok(file),
        () if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        () if kind.is_fifo() => Err("is a FIFO"),
        () => Err("is a device"),
    })
}

/// The error of reading a small file. The caller adds the path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegularFileError {
    #[error("{}", reason(.0))]
    Io(io::Error),
    #[error("{0}; name a regular file")]
    NotRegular(&'static str),
    #[error("longer than {} KiB", .0 >> 10)]
    TooLong(usize),
    #[error("not UTF-8 text: invalid byte in line {0}; save the file as UTF-8")]
    NotUtf8(usize),
}

/// The text of a regular file of at most `max` bytes.
pub(crate) fn read_regular(path: &Path, max: usize) -> Result<String, RegularFileError> {
    let file = open_regular(path).map_err(RegularFileError::Io)?.map_err(RegularFileError::NotRegular)?;
    let mut bytes = Vec::new();
    file.take(max as u64 + 1).read_to_end(&mut bytes).map_err(RegularFileError::Io)?;
    if bytes.len() > max {
        return Err(RegularFileError::TooLong(max));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        RegularFileError::NotUtf8(valid.split(|byte| *byte == b'\n').count())
    })
}

/// The paths of descriptors.
const DESCRIPTORS: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// Reads text to the end. A byte order mark is removed.
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

/// The hint for code that was given as a file name.
fn hint_for_code(name: &str) -> &'static str {
    if name.contains([' ', '(', '+', ';', '=', '"', '\'']) { " (use `-e CODE` for code)" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_removed() {
        assert_eq!(read_text("\u{feff}1 + 1\n".as_bytes(), "a.ts").unwrap(), "1 + 1\n");
    }

    #[test]
    fn invalid_utf8_is_located() {
        let error = read_text(&b"1;\n2;\xff"[..], "a.ts").unwrap_err();
        assert!(matches!(error, TextError::NotUtf8 { byte: 6, line: 2, .. }), "{error}");
    }

    #[test]
    fn an_endless_input_is_rejected() {
        let error = read_text(io::repeat(b' '), "<stdin>").unwrap_err();
        assert!(matches!(error, TextError::TooLong { .. }), "{error}");
    }
}
