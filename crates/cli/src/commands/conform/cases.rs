//! Loads cases, from this binary (which includes those of `conformance/`) or from a directory, and selects among them.

use std::fs;
use std::path::Path;

use super::case::{Case, Level};
use super::parse::{CaseError, parse};
use crate::error::{CliError, reason};
use crate::files::source::{TextError, read_file};

/// The files of `conformance/`: their sections and their texts.
static BUILTIN: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/cases.rs"));

#[derive(Debug, thiserror::Error)]
pub(crate) enum CasesError {
    #[error("cannot read {name}: {reason}")]
    Directory { name: String, reason: String },
    #[error("no cases in {0}: expected files `SECTION.cases`")]
    NoCase(String),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error("no case name contains {0}; `--list` prints all names")]
    NothingLeft(String),
}

impl CliError for CasesError {}

/// The built-in cases whose names contain one of the texts, if there are any; ordered by name.
pub(crate) fn builtin(only: &[String]) -> Result<Vec<Case>, CasesError> {
    let mut cases = Vec::new();
    for (section, text) in BUILTIN {
        let file = format!("crates/cli/conformance/{section}.cases");
        cases.extend(parse(section, &file, text, |name| is_selected(name, only))?);
    }
    Ok(cases)
}

/// The cases of every file `SECTION.cases` in a directory, ordered by the names of the files.
pub(crate) fn of_directory(directory: &Path) -> Result<Vec<Case>, CasesError> {
    let name = || directory.display().to_string();
    let unreadable = |error| CasesError::Directory { name: name(), reason: reason(&error) };
    let entries = fs::read_dir(directory).map_err(unreadable)?;
    let mut files: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cases"));
    files.sort();
    let mut cases = Vec::new();
    for file in &files {
        let section = file.file_stem().unwrap_or_default().to_string_lossy();
        cases.extend(parse(&section, &file.display().to_string(), &read_file(file)?, |_| true)?);
    }
    if cases.is_empty() { Err(CasesError::NoCase(name())) } else { Ok(cases) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_cases_are_valid_and_sorted() {
        let cases = builtin(&[]).unwrap();
        assert!(cases.is_sorted_by(|a, b| a.name < b.name));
    }
}
