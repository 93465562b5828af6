//! TCP and Unix sockets: connecting, listening and accepting, independent of the framing of messages.

use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs, io};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, lookup_host};

use super::Token;

/// The address of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socket {
    /// `HOST:PORT`.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
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

/// Accepts connections to a [`Socket`]. Dropping it removes the file of a Unix socket.
#[derive(Debug)]
pub struct SocketListener {
    inner: Inner,
    socket: Socket,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code)] SocketFile),
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Without a token, anyone who can reach the address could execute code.
    #[error("{0} is reachable from other machines; use 127.0.0.1 or [::1], or require a token")]
    NeedsToken(Socket),
    /// A system error.
    #[error("cannot listen on {socket}: {error}")]
    Io {
        /// The requested socket.
        socket: Socket,
        /// The error.
        error: io::Error,
    },
}

impl Socket {
    /// Connects. An unknown host name is the error `HostUnreachable`.
    pub async fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(authority) => {
                let unknown = |error| io::Error::new(io::ErrorKind::HostUnreachable, error);
                let addresses: Vec<_> = lookup_host(authority).await.map_err(unknown)?.collect();
                tcp_stream(TcpStream::connect(&addresses[..]).await?)
            }
            Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        }
    }

    /// Listens. Port 0 selects a free port. A Unix socket is accessible by its owner only and replaces a socket file that
    /// no process listens on.
    ///
    /// `token` is the one that clients must present; without one, TCP is restricted to loopback addresses.
    pub async fn listen(&self, token: Option<&Token>) -> Result<SocketListener, ListenError> {
        let failed = |error| ListenError::Io { socket: self.clone(), error };
        let authority = match self {
            Self::Unix(path) => {
                let (listener, file) = bind_unix(path).await.map_err(failed)?;
                return Ok(SocketListener { inner: Inner::Unix(listener, file), socket: self.clone() });
            }
            Self::Tcp(authority) => authority,
        };
        let addresses: Vec<SocketAddr> = lookup_host(authority).await.map_err(failed)?.collect();
        if token.is_none() && !addresses.iter().all(|address| address.ip().is_loopback()) {
            return Err(ListenError::NeedsToken(self.clone()));
        }
        let listener = TcpListener::bind(&addresses[..]).await.map_err(failed)?;
        let socket = Self::Tcp(listener.local_addr().map_err(failed)?.to_string());
        Ok(SocketListener { inner: Inner::Tcp(listener), socket })
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
            Inner::Unix(..) => None,
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
            Inner::Unix(listener, _) => Ok((Box::new(listener.accept().await?.0), None)),
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

/// Binds under a temporary name, so that the socket has its final name only with its final permissions.
async fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if !metadata.file_type().is_socket() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let mut file = SocketFile(temporary.into());
    let listener = UnixListener::bind(&file.0)?;
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o600))?;
    fs::rename(&file.0, path)?;
    path.clone_into(&mut file.0);
    Ok((listener, file))
}

/// The file of a Unix socket, removed when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
