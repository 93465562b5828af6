//! Pipes that are read and written directly, and registered with the runtime only while a task sleeps until they are ready.
//!
//! Registering takes system calls. Worse, a runtime of several threads has one of them wait for all that is registered: each
//! message that another thread busy-waits for would wake it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use super::NOOP_WAKER;

/// The end of a pipe that is read, or a socket. Polling it with [`NOOP_WAKER`] does not register it.
pub(super) type PipeReader = Pipe<pipe::Receiver>;

/// The end of a pipe that is written, or a socket. Polling it with [`NOOP_WAKER`] does not register it.
pub(super) type PipeWriter = Pipe<pipe::Sender>;

/// An end of a pipe, or a socket, that does not block.
#[derive(Debug)]
pub(super) enum Pipe<R> {
    Unregistered(OwnedFd),
    Registered(R),
    /// A pipe that the runtime could not register or deregister.
    Lost,
}

/// A pipe that is registered with the runtime.
pub(super) trait Registered: AsFd + Sized {
    fn register(fd: OwnedFd) -> io::Result<Self>;
    fn deregister(self) -> io::Result<OwnedFd>;
}

impl Registered for pipe::Receiver {
    fn register(fd: OwnedFd) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(fd)
    }

    fn deregister(self) -> io::Result<OwnedFd> {
        self.into_nonblocking_fd()
    }
}

impl Registered for pipe::Sender {
    fn register(fd: OwnedFd) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(fd)
    }

    fn deregister(self) -> io::Result<OwnedFd> {
        self.into_nonblocking_fd()
    }
}

impl<R: Registered> Pipe<R> {
    /// Makes the pipe non-blocking.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
        fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self::Unregistered(fd))
    }

    pub(super) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Unregistered(fd) => Ok(fd.as_fd()),
            Self::Registered(pipe) => Ok(pipe.as_fd()),
            Self::Lost => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn register(&mut self) -> io::Result<&mut R> {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Unregistered(fd) => Self::Registered(R::register(fd)?),
            other => other,
        };
        match self {
            Self::Registered(pipe) => Ok(pipe),
            Self::Unregistered(_) | Self::Lost => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Detaches the pipe from the runtime, until a task sleeps again.
    pub(super) fn deregister(&mut self) {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Registered(pipe) => pipe.deregister().map_or(Self::Lost, Self::Unregistered),
            other => other,
        };
    }

    /// The pipe, for another runtime; `None` if it is lost.
    pub(super) fn into_unregistered(mut self) -> Option<Self> {
        self.deregister();
        matches!(self, Self::Unregistered(_)).then_some(self)
    }

    /// Reads or writes. Pending if that would block.
    fn transfer(&self, act: impl FnOnce(BorrowedFd<'_>) -> nix::Result<usize>) -> Poll<io::Result<usize>> {
        match act(self.fd()?) {
            Err(Errno::EAGAIN | Errno::EINTR) => Poll::Pending,
            result => Poll::Ready(result.map_err(io::Error::from)),
        }
    }
}

fn is_awake(cx: &Context<'_>) -> bool {
    cx.waker().will_wake(NOOP_WAKER)
}

impl AsyncRead for PipeReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let unfilled = buffer.initialize_unfilled();
        match self.transfer(|fd| nix::unistd::read(fd, unfilled)) {
            Poll::Ready(count) => Poll::Ready(count.map(|count| buffer.advance(count))),
            Poll::Pending if is_awake(cx) => Poll::Pending,
            Poll::Pending => Pin::new(self.register()?).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for PipeWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.transfer(|fd| nix::unistd::write(fd, bytes)) {
            Poll::Pending if is_awake(cx) => Poll::Pending,
            Poll::Pending => Pin::new(self.register()?).poll_write(cx, bytes),
            written @ Poll::Ready(_) => written,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pipe() -> (PipeReader, PipeWriter) {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
        (Pipe::new(reader).unwrap(), Pipe::new(writer).unwrap())
    }

    fn poll_awake(reader: &mut PipeReader) -> Poll<usize> {
        let mut bytes = [0; 8];
        let mut buffer = ReadBuf::new(&mut bytes);
        let polled = Pin::new(reader).poll_read(&mut Context::from_waker(NOOP_WAKER), &mut buffer);
        polled.map(|result| result.map(|()| buffer.filled().len()).unwrap())
    }

    /// The test has no runtime that a pipe could be registered with.
    #[test]
    fn pipes_are_not_registered_while_a_thread_stays_awake() {
        let (mut reader, mut writer) = pipe();
        assert_eq!(poll_awake(&mut reader), Poll::Pending);
        let mut write =
            |bytes| Pin::new(&mut writer).poll_write(&mut Context::from_waker(NOOP_WAKER), bytes).map(Result::unwrap);
        assert_eq!(write(b"here"), Poll::Ready(4));
        while write(&[0; 4096]).is_ready() {}
        assert_eq!(poll_awake(&mut reader), Poll::Ready(8));
        assert!(matches!((reader, writer), (Pipe::Unregistered(_), Pipe::Unregistered(_))));
    }

    #[test]
    fn pipes_wake_what_sleeps_in_one_runtime_after_another() {
        let (mut reader, mut writer) = pipe();
        let long = vec![7; 1 << 20];
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            let mut read = vec![0; long.len()];
            let (sent, received) = runtime.block_on(async {
                tokio::join!(writer.write_all(&long), reader.read_exact(&mut read)) // longer than the buffer of the pipe
            });
            sent.unwrap();
            assert_eq!((received.unwrap(), &read), (long.len(), &long));
            assert!(matches!((&reader, &writer), (Pipe::Registered(_), Pipe::Registered(_))));
            (reader, writer) = (reader.into_unregistered().unwrap(), writer.into_unregistered().unwrap());
        }
        drop(writer);
        assert_eq!(poll_awake(&mut reader), Poll::Ready(0), "the end");
    }
}
