//! Where runners listen, as text: `tcp:127.0.0.1:7000`, `unix:/run/execbox.sock`, `ws://127.0.0.1:7000`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a runner listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `tcp:HOST:PORT`: one message per line.
    Tcp(String),
    /// `unix:PATH`: the same, on a socket of this machine.
    Unix(PathBuf),
    /// `ws://HOST:PORT/PATH`: one message per WebSocket text message.
    WebSocket {
        /// `HOST:PORT`.
        authority: String,
        /// The path, from its `/`.
        path: String,
    },
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins as none does.
    #[error("{0:?} is no address: write tcp:HOST:PORT, unix:PATH or ws://HOST:PORT")]
    Unknown(String),
    /// Encryption is not spoken here.
    #[error("{0:?}: encrypted WebSockets are not spoken here; lead ws:// through a tunnel or a proxy that speaks TLS")]
    Encrypted(String),
    /// The host or the port is missing.
    #[error("{0:?} has no HOST:PORT, as in 127.0.0.1:7000 or [::1]:7000")]
    NoPort(String),
    /// The path is missing.
    #[error("{0:?} has no path")]
    NoPath(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            return if path.is_empty() { Err(AddressError::NoPath(text.into())) } else { Ok(Self::Unix(path.into())) };
        }
        if let Some(rest) = text.strip_prefix("tcp:") {
            return host_and_port(rest.strip_prefix("//").unwrap_or(rest), text).map(Self::Tcp);
        }
        if let Some(rest) = text.strip_prefix("ws://") {
            let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
            let authority = if has_port(authority) { authority.to_owned() } else { format!("{authority}:80") };
            let authority = host_and_port(&authority, text)?;
            return Ok(Self::WebSocket { authority, path: path.to_owned() });
        }
        Err(match text.starts_with("wss:") {
            true => AddressError::Encrypted(text.into()),
            false => AddressError::Unknown(text.into()),
        })
    }
}

fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'))
}

fn host_and_port(text: &str, whole: &str) -> Result<String, AddressError> {
    let parts = text.rsplit_once(':');
    let parts = parts.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    parts.map(|_| text.to_owned()).ok_or_else(|| AddressError::NoPort(whole.into()))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "tcp:{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::WebSocket { authority, path } => write!(f, "ws://{authority}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, written) in [
            ("tcp:127.0.0.1:7000", "tcp:127.0.0.1:7000"),
            ("tcp://[::1]:0", "tcp:[::1]:0"),
            ("unix:/run/a b.sock", "unix:/run/a b.sock"),
            ("unix:///run/x", "unix:/run/x"),
            ("unix:x.sock", "unix:x.sock"),
            ("ws://localhost:80", "ws://localhost:80/"),
            ("ws://localhost/run/ner?a=b", "ws://localhost:80/run/ner?a=b"),
            ("ws://[::1]", "ws://[::1]:80/"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_what_to_write() {
        for (text, part) in [
            ("", "is no address: write tcp:HOST:PORT, unix:PATH or ws://HOST:PORT"),
            ("127.0.0.1:7000", "is no address"),
            ("http://x", "is no address"),
            ("wss://x", "TLS"),
            ("tcp:7000", "has no HOST:PORT"),
            ("tcp::7000", "has no HOST:PORT"),
            ("tcp:localhost:70000", "has no HOST:PORT"),
            ("ws://:80", "has no HOST:PORT"),
            ("unix:", "has no path"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
