//! Addresses of runners: `tcp:127.0.0.1:7000`, `unix:/run/execbox.sock`, `ws://127.0.0.1:7000`.

use std::fmt;
use std::str::FromStr;

use super::Socket;

/// The address of a runner: a socket, and the framing of messages on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) socket: Socket,
    pub(super) framing: Framing,
}

/// How messages are separated on a byte stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// `tcp:` and `unix:`: one message per line.
    Lines,
    /// `ws://`: one message per WebSocket text message.
    WebSocket {
        /// The path of the URL, with its first `/`.
        path: String,
    },
}

/// An invalid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// An unknown scheme.
    #[error("invalid address {0:?}: expected tcp:HOST:PORT, unix:PATH or ws://HOST:PORT")]
    Unknown(String),
    /// TLS is not supported.
    #[error("invalid address {0:?}: wss:// is not supported; use ws:// through a TLS tunnel or proxy")]
    Encrypted(String),
    /// The host or the port is missing.
    #[error("invalid address {0:?}: expected HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000")]
    NoPort(String),
    /// The path is missing.
    #[error("invalid address {0:?}: expected a path")]
    NoPath(String),
}

impl Address {
    /// The socket to connect to or to listen on.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The framing of messages on the socket.
    pub fn framing(&self) -> &Framing {
        &self.framing
    }
}

/// An address with one message per line.
impl From<Socket> for Address {
    fn from(socket: Socket) -> Self {
        Self { socket, framing: Framing::Lines }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            return if path.is_empty() {
                Err(AddressError::NoPath(text.into()))
            } else {
                Ok(Socket::Unix(path.into()).into())
            };
        }
        if let Some(rest) = text.strip_prefix("tcp:") {
            let authority = host_and_port(rest.strip_prefix("//").unwrap_or(rest), text)?;
            return Ok(Socket::Tcp(authority).into());
        }
        if let Some(rest) = text.strip_prefix("ws://") {
            let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
            let authority = if has_port(authority) { authority.to_owned() } else { format!("{authority}:80") };
            let socket = Socket::Tcp(host_and_port(&authority, text)?);
            return Ok(Self { socket, framing: Framing::WebSocket { path: path.to_owned() } });
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
        match (&self.framing, &self.socket) {
            (Framing::WebSocket { path }, socket) => write!(f, "ws://{socket}{path}"),
            (Framing::Lines, socket @ Socket::Tcp(_)) => write!(f, "tcp:{socket}"),
            (Framing::Lines, socket @ Socket::Unix(_)) => write!(f, "unix:{socket}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_printed_in_canonical_form() {
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
    fn invalid_addresses_are_rejected_with_the_expected_form() {
        for (text, part) in [
            ("", "expected tcp:HOST:PORT, unix:PATH or ws://HOST:PORT"),
            ("127.0.0.1:7000", "expected tcp:HOST:PORT"),
            ("http://x", "expected tcp:HOST:PORT"),
            ("wss://x", "wss:// is not supported"),
            ("tcp:7000", "expected HOST:PORT"),
            ("tcp::7000", "expected HOST:PORT"),
            ("tcp:localhost:70000", "expected HOST:PORT"),
            ("ws://:80", "expected HOST:PORT"),
            ("unix:", "expected a path"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
