//! Standard input and output of this process, as the transport of a runner.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixStream, unix::pipe};

use super::{StreamTransport, Transport};

/// Returns a transport over standard input and output, one message per line. Nothing else may write to standard output.
///
/// Pipes and sockets use non-blocking I/O; files and terminals use a blocking thread. Needs a tokio runtime with I/O
/// enabled.
pub fn stdio() -> io::Result<impl Transport> {
    Ok(StreamTransport::new(input()?, output()?))
}

fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let stdin = io::stdin();
    Ok(match kind_of(&stdin)? {
        Kind::Pipe(fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        Kind::Socket(fd) => Box::new(socket(fd)?),
        Kind::Other => Box::new(tokio::io::stdin()),
    })
}

fn output() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let stdout = io::stdout();
    Ok(match kind_of(&stdout)? {
        Kind::Pipe(fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        Kind::Socket(fd) => Box::new(socket(fd)?),
        Kind::Other => Box::new(tokio::io::stdout()),
    })
}

enum Kind {
    Pipe(OwnedFd),
    Socket(OwnedFd),
    Other,
}

fn kind_of(stream: &impl AsFd) -> io::Result<Kind> {
    let fd = stream.as_fd().try_clone_to_owned()?;
    if fd.is_terminal() {
        return Ok(Kind::Other);
    }
    let file = File::from(fd);
    let kind = file.metadata()?.file_type();
    Ok(match (kind.is_fifo(), kind.is_socket()) {
        (true, _) => Kind::Pipe(file.into()),
        (_, true) => Kind::Socket(file.into()),
        _ => Kind::Other,
    })
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
