//! Edits of the text of a client's file. What an edit is not about keeps its comments, order, indentation and line ends, and a
//! result that means anything else is an error.

mod always_allow;
mod gateway;
mod members;
mod toml_tables;

use execbox_core::text::{Keep, escape_json};

pub use self::always_allow::{Edited, always_allow};
pub use self::gateway::{Gateway, GatewayCommand, GatewayFiles};
use super::{ConfigError, Format};

/// Why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file, the entry, or its list is invalid.
    #[error("{0}")]
    Invalid(#[from] ConfigError),
    /// No entry that is used has this name.
    #[error("no entry for the server {server:?}")]
    NoEntry {
        /// The name of the server.
        server: String,
    },
    /// Several entries that are used have this name.
    #[error("several entries for the server {server:?}, in lines {}; rename all but one", listed(.lines))]
    Ambiguous {
        /// The name of the server.
        server: String,
        /// The lines of the entries, from 1.
        lines: Vec<usize>,
    },
    /// Every name of the tool has a `*`, so that a pattern for it matches others, too.
    #[error("the tool {tool:?} has a `*` in its name, so that no pattern matches it alone")]
    NoPattern {
        /// The name of the tool on its server.
        tool: String,
    },
    /// The entry is written in a way that cannot be edited.
    #[error(
        "cannot edit the entry for the server {server:?} in line {line}; add {pattern:?} to its \"alwaysAllow\" by hand"
    )]
    Unsupported {
        /// The name of the server.
        server: String,
        /// The line of the entry, from 1.
        line: usize,
        /// The pattern that is needed.
        pattern: String,
    },
    /// The file has no table of servers.
    #[error("there are no servers")]
    NoTable,
    /// Both files have a server of this name, which differ.
    #[error("the server {server:?} is already in the other file, and differs there; rename or remove one of them")]
    Exists {
        /// The name of the server.
        server: String,
    },
    /// The table of servers is written in a way that cannot be edited.
    #[error("cannot edit the servers in line {line}; move them by hand")]
    UnsupportedTable {
        /// The line of the table, from 1.
        line: usize,
    },
}

/// A string in both languages. Hidden characters are escaped.
fn quoted(text: &str) -> String {
    escape_json(&serde_json::Value::from(text).to_string(), Keep::Nothing).into_owned()
}

/// The offset of the comma after a value that ends at `at`, if there is one.
fn comma(text: &str, mut at: usize, format: Format) -> Option<usize> {
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        match remark(&text[at..], format) {
            Some(remark) => at += remark.len(),
            None => return text[at..].starts_with(',').then_some(at),
        }
    }
}

/// The end of the comments that follow `at` in its line; `at` if there are none.
fn remark_end(text: &str, mut at: usize, format: Format) -> usize {
    loop {
        let rest = text[at..].trim_start_matches([' ', '\t']);
        match remark(rest, format).filter(|remark| !remark.contains('\n')) {
            Some(remark) => at = text.len() - rest.len() + remark.len(),
            None => return at,
        }
    }
}

/// The comment with which a text begins.
fn remark(text: &str, format: Format) -> Option<&str> {
    let line = || text.split(['\n', '\r']).next();
    match format {
        Format::Json if text.starts_with("//") => line(),
        Format::Json if text.starts_with("/*") => text.get(..text.find("*/")? + 2),
        Format::Toml if text.starts_with('#') => line(),
        _ => None,
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

/// The line break of a text: that of its first line.
fn line_break(text: &str) -> &'static str {
    let first = text.find('\n').filter(|at| text[..*at].ends_with('\r'));
    if first.is_some() { "\r\n" } else { "\n" }
}

fn listed(lines: &[usize]) -> String {
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
