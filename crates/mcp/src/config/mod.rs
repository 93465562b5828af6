//! Configurations of MCP servers, in the format that MCP clients have: text in, servers out. No I/O.
//!
//! ```json
//! { "mcpServers": {
//!     "github": {
//!         "command": "npx", "args": ["-y", "some-github-server"],
//!         "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}" }, "cwd": "/work",
//!         "allow": ["get_*", "list_*"], "deny": ["*_secret"], "timeout": "30s", "results": "unwrapped"
//!     },
//!     "tickets": { "url": "https://tickets.example.com/mcp", "headers": { "Authorization": "Bearer ${TICKETS}" } }
//! } }
//! ```
//!
//! - **Files of clients** are read as they are: `mcpServers` (Claude Desktop, Claude Code, Cursor, Windsurf and others),
//!   `servers` and `mcp.servers` (VS Code), with comments and trailing commas. Keys that are not known are the
//!   client's. `disabled`, `enabled`, `includeTools`, `excludeTools` and their like mean here what they mean there; a
//!   `timeout` that is a number is passed over, since clients differ on its unit.
//! - **Our own keys**: `allow` and `deny` ([`ToolFilter`]), `timeout` of each call as text with a unit, `results`
//!   ([`Results`]).
//! - **Variables**: `${NAME}` and `${NAME:-default}` in `command`, `args`, `env`, `cwd`, `url` and `headers`; `$${` is
//!   `${`.
//! - **Trouble with one server** (a variable that is not set, SSE) is told, and the others work; a wrong shape is an
//!   error of the whole file, with its place.
//!
//! # What is a secret
//! A server is to repeat none of: the variables that its entry uses, the values of `env` and `headers`, the values of
//! arguments like `--api-key`, passwords and keys in addresses. Of these, a value is hidden ([`Secrets`]) if its name says
//! so (it has `auth`, `cookie`, `credential`, `key`, `pass`, `private`, `pwd`, `secret` or `token` in it), or if it does
//! not look plain. Plain are: numbers of up to eight digits, words, lists and names made of words, paths, and addresses of
//! the web without a password or a query.

mod entry;
mod node;
mod secret;
mod variables;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Secrets;
use crate::filter::ToolFilter;
use crate::upstream::Results;

/// The servers of one or more files.
#[derive(Debug, Default)]
pub struct Config {
    /// In the order of their files.
    pub servers: Vec<ServerConfig>,
    /// Those that are not used, and why.
    pub skipped: Vec<Skipped>,
}

/// One MCP server, and what of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name in the file.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Which of its tools there are. Default: all.
    pub filter: ToolFilter,
    /// The longest a call may take. Default: that of the options.
    pub call_timeout: Option<Duration>,
    /// What guest code gets from a call.
    pub results: Results,
    /// What it is given and must not tell.
    pub secrets: Secrets,
}

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A program that is started, and speaks on its standard streams.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables, besides those that every server gets.
        env: Vec<(String, String)>,
        /// Its working directory. Default: this process's.
        directory: Option<PathBuf>,
    },
    /// An address that speaks streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// They go with every request.
        headers: Vec<(String, String)>,
    },
}

/// Without what may be a secret.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { command, .. } => {
                f.debug_struct("Program").field("command", command).finish_non_exhaustive()
            }
            Self::Http { .. } => f.debug_struct("Http").finish_non_exhaustive(),
        }
    }
}

/// A server that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its name in the file.
    pub name: String,
    /// Why.
    pub trouble: Trouble,
}

/// Why a server is not used. No value is told: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The file says so.
    #[error("it is disabled")]
    Disabled,
    /// It is this program.
    #[error("it is execbox itself")]
    Itself,
    /// Another file has the very same.
    #[error("it is there already, just the same")]
    Again,
    /// A transport that MCP has given up.
    #[error(
        "it speaks SSE, the transport before streamable HTTP, which execbox does not: take the server's address for \
         streamable HTTP (often `/mcp` instead of `/sse`), and write no `type`"
    )]
    Sse,
    /// No server can be there.
    #[error("{key} is no address: write `https://HOST/PATH`")]
    Url {
        /// The path of keys.
        key: String,
    },
    /// A variable has no value.
    #[error("{key} needs the environment variable {name}, which is not set: set it, or write `${{{name}:-default}}`")]
    Variable {
        /// The path of keys.
        key: String,
        /// The variable.
        name: String,
    },
    /// A value that a client asks its user for.
    #[error(
        "{key} has `${{{name}}}`, which only an editor can ask for: set an environment variable, and write `${{NAME}}`"
    )]
    Input {
        /// The path of keys.
        key: String,
        /// `input:` and its name.
        name: String,
    },
    /// `${` without a name.
    #[error(
        "{key} has a `${{` that begins no variable: write `${{NAME}}` or `${{NAME:-default}}`, or `$${{` for `${{` itself"
    )]
    NoVariable {
        /// The path of keys.
        key: String,
    },
}

impl Trouble {
    /// Whether somebody should do something about it.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Disabled | Self::Itself | Self::Again)
    }
}

/// A file that is no configuration: what is wrong, where, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The path of keys; empty for the file as a whole.
    pub path: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// `LINE:COLUMN: PATH: PROBLEM`, to follow the name of the file and a colon.
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
pub enum Problem {
    /// Not JSON.
    #[error("this is not JSON: {0}")]
    Syntax(String),
    /// Nothing at all.
    #[error("there is nothing in it: write {EXAMPLE}")]
    Empty,
    /// No key that servers stand under.
    #[error("there is no `mcpServers`: write {EXAMPLE}")]
    NoServers,
    /// The servers of Claude Code stand under its projects only.
    #[error(
        "there is no `mcpServers` at the top, only under `projects`, where execbox does not look: copy what you need \
         into a file of its own"
    )]
    ProjectsOnly,
    /// A value of another type.
    #[error("this is {found}; write {expected}")]
    Shape {
        /// What is there.
        found: &'static str,
        /// What belongs there.
        expected: String,
    },
    /// A text that means nothing.
    #[error("write {expected}")]
    Word {
        /// What belongs there.
        expected: &'static str,
    },
    /// A name that is there twice.
    #[error("this is there twice: leave one of them out, or rename it")]
    Twice,
    /// A server that is nowhere.
    #[error("there is no `command` and no `url`: write \"command\": \"PROGRAM\" or \"url\": \"https://…\"")]
    NoCommand,
    /// A server that is in two places.
    #[error("there is a `command` beside this: a server is either started or connected to; leave one of them out")]
    CommandAndUrl,
}

/// The shortest configuration.
const EXAMPLE: &str = r#"{ "mcpServers": { "NAME": { "command": "PROGRAM", "args": ["…"] } } }"#;

impl Config {
    /// Adds the servers of a file. `variables` gives the value of an environment variable.
    pub fn read(&mut self, text: &str, variables: &dyn Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        for (name, server) in node::parse(text, |file| servers(&file, variables))? {
            match server {
                Ok(server) if self.servers.contains(&server) => self.skip(name, Trouble::Again),
                Ok(server) => self.servers.push(server),
                Err(trouble) => self.skip(name, trouble),
            }
        }
        Ok(())
    }

    fn skip(&mut self, name: String, trouble: Trouble) {
        self.skipped.push(Skipped { name, trouble });
    }
}

type Read = Vec<(String, Result<ServerConfig, Trouble>)>;

fn servers(file: &node::Node<'_>, variables: &dyn Fn(&str) -> Option<String>) -> Result<Read, ConfigError> {
    let (mut tables, mut has_projects) = (Vec::new(), false);
    for (key, value) in file.members()? {
        match key {
            "mcpServers" | "servers" => tables.push(value),
            "mcp" => tables.extend(value.members()?.into_iter().filter(|(key, _)| *key == "servers").map(|(_, v)| v)),
            "projects" => has_projects = true,
            _ => {}
        }
    }
    if tables.is_empty() {
        return Err(file.error(if has_projects { Problem::ProjectsOnly } else { Problem::NoServers }));
    }
    let mut servers = Read::new();
    for (name, node) in tables.iter().map(node::Node::members).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        servers.push((name.to_owned(), entry::read(name, &node, variables)?));
    }
    Ok(servers)
}

impl ServerConfig {
    /// All tools of a server.
    pub fn new(name: impl Into<String>, place: Place, secrets: Secrets) -> Self {
        let (filter, results) = (ToolFilter::default(), Results::default());
        Self { name: name.into(), place, filter, call_timeout: None, results, secrets }
    }

    /// A server at an address.
    pub fn at(name: impl Into<String>, url: &str) -> Result<Self, Trouble> {
        entry::check_url(url).map_err(|()| Trouble::Url { key: "the URL".to_owned() })?;
        let mut given = secret::Given::default();
        given.add_address(url);
        Ok(Self::new(name, Place::Http { url: url.to_owned(), headers: Vec::new() }, given.into_secrets()))
    }

    /// A server that is started.
    pub fn started(name: impl Into<String>, command: &str, args: &[String]) -> Result<Self, Trouble> {
        if entry::is_execbox(command, args) {
            return Err(Trouble::Itself);
        }
        let mut given = secret::Given::default();
        given.add_arguments(args);
        let (command, args, env) = (command.to_owned(), args.to_vec(), Vec::new());
        Ok(Self::new(name, Place::Program { command, args, env, directory: None }, given.into_secrets()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Config;

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error_with_its_place(
            text in "\\PC{0,60}", members in r#"(["{}\[\]:,a$ ]|"mcpServers"|"command"|"url"|"env"|\$\{|//|\n){0,24}"#,
        ) {
            for text in [text, format!("{{ \"mcpServers\": {{ \"a\": {{ {members} }} }} }}"), members] {
                if let Err(error) = Config::default().read(&text, &|_| Some("x".to_owned())) {
                    let line = text.lines().nth(error.line - 1).unwrap_or_default();
                    prop_assert!(error.column <= line.chars().count() + 1, "{error}: {text:?}");
                }
            }
        }
    }
}
