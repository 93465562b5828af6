//! Where cases come from: this binary, which carries those of `conformance/`, or a directory; and which
//! of them are asked for.

use std::fs;
use std::path::{Path, PathBuf};

use super::case::{Case, Level};
use super::parse::{CaseError, parse};
use crate::source::{TextError, read_file, reason};

/// The cases of `conformance/`: their paths below it, and their texts.
static OURS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// Why there are no cases.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CasesError {
    #[error("cannot read {name}: {reason}")]
    Directory { name: String, reason: String },
    #[error("{0} has no case: cases are files `SECTION/NAME.case`, as in `conformance/`")]
    NoCase(String),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error("no case has {0} in its name: `--list` shows them all")]
    NothingLeft(String),
}

/// The cases that this binary carries.
pub(crate) fn ours() -> Result<Vec<Case>, CasesError> {
    let parsed = OURS.iter().map(|(path, text)| parse(&name_of(Path::new(path)), &format!("conformance/{path}"), text));
    Ok(parsed.collect::<Result<_, _>>()?)
}

/// The cases of a directory, in the order of their names.
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

/// Those whose names contain one of the texts, all if there is none; those of level `extension` only
/// where they are asked for.
pub(crate) fn select(mut cases: Vec<Case>, only: &[String], extensions: bool) -> Result<Vec<Case>, CasesError> {
    cases.retain(|case| {
        (only.is_empty() || only.iter().any(|text| case.name.contains(text)))
            && (extensions || case.level != Level::Extension)
    });
    if cases.is_empty() {
        let texts: Vec<_> = only.iter().map(|text| format!("{text:?}")).collect();
        return Err(CasesError::NothingLeft(texts.join(" or ")));
    }
    Ok(cases)
}

/// `section/name`, on every system.
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
    fn our_cases_can_be_read_and_are_sorted() {
        let cases = ours().unwrap();
        assert!(cases.is_sorted_by(|a, b| a.name < b.name));
    }
}
