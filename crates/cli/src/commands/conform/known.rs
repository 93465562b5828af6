//! The list of known failures: a file with the name of a case and a reason per line. A listed case that passes makes the run
//! fail, so that the list stays correct.

use std::collections::HashMap;
use std::path::Path;

use super::case::Case;
use crate::error::CliError;
use crate::files::source::{TextError, read_file};

/// The reasons, by the names of cases.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpectedFailures(HashMap<String, String>);

#[derive(Debug, thiserror::Error)]
pub(crate) enum KnownError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("{file}:{line}: unknown case {name:?}; `--list` prints all names")]
    NoCase { file: String, line: usize, name: String },
    #[error("{file}:{line}: missing reason after {name}")]
    NoReason { file: String, line: usize, name: String },
    #[error("{file}:{line}: duplicate case {name}")]
    Twice { file: String, line: usize, name: String },
}

impl CliError for KnownError {}

impl ExpectedFailures {
    pub(crate) fn read(file: &Path, cases: &[Case]) -> Result<Self, KnownError> {
        Self::parse(&file.display().to_string(), &read_file(file)?, cases)
    }

    fn parse(file: &str, text: &str, cases: &[Case]) -> Result<Self, KnownError> {
        let mut reasons = HashMap::new();
        for (at, text) in text.lines().enumerate() {
            let (name, reason) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
            if name.is_empty() || name.starts_with('#') {
                continue;
            }
            let (file, line, name) = (file.to_owned(), at + 1, name.to_owned());
            if !cases.iter().any(|case| case.name == name) {
                return Err(KnownError::NoCase { file, line, name });
            }
            if reason.is_empty() {
                return Err(KnownError::NoReason { file, line, name });
            }
            if reasons.insert(name.clone(), reason.trim().to_owned()).is_some() {
                return Err(KnownError::Twice { file, line, name });
            }
        }
        Ok(Self(reasons))
    }

    pub(crate) fn reason(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::conform::parse::parse;

    fn known(text: &str) -> Result<ExpectedFailures, String> {
        let case = |name| format!("=== {name}\ntitle: title\n---\n< started\n");
        let cases = parse("logs", "file", &(case("one") + &case("two")), |_| true).unwrap();
        ExpectedFailures::parse("known.txt", text, &cases).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_reasons() {
        let known = known("# The reasons\n\nlogs/one  it has no console\n").unwrap();
        assert_eq!((known.reason("logs/one"), known.reason("logs/two")), (Some("it has no console"), None));
    }

    #[test]
    fn errors_name_their_line() {
        let error = |text| known(text).unwrap_err();
        assert_eq!(error("\nlogs/three why"), "known.txt:2: unknown case \"logs/three\"; `--list` prints all names");
        assert_eq!(error("logs/one"), "known.txt:1: missing reason after logs/one");
        assert_eq!(error("logs/one a\nlogs/one b"), "known.txt:2: duplicate case logs/one");
    }
}
