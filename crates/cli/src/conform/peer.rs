//! The runner under test, and how to reach it: a command that is started, or an address.
//!
//! Every case gets a peer of its own. What is said and heard is for [`line`](super::line).

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How much of a command's standard error is kept: the last of it.
const KEPT_STDERR: usize = 4 << 10;

/// Where the runner is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A program and its arguments, which speaks on its standard input and output.
    Command(Vec<OsString>),
    /// `HOST:PORT`.
    Tcp(String),
    /// A path.
    #[cfg(unix)]
    Unix(String),
}

/// What cannot be an address.
#[derive(Debug, thiserror::Error)]
#[error("there is no address {0:?}: write `tcp:HOST:PORT` or `unix:PATH`")]
pub(crate) struct AddressError(String);

/// A connection to a runner. Dropping it kills the command that was started for it.
pub(crate) struct Peer {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stderr: Stderr,
    _child: Option<Child>,
}

impl Target {
    pub(crate) fn parse(address: &str) -> Result<Self, AddressError> {
        match address.split_once(':') {
            Some(("tcp", address)) if address.contains(':') => Ok(Self::Tcp(address.to_owned())),
            #[cfg(unix)]
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.to_owned())),
            _ => Err(AddressError(address.to_owned())),
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<Peer> {
        match self {
            Self::Command(command) => start(command),
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Peer::over(stream.into_split()))
            }
            #[cfg(unix)]
            Self::Unix(path) => Ok(Peer::over(tokio::net::UnixStream::connect(path).await?.into_split())),
        }
    }
}

/// As it was given.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(command) => {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

impl Peer {
    fn over<R, W>((reader, writer): (R, W)) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self { reader: Box::new(reader), writer: Box::new(writer), stderr: Stderr::default(), _child: None }
    }
}

fn start(command: &[OsString]) -> io::Result<Peer> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let piped = "it was asked for above";
    let (stdin, stdout) = (child.stdin.take().expect(piped), child.stdout.take().expect(piped));
    let peer = Peer { _child: None, ..Peer::over((stdout, stdin)) };
    tokio::spawn(peer.stderr.clone().keep(child.stderr.take().expect(piped)));
    Ok(Peer { _child: Some(child), ..peer })
}

/// The end of what a command wrote to its standard error.
#[derive(Clone, Default)]
pub(crate) struct Stderr(Arc<Mutex<Vec<u8>>>);

impl Stderr {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    async fn keep(self, mut reader: impl AsyncRead + Unpin) {
        let mut chunk = [0; 1024];
        while let Ok(count @ 1..) = reader.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&chunk[..count]);
            let excess = kept.len().saturating_sub(KEPT_STDERR);
            kept.drain(..excess);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Target::parse("tcp:[::1]:7000").unwrap(), Target::Tcp("[::1]:7000".to_owned()));
        for wrong in ["", "tcp:", "tcp:localhost", "unix:", "localhost:7000", "-"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
