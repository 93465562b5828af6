//! Tokens from where secrets are kept: a file, or the environment; never the command line, which others can read.

use std::path::Path;
use std::{env, fs};

use execbox::transport::{Token, TokenError};

use crate::source;

/// Looked at where no file is named.
const VARIABLE: &str = "EXECBOX_TOKEN";

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoToken {
    #[error("--token-file {path}: {reason}")]
    File { path: String, reason: String },
    #[error("{VARIABLE}: {0}")]
    Variable(TokenError),
}

/// The token of the file, or of the environment if no file is named.
pub(crate) fn read(file: Option<&Path>) -> Result<Option<Token>, NoToken> {
    let Some(path) = file else {
        let text = env::var(VARIABLE).ok();
        return text.map(|text| Token::new(&text)).transpose().map_err(NoToken::Variable);
    };
    let failed = |reason: String| NoToken::File { path: path.display().to_string(), reason };
    let text = fs::read_to_string(path).map_err(|error| failed(source::reason(&error)))?;
    Token::new(&text).map(Some).map_err(|error| failed(error.to_string()))
}
