//! Connecting to a runner.

use std::io;

use super::{Address, Framing, Socket, StreamTransport, Token, TokenRejection, Transport, websocket};
use crate::runtime;

/// A connection to a runner that was not made: the inner error of that of [`Address::connect`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect to {origin}: {reason}")]
pub struct ConnectError {
    /// The address, without user info, path and query of a URL.
    origin: String,
    reason: String,
}

impl ConnectError {
    /// Why the connection was not made, without the address: `connection refused`.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl Address {
    /// Connects to the runner that listens at this address and presents `token`, if given.
    ///
    /// Connections are not encrypted: use a tunnel across untrusted networks.
    ///
    /// # Errors
    /// The inner error is a [`ConnectError`], or a [`TokenRejection`] if a runner rejects a WebSocket. With the other
    /// framing, receiving the first message fails with the [`TokenRejection`]. Also fails if the tokio runtime has no timers
    /// or no I/O.
    pub async fn connect(&self, token: Option<&Token>) -> io::Result<Box<dyn Transport>> {
        runtime::check_io()?;
        let stream = self.socket.connect().await.map_err(|error| self.not_connected(&error))?;
        if let Framing::WebSocket { .. } = self.framing {
            let connected = websocket::connect(stream, &self.to_string(), token).await;
            return match connected {
                Ok(transport) => Ok(Box::new(transport)),
                Err(error) if TokenRejection::of(&error).is_some() => Err(error),
                Err(error) => Err(self.not_connected(&error)),
            };
        }
        let mut transport = StreamTransport::over(stream).rejected_with(TokenRejection::of_host(token.is_some()));
        if let Some(token) = token {
            transport.send(token.to_line())?;
        }
        Ok(Box::new(transport))
    }

    fn not_connected(&self, error: &io::Error) -> io::Error {
        let origin = match (&self.framing, &self.socket) {
            (_, Socket::Unix(path)) => format!("unix:{}", path.display()),
            (framing, Socket::Tcp(authority)) => {
                let scheme = if *framing == Framing::Lines { "tcp:" } else { "ws://" };
                let host = authority.rsplit_once('@').map_or(&**authority, |(_, host)| host);
                format!("{scheme}{host}")
            }
        };
        let reason = websocket::response_status(error).unwrap_or_else(|| reason(error));
        io::Error::new(error.kind(), ConnectError { origin, reason })
    }
}

/// Why a connection was not made.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        // Only looking a name up fails without a code of the system.
        io::ErrorKind::HostUnreachable if error.raw_os_error().is_none() => "host name not found".to_owned(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route to its host".to_owned(),
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        io::ErrorKind::InvalidData => "its answer is not that of a WebSocket".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        kind => kind.to_string(),
    }
}
