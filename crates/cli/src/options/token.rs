//! Tokens, read from a file or from the environment. Tokens are never given on the command line, which other users of the
//! machine can read.

use std::env;
use std::io::Read as _;
use std::path::Path;

use execbox::transport::{Token, TokenError};

use crate::error::{CliError, reason};
use crate::files::source;
use crate::process::secrecy;

/// The variable that is read if the variable of the role is not set.
const SHARED_VARIABLE: &str = "EXECBOX_TOKEN";

/// The maximum number of bytes that are read of a file: far more than a token has.
const MAX_FILE: u64 = 64 << 10;

/// The purpose of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// A token that clients or hosts present to this process.
    Listen,
    /// A token that this process presents to a remote runner.
    Remote,
}

impl Role {
    fn variable(self) -> &'static str {
        match self {
            Self::Listen => "EXECBOX_LISTEN_TOKEN",
            Self::Remote => "EXECBOX_REMOTE_TOKEN",
        }
    }
}

/// The places where a token can be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenSource<'a> {
    pub(crate) role: Role,
    /// The option that names `file`.
    pub(crate) option: &'static str,
    pub(crate) file: Option<&'a Path>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenSourceError {
    #[error("{option} {path}: {reason}")]
    File { option: &'static str, path: String, reason: String },
    #[error("{variable}: {error}")]
    Variable { variable: &'static str, error: TokenError },
    #[error(
        "{SHARED_VARIABLE} is ambiguous: set {} to the token that clients present, and {} to the token for the remote runner",
        Role::Listen.variable(), Role::Remote.variable()
    )]
    Ambiguous,
}

impl CliError for TokenSourceError {}

/// The text of a file with a token.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
    let file = source::open(path).map_err(|error| reason(&error))?;
    let file = file.map_err(|kind| format!("{kind}; name a regular file"))?;
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| reason(&error))?;
    Ok(text)
}

impl TokenSource<'_> {
    /// The token in the file if one is named, otherwise in the environment. Protects this process if there is a token.
    pub(crate) fn read(self) -> Result<Option<Token>, TokenSourceError> {
        let token = self.find()?;
        if token.is_some() {
            secrecy::protect();
        }
        Ok(token)
    }

    fn find(self) -> Result<Option<Token>, TokenSourceError> {
        let Some(path) = self.file else {
            let Some((variable, text)) = self.variable() else { return Ok(None) };
            return Token::new(&text).map(Some).map_err(|error| TokenSourceError::Variable { variable, error });
        };
        let failed = |reason| TokenSourceError::File { option: self.option, path: path.display().to_string(), reason };
        let text = read_file(path).map_err(failed)?;
        Token::new(&text).map(Some).map_err(|error| failed(error.to_string()))
    }

    /// Fails if both sources would read [`SHARED_VARIABLE`].
    pub(crate) fn check_distinct(self, other: Self) -> Result<(), TokenSourceError> {
        let is_shared = |source: Self| {
            source.file.is_none() && source.variable().is_some_and(|(variable, _)| variable == SHARED_VARIABLE)
        };
        if is_shared(self) && is_shared(other) { Err(TokenSourceError::Ambiguous) } else { Ok(()) }
    }

    fn variable(self) -> Option<(&'static str, String)> {
        let variables = [self.role.variable(), SHARED_VARIABLE];
        variables.into_iter().find_map(|name| Some((name, env::var(name).ok()?)))
    }
}
