//! Mistakes in a file, with their positions.

use std::fmt;
use std::path::Path;

/// A mistake in a file, with its position: of the whole file, or of one entry ([`SkipReason::Invalid`](super::SkipReason)).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The path of keys; empty for the file as a whole.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong at this position.
    pub problem: Problem,
}

/// `LINE:COLUMN: PATH: PROBLEM`, to be printed after `FILE:`.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for ConfigError {}

/// The language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

impl Format {
    /// The language of a text: TOML if it is in a file with the extension `toml`, or if it does not begin as JSON does and has
    /// tables of servers.
    pub(super) fn of(text: &str, file_name: Option<&str>) -> Self {
        let is_toml = || !text.trim_start().starts_with(['{', '/']) && text.contains("mcp_servers");
        let extension = file_name.and_then(|name| Path::new(name).extension());
        let is_toml = extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) || is_toml();
        if is_toml { Self::Toml } else { Self::Json }
    }

    /// The shortest configuration.
    fn example(self) -> &'static str {
        match self {
            Self::Json => r#"{ "mcpServers": { "NAME": { "command": "PROGRAM", "args": ["…"] } } }"#,
            Self::Toml => r#"[mcp_servers.NAME] and command = "PROGRAM" below it"#,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Json { "JSON" } else { "TOML" })
    }
}

/// What can be wrong with a file or with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Not in the language of the file.
    #[error("invalid {format}: {message}")]
    Syntax {
        /// The language.
        format: Format,
        /// What is wrong.
        message: String,
    },
    /// The file contains no value.
    #[error("the file is empty: expected {}", Format::Json.example())]
    Empty,
    /// No servers under any of the keys of clients.
    #[error(
        "missing key `{}`: expected {}", if *.0 == Format::Json { "mcpServers" } else { "mcp_servers" }, .0.example()
    )]
    NoServers(Format),
    /// A value of the wrong type.
    #[error("invalid type: expected {expected}, got {found}")]
    WrongType {
        /// The type of the value, with its article.
        found: &'static str,
        /// The type that is required here.
        expected: String,
    },
    /// A string that is not one of the accepted values.
    #[error("invalid value: expected {expected}")]
    InvalidValue {
        /// The values that are accepted.
        expected: &'static str,
    },
    /// The same key twice in one object.
    #[error("duplicate key; remove or rename one of the two")]
    DuplicateKey,
    /// Neither a command nor a URL.
    #[error("missing `command` or `url`: expected \"command\": \"PROGRAM\" or \"url\": \"https://…\"")]
    MissingCommand,
    /// An item of `inputs` without a name.
    #[error("missing `id`: expected {{ \"type\": \"promptString\", \"id\": \"NAME\" }}")]
    MissingInputId,
    /// A `pickString` without options, or an option without a value.
    #[error("missing options: expected \"options\": [\"FIRST\", \"SECOND\"]")]
    MissingInputOptions,
    /// A command and a URL.
    #[error("`url` cannot be combined with `command`; remove one of the two, or add \"type\"")]
    CommandAndUrl,
    /// No clients in a file of clients.
    #[error("no clients: expected {{ \"clients\": {{ \"NAME\": {{ \"token\": \"…\" }} }} }}")]
    NoClients,
    /// A client without a token.
    #[error("missing `token` or `tokenFile`: expected \"token\": \"${{NAME}}\" or \"tokenFile\": \"PATH\"")]
    NoToken,
    /// A client with a token and a file with one.
    #[error("`token` cannot be combined with `tokenFile`; remove one of the two")]
    TwoTokens,
    /// A client with the token of another one.
    #[error("has the token of {other:?}: each client needs its own")]
    SameToken {
        /// The name of the other client.
        other: String,
    },
    /// A token that can be guessed, or a text that is none.
    #[error("{}", super::WeakToken)]
    WeakToken,
    /// A variable without a value and without a default.
    #[error("environment variable {name} is not set; set it")]
    UnsetVariable {
        /// The name of the variable.
        name: String,
    },
    /// A key that is not known, where it could mean that something is not restricted.
    #[error(
        "unknown key; {}", .suggestion.as_ref().map_or_else(|| format!("expected {known}"), |name| format!("did you mean {name:?}?"))
    )]
    UnknownKey {
        /// The nearest known key.
        suggestion: Option<String>,
        /// All known keys.
        known: String,
    },
}
