//! Entries that are not used, and why.

use super::{ConfigError, EnvFileProblem, Unavailable};

/// An entry that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The key of the entry.
    pub name: String,
    /// Why the entry is not used.
    pub reason: SkipReason,
}

/// Why a server is not used. Contains no values, because they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// `disabled` is true or `enabled` is false, or another key of the file disables the server.
    #[error("disabled in the configuration")]
    Disabled,
    /// The entry starts `execbox mcp`, which would recurse without end.
    #[error("starts execbox itself")]
    SelfReference,
    /// An earlier entry has the same name and content.
    #[error("duplicate of an earlier entry")]
    Duplicate,
    /// Another entry of the same name is used: a later one of the same table, or that of a project.
    #[error("another entry of this name overrides it")]
    Overridden,
    /// The server of a project, which does not contain the workspace folder.
    #[error("is used in the project {project:?} only")]
    OtherProject {
        /// The folder of the project.
        project: String,
    },
    /// A server that an extension of the client starts: the entry has neither a command nor a URL.
    #[error("an extension of the client starts this server; add `command` or `url`")]
    Extension,
    /// The entry has a mistake.
    #[error("{}{error}", .file.as_ref().map(|file| format!("{file}:")).unwrap_or_default())]
    Invalid {
        /// The name of the file, if the [`Context`](super::Context) knows it.
        file: Option<String>,
        /// The mistake.
        error: Box<ConfigError>,
    },
    /// A URL that is not an `http` or `https` URL with a host.
    #[error("invalid {key}: expected `https://HOST/PATH`")]
    InvalidUrl {
        /// The path of keys.
        key: String,
    },
    /// A variable without a value and without a default.
    #[error("{key}: environment variable {name} is not set; set it, or write `${{{name}:-default}}`")]
    UnsetVariable {
        /// The path of keys.
        key: String,
        /// The name of the variable.
        name: String,
    },
    /// A key that names a variable which is not set.
    #[error("{key}: environment variable {name} is not set; set it")]
    UnsetNamedVariable {
        /// The path of keys.
        key: String,
        /// The name of the variable.
        name: String,
    },
    /// Variables of `env` that refer to one another in a circle, or in a long chain.
    #[error("{key}: `${{{name}}}` is in a circle of variables, or at the end of a chain of more than {MAX_NESTED}")]
    CircularVariable {
        /// The path of keys.
        key: String,
        /// The name of the variable.
        name: String,
    },
    /// A value that is too long for an argument or a variable of a process.
    #[error("{key}: longer than {} KiB", MAX_VALUE >> 10)]
    TooLong {
        /// The path of keys.
        key: String,
    },
    /// The values of references in the file are too long together.
    #[error("{key}: the variables of this file have more than {} MiB together", MAX_VALUES >> 20)]
    ExpandsTooFar {
        /// The path of keys to the reference that is too much.
        key: String,
    },
    /// A folder that is not known, or whose path is not UTF-8.
    #[error("{key}: `{name}` has no value; write the path instead")]
    UnknownFolder {
        /// The path of keys.
        key: String,
        /// The notation of the folder: `${workspaceFolder}`, `~`.
        name: String,
    },
    /// An input that is not in `inputs`.
    #[error(
        "{key}: `${{input:{id}}}` is not defined; add {{ \"type\": \"promptString\", \"id\": {id:?} }} to `inputs`"
    )]
    UndefinedInput {
        /// The path of keys.
        key: String,
        /// The id of the input.
        id: String,
    },
    /// An input of another type than `promptString` and `pickString`.
    #[error("{key}: the type of the input {id:?} is not supported; use \"promptString\" or \"pickString\"")]
    UnsupportedInput {
        /// The path of keys.
        key: String,
        /// The id of the input.
        id: String,
    },
    /// An input without a value.
    #[error("{key}: no value for the input {id:?}: {reason}")]
    MissingInput {
        /// The path of keys.
        key: String,
        /// The id of the input.
        id: String,
        /// Why the input has no value.
        reason: Unavailable,
    },
    /// An `envFile` that cannot be read.
    #[error("{key}: cannot read {file:?}: {reason}")]
    UnreadableEnvFile {
        /// The path of keys.
        key: String,
        /// The value of the key, with its variables.
        file: String,
        /// Why the file cannot be read.
        reason: Unavailable,
    },
    /// An `envFile` that is not in the format.
    #[error("{key}: {file:?}, line {line}: {problem}")]
    InvalidEnvFile {
        /// The path of keys.
        key: String,
        /// The value of the key, with its variables.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong in this line.
        problem: EnvFileProblem,
    },
    /// `${` without a valid name.
    #[error(
        "{key}: invalid variable reference: expected `${{NAME}}` or `${{NAME:-default}}`; write `$${{` for a literal `${{`"
    )]
    InvalidVariable {
        /// The path of keys.
        key: String,
    },
}

impl SkipReason {
    /// Whether the entry was intended to work, so that the user is informed.
    pub fn is_failure(&self) -> bool {
        let is_wanted = matches!(
            self,
            Self::Disabled
                | Self::Extension
                | Self::SelfReference
                | Self::Duplicate
                | Self::Overridden
                | Self::OtherProject { .. }
        );
        !is_wanted
    }

    /// The reason for models and programs, as a clause: without paths of the host.
    pub fn for_models(&self) -> String {
        match self {
            Self::Disabled => "its server is disabled in the configuration".to_owned(),
            Self::SelfReference => "its server would start this gateway again".to_owned(),
            Self::Duplicate | Self::Overridden => "its server is configured under another name".to_owned(),
            Self::OtherProject { .. } => "its server is used in another project only".to_owned(),
            Self::Extension => "its server is started by an extension of another client".to_owned(),
            Self::UnsetVariable { name, .. } | Self::UnsetNamedVariable { name, .. } => {
                format!("its entry in the configuration was skipped: the environment variable {name} is not set")
            }
            Self::UnsupportedInput { id, .. } | Self::UndefinedInput { id, .. } | Self::MissingInput { id, .. } => {
                format!("its entry in the configuration was skipped: the input {id:?} has no value")
            }
            Self::UnreadableEnvFile { .. } | Self::InvalidEnvFile { .. } => {
                "its entry in the configuration was skipped: its file of variables cannot be read".to_owned()
            }
            Self::InvalidUrl { .. } => "its entry in the configuration was skipped: its URL is invalid".to_owned(),
            _ => "its entry in the configuration has a mistake".to_owned(),
        }
    }
}

/// The longest chain of variables of `env` that refer to one another.
pub(super) const MAX_NESTED: usize = 32;

/// The maximum length of a value after its variables are expanded, in bytes: that of an argument on Linux.
pub(super) const MAX_VALUE: usize = 128 << 10;

/// The maximum length of the values of all references in a file, and of its `envFile`s, in bytes.
pub(super) const MAX_VALUES: usize = 16 << 20;
