//! Connecting to a runner that listens.

use std::io;

use tokio::net::{TcpStream, UnixStream, lookup_host};

use super::{Address, StreamTransport, Token, Transport, websocket};

impl Address {
    /// A fresh connection to the runner that listens here, shown the token if there is one.
    ///
    /// Connections are not encrypted: cross a network that others share inside a tunnel.
    pub async fn connect(&self, token: Option<&Token>) -> io::Result<Box<dyn Transport>> {
        Ok(match self {
            Self::Tcp(authority) => {
                let (reader, writer) = tcp(authority).await?.into_split();
                Box::new(authenticated(StreamTransport::new(reader, writer), token)?)
            }
            Self::Unix(path) => {
                let (reader, writer) = UnixStream::connect(path).await?.into_split();
                Box::new(authenticated(StreamTransport::new(reader, writer), token)?)
            }
            Self::WebSocket { authority, .. } => {
                let stream = tcp(authority).await?;
                Box::new(websocket::connect(stream, &self.to_string(), token).await?)
            }
        })
    }
}

/// Small messages go at once: each side waits for the other's.
async fn tcp(authority: &str) -> io::Result<TcpStream> {
    // The system has no kind of error for a name that nobody knows.
    let unknown = |error| io::Error::new(io::ErrorKind::HostUnreachable, error);
    let addresses: Vec<_> = lookup_host(authority).await.map_err(unknown)?.collect();
    let stream = TcpStream::connect(&addresses[..]).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// With the token as its first line. What refuses it is the runner, by closing.
fn authenticated<T: Transport>(mut transport: T, token: Option<&Token>) -> io::Result<T> {
    if let Some(token) = token {
        transport.send(token.to_line())?;
    }
    Ok(transport)
}
