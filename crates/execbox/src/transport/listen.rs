//! Listening for hosts.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use execbox_core::budget::Budget;
use tokio::io::AsyncReadExt as _;

use super::paced::{MAX_HANDSHAKE_BYTES, TooLong};
use super::socket::BoundSocket;
use super::{Address, Framing, ListenError, SocketListener, Stream, StreamTransport, Token, Transport, websocket};

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts connections of hosts at an [`Address`].
#[derive(Debug)]
pub struct Listener {
    socket: SocketListener,
    address: Address,
    token: Option<Token>,
}

/// A [`Listener`] that is open, and registered with no runtime: for a process that [locks
/// itself](crate::RunnerProcess::prepare_listening) before it accepts connections.
#[derive(Debug)]
pub struct BoundListener {
    socket: BoundSocket,
    framing: Framing,
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
        let socket = address.socket.listen(token.is_some()).await?;
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

impl BoundListener {
    /// Opens the socket at `address`, as [`Listener::bind`] does. Blocks while a name is looked up. The file of a Unix socket
    /// is not removed: the next listener replaces it.
    pub fn open(address: &Address, token: Option<Token>) -> Result<Self, ListenError> {
        let socket = address.socket.bind(token.is_some())?;
        Ok(Self { socket, framing: address.framing.clone(), token })
    }

    /// Accepts connections on the current runtime, which must have I/O enabled.
    ///
    /// # Errors
    /// The system cannot watch the socket.
    pub fn register(self) -> io::Result<Listener> {
        let address = Address { socket: self.socket.socket().clone(), framing: self.framing };
        Ok(Listener { socket: self.socket.register()?, address, token: self.token })
    }
}

impl AsRawFd for BoundListener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Incoming {
    /// Completes the handshake and checks the token. Until then, the connection takes a few KiB. Messages that are not
    /// received completely are charged to `budget` after it.
    ///
    /// # Errors
    /// The connection broke, the handshake takes more than 5 s (`TimedOut`) or 4 KiB (`InvalidData`), or the host does not
    /// present the token (`PermissionDenied`).
    pub async fn handshake(self, budget: &Budget) -> io::Result<Box<dyn Transport>> {
        let Self { mut stream, framing, token } = self;
        let handshake = async move {
            Ok::<Box<dyn Transport>, io::Error>(match framing {
                Framing::Lines => {
                    let after = authenticate(&mut stream, token).await?;
                    Box::new(StreamTransport::over(stream).charged_to(budget).preceded_by(&after))
                }
                Framing::WebSocket { .. } => Box::new(websocket::accept(stream, token, budget).await?),
            })
        };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await?
    }
}

/// Reads the line that presents the token. Returns the bytes after it that were read.
async fn authenticate(stream: &mut Stream, token: Option<Token>) -> io::Result<Vec<u8>> {
    let Some(token) = token else { return Ok(Vec::new()) };
    let mut received = Vec::with_capacity(MAX_HANDSHAKE_BYTES);
    let line_end = loop {
        if let Some(end) = memchr::memchr(b'\n', &received) {
            break end;
        }
        let left = MAX_HANDSHAKE_BYTES - received.len();
        if left == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TooLong(MAX_HANDSHAKE_BYTES)));
        }
        if (&mut *stream).take(left as u64).read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let after = received.split_off(line_end + 1);
    if token.is_in_line(&received) { Ok(after) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
