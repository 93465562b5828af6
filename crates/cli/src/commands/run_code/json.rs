//! JSON from options of the command line and from files, and the errors about it.

use std::path::{Path, PathBuf};

use execbox::code::OptionsError;
use serde_json::Value as Json;

use crate::error::CliError;
use crate::files::source::{self, TextError};

#[derive(Debug, thiserror::Error)]
pub(super) enum OptionsFileError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("{file}: {error}")]
    File { file: String, error: serde_json::Error },
    #[error("{file}: {error}")]
    Options { file: String, error: OptionsError },
    #[error("invalid {option} {text:?}: expected NAME=JSON, such as rows=[1,2] or rows=@rows.json")]
    NoValue { option: &'static str, text: String },
    #[error("invalid {option}: expected JSON: {error}{}", quotes_hint(text))]
    NoJson { option: String, text: String, error: serde_json::Error },
    #[error("invalid --args: expected a JSON array of arguments, such as [1,\"two\"]")]
    NoArray,
    /// An error of a value on the command line.
    #[error("{0}")]
    Value(OptionsError),
}

impl CliError for OptionsFileError {}

/// Parses `NAME=JSON`, or `NAME=@FILE`.
pub(super) fn named_value<'a>(option: &'static str, text: &'a str) -> Result<(&'a str, Json), OptionsFileError> {
    let no_value = || OptionsFileError::NoValue { option, text: text.to_owned() };
    let (name, json) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(no_value)?;
    Ok((name, value(&format!("{option} {name}"), json)?))
}

/// Parses JSON, or `@FILE`, with which JSON cannot begin.
pub(super) fn value(option: &str, text: &str) -> Result<Json, OptionsFileError> {
    if let Some(file) = text.strip_prefix('@') {
        return read_json(&PathBuf::from(file));
    }
    serde_json::from_str(text).map_err(|error| OptionsFileError::NoJson {
        option: option.to_owned(),
        text: text.to_owned(),
        error,
    })
}

pub(super) fn read_json(path: &Path) -> Result<Json, OptionsFileError> {
    let text = source::read_file(path)?;
    serde_json::from_str(&text).map_err(|error| OptionsFileError::File { file: path.display().to_string(), error })
}

/// The hint for a word without the quotes of a string.
fn quotes_hint(text: &str) -> &'static str {
    let looks_like_words = text.starts_with(char::is_alphabetic);
    if looks_like_words { r#" (strings are in double quotes: '"text"')"# } else { "" }
}
