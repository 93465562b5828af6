//! Listening for hosts.

use std::time::Duration;
use std::{future, io};

use super::{
    Address, Framing, ListenError, Received, SocketListener, Stream, StreamTransport, Token, Transport, websocket,
};

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts connections of hosts at an [`Address`].
#[derive(Debug)]
pub struct Listener {
    socket: SocketListener,
    address: Address,
    token: Option<Token>,
}

/// A connection before its handshake.
#[derive(Debug)]
pub struct Incoming {
    stream: Stream,
    framing: Framing,
    token: Option<Token>,
}

impl Listener {
    /// Listens at `address`; see [`Socket::listen`](super::Socket::listen). With a token, hosts must present it.
    pub async fn bind(address: &Address, token: Option<Token>) -> Result<Self, ListenError> {
        let socket = address.socket.listen(token.as_ref()).await?;
        let address = Address { socket: socket.socket().clone(), framing: address.framing.clone() };
        Ok(Self { socket, address, token })
    }

    /// The address, with the actual port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let stream = self.socket.accept().await?;
        Ok(Incoming { stream, framing: self.address.framing.clone(), token: self.token.clone() })
    }
}

impl Incoming {
    /// Completes the handshake and checks the token.
    ///
    /// # Errors
    /// The connection broke, the handshake takes more than 5 s (`TimedOut`), or the host does not present the token
    /// (`PermissionDenied`).
    pub async fn handshake(self) -> io::Result<Box<dyn Transport>> {
        let Self { stream, framing, token } = self;
        let handshake = async move {
            Ok::<Box<dyn Transport>, io::Error>(match framing {
                Framing::Lines => Box::new(authenticate(StreamTransport::over(stream), token).await?),
                Framing::WebSocket { .. } => Box::new(websocket::accept(stream, token).await?),
            })
        };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await?
    }
}

/// Returns `transport` once its first line has presented the token.
async fn authenticate<T: Transport>(mut transport: T, token: Option<Token>) -> io::Result<T> {
    let Some(token) = token else { return Ok(transport) };
    match future::poll_fn(|cx| transport.poll_receive(cx)).await? {
        Received::Message(line) if token.is_in_line(&line) => Ok(transport),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}
