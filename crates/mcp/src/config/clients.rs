//! The file of the clients of a gateway over HTTP: text in, clients out. No I/O.
//!
//! ```json
//! { "clients": {
//!     "ci": { "token": "${CI_TOKEN}", "servers": ["github"], "readOnly": true, "limits": { "timeout": "10s", "maxPrograms": 4 } },
//!     "agent": { "tokenFile": "agent.token", "allow": ["github.get_*", "docs.*"], "deny": ["*.delete_*"], "state": "team" }
//! } }
//! ```
//!
//! JSON may have comments and trailing commas; a file with the extension `toml` is TOML. `${NAME}` in `token` and `tokenFile` is
//! an environment variable. Every mistake is an error of the whole file: a client with fewer restrictions than meant is worse
//! than none.

use std::cell::Cell;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use execbox::transport::Token;
use execbox::{Effect, Limits};
use execbox_core::hint::near;
use execbox_core::program::{Amount, Limit, Unit};

use super::node::Node;
use super::skipped::MAX_VALUES;
use super::variables::{Expander, Scope};
use super::{ConfigError, Context, Format, Problem, SkipReason, entry, node};
use crate::filter::Pattern;

/// A client of a gateway: its name, its token, and what it can use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The name, which is recorded with the calls of the client.
    pub name: String,
    /// The token that the client sends.
    pub token: TokenPlace,
    /// The servers that the client can use, by their names in the configuration or in code. Default: all.
    pub servers: Vec<Pattern>,
    /// If not empty, the client can use only tools that match one of these patterns, as `SERVER.TOOL`.
    pub allow: Vec<Pattern>,
    /// The client cannot use tools that match one of these patterns; overrides `allow`.
    pub deny: Vec<Pattern>,
    /// Whether the client can use only tools whose servers state that they change nothing.
    pub read_only: bool,
    /// The name of the state that the client's programs share, in the file of the gateway. Default: the name of the client.
    pub state: Option<String>,
    /// The limits that differ from those of the gateway.
    pub limits: ClientLimits,
}

/// Where the token of a client is. The set is closed: who serves clients has to read each place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// In the file of the clients, or in the environment.
    Here(Token),
    /// In a file of its own. A path that is not absolute starts at the directory of the file of the clients.
    File(PathBuf),
}

/// A text that is no token, or one that can be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a token of at least {MIN_TOKEN} visible ASCII characters without spaces; `openssl rand -hex 32` prints one"
)]
#[non_exhaustive]
pub struct WeakToken;

/// The limits of one client. Those that are not set are those of the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// Limits of each program, by their fields in [`Limits`].
    program: Vec<(&'static str, Amount)>,
    /// The longest timeout that a model can request for a program.
    pub max_timeout: Option<Duration>,
    /// How many programs of the client run at once; further ones wait.
    pub max_programs: Option<NonZero<usize>>,
}

impl ClientLimits {
    /// The limits of a program of the client. `base` are those of the gateway.
    pub fn of_program(&self, base: Limits) -> Limits {
        let mut limits = base;
        for (field, amount) in &self.program {
            if let Some(limit) = Limits::TABLE.iter().find(|limit| limit.field == *field) {
                limit.set(&mut limits, Some(*amount));
            }
        }
        limits
    }
}

impl ClientConfig {
    /// Reads the clients of a file, in their order.
    pub fn read(text: &str, context: &dyn Context) -> Result<Vec<Self>, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let format = Format::of(text, context.file_name().as_deref());
        node::parse(text, format, |file| {
            let mut clients: Vec<Self> = Vec::new();
            for (key, value) in file.members()? {
                match key {
                    "clients" => {
                        for (name, node) in value.members()? {
                            let client = read(name, &node, context)?;
                            let is_used = |other: &&Self| other.token == client.token;
                            if let Some(other) = clients.iter().find(is_used) {
                                return Err(node.error(Problem::SameToken { other: other.name.clone() }));
                            }
                            clients.push(client);
                        }
                    }
                    "$schema" => {}
                    _ => return Err(unknown(key, &value, &["clients"])),
                }
            }
            if clients.is_empty() { Err(file.error(Problem::NoClients)) } else { Ok(clients) }
        })
        .map_err(|error| match error.problem {
            Problem::Empty => ConfigError { problem: Problem::NoClients, ..error },
            _ => error,
        })
    }

    /// The token that a text has, with white space around it: one that is too long to be guessed.
    pub fn parse_token(text: &str) -> Result<Token, WeakToken> {
        Token::new(text).ok().filter(|_| text.trim().len() >= MIN_TOKEN).ok_or(WeakToken)
    }

    /// Whether the client can use a server, which has these names in the configuration and in code.
    pub fn grants_server(&self, names: [&str; 2]) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
    }

    /// Whether the client can use a tool of such a server. `tool` are its names on the server and in code.
    pub fn grants(&self, server: [&str; 2], tool: [&str; 2], effect: Effect) -> bool {
        let names = server.map(|server| tool.map(|tool| format!("{server}.{tool}")));
        let any = |patterns: &[Pattern]| {
            patterns.iter().any(|pattern| names.as_flattened().iter().any(|name| pattern.matches(name)))
        };
        self.grants_server(server)
            && (!self.read_only || effect == Effect::ReadOnly)
            && (self.allow.is_empty() || any(&self.allow))
            && !any(&self.deny)
    }
}

fn read(name: &str, client: &Node<'_>, context: &dyn Context) -> Result<ClientConfig, ConfigError> {
    if !is_name(name) {
        return Err(client.key_error(Problem::InvalidValue { expected: NAME_FORM }));
    }
    let mut tokens = Vec::new();
    let (mut servers, mut allow, mut deny) = (Vec::new(), Vec::new(), Vec::new());
    let (mut read_only, mut state, mut limits) = (false, None, ClientLimits::default());
    client.members()?; // Finds duplicates. A key that is null is a mistake: what it restricts is not known.
    for (key, value) in client.entries()? {
        match key {
            "servers" | "allow" if value.is_empty() => {
                return Err(value.error(Problem::InvalidValue { expected: NO_LIST }));
            }
            "token" => tokens.push(TokenPlace::Here(token(&value, context)?)),
            "tokenFile" => tokens.push(TokenPlace::File(expanded(&value, context)?.into())),
            "servers" => servers = patterns(&value, false)?,
            "allow" => allow = patterns(&value, true)?,
            "deny" => deny = patterns(&value, true)?,
            "readOnly" => read_only = value.boolean()?,
            "state" if is_name(value.string()?) => state = Some(value.string()?.to_owned()),
            "state" => return Err(value.error(Problem::InvalidValue { expected: NAME_FORM })),
            "limits" => limits = read_limits(&value)?,
            _ => return Err(unknown(key, &value, KEYS)),
        }
    }
    match <[TokenPlace; 1]>::try_from(tokens) {
        Ok([token]) => {
            Ok(ClientConfig { name: name.to_owned(), token, servers, allow, deny, read_only, state, limits })
        }
        Err(tokens) if tokens.is_empty() => Err(client.error(Problem::NoToken)),
        Err(_) => Err(client.error(Problem::TwoTokens)),
    }
}

fn token(node: &Node<'_>, context: &dyn Context) -> Result<Token, ConfigError> {
    ClientConfig::parse_token(&expanded(node, context)?).map_err(|_| node.error(Problem::WeakToken))
}

/// A text in which variables of the environment are expanded.
fn expanded(node: &Node<'_>, context: &dyn Context) -> Result<String, ConfigError> {
    let expected = "a string, in which `${NAME}` is an environment variable";
    if !node.is_string() {
        return Err(node.error(Problem::InvalidValue { expected })); // An error about the type would show the value.
    }
    let left = Cell::new(MAX_VALUES);
    let scope = Scope { context, inputs: &[], expands: true, left: &left };
    Expander::new(scope, &[], None).path(node).map_err(|reason| match reason {
        SkipReason::UnsetVariable { name, .. } => node.error(Problem::UnsetVariable { name }),
        _ => node.error(Problem::InvalidValue { expected }),
    })
}

/// Patterns: for names of servers, or for `SERVER.TOOL`.
fn patterns(node: &Node<'_>, are_of_tools: bool) -> Result<Vec<Pattern>, ConfigError> {
    let pattern = |item: &Node<'_>| {
        let text = item.text();
        match text.split_once('.') {
            _ if text.is_empty() => Err(item.error(Problem::InvalidValue { expected: "a name" })),
            None if are_of_tools => Err(item.error(Problem::InvalidValue { expected: "\"SERVER.TOOL\"" })),
            _ => Ok(Pattern::new(&*text)),
        }
    };
    if node.is_string() { Ok(vec![pattern(node)?]) } else { node.strings()?.iter().map(pattern).collect() }
}

/// Whether a text can be the name of a client or of a state.
fn is_name(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_of_name)
}

const NAME_FORM: &str = "a name of 1 to 64 letters, digits, `.`, `_`, `-` and `@`";

fn read_limits(node: &Node<'_>) -> Result<ClientLimits, ConfigError> {
    let mut limits = ClientLimits::default();
    for (key, value) in node.members()? {
        match key {
            "maxTimeout" => limits.max_timeout = Some(entry::duration(&value)?),
            "maxPrograms" => {
                let count = NonZero::new(usize::try_from(count(&value)?).unwrap_or(usize::MAX));
                let expected = "a number of at least 1";
                limits.max_programs = Some(count.ok_or_else(|| value.error(Problem::InvalidValue { expected }))?);
            }
            _ => {
                let limit = of_programs().find(|limit| key_of(limit) == key);
                let Some(limit) = limit else {
                    let names: Vec<String> = of_programs().map(key_of).collect();
                    let known: Vec<&str> = names.iter().map(String::as_str).chain(OTHER_LIMITS).collect();
                    return Err(unknown(key, &value, &known));
                };
                let amount = match limit.unit {
                    Unit::Time => Amount::Time(entry::duration(&value)?),
                    Unit::Size => Amount::Count(size(&value)?),
                    Unit::Count => Amount::Count(count(&value)?),
                };
                limits.program.push((limit.field, amount));
            }
        }
    }
    Ok(limits)
}

/// The limits of programs that can be set for a client.
fn of_programs() -> impl Iterator<Item = &'static Limit> {
    Limits::TABLE.iter().filter(|limit| limit.field != "cpu_time_before_calls")
}

/// The key of a limit: its option in camel case.
fn key_of(limit: &Limit) -> String {
    let mut words = limit.option.split('-');
    let mut key = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        key += &first.to_ascii_uppercase();
        key += rest;
    }
    key
}

fn count(node: &Node<'_>) -> Result<u64, ConfigError> {
    node.number()?;
    node.text().parse().map_err(|_| node.error(Problem::InvalidValue { expected: "a whole number" }))
}

/// A number of bytes, or a text with a unit.
fn size(node: &Node<'_>) -> Result<u64, ConfigError> {
    let text = node.text();
    let bytes = text.parse::<ByteSize>().ok().map(|size| size.as_u64()).filter(|bytes| *bytes < u64::MAX);
    bytes.ok_or_else(|| {
        node.error(Problem::InvalidValue { expected: "a size, such as \"512KiB\", \"64MiB\" or \"1GB\"" })
    })
}

fn unknown(key: &str, value: &Node<'_>, known: &[&str]) -> ConfigError {
    let suggestion = near(key, known.iter().copied()).map(str::to_owned);
    value.key_error(Problem::UnknownKey { suggestion, known: known.join(", ") })
}

/// What is expected in place of an empty list, which could mean all or none.
const NO_LIST: &str = "at least one pattern; leave the key out to grant all";

/// The keys of a client.
const KEYS: &[&str] = &["token", "tokenFile", "servers", "allow", "deny", "readOnly", "state", "limits"];

/// The keys of `limits` beside those of programs.
const OTHER_LIMITS: [&str; 2] = ["maxTimeout", "maxPrograms"];

/// The longest name of a client or a state, in characters.
const MAX_NAME: usize = 64;

/// The shortest token, in characters: shorter ones can be guessed.
const MIN_TOKEN: usize = 16;
