//! Configurations of MCP servers, in the format of MCP clients: text in, servers out. No I/O.
//!
//! ```json
//! { "mcpServers": {
//!     "github": {
//!         "command": "npx", "args": ["-y", "some-github-server"],
//!         "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}" }, "cwd": "/work",
//!         "allow": ["get_*", "list_*"], "deny": ["*_secret"], "timeout": "30s", "results": "envelope"
//!     },
//!     "tickets": { "url": "https://tickets.example.com/mcp", "headers": { "Authorization": "Bearer ${TICKETS}" } },
//!     "wiki": { "url": "https://wiki.example.com/mcp", "oauth": { "clientId": "execbox", "scopes": ["read"] } }
//! } }
//! ```
//!
//! - **Client files** are accepted unchanged: `mcpServers` (Claude Desktop, Claude Code, Cursor, Windsurf and others),
//!   `servers` and `mcp.servers` (VS Code), with comments and trailing commas. `disabled`, `enabled`, `includeTools`,
//!   `excludeTools` and similar keys have the meaning that clients give them.
//! - **Keys without effect** are listed ([`IgnoredKey`]): unknown keys, keys of other clients, and a numeric `timeout`,
//!   because clients disagree on its unit.
//! - **Keys of execbox**: `allow`, `deny` and `readOnly` ([`ToolFilter`]), `ask` and `alwaysAllow` ([`AskFilter`]), `timeout`
//!   of each call as text with a unit, `results` ([`ResultFormat`]).
//! - **OAuth**: `oauth` has the client for logging in ([`OAuthClient`]): `clientId`, `clientSecret`, `scopes` (an array, or a
//!   string with spaces) and `callbackPort`. Without it, the client registers itself.
//! - **Transports over HTTP**: `type` `http` is streamable HTTP, `sse` the older transport. Without it, the transport is
//!   detected.
//! - **Variables**: `${NAME}` and `${NAME:-default}` are expanded in `command`, `args`, `env`, `envFile`, `cwd`, `url`,
//!   `headers` and `oauth`; `$${` is a literal `${`. `${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}`,
//!   `${pathSeparator}` and `${/}` have the meaning that VS Code and Cursor give them.
//! - **Inputs**: `${input:ID}` is the value of an item of `inputs` ([`Input`]), which the [`Context`] asks a user for.
//! - **`envFile`** names a file with more variables of a child process, in the format `.env`: `NAME=VALUE` lines, `export`,
//!   comments and quotes; nothing in it is expanded. `env` overrides it. A relative path starts at the workspace folder.
//! - **A problem with one server** (an unset variable, an invalid URL) skips that server ([`Skipped`]). A value of
//!   the wrong type is an error of the whole file ([`ConfigError`]), with its position.
//!
//! # What is a secret
//! Candidates are the variables and inputs that an entry uses, the values of `env`, `envFile` and `headers`, arguments, and the
//! passwords and parameters of URLs. A candidate is redacted ([`Secrets`]) if it is a credential by its form:
//!
//! - It begins as the tokens of a known service do: `ghp_`, `sk-`, `xoxb-`, `AKIA` and others.
//! - Or its name contains `auth`, `cookie`, `credential`, `key`, `pass`, `private`, `pwd`, `secret` or `token`, does not end as
//!   that of an identifier (`id`, `name`, `user`, `email`), and its value looks random: sixteen letters and digits in a
//!   row that alternate, twelve characters with upper case, lower case and digits that do, or eight with a letter, a digit
//!   and a symbol.
//! - Or it is a password of that form in a URL, then with the whole URL.
//!
//! Words, numbers, paths, addresses, e-mail addresses and UUIDs are none, whatever their names: they also occur as data. What
//! the configuration marks is always redacted: inputs with `password`, and `clientSecret`.

mod context;
mod entry;
mod env_file;
mod ignored;
mod input;
mod node;
mod secret;
mod variables;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::context::{Context, MAX_ENV_FILE, Unavailable, Variables};
pub use self::env_file::EnvFileProblem;
pub use self::ignored::{IgnoreReason, IgnoredKey};
pub use self::input::{Input, InputKind, InputOption};
use crate::Secrets;
use crate::filter::{AskFilter, ToolFilter};
use crate::oauth::OAuthClient;
use crate::upstream::{HttpProtocol, ResultFormat};

/// The servers of one or more files.
#[derive(Debug, Default)]
pub struct Config {
    /// The servers, in the order of their files.
    pub servers: Vec<ServerConfig>,
    /// Entries that are not used.
    pub skipped: Vec<Skipped>,
    /// Keys of entries that have no effect, in the order of their files.
    pub ignored: Vec<IgnoredKey>,
}

/// One MCP server: how to connect to it, and which of its tools to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The key of the server's entry.
    pub name: String,
    /// How to connect to the server.
    pub transport: Transport,
    /// Which tools are imported. Default: all.
    pub filter: ToolFilter,
    /// For which tools a person is asked before each call. Default: none.
    pub ask: AskFilter,
    /// The maximum duration of a call. Default: that of the
    /// [`UpstreamOptions`](crate::upstream::UpstreamOptions).
    pub call_timeout: Option<Duration>,
    /// What guest code receives from a call. Default: the data.
    pub results: ResultFormat,
    /// Values of this configuration that are redacted from everything the server sends.
    pub secrets: Secrets,
}

/// How to connect to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process with MCP on its standard streams.
    Stdio {
        /// The program to start.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// Environment variables, in addition to those that every server gets.
        env: Vec<(String, String)>,
        /// The working directory. Default: that of this process.
        directory: Option<PathBuf>,
    },
    /// A server at a URL.
    Http {
        /// An `http` or `https` URL.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
        /// Whether streamable HTTP or the older SSE transport is used.
        protocol: HttpProtocol,
        /// The client for logging in.
        oauth: OAuthClient,
    },
}

/// Omits everything that may be a secret.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => f.debug_struct("Stdio").field("command", command).finish_non_exhaustive(),
            Self::Http { .. } => f.debug_struct("Http").finish_non_exhaustive(),
        }
    }
}

/// An entry that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// `disabled` is true or `enabled` is false.
    #[error("disabled in the configuration")]
    Disabled,
    /// The entry starts `execbox mcp`, which would recurse without end.
    #[error("starts execbox itself")]
    SelfReference,
    /// An earlier entry has the same name and content.
    #[error("duplicate of an earlier entry")]
    Duplicate,
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
    /// A folder that is not known, or whose path is not UTF-8.
    #[error("{key}: `${{{name}}}` has no value; write the path instead")]
    UnknownFolder {
        /// The path of keys.
        key: String,
        /// The name of the variable.
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
        !matches!(self, Self::Disabled | Self::SelfReference | Self::Duplicate)
    }
}

/// Why a file is not a configuration, with the position.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What can be wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Not JSON (with comments and trailing commas).
    #[error("invalid JSON: {0}")]
    Syntax(String),
    /// The file contains no value.
    #[error("the file is empty: expected {EXAMPLE}")]
    Empty,
    /// No `mcpServers`, `servers` or `mcp.servers`.
    #[error("missing key `mcpServers`: expected {EXAMPLE}")]
    NoServers,
    /// The servers of Claude Code, for single projects only.
    #[error(
        "missing key `mcpServers` at the top level; servers under `projects` are not read: copy them into a separate \
         file"
    )]
    ProjectsOnly,
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
    #[error("`url` cannot be combined with `command`; remove one of the two")]
    CommandAndUrl,
}

/// The shortest configuration.
const EXAMPLE: &str = r#"{ "mcpServers": { "NAME": { "command": "PROGRAM", "args": ["…"] } } }"#;

impl Config {
    /// Adds the servers of a file. Nothing is added if it fails.
    pub fn read(&mut self, text: &str, context: &dyn Context) -> Result<(), ConfigError> {
        let entries = node::parse(text, |file| entries(&file, context))?;
        for Entry { name, server, ignored } in entries {
            self.ignored.extend(ignored);
            match server {
                Ok(server) if self.servers.contains(&server) => self.skip(name, SkipReason::Duplicate),
                Ok(server) => self.servers.push(server),
                Err(reason) => self.skip(name, reason),
            }
        }
        Ok(())
    }

    fn skip(&mut self, name: String, reason: SkipReason) {
        self.skipped.push(Skipped { name, reason });
    }
}

struct Entry {
    name: String,
    server: Result<ServerConfig, SkipReason>,
    ignored: Vec<IgnoredKey>,
}

fn entries(file: &node::Node<'_>, context: &dyn Context) -> Result<Vec<Entry>, ConfigError> {
    let (mut tables, mut inputs, mut has_projects) = (Vec::new(), Vec::new(), false);
    for (key, value) in file.members()? {
        match key {
            "mcpServers" | "servers" => tables.push(value),
            "inputs" if !value.is_null() => inputs.extend(input::read(&value)?),
            "mcp" => {
                for (key, value) in value.members()? {
                    match key {
                        "servers" => tables.push(value),
                        "inputs" if !value.is_null() => inputs.extend(input::read(&value)?),
                        _ => {}
                    }
                }
            }
            "projects" => has_projects = true,
            _ => {}
        }
    }
    if tables.is_empty() {
        return Err(file.error(if has_projects { Problem::ProjectsOnly } else { Problem::NoServers }));
    }
    let scope = variables::Scope { context, inputs: &inputs };
    let mut entries = Vec::new();
    for (name, node) in tables.iter().map(node::Node::members).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let (server, ignored) = (entry::read(name, &node, scope)?, ignored::ignored_keys(name, &node)?);
        entries.push(Entry { name: name.to_owned(), server, ignored });
    }
    Ok(entries)
}

impl ServerConfig {
    /// A server with default settings: all tools, the default timeout.
    pub fn new(name: impl Into<String>, transport: Transport, secrets: Secrets) -> Self {
        let (filter, results) = (ToolFilter::default(), ResultFormat::default());
        Self { name: name.into(), transport, filter, ask: AskFilter::default(), call_timeout: None, results, secrets }
    }

    /// A server over HTTP. Fails if `url` is not an `http` or `https` URL.
    pub fn http(name: impl Into<String>, url: &str) -> Result<Self, SkipReason> {
        entry::check_url(url).map_err(|()| SkipReason::InvalidUrl { key: "URL".to_owned() })?;
        let mut candidates = secret::Candidates::default();
        candidates.add_url(url);
        let (protocol, oauth) = (HttpProtocol::default(), OAuthClient::default());
        let transport = Transport::Http { url: url.to_owned(), headers: Vec::new(), protocol, oauth };
        Ok(Self::new(name, transport, candidates.into_secrets()))
    }

    /// A child process. Fails if it is `execbox mcp` itself.
    pub fn stdio(name: impl Into<String>, command: &str, args: &[String]) -> Result<Self, SkipReason> {
        if entry::is_execbox(command, args) {
            return Err(SkipReason::SelfReference);
        }
        let mut candidates = secret::Candidates::default();
        candidates.add_arguments(args);
        let (command, args, env) = (command.to_owned(), args.to_vec(), Vec::new());
        Ok(Self::new(name, Transport::Stdio { command, args, env, directory: None }, candidates.into_secrets()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Config, Variables};

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error_with_a_valid_position(
            text in "\\PC{0,60}", members in r#"(["{}\[\]:,a$ ]|"mcpServers"|"command"|"url"|"env"|\$\{|//|\n){0,24}"#,
        ) {
            for text in [text, format!("{{ \"mcpServers\": {{ \"a\": {{ {members} }} }} }}"), members] {
                if let Err(error) = Config::default().read(&text, &Variables(|_| Some("x".to_owned()))) {
                    let line = text.lines().nth(error.line - 1).unwrap_or_default();
                    prop_assert!(error.column <= line.chars().count() + 1, "{error}: {text:?}");
                }
            }
        }
    }
}
