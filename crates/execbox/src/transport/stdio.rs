//! Standard input and output of this process, as the transport of a runner.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;

use execbox_jail::Sockets;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixStream, unix::pipe};

use super::{StreamTransport, Transport};

/// Returns a transport over standard input and output, one message per line. Nothing else may write to standard output.
///
/// Pipes and sockets use non-blocking I/O; files and terminals use a blocking thread. Needs a tokio runtime with I/O
/// enabled.
pub fn stdio() -> io::Result<impl Transport> {
    let (stdin, stdout) = (kind_of(&io::stdin())?, kind_of(&io::stdout())?);
    let blocks = matches!((&stdin, &stdout), (Kind::Other, _) | (_, Kind::Other));
    let stream = StreamTransport::new(input(stdin)?, output(stdout)?);
    Ok(if blocks { stream } else { stream.over_pipes() })
}

/// What a transport over standard input and output needs of a [jail](execbox_jail): whether threads, and which sockets.
pub(crate) fn needs() -> (bool, Sockets) {
    let kinds = [kind_of(&io::stdin()), kind_of(&io::stdout())];
    let threads = kinds.iter().any(|kind| !matches!(kind, Ok(Kind::Pipe(_) | Kind::Socket(_))));
    let is_socket = kinds.iter().any(|kind| matches!(kind, Ok(Kind::Socket(_))));
    (threads, if is_socket { Sockets::Inherited } else { Sockets::None })
}

/// A reader with its descriptor.
trait Input: AsyncRead + AsFd + Send + Unpin {}

impl<R: AsyncRead + AsFd + Send + Unpin> Input for R {}

/// A writer with its descriptor.
trait Output: AsyncWrite + AsFd + Send + Unpin {}

impl<W: AsyncWrite + AsFd + Send + Unpin> Output for W {}

fn input(stdin: Kind) -> io::Result<Box<dyn Input>> {
    Ok(match stdin {
        Kind::Pipe(fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        Kind::Socket(fd) => Box::new(socket(fd)?),
        Kind::Other => Box::new(tokio::io::stdin()),
    })
}

fn output(stdout: Kind) -> io::Result<Box<dyn Output>> {
    Ok(match stdout {
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
