//! Why a server is not available: for its operator, and for models.

use std::fmt;

use execbox_core::text::cut;

/// Why a server is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFailure {
    /// What failed, as a clause without paths and without output of the server's process: `failed to start: program not found`.
    /// With an address, why it was not reached.
    pub reason: String,
    /// What was not found or not reached, or where a configuration has the mistake.
    pub place: Option<FailurePlace>,
    /// The last lines that the process of the server has written to standard error, without secrets.
    pub stderr: Vec<String>,
    /// What the operator may have meant, as a clause.
    pub hint: Option<&'static str>,
    /// Whether the user must log in, or log in again.
    pub needs_login: bool,
    /// Whether a later attempt may succeed although nothing is changed: the server was not reached, or has too much to do.
    pub is_temporary: bool,
}

/// What was not found or not reached, or where a configuration has the mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailurePlace {
    /// The program or the directory that was not found.
    Path(Box<str>),
    /// The scheme, host and port of a server to which no connection was made.
    Address(Box<str>),
    /// The file, position and path of a mistake in a configuration.
    Configuration(Box<str>),
}

impl ServerFailure {
    /// A failure that lasts until something is changed.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        let (reason, stderr) = (reason.into(), Vec::new());
        Self { reason, place: None, stderr, hint: None, needs_login: false, is_temporary: false }
    }

    /// A failure that may pass.
    pub(crate) fn temporary(reason: impl Into<String>) -> Self {
        Self { is_temporary: true, ..Self::new(reason) }
    }

    /// What failed, as a clause for models: without paths and addresses of the host. Includes the last line of standard
    /// error that tells of an error and has no path.
    pub fn for_models(&self) -> String {
        let prefix = if let Some(FailurePlace::Address(_)) = self.place { "cannot connect: " } else { "" };
        let telling = self.stderr.iter().rev().find(|line| tells_of_an_error(line));
        let telling = telling.map(|line| format!(": {}", cut(line.trim(), MAX_LINE))).unwrap_or_default();
        format!("{prefix}{}{telling}", self.reason)
    }
}

/// The failure for the operator of the server: with the address, paths and, on further lines, the output of its
/// process.
impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => f.write_str(&self.reason)?,
            Some(FailurePlace::Path(path)) => write!(f, "{}: {path}", self.reason)?,
            Some(FailurePlace::Configuration(place)) => write!(f, "{place}: {}", self.reason)?,
            Some(FailurePlace::Address(address)) => write!(f, "cannot connect to {address}: {}", self.reason)?,
        }
        if let Some(hint) = self.hint {
            write!(f, "; {hint}")?;
        }
        if !self.stderr.is_empty() {
            f.write_str("; last lines of standard error:")?;
        }
        self.stderr.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Whether a line of output is about an error. Lines with paths do not count: models do not see those of the host.
fn tells_of_an_error(line: &str) -> bool {
    let lower = line.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let is_sign = |word: &str| SUFFIXES.iter().any(|suffix| word.ends_with(suffix)) || WORDS.contains(&word);
    !line.contains(['/', '\\']) && (words.any(is_sign) || PHRASES.iter().any(|phrase| lower.contains(phrase)))
}

/// Ends of words, words and phrases in lines about errors: `TypeError`, `denied`.
const SUFFIXES: &[&str] = &["error", "exception"];
const WORDS: &[&str] = &[
    "cannot",
    "denied",
    "expired",
    "failed",
    "fatal",
    "forbidden",
    "invalid",
    "missing",
    "must",
    "panic",
    "panicked",
    "required",
    "requires",
    "unable",
    "unauthorized",
];
const PHRASES: &[&str] = &["could not", "no such", "not found", "not set"];

/// The maximum length of a line for models, in characters.
const MAX_LINE: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_read_the_line_that_tells_of_the_error_and_no_path() {
        for (lines, expected) in [
            (&[][..], "process ended"),
            (&["Starting …", "Listening", "requireStack: []"], "process ended"),
            (&["panic: quota is used up", "goroutine 1 [running]:"], "process ended: panic: quota is used up"),
            (&["DATABASE_URL not set"], "process ended: DATABASE_URL not set"),
            (
                &["Error: API_KEY environment variable is required"],
                "process ended: Error: API_KEY environment variable is required",
            ),
            (
                &["TypeError: x is not a function", "    at main (/srv/app/x.js:1:2)", "", "Node.js v22.1.0"],
                "process ended: TypeError: x is not a function",
            ),
            (&["ImportError: no module", "C:\\app\\main.py: fatal error"], "process ended: ImportError: no module"),
            (&["Error: Cannot find module '/srv/a/b.js'"], "process ended"),
        ] {
            let stderr = lines.iter().map(|&line| line.to_owned()).collect();
            let failure = ServerFailure { stderr, ..ServerFailure::new("process ended") };
            assert_eq!(failure.for_models(), expected);
        }
        let long = ServerFailure { stderr: vec!["error ".repeat(100)], ..ServerFailure::new("x") };
        assert!(long.for_models().chars().count() < 130);
    }
}
