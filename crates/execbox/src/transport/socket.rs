//! TCP and Unix sockets: connecting, listening and accepting, independent of the framing of messages.

use std::net::{self, IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs, io};

use execbox_tls::ServerTls;
use socket2::{Domain, SockAddr, SockRef, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, lookup_host};

use super::Address;

/// The address of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Socket {
    /// `HOST:PORT`.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// What protects a socket that other machines can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// Whether those that connect must prove who they are.
    authenticates: bool,
    /// Whether connections are encrypted, by this process or on their way.
    encrypts: bool,
}

impl Protection {
    /// For those that connect without a token (`needs_token`), or a certificate that `tls` requires, other machines cannot reach
    /// the socket; without TLS neither, unless `insecure` says that something else encrypts connections.
    pub fn new(needs_token: bool, tls: Option<&ServerTls>, insecure: bool) -> Self {
        let needs_certificate = tls.is_some_and(ServerTls::requires_certificate);
        Self { authenticates: needs_token || needs_certificate, encrypts: tls.is_some() || insecure }
    }
}

/// A connected socket.
pub type Stream = Box<dyn ByteStream>;

/// A bidirectional byte stream.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl fmt::Debug for dyn ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

/// Accepts connections to a [`Socket`].
#[derive(Debug)]
pub struct SocketListener {
    inner: Inner,
    socket: Socket,
    /// The file of a Unix socket, which is removed with the listener.
    file: Option<SocketFile>,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A socket that listens, and is registered with no runtime.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    inner: BoundInner,
    socket: Socket,
}

#[derive(Debug)]
enum BoundInner {
    Tcp(net::TcpListener),
    Unix(unix::net::UnixListener),
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Without a token or a certificate, anyone who can reach the address could execute code.
    #[error("{0} is reachable from other machines; use 127.0.0.1 or [::1], or require a token")]
    NeedsToken(Socket),
    /// Without TLS, anyone on the way could read the token, and what is executed.
    #[error(
        "{0} is reachable from other machines, which would send their token in clear text; use 127.0.0.1 or [::1], or TLS"
    )]
    ClearText(Socket),
    /// The address is one of TLS, and there is no certificate to present.
    #[error("{0} needs a certificate")]
    NeedsCertificate(Address),
    /// There is a certificate, and the address is not one of TLS.
    #[error("{0} is not encrypted, and has no use for a certificate; use tls: or wss://")]
    NotEncrypted(Address),
    /// A system error.
    #[error("cannot listen on {socket}: {error}")]
    Io {
        /// The requested socket.
        socket: Socket,
        /// The error of the system.
        error: io::Error,
    },
}

impl Socket {
    /// Connects. An unknown host name is the error `HostUnreachable`.
    pub async fn connect(&self) -> io::Result<Stream> {
        Ok(self.connect_to().await?.0)
    }

    /// Connects. Returns whether the peer is on this machine, too.
    pub(super) async fn connect_to(&self) -> io::Result<(Stream, bool)> {
        match self {
            Self::Tcp(authority) => {
                let unknown = |error| io::Error::new(io::ErrorKind::HostUnreachable, error);
                let addresses: Vec<_> = lookup_host(authority).await.map_err(unknown)?.collect();
                let stream = TcpStream::connect(&addresses[..]).await?;
                let is_on_this_machine = is_on_this_machine(stream.local_addr()?.ip(), stream.peer_addr()?.ip());
                Ok((tcp_stream(stream)?, is_on_this_machine))
            }
            Self::Unix(path) => Ok((Box::new(UnixStream::connect(path).await?), true)),
        }
    }

    /// Listens. Port 0 selects a free port. A Unix socket is accessible by its owner only and replaces a socket file of the
    /// same user that no process listens on. Dropping the listener removes the file.
    ///
    /// TCP is restricted to loopback addresses unless connections are encrypted, and those that connect prove who they are.
    pub async fn listen(&self, protection: Protection) -> Result<SocketListener, ListenError> {
        let bound = match self {
            Self::Tcp(authority) => {
                let addresses = lookup_host(authority).await.map_err(|error| self.failed(error))?;
                self.bind_tcp(&addresses.collect::<Vec<_>>(), protection)
            }
            Self::Unix(path) => self.bind_unix(path),
        };
        let mut listener = bound?.register().map_err(|error| self.failed(error))?;
        if let Self::Unix(path) = self {
            listener.file = Some(SocketFile(path.clone()));
        }
        Ok(listener)
    }

    /// [`listen`](Self::listen) in two steps, the first of which needs no runtime. Blocks while a name is looked up. The file
    /// of a Unix socket is not removed.
    pub(crate) fn bind(&self, protection: Protection) -> Result<BoundSocket, ListenError> {
        match self {
            Self::Tcp(authority) => {
                let addresses = authority.to_socket_addrs().map_err(|error| self.failed(error))?;
                self.bind_tcp(&addresses.collect::<Vec<_>>(), protection)
            }
            Self::Unix(path) => self.bind_unix(path),
        }
    }

    fn bind_tcp(&self, addresses: &[SocketAddr], protection: Protection) -> Result<BoundSocket, ListenError> {
        if !addresses.iter().all(|address| address.ip().is_loopback()) {
            if !protection.authenticates {
                return Err(ListenError::NeedsToken(self.clone()));
            }
            if !protection.encrypts {
                return Err(ListenError::ClearText(self.clone()));
            }
        }
        let bind = || {
            let listener = net::TcpListener::bind(addresses)?;
            listener.set_nonblocking(true)?;
            let socket = Self::Tcp(listener.local_addr()?.to_string());
            Ok(BoundSocket { inner: BoundInner::Tcp(listener), socket })
        };
        bind().map_err(|error| self.failed(error))
    }

    fn bind_unix(&self, path: &Path) -> Result<BoundSocket, ListenError> {
        let listener = bind_unix(path).map_err(|error| self.failed(error))?;
        Ok(BoundSocket { inner: BoundInner::Unix(listener), socket: self.clone() })
    }

    fn failed(&self, error: io::Error) -> ListenError {
        ListenError::Io { socket: self.clone(), error }
    }
}

impl BoundSocket {
    /// The socket, with the actual port.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Accepts connections on the current runtime.
    pub(crate) fn register(self) -> io::Result<SocketListener> {
        let inner = match self.inner {
            BoundInner::Tcp(listener) => Inner::Tcp(TcpListener::from_std(listener)?),
            BoundInner::Unix(listener) => Inner::Unix(UnixListener::from_std(listener)?),
        };
        Ok(SocketListener { inner, socket: self.socket, file: None })
    }
}

impl AsRawFd for BoundSocket {
    fn as_raw_fd(&self) -> RawFd {
        match &self.inner {
            BoundInner::Tcp(listener) => listener.as_raw_fd(),
            BoundInner::Unix(listener) => listener.as_raw_fd(),
        }
    }
}

/// `HOST:PORT` or the path.
impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => f.write_str(authority),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl SocketListener {
    /// The socket, with the actual port.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The local address of a TCP socket, `None` for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.inner {
            Inner::Tcp(listener) => listener.local_addr().ok(),
            Inner::Unix(_) => None,
        }
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        Ok(self.accept_from().await?.0)
    }

    /// Accepts the next connection. Returns the address of the peer, too; `None` for a Unix socket.
    pub async fn accept_from(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match &self.inner {
            Inner::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((tcp_stream(stream)?, Some(peer)))
            }
            Inner::Unix(listener) => Ok((Box::new(listener.accept().await?.0), None)),
        }
    }
}

/// How long a TCP connection is silent before the system asks the peer whether it exists, and how often it asks then. After
/// about two minutes without an answer, the connection fails.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));

/// Sends small messages without delay, because the peer waits for them, and notices a peer that is gone.
fn tcp_stream(stream: TcpStream) -> io::Result<Stream> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE)?;
    Ok(Box::new(stream))
}

/// Whether the two ends of a connection are on the same machine.
fn is_on_this_machine(here: IpAddr, there: IpAddr) -> bool {
    there.to_canonical().is_loopback() || there == here
}

/// Binds under a temporary name, so that the socket has its final name only with its final permissions.
fn bind_unix(path: &Path) -> io::Result<unix::net::UnixListener> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let listener = unix::net::UnixListener::bind(&temporary)?;
    // Removes nothing once the file is renamed.
    let file = SocketFile(temporary.into());
    check_replaceable(path, fs::symlink_metadata(&file.0)?.uid())?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o600))?;
    fs::rename(&file.0, path)?;
    Ok(listener)
}

/// Fails unless there is no file, or the socket file of this user that no process listens on.
fn check_replaceable(path: &Path, user: u32) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // The socket does not block, because the queue of a process that listens may be full.
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?).map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::NotFound, _)) => Ok(()),
        Err((io::ErrorKind::ConnectionRefused, _)) if metadata.uid() == user => Ok(()),
        Err((io::ErrorKind::ConnectionRefused, _)) => Err(io::ErrorKind::PermissionDenied.into()),
        Err((io::ErrorKind::PermissionDenied, error)) => Err(error),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// The file of a Unix socket, removed when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_on_the_same_machine_if_their_addresses_say_so() {
        for (here, there, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.9.9.9", true),
            ("::1", "::1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", false),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
        ] {
            assert_eq!(is_on_this_machine(here.parse().unwrap(), there.parse().unwrap()), expected, "{here} {there}");
        }
    }

    #[test]
    fn a_process_that_listens_with_a_full_queue_keeps_its_file() {
        let path = std::env::temp_dir().join(format!("execbox-socket-{}.sock", std::process::id()));
        let busy = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        busy.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        busy.listen(0).unwrap();
        let _waiting = unix::net::UnixStream::connect(&path).unwrap();
        assert_eq!(bind_unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(busy);
        let replaced = bind_unix(&path).unwrap();
        assert!(unix::net::UnixStream::connect(&path).is_ok());
        drop(replaced);
        fs::remove_file(path).unwrap();
    }
}
