//! Addresses of runners: `tcp:127.0.0.1:7000`, `tls:box.example.com:7000`, `unix:/run/execbox.sock`,
//! `ws://127.0.0.1:7000`, `wss://box.example.com`.

use std::fmt;
use std::str::FromStr;

use super::Socket;

/// The address of a runner: a socket, the framing of messages on it, and whether they are encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) socket: Socket,
    pub(super) framing: Framing,
    pub(super) is_encrypted: bool,
}

/// How messages are separated on a byte stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// `tcp:`, `tls:` and `unix:`: one message per line.
    Lines,
    /// `ws://` and `wss://`: one message per WebSocket text message.
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
    #[error(
        "invalid address {0:?}: expected tcp:HOST:PORT, tls:HOST:PORT, unix:PATH, ws://HOST:PORT or wss://HOST:PORT"
    )]
    Unknown(String),
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

    /// Whether connections use TLS: `tls:` and `wss://`.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The name or IP address of the host of a TCP socket.
    pub(super) fn host(&self) -> Option<&str> {
        let Socket::Tcp(authority) = &self.socket else { return None };
        let authority = authority.rsplit_once('@').map_or(&**authority, |(_, authority)| authority);
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        Some(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
    }

    /// What stands before the socket.
    pub(super) fn scheme(&self) -> &'static str {
        match (&self.framing, &self.socket, self.is_encrypted) {
            (_, Socket::Unix(_), _) => "unix:",
            (Framing::Lines, Socket::Tcp(_), false) => "tcp:",
            (Framing::Lines, Socket::Tcp(_), true) => "tls:",
            (Framing::WebSocket { .. }, Socket::Tcp(_), false) => "ws://",
            (Framing::WebSocket { .. }, Socket::Tcp(_), true) => "wss://",
        }
    }
}

/// An address with one message per line, not encrypted.
impl From<Socket> for Address {
    fn from(socket: Socket) -> Self {
        Self { socket, framing: Framing::Lines, is_encrypted: false }
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
        for (scheme, is_encrypted) in [("tcp:", false), ("tls:", true)] {
            let Some(rest) = text.strip_prefix(scheme) else { continue };
            let authority = host_and_port(rest.strip_prefix("//").unwrap_or(rest), text)?;
            return Ok(Self { socket: Socket::Tcp(authority), framing: Framing::Lines, is_encrypted });
        }
        for (scheme, port, is_encrypted) in [("ws://", 80, false), ("wss://", 443, true)] {
            let Some(rest) = text.strip_prefix(scheme) else { continue };
            let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
            let authority = if has_port(authority) { authority.to_owned() } else { format!("{authority}:{port}") };
            let socket = Socket::Tcp(host_and_port(&authority, text)?);
            return Ok(Self { socket, framing: Framing::WebSocket { path: path.to_owned() }, is_encrypted });
        }
        Err(AddressError::Unknown(text.into()))
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
        write!(f, "{}{}", self.scheme(), self.socket)?;
        if let Framing::WebSocket { path } = &self.framing { f.write_str(path) } else { Ok(()) }
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
            ("tls:box.example.com:7000", "tls:box.example.com:7000"),
            ("tls://[::1]:0", "tls:[::1]:0"),
            ("wss://box.example.com", "wss://box.example.com:443/"),
            ("wss://[::1]:7000/run?a=b", "wss://[::1]:7000/run?a=b"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), written, "{text}");
        }
    }

    #[test]
    fn the_host_is_the_name_that_a_certificate_must_be_for() {
        for (text, host) in [
            ("tls:box.example.com:7000", Some("box.example.com")),
            ("wss://user@box.example.com/path", Some("box.example.com")),
            ("wss://[2001:db8::1]", Some("2001:db8::1")),
            ("unix:/run/x:7", None),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().host(), host, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_rejected_with_the_expected_form() {
        for (text, part) in [
            ("", "expected tcp:HOST:PORT, tls:HOST:PORT, unix:PATH, ws://HOST:PORT or wss://HOST:PORT"),
            ("127.0.0.1:7000", "expected tcp:HOST:PORT"),
            ("http://x", "expected tcp:HOST:PORT"),
            ("tls:x", "expected HOST:PORT"),
            ("wss:x", "expected tcp:HOST:PORT"),
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
