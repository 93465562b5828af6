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
//! - **Client files** are accepted unchanged: `mcpServers` (Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI and
//!   others), `servers` and `mcp.servers` (VS Code), `context_servers` (Zed), `mcp_servers` (Codex, in TOML), and `projects`
//!   (Claude Code). JSON may have comments and trailing commas. `disabled`, `enabled`, `includeTools`, `excludeTools`, their
//!   names in snake case and similar keys have the meaning that clients give them. Numbers and booleans in `args`, `env` and
//!   `headers` count as their text, and a name that is null is not set.
//! - **Keys without effect** are listed ([`IgnoredKey`]): unknown keys, keys of other clients, and a numeric `timeout`,
//!   because clients disagree on its unit.
//! - **Keys of execbox**: `allow`, `deny`, `readOnly` and `expose` ([`ToolFilter`]), `prefix`, `ask` and `alwaysAllow` ([`AskFilter`]), `timeout`
//!   of each call as text with a unit, `protocolVersion` (one before 2026-07-28), `results` ([`ResultFormat`]).
//! - **OAuth**: `oauth` has the client for logging in ([`OAuthClient`]): `clientId`, `clientSecret`, `issuer`,
//!   `clientMetadataUrl`, `scopes` (an array, or a string with spaces) and `callbackPort`. Without it, the client registers
//!   itself.
//! - **Transports over HTTP**: `type` `http` is streamable HTTP, `sse` the older transport. Without it, the transport is
//!   detected.
//! - **Variables**: `${NAME}` and `${NAME:-default}` are expanded in `command`, `args`, `env`, `envFile`, `cwd`, `url`,
//!   `headers` and `oauth`, with the variables of `env` and `envFile` of the same entry and of the environment; `$${` is a
//!   literal `${`. `${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}` have the
//!   meaning that VS Code and Cursor give them. `~` at the start of `command`, `args`, `cwd` and `envFile` is the home
//!   directory, and `$NAME` as a whole value of `env` or `headers` a variable that is set. TOML has no `${…}`, as in Codex.
//! - **Inputs**: `${input:ID}` is the value of an item of `inputs` ([`Input`]), which the [`Context`] asks a user for.
//! - **`envFile`** names a file with more variables of a child process, in the format `.env`: `NAME=VALUE` lines, `export`,
//!   comments and quotes; nothing in it is expanded. `env` overrides it. A relative path starts at the workspace folder.
//! - **A problem with one server** (a value of the wrong type, an unset variable, an invalid URL) skips that server
//!   ([`Skipped`]). An error of the whole file ([`ConfigError`]) is one of its language, or the lack of any servers.
//!
//! # What is a secret
//! Candidates are the variables and inputs that an entry uses, the values of `env`, `envFile` and `headers`, arguments, and the
//! parts of these: the value of `NAME=VALUE` and `NAME: VALUE` in arguments, of a pair in a connection string or in cookies,
//! of a parameter of a URL, of a member of JSON. A candidate is redacted ([`Secrets`]) if it is a credential by its form:
//!
//! - It begins as the tokens of a known service do: `ghp_`, `sk-`, `xoxb-`, `AKIA` and others.
//! - Or its name contains `auth`, `cookie`, `credential`, `key`, `pass`, `private`, `pwd`, `secret` or `token`, does not end as
//!   that of something else (`id`, `name`, `user`, `url`, `policy` and others), and its value looks random: sixteen letters and
//!   digits in a row that alternate, twelve characters with upper case, lower case and digits that do, or eight with a letter,
//!   a digit and a symbol.
//! - Or it is a password of that form in a URL, then with the whole URL.
//! - Or it is a private key in PEM, then with each of its lines.
//!
//! Words, numbers, lists, paths, addresses, e-mail addresses, UUIDs and fingerprints (`SHA256:…`) are none, whatever their
//! names: they also occur as data. What the configuration marks is always redacted: inputs with `password`, and `clientSecret`.

mod clients;
mod context;
mod edit;
mod entry;
mod env_file;
mod ignored;
mod input;
mod namespaces;
mod node;
mod problem;
mod secret;
mod skipped;
mod tables;
mod variables;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::clients::{ClientConfig, ClientLimits, TokenPlace, WeakToken};
pub use self::context::{Context, MAX_ENV_FILE, Unavailable, Variables};
pub use self::edit::{EditError, Edited, Gateway, GatewayCommand, GatewayFiles, always_allow};
pub use self::env_file::EnvFileProblem;
pub use self::ignored::{IgnoreReason, IgnoredKey};
pub use self::input::{Input, InputKind, InputOption};
pub use self::problem::{ConfigError, Format, Problem};
pub use self::skipped::{SkipReason, Skipped};
use rmcp::model::ProtocolVersion;

use crate::Secrets;
use crate::filter::{AskFilter, Pattern, ToolFilter};
use crate::oauth::OAuthClient;
use crate::upstream::{HttpProtocol, ResultFormat};

/// The servers of one or more files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct ServerConfig {
    /// The key of the server's entry.
    pub name: String,
    /// How to connect to the server.
    pub transport: Transport,
    /// Which tools are imported. Default: all.
    pub filter: ToolFilter,
    /// For which tools a person is asked before each call. Default: none.
    pub ask: AskFilter,
    /// Whether the names of prompts and exposed tools have the namespace of the server before them. Default: true.
    pub has_prefix: bool,
    /// The maximum duration of a call. Default: that of the
    /// [`UpstreamOptions`](crate::upstream::UpstreamOptions).
    pub call_timeout: Option<Duration>,
    /// The version of MCP that the server is asked for. Default: the newest one that it knows.
    pub protocol_version: Option<ProtocolVersion>,
    /// What guest code receives from a call. Default: the data.
    pub results: ResultFormat,
    /// Values of this configuration that are redacted from everything the server sends.
    pub secrets: Secrets,
    /// The patterns, with the file, position and path of each.
    pub(crate) places: PatternPlaces,
}

/// Patterns, with the file, position and path of each. All are equal: an entry is the same wherever it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatternPlaces(pub(crate) Vec<(Pattern, String)>);

impl PartialEq for PatternPlaces {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PatternPlaces {}

/// How to connect to a server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// A child process with MCP on its standard streams.
    Stdio {
        /// The program to start.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// Environment variables, in addition to those that every server gets.
        env: Vec<(String, String)>,
        /// Environment variables that every server gets, except this one.
        unset: Vec<String>,
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

impl From<Vec<ServerConfig>> for Config {
    fn from(servers: Vec<ServerConfig>) -> Self {
        Self { servers, ..Self::default() }
    }
}

impl Config {
    /// Adds the servers of a file. Nothing is added if it fails.
    pub fn read(&mut self, text: &str, context: &dyn Context) -> Result<(), ConfigError> {
        let entries = parse(text, context, |file, format| tables::entries(file, format, context))?;
        self.add(entries);
        Ok(())
    }

    /// Reads the servers of a file apart: those of the user, with `None`, and those of each project, with its folder. Empty if
    /// the file has no servers.
    pub fn scopes(text: &str, context: &dyn Context) -> Result<Vec<(Option<String>, Self)>, ConfigError> {
        let scopes = parse(text, context, |file, format| tables::scopes(file, format, context))?;
        let config = |entries| {
            let mut config = Self::default();
            config.add(entries);
            config
        };
        Ok(scopes.into_iter().map(|(project, entries)| (project, config(entries))).collect())
    }

    /// The secrets of a file, for showing its text: those of all entries, also of those that are not used, and what else in the
    /// file is a credential by its form. None if the file is invalid.
    pub fn secrets(text: &str, context: &dyn Context) -> Secrets {
        parse(text, context, |file, format| tables::secrets(file, format, context)).unwrap_or_default()
    }

    fn add(&mut self, entries: Vec<Entry>) {
        for Entry { name, server, ignored } in entries {
            self.ignored.extend(ignored);
            match server {
                Ok(server) if self.servers.contains(&server) => self.skip(name, SkipReason::Duplicate),
                Ok(server) => self.servers.push(server),
                Err(reason) => self.skip(name, reason),
            }
        }
    }

    /// The namespaces of all servers, followed by those of the skipped ones, by which programs call them: identifiers, made
    /// like those of tools, and numbered where they collide.
    pub fn namespaces(&self) -> Vec<String> {
        let servers = self.servers.iter().map(|server| server.name.as_str());
        namespaces::namespaces(servers.chain(self.skipped.iter().map(|skipped| skipped.name.as_str())))
    }

    fn skip(&mut self, name: String, reason: SkipReason) {
        self.skipped.push(Skipped { name, reason });
    }
}

/// Parses a file, and calls `read` with its value and its language.
fn parse<T>(
    text: &str,
    context: &dyn Context,
    read: impl FnOnce(&node::Node<'_>, Format) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = Format::of(text, context.file_name().as_deref());
    node::parse(text, format, |file| read(&file, format))
}

/// An entry of a file, read.
struct Entry {
    name: String,
    server: Result<ServerConfig, SkipReason>,
    ignored: Vec<IgnoredKey>,
}

impl ServerConfig {
    /// A server with default settings: all tools, the default timeout.
    pub fn new(name: impl Into<String>, transport: Transport, secrets: Secrets) -> Self {
        let (filter, results) = (ToolFilter::default(), ResultFormat::default());
        let (name, ask) = (name.into(), AskFilter::default());
        let (call_timeout, protocol_version, places) = (None, None, PatternPlaces::default());
        Self {
            name,
            transport,
            filter,
            ask,
            has_prefix: true,
            call_timeout,
            protocol_version,
            results,
            secrets,
            places,
        }
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
        Ok(Self::new(
            name,
            Transport::Stdio { command, args, env, unset: Vec::new(), directory: None },
            candidates.into_secrets(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Config, SkipReason, Variables};

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error_with_a_valid_position(
            text in "\\PC{0,60}",
            members in r#"(["{}\[\]:,a$ ]|"mcpServers"|"command"|"url"|"env"|null|1|\$\{|//|\n){0,24}"#,
            toml in r#"(["'{}\[\]=.,a$ ]|mcp_servers|command|env|[0-9]|true|#|\n){0,24}"#,
        ) {
            let json = format!("{{ \"mcpServers\": {{ \"a\": {{ {members} }}, \"b\": {{ \"command\": \"b\" }} }} }}");
            let table = format!("[mcp_servers.a]\n{toml}");
            for text in [text, json, members, table, format!("mcp_servers = {{ {toml} }}")] {
                let mut config = Config::default();
                let read = config.read(&text, &Variables(|_| Some("x".to_owned())));
                let skipped = config.skipped.iter().filter_map(|skipped| match &skipped.reason {
                    SkipReason::Invalid { error, .. } => Some((**error).clone()),
                    _ => None,
                });
                for error in skipped.chain(read.err()) {
                    let line = text.lines().nth(error.line - 1).unwrap_or_default();
                    prop_assert!(error.column <= line.chars().count() + 1, "{error}: {text:?}");
                }
            }
        }

        /// A mistake in one entry leaves the others as they are.
        #[test]
        fn one_entry_costs_no_other(
            key in "command|args|env|envFile|cwd|url|headers|oauth|type|timeout|allow|ask|readOnly|results|disabled",
            value in r#"null|true|-1|1e999|""|"x"|"\$\{"|"~"|\[\]|\[1,\[\]\]|\{\}|\{"A":\{\}\}|\{"A":"\$\{A\}"\}"#,
        ) {
            let entry = match key.as_str() {
                "command" | "url" => format!("\"{key}\": {value}"),
                "headers" | "oauth" => format!("\"url\": \"https://x.example/\", \"{key}\": {value}"),
                _ => format!("\"command\": \"x\", \"{key}\": {value}"),
            };
            let text = format!("{{ \"mcpServers\": {{ \"a\": {{ {entry} }}, \"b\": {{ \"command\": \"b\" }} }} }}");
            let mut config = Config::default();
            prop_assert_eq!(config.read(&text, &Variables(|_| None)), Ok(()), "{}", text);
            prop_assert!(config.servers.iter().any(|server| server.name == "b"), "{text}");
            prop_assert_eq!(config.servers.len() + config.skipped.len(), 2, "{}", text);
        }
    }

    #[test]
    fn values_that_refer_to_one_another_are_limited() {
        let read = |value: fn(usize) -> String, count: usize| {
            let env: Vec<_> = (0..count).map(|at| format!("\"A{at}\": \"{}\"", value(at))).collect();
            let text =
                format!("{{ \"servers\": {{ \"a\": {{ \"command\": \"a\", \"env\": {{ {} }} }} }} }}", env.join(","));
            let mut config = Config::default();
            config.read(&text, &Variables(|_| None)).unwrap();
            config.skipped.pop().map(|skipped| skipped.reason)
        };
        let double = |at: usize| match at {
            0 => "x".repeat(1_000),
            at => format!("${{A{0}}}${{A{0}}}", at - 1),
        };
        assert!(matches!(read(double, 100), Some(SkipReason::TooLong { .. })));
        assert_eq!(read(double, 8), None);
        // Each value is expanded once, however often it is referred to.
        let empty = |at: usize| if at == 0 { String::new() } else { format!("${{A{0}}}${{A{0}}}", at - 1) };
        assert_eq!(read(empty, 10_000), None);
        // Each is short enough, but not all together.
        let wide = |at: usize| if at == 0 { "x".repeat(100_000) } else { "${A0}".to_owned() };
        assert!(matches!(read(wide, 300), Some(SkipReason::ExpandsTooFar { .. })));
        assert_eq!(read(wide, 100), None);
        let chain = |at: usize| format!("${{A{}}}", at + 1);
        assert!(matches!(read(chain, 10_000), Some(SkipReason::CircularVariable { .. })));
    }
}
