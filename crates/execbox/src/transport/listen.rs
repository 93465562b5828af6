//! Listening for hosts.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, future};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, lookup_host};

use super::{Address, Received, StreamTransport, Token, Transport, websocket};

/// How long a host that has connected may take to show its token or to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Waits for hosts at an [`Address`].
#[derive(Debug)]
pub struct Listener {
    door: Door,
    address: Address,
    token: Option<Token>,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
    WebSocket(TcpListener),
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Everybody who can reach the address could run code.
    #[error("{0} can be reached from other machines: listen on 127.0.0.1 or [::1], or ask for a token")]
    NeedsToken(Address),
    /// The system refused.
    #[error("cannot listen on {address}: {error}")]
    Io {
        /// The address that was asked for.
        address: Address,
        /// Why not.
        error: io::Error,
    },
}

/// A host that has connected, and has yet to show who it is.
#[derive(Debug)]
pub struct Arrival {
    stream: Stream,
    token: Option<Token>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    WebSocket(TcpStream),
}

impl Listener {
    /// Listens at `address`, which may have port 0 for one that is free. Hosts have to show the token, if
    /// there is one; without one, only addresses of this machine alone are taken. The file of a Unix
    /// socket is this user's alone, and is removed when the listener is dropped.
    pub async fn bind(address: &Address, token: Option<Token>) -> Result<Self, ListenError> {
        let failed = |error| ListenError::Io { address: address.clone(), error };
        match address {
            Address::Unix(path) => {
                let (listener, file) = bind_unix(path).await.map_err(failed)?;
                Ok(Self { door: Door::Unix(listener), address: address.clone(), token, _file: Some(file) })
            }
            Address::Tcp(authority) | Address::WebSocket { authority, .. } => {
                let reachable: Vec<SocketAddr> = lookup_host(authority).await.map_err(failed)?.collect();
                if token.is_none() && !reachable.iter().all(|one| one.ip().is_loopback()) {
                    return Err(ListenError::NeedsToken(address.clone()));
                }
                let listener = TcpListener::bind(&reachable[..]).await.map_err(failed)?;
                let authority = listener.local_addr().map_err(failed)?.to_string();
                let (door, address) = match address {
                    Address::WebSocket { path, .. } => {
                        (Door::WebSocket(listener), Address::WebSocket { authority, path: path.clone() })
                    }
                    _ => (Door::Tcp(listener), Address::Tcp(authority)),
                };
                Ok(Self { door, address, token, _file: None })
            }
        }
    }

    /// Where it listens, with the port that it was given.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next host.
    pub async fn accept(&self) -> io::Result<Arrival> {
        let stream = match &self.door {
            Door::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
            Door::Unix(listener) => Stream::Unix(listener.accept().await?.0),
            Door::WebSocket(listener) => Stream::WebSocket(listener.accept().await?.0),
        };
        Ok(Arrival { stream, token: self.token.clone() })
    }
}

impl Arrival {
    /// Shakes hands and checks the token.
    ///
    /// # Errors
    /// The connection broke; took more than 5 s for this (`TimedOut`); or has not shown the token
    /// (`PermissionDenied`).
    pub async fn welcome(self) -> io::Result<Box<dyn Transport>> {
        tokio::time::timeout(HANDSHAKE, self.shake_hands()).await?
    }

    async fn shake_hands(self) -> io::Result<Box<dyn Transport>> {
        Ok(match self.stream {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                Box::new(authenticated(StreamTransport::new(reader, writer), self.token).await?)
            }
            Stream::Unix(stream) => {
                let (reader, writer) = stream.into_split();
                Box::new(authenticated(StreamTransport::new(reader, writer), self.token).await?)
            }
            Stream::WebSocket(stream) => {
                stream.set_nodelay(true)?;
                Box::new(websocket::accept(stream, self.token).await?)
            }
        })
    }
}

/// The transport, once its first line has shown the token.
async fn authenticated<T: Transport>(mut transport: T, token: Option<Token>) -> io::Result<T> {
    let Some(token) = token else { return Ok(transport) };
    match future::poll_fn(|cx| transport.poll_receive(cx)).await? {
        Received::Message(line) if token.is_in_line(&line) => Ok(transport),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Takes the place of a socket that nobody listens on any more, never of one that is in use.
///
/// The socket gets its name only when it is this user's alone.
async fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if fs::symlink_metadata(path).is_ok() && UnixStream::connect(path).await.is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    if let Ok(metadata) = fs::symlink_metadata(path)
        && !std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
    {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut nameless = path.as_os_str().to_owned();
    nameless.push(format!(".{}", std::process::id()));
    let mut file = SocketFile(nameless.into());
    let listener = UnixListener::bind(&file.0)?;
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o600))?;
    fs::rename(&file.0, path)?;
    path.clone_into(&mut file.0);
    Ok((listener, file))
}

/// Removed when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
