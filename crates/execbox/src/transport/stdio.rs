//! Standard input and output of this process, as the transport of a runner.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;

use tokio::io::{AsyncRead, AsyncWrite};

use super::pipe::{PipeReader, PipeWriter};
use super::{StreamTransport, Transport};

/// Returns a transport over standard input and output, one message per line. Nothing else may write to standard output.
///
/// Pipes and sockets use non-blocking I/O; files and terminals use a blocking thread. Needs a tokio runtime with I/O
/// enabled.
pub fn stdio() -> io::Result<Box<dyn Transport>> {
    Ok(match (pipe(&io::stdin())?, pipe(&io::stdout())?) {
        (Some(stdin), Some(stdout)) => {
            Box::new(StreamTransport::over_pipes(PipeReader::new(stdin)?, PipeWriter::new(stdout)?))
        }
        (stdin, stdout) => Box::new(StreamTransport::new(reader(stdin)?, writer(stdout)?)),
    })
}

/// Whether a transport over standard input and output needs threads in a [jail](execbox_jail).
pub(crate) fn needs_threads() -> bool {
    let pipes = [pipe(&io::stdin()), pipe(&io::stdout())];
    pipes.iter().any(|pipe| !matches!(pipe, Ok(Some(_))))
}

fn reader(stdin: Option<OwnedFd>) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    Ok(match stdin {
        Some(pipe) => Box::new(PipeReader::new(pipe)?),
        None => Box::new(tokio::io::stdin()),
    })
}

fn writer(stdout: Option<OwnedFd>) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    Ok(match stdout {
        Some(pipe) => Box::new(PipeWriter::new(pipe)?),
        None => Box::new(tokio::io::stdout()),
    })
}

/// Another descriptor of a stream that is a pipe or a socket; `None` for files and terminals.
fn pipe(stream: &impl AsFd) -> io::Result<Option<OwnedFd>> {
    let fd = stream.as_fd().try_clone_to_owned()?;
    if fd.is_terminal() {
        return Ok(None);
    }
    let file = File::from(fd);
    let kind = file.metadata()?.file_type();
    Ok((kind.is_fifo() || kind.is_socket()).then(|| file.into()))
}
