//! Keys of entries that have no effect.

use std::fmt;

use execbox::core::hint::near;

use super::ConfigError;
use super::node::Node;

/// A key of an entry that has no effect, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// The keys of an entry that have no effect, in their order. A key whose value is null counts as missing.
pub(super) fn ignored_keys(server: &str, entry: &Node<'_>) -> Result<Vec<IgnoredKey>, ConfigError> {
    let mut members = entry.members()?;
    members.retain(|(_, value)| !value.is_null());
    let url = members.iter().find_map(|(key, _)| URL_KEYS.iter().find(|url| *url == key).copied());
    let mut ignored = Vec::new();
    let mut add = |key: &str, value: &Node<'_>, reason| {
        let (line, column) = value.key_position();
        let (server, path, key) = (server.to_owned(), value.path().to_owned(), key.to_owned());
        ignored.push(IgnoredKey { server, path, line, column, key, reason });
    };
    for (key, value) in &members {
        match reason(key, value, url) {
            Some(reason) => add(key, value, reason),
            None if *key == "oauth" => {
                for (key, value) in value.members()?.iter().filter(|(key, _)| !OAUTH_KEYS.contains(key)) {
                    add(key, value, unknown(key, OAUTH_KEYS, OAUTH_KEYS_OF_CLIENTS));
                }
            }
            None => {}
        }
    }
    Ok(ignored)
}

/// Why a key has no effect; `None` if it has one. `url` is the key that selects HTTP, if there is one.
fn reason(key: &str, value: &Node<'_>, url: Option<&'static str>) -> Option<IgnoreReason> {
    if !KNOWN.contains(&key) {
        return Some(unknown(key, KNOWN, OF_CLIENTS));
    }
    if key == "timeout" && value.is_number() {
        return Some(IgnoreReason::TimeoutWithoutUnit);
    }
    let (others, with) = url.map_or((HTTP_KEYS, "command"), |url| (STDIO_KEYS, url));
    (others.contains(&key) && !value.is_empty()).then_some(IgnoreReason::OtherTransport { with })
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

/// Keys that have an effect over HTTP only.
const HTTP_KEYS: &[&str] = &["headers", "oauth"];

/// Keys that have an effect on child processes only.
const STDIO_KEYS: &[&str] = &["args", "cwd", "env", "envFile"];

/// The keys that have an effect.
const KNOWN: &[&str] = &[
    "allow",
    "alwaysAllow",
    "args",
    "ask",
    "autoApprove",
    "command",
    "cwd",
    "deny",
    "disabled",
    "disabledTools",
    "enabled",
    "enabledTools",
    "env",
    "envFile",
    "excludeTools",
    "headers",
    "httpUrl",
    "includeTools",
    "oauth",
    "readOnly",
    "results",
    "serverUrl",
    "timeout",
    "transport",
    "type",
    "url",
];

/// Keys that clients define and that have no effect here.
const OF_CLIENTS: &[&str] = &[
    "alwaysLoad",
    "auth",
    "authProviderType",
    "autoStart",
    "description",
    "dev",
    "displayName",
    "gallery",
    "headersHelper",
    "icon",
    "icons",
    "initTimeout",
    "name",
    "sandbox",
    "sandboxEnabled",
    "scopes",
    "tags",
    "targetAudience",
    "targetServiceAccount",
    "tools",
    "transportType",
    "trust",
    "version",
    "watchPaths",
];

/// The keys of `oauth` that have an effect.
const OAUTH_KEYS: &[&str] = &["callbackPort", "clientId", "clientSecret", "scopes"];

/// Keys of `oauth` that clients define and that have no effect here.
const OAUTH_KEYS_OF_CLIENTS: &[&str] = &[
    "audiences",
    "authServerMetadataUrl",
    "authorizationUrl",
    "enabled",
    "issuer",
    "redirectUri",
    "registrationUrl",
    "tokenParamName",
    "tokenUrl",
];

#[cfg(test)]
mod tests {
    use super::{KNOWN, OF_CLIENTS};
    use crate::config::{Config, Variables};

    #[test]
    fn every_known_key_is_read_and_no_other_key() {
        let read = |key: &str| {
            let text = format!("{{ \"mcpServers\": {{ \"a\": {{ \"{key}\": 1 }} }} }}");
            let error = Config::default().read(&text, &Variables(|_| None)).unwrap_err();
            error.path.ends_with(key)
        };
        for key in KNOWN {
            assert!(read(key) || *key == "timeout", "{key}");
        }
        for key in OF_CLIENTS {
            assert!(!read(key), "{key}");
        }
    }
}
