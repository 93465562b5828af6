//! Keys of entries that have no effect.

use std::fmt;

use execbox_core::hint::near;

use super::entry::Kind;
use super::node::Node;
use super::{ConfigError, Problem};

/// A key of an entry that has no effect, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredKey {
    /// The key of the entry.
    pub server: String,
    /// The path of keys to the ignored key, which is its last part.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key itself.
    pub key: String,
    /// Why the key has no effect.
    pub reason: IgnoreReason,
}

/// `LINE:COLUMN: PATH: REASON`, to be printed after `FILE:`.
impl fmt::Display for IgnoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.path, self.reason)
    }
}

/// Why a key has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoreReason {
    /// An unknown key that is similar to a known one.
    #[error("unknown key; did you mean {suggestion:?}?")]
    Misspelled {
        /// The known key.
        suggestion: &'static str,
    },
    /// A key that is neither known nor similar to a known one.
    #[error("unknown key")]
    Unknown,
    /// A key that only other clients define.
    #[error("has no effect in execbox")]
    OtherClient,
    /// A key of the other transport.
    #[error("has no effect with `{with}`")]
    OtherTransport {
        /// The key that selects the transport.
        with: &'static str,
    },
    /// A `timeout` that is a number: seconds for some clients, milliseconds for others.
    #[error("a number without a unit has no effect; write \"30s\" or \"500ms\"")]
    TimeoutWithoutUnit,
    /// An item of `expose` that names no tools of a server in the file.
    #[error("has no effect; expected \"SERVER.TOOL\", where SERVER is a server of this file")]
    NoServerTool,
}

impl IgnoredKey {
    /// Whether the key seems to be meant as one of [`PROTECTIVE_KEYS`].
    pub(super) fn is_meant_to_protect(&self) -> bool {
        match self.reason {
            IgnoreReason::Misspelled { suggestion } => PROTECTIVE_KEYS.contains(&suggestion),
            IgnoreReason::Unknown => {
                let key = self.key.to_lowercase().replace(['_', '-'], "");
                PROTECTIVE_WORDS.iter().any(|word| key.starts_with(word))
            }
            _ => false,
        }
    }

    /// An item of `expose` beside the servers that names no tools of one.
    pub(super) fn exposed(item: &Node<'_>) -> Self {
        let (line, column) = item.position();
        let (path, key, reason) = (item.path().to_owned(), "expose".to_owned(), IgnoreReason::NoServerTool);
        Self { server: String::new(), path, line, column, key, reason }
    }
}

/// The error for an entry that is not used because of the key.
impl From<IgnoredKey> for ConfigError {
    fn from(key: IgnoredKey) -> Self {
        let suggestion = match key.reason {
            IgnoreReason::Misspelled { suggestion } => Some(suggestion.to_owned()),
            _ => None,
        };
        let problem = Problem::UnknownKey { suggestion, known: PROTECTIVE_KEYS.join(", ") };
        Self { path: key.path, line: key.line, column: key.column, problem }
    }
}

/// The keys of an entry that have no effect, in their order. A key whose value is null counts as missing. `kind` is how the
/// entry connects, if that is known, and `uses_own` whether another key refers to its `env` or `envFile`.
pub(super) fn ignored_keys(server: &str, entry: &Node<'_>, kind: Option<Kind>, uses_own: bool) -> Vec<IgnoredKey> {
    // An entry that has no members, or twice the same, is skipped for that.
    let members = entry.members().unwrap_or_default();
    let is_url =
        |(key, value): &(&str, Node<'_>)| URL_KEYS.iter().find(|url| *url == key && !value.is_empty()).copied();
    let other_transport = match kind {
        Some(Kind::Url) => members.iter().find_map(is_url).map(|url| (STDIO_KEYS, url)),
        Some(Kind::Command) => Some((HTTP_KEYS, "command")),
        Some(Kind::Extension) | None => None,
    };
    let mut ignored = Vec::new();
    let mut add = |key: &str, value: &Node<'_>, reason| {
        let (line, column) = value.key_position();
        let (server, path, key) = (server.to_owned(), value.path().to_owned(), key.to_owned());
        ignored.push(IgnoredKey { server, path, line, column, key, reason });
    };
    for (key, value) in &members {
        let is_used = uses_own && OWN_VARIABLES.contains(key);
        match reason(key, value, other_transport.filter(|_| !is_used)) {
            Some(reason) => add(key, value, reason),
            None if *key == "oauth" => {
                let members = value.members().unwrap_or_default();
                for (key, value) in members.iter().filter(|(key, _)| !OAUTH_KEYS.contains(key)) {
                    add(key, value, unknown(key, OAUTH_KEYS, OAUTH_KEYS_OF_CLIENTS));
                }
            }
            None => {}
        }
    }
    ignored
}

/// Why a key has no effect; `None` if it has one. `other_transport` has the keys of the other transport, and the key that
/// selects this one.
fn reason(key: &str, value: &Node<'_>, other_transport: Option<(&[&str], &'static str)>) -> Option<IgnoreReason> {
    if !KNOWN.contains(&key) {
        return Some(unknown(key, KNOWN, OF_CLIENTS));
    }
    if key == "tools" && value.is_object() {
        return Some(IgnoreReason::OtherClient); // Codex: what is approved.
    }
    if key == "timeout" && value.is_number() {
        return Some(IgnoreReason::TimeoutWithoutUnit);
    }
    let (_, with) = other_transport.filter(|(others, _)| others.contains(&key) && !value.is_empty())?;
    Some(IgnoreReason::OtherTransport { with })
}

/// Why a key that is not one of `known` has no effect.
fn unknown(key: &str, known: &'static [&'static str], of_clients: &[&str]) -> IgnoreReason {
    match near(key, known.iter().copied()) {
        _ if of_clients.contains(&key) => IgnoreReason::OtherClient,
        Some(suggestion) => IgnoreReason::Misspelled { suggestion },
        None => IgnoreReason::Unknown,
    }
}

/// Keys that select HTTP.
const URL_KEYS: &[&str] = &["url", "serverUrl", "httpUrl"];

/// Values of `type` and `transport` that select HTTP, in lower case.
pub(super) const HTTP_TYPES: &[&str] = &["http", "sse", "streamablehttp", "streamable-http", "streamable_http"];

/// Keys that have an effect over HTTP only.
const HTTP_KEYS: &[&str] =
    &["bearer_token_env_var", "env_http_headers", "headers", "httpUrl", "http_headers", "oauth", "serverUrl", "url"];

/// Keys that have an effect on child processes only.
const STDIO_KEYS: &[&str] = &["args", "command", "cwd", "env", "envFile", "env_vars"];

/// Keys with variables that the others of an entry can refer to.
const OWN_VARIABLES: &[&str] = &["env", "envFile"];

/// The keys that have an effect.
const KNOWN: &[&str] = &[
    "allow",
    "alwaysAllow",
    "args",
    "ask",
    "autoApprove",
    "bearer_token_env_var",
    "command",
    "cwd",
    "deny",
    "disabled",
    "disabledTools",
    "disabled_tools",
    "enabled",
    "enabledTools",
    "enabled_tools",
    "env",
    "envFile",
    "env_http_headers",
    "env_vars",
    "excludeTools",
    "expose",
    "headers",
    "httpUrl",
    "http_headers",
    "includeTools",
    "oauth",
    "prefix",
    "protocolVersion",
    "readOnly",
    "results",
    "serverUrl",
    "settings",
    "source",
    "timeout",
    "tool_timeout_sec",
    "tools",
    "transport",
    "type",
    "url",
];

/// The keys without which more can be called, or without being asked. An entry with an unknown key that seems to be meant as
/// one is not used.
const PROTECTIVE_KEYS: &[&str] = &[
    "allow",
    "ask",
    "deny",
    "disabled",
    "disabledTools",
    "disabled_tools",
    "enabled",
    "enabledTools",
    "enabled_tools",
    "excludeTools",
    "includeTools",
    "readOnly",
    "tools",
];

/// What unknown keys begin with that seem to restrict what can be called, in lower case and without separators.
const PROTECTIVE_WORDS: &[&str] = &[
    "allow",
    "approv",
    "ask",
    "blacklist",
    "block",
    "confirm",
    "denied",
    "deny",
    "disallow",
    "exclude",
    "filter",
    "forbid",
    "hidden",
    "hide",
    "include",
    "only",
    "permi",
    "readonly",
    "require",
    "restrict",
    "toolfilter",
    "whitelist",
];

/// Keys that clients define and that have no effect here.
const OF_CLIENTS: &[&str] = &[
    "alwaysLoad",
    "auth",
    "authProviderType",
    "autoStart",
    "default_tools_approval_mode",
    "description",
    "dev",
    "displayName",
    "experimental_environment",
    "gallery",
    "headersHelper",
    "icon",
    "icons",
    "initTimeout",
    "name",
    "oauth_resource",
    "remote",
    "required",
    "sandbox",
    "sandboxEnabled",
    "scopes",
    "startup_timeout_ms",
    "startup_timeout_sec",
    "supports_parallel_tool_calls",
    "tags",
    "targetAudience",
    "targetServiceAccount",
    "transportType",
    "trust",
    "version",
    "watchPaths",
];

/// The keys of `oauth` that have an effect.
const OAUTH_KEYS: &[&str] = &["callbackPort", "clientId", "clientMetadataUrl", "clientSecret", "issuer", "scopes"];

/// Keys of `oauth` that clients define and that have no effect here.
const OAUTH_KEYS_OF_CLIENTS: &[&str] = &[
    "audiences",
    "authServerMetadataUrl",
    "authorizationUrl",
    "enabled",
    "redirectUri",
    "registrationUrl",
    "tokenParamName",
    "tokenUrl",
];

#[cfg(test)]
mod tests {
    use super::{KNOWN, OF_CLIENTS};
    use crate::config::{Config, SkipReason, Variables};

    #[test]
    fn every_known_key_is_read_and_no_other_key() {
        let read = |key: &str| {
            let text = format!("{{ \"mcpServers\": {{ \"a\": {{ \"{key}\": [[]] }} }} }}");
            let mut config = Config::default();
            config.read(&text, &Variables(|_| None)).unwrap();
            match &config.skipped[0].reason {
                SkipReason::Invalid { error, .. } => error.path.contains(key),
                _ => false,
            }
        };
        for key in KNOWN {
            assert!(read(key) || *key == "settings", "{key}");
        }
        for key in OF_CLIENTS {
            assert!(!read(key), "{key}");
        }
    }
}
