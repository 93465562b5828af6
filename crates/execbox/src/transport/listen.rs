//! Listening for hosts.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use execbox_core::budget::Budget;
use execbox_tls::{ServerTls, TlsFailure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::paced::MAX_HANDSHAKE_BYTES;
use super::socket::BoundSocket;
use super::{
    Address, Framing, ListenError, Protection, SocketListener, Stream, StreamTransport, Token, TokenRejection,
    Transport, websocket,
};

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long, and for how many bytes, a connection is read after its token was rejected. A host that sends its program
/// before it reads would otherwise lose the rejection, because the connection is reset.
const REJECTED_TIME: Duration = Duration::from_secs(1);
const MAX_REJECTED_BYTES: u64 = 1 << 20;

/// What a side that listens requires of those that connect, and presents to them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AcceptOptions {
    /// The token that they must present. Default: none.
    pub token: Option<Token>,
    /// The certificate that is presented to them, and those that they must present. Needed by addresses of TLS, and by no others.
    /// Default: none.
    pub tls: Option<ServerTls>,
    /// Whether other machines may send the token in clear text: where a proxy or a tunnel encrypts connections. Default: no.
    pub insecure: bool,
}

impl AcceptOptions {
    execbox_core::setters! {
        token: impl Into<Option<Token>>,
        tls: impl Into<Option<ServerTls>>,
        insecure: bool,
    }

    fn protection(&self) -> Protection {
        Protection::new(self.token.is_some(), self.tls.as_ref(), self.insecure)
    }

    fn check(&self, address: &Address) -> Result<(), ListenError> {
        match (&self.tls, address.is_encrypted) {
            (None, true) => Err(ListenError::NeedsCertificate(address.clone())),
            (Some(_), false) => Err(ListenError::NotEncrypted(address.clone())),
            (Some(_), true) | (None, false) => Ok(()),
        }
    }
}

/// No TLS.
impl From<Option<Token>> for AcceptOptions {
    fn from(token: Option<Token>) -> Self {
        Self { token, ..Self::default() }
    }
}

/// Accepts connections of hosts at an [`Address`].
#[derive(Debug)]
pub struct Listener {
    socket: SocketListener,
    address: Address,
    options: AcceptOptions,
    on_rejected: RejectionSink,
}

/// Hosts that did not present what is required of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedHosts {
    /// The address of the first one; `None` for a Unix socket.
    pub peer: Option<SocketAddr>,
    /// What the first one did wrong.
    pub rejection: HostRejection,
    /// The number of further ones.
    pub more: u64,
}

/// What a rejected host did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostRejection {
    /// The token.
    Token(TokenRejection),
    /// The handshake of TLS.
    Tls(TlsFailure),
}

impl HostRejection {
    /// The rejection that `error` of a handshake is. A host that closed the connection was not rejected.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let of_token = || TokenRejection::of(error).map(Self::Token);
        of_token().or_else(|| TlsFailure::of(error).map(Self::Tls))
    }
}

/// As the end of a sentence about the host.
impl fmt::Display for HostRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(TokenRejection::Missing) => f.write_str("it presented no token"),
            Self::Token(TokenRejection::Wrong) => f.write_str("its token is wrong"),
            Self::Tls(TlsFailure::CertificateRequired) => f.write_str("it presented no certificate"),
            Self::Tls(TlsFailure::CertificateRejected) => {
                f.write_str("it does not trust the certificate of the runner")
            }
            Self::Tls(TlsFailure::NotTls) => f.write_str("it did not use TLS"),
            Self::Tls(failure) => failure.fmt(f),
        }
    }
}

/// `rejected a connection from 127.0.0.1:40112: its token is wrong`
impl fmt::Display for RejectedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rejected a connection")?;
        if let Some(peer) = self.peer {
            write!(f, " from {peer}")?;
        }
        write!(f, ": {}", self.rejection)?;
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

/// Receives rejected hosts.
#[derive(Clone)]
pub(crate) struct RejectionSink(Arc<dyn Fn(RejectedHosts) + Send + Sync>);

impl RejectionSink {
    pub(crate) fn report(&self, rejected: RejectedHosts) {
        (self.0)(rejected);
    }
}

impl Default for RejectionSink {
    fn default() -> Self {
        Self(Arc::new(drop))
    }
}

impl fmt::Debug for RejectionSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RejectionSink(…)")
    }
}

/// A [`Listener`] that is open, and registered with no runtime: for a process that [locks
/// itself](crate::RunnerProcess::prepare_listening) before it accepts connections.
#[derive(Debug)]
pub struct BoundListener {
    socket: BoundSocket,
    /// The port may be 0.
    address: Address,
    options: AcceptOptions,
}

/// A connection before its handshake.
#[derive(Debug)]
pub struct Incoming {
    stream: Stream,
    peer: Option<SocketAddr>,
    framing: Framing,
    options: AcceptOptions,
}

impl Listener {
    /// Listens at `address`; see [`Socket::listen`](super::Socket::listen).
    pub async fn bind(address: &Address, options: impl Into<AcceptOptions>) -> Result<Self, ListenError> {
        let options = options.into();
        options.check(address)?;
        let socket = address.socket.listen(options.protection()).await?;
        let address = Address { socket: socket.socket().clone(), ..address.clone() };
        Ok(Self { socket, address, options, on_rejected: RejectionSink::default() })
    }

    /// Reports hosts that do not present the token, or fail in the handshake of TLS, to `sink`, at most once a second. Default: they are not reported.
    #[must_use]
    pub fn on_rejected(self, sink: impl Fn(RejectedHosts) + Send + Sync + 'static) -> Self {
        Self { on_rejected: RejectionSink(Arc::new(sink)), ..self }
    }

    pub(crate) fn rejection_sink(&self) -> &RejectionSink {
        &self.on_rejected
    }

    /// The address, with the actual port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (stream, peer) = self.socket.accept_from().await?;
        Ok(Incoming { stream, peer, framing: self.address.framing.clone(), options: self.options.clone() })
    }
}

impl BoundListener {
    /// Opens the socket at `address`, as [`Listener::bind`] does. Blocks while a name is looked up. The file of a Unix socket
    /// is not removed: the next listener replaces it.
    pub fn open(address: &Address, options: impl Into<AcceptOptions>) -> Result<Self, ListenError> {
        let options = options.into();
        options.check(address)?;
        let socket = address.socket.bind(options.protection())?;
        Ok(Self { socket, address: address.clone(), options })
    }

    /// Accepts connections on the current runtime, which must have I/O enabled.
    ///
    /// # Errors
    /// The system cannot watch the socket.
    pub fn register(self) -> io::Result<Listener> {
        let address = Address { socket: self.socket.socket().clone(), ..self.address };
        let socket = self.socket.register()?;
        Ok(Listener { socket, address, options: self.options, on_rejected: RejectionSink::default() })
    }
}

impl AsRawFd for BoundListener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Incoming {
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Completes the handshakes and checks the token. Until then, the connection takes a few KiB, and with TLS some tens of
    /// KiB. Messages that are not received completely are charged to `budget` after it.
    ///
    /// # Errors
    /// The connection broke, the handshakes take more than 5 s (`TimedOut`) or, for a WebSocket, 4 KiB (`InvalidData`),
    /// that of TLS failed (see [`TlsFailure::of`]), or the host does not present the token (`PermissionDenied`, with a
    /// [`TokenRejection`]). The rejection is sent to the host before, which takes at most 1 s.
    pub async fn handshake(self, budget: &Budget) -> io::Result<Box<dyn Transport>> {
        let Self { stream, framing, options: AcceptOptions { token, tls, .. }, .. } = self;
        let handshake = async move {
            let mut stream: Stream = match tls {
                Some(tls) => Box::new(tls.accept(stream).await?),
                None => stream,
            };
            Ok::<Box<dyn Transport>, io::Error>(match framing {
                Framing::Lines => {
                    let authenticated = authenticate(&mut stream, token).await;
                    if authenticated.as_ref().is_err_and(|error| TokenRejection::of(error).is_some()) {
                        let _ = tokio::time::timeout(REJECTED_TIME, reject(&mut stream)).await;
                    }
                    let after = authenticated?;
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
            return Err(TokenRejection::Missing.into()); // No line with a token is so long.
        }
        if (&mut *stream).take(left as u64).read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let after = received.split_off(line_end + 1);
    token.check_line(&received)?;
    Ok(after)
}

/// Tells a host that its token is rejected, and reads until it closes the connection.
async fn reject(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(TokenRejection::LINE).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(MAX_REJECTED_BYTES), &mut tokio::io::sink()).await.map(drop)
}
