//! Loads cases, from this binary (which includes those of `conformance/`) or from a directory, and selects among them.

use std::fs;
use std::path::{Path, PathBuf};

use super::case::{Case, Level};
use super::parse::{CaseError, parse};
use crate::error::{CliError, reason};
use crate::files::source::{TextError, read_file};

/// The cases of `conformance/`: their relative paths and their texts.
static BUILTIN: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/cases.rs"));

#[derive(Debug, thiserror::Error)]
pub(crate) enum CasesError {
    #[error("cannot read {name}: {reason}")]
    Directory { name: String, reason: String },
    #[error("no cases in {0}: expected files `SECTION/NAME.case`")]
    NoCase(String),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error("no case name contains {0}; `--list` prints all names")]
    NothingLeft(String),
}

impl CliError for CasesError {}

/// The built-in cases whose names contain one of the texts, if there are any.
pub(crate) fn builtin(only: &[String]) -> Result<Vec<Case>, CasesError> {
    let named = BUILTIN.iter().map(|(path, text)| (name_of(Path::new(path)), path, text));
    let parsed = named
        .filter(|(name, ..)| is_selected(name, only))
        .map(|(name, path, text)| parse(&name, &format!("conformance/{path}"), text));
    Ok(parsed.collect::<Result<_, _>>()?)
}

/// The cases of a directory, ordered by name.
pub(crate) fn of_directory(root: &Path) -> Result<Vec<Case>, CasesError> {
    let mut cases = Vec::new();
    for section in entries(root)?.iter().filter(|path| path.is_dir()) {
        for file in entries(section)?.iter().filter(|path| path.extension().is_some_and(|ending| ending == "case")) {
            let name = name_of(file.strip_prefix(root).unwrap_or(file));
            cases.push(parse(&name, &file.display().to_string(), &read_file(file)?)?);
        }
    }
    if cases.is_empty() {
        return Err(CasesError::NoCase(root.display().to_string()));
    }
    Ok(cases)
}

/// Keeps the cases whose names contain one of the texts, if there are any; those of level `extension` only if `extensions`.
pub(crate) fn select(mut cases: Vec<Case>, only: &[String], extensions: bool) -> Result<Vec<Case>, CasesError> {
    cases.retain(|case| is_selected(&case.name, only) && (extensions || case.level != Level::Extension));
    if cases.is_empty() {
        let texts: Vec<_> = only.iter().map(|text| format!("{text:?}")).collect();
        return Err(CasesError::NothingLeft(texts.join(" or ")));
    }
    Ok(cases)
}

fn is_selected(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|text| name.contains(text))
}

/// The name of a case, `section/name` on every system.
fn name_of(path: &Path) -> String {
    let path = path.with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, CasesError> {
    let unreadable = |error| CasesError::Directory { name: directory.display().to_string(), reason: reason(&error) };
    let entries = fs::read_dir(directory).map_err(unreadable)?;
    let mut paths: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_cases_are_valid_and_sorted() {
        let cases = builtin(&[]).unwrap();
        assert!(cases.is_sorted_by(|a, b| a.name < b.name));
    }
}
