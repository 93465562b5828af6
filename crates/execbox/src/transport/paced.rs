//! A stream that its peer cannot keep busy: what a WebSocket is read from.
//!
//! The WebSocket codec reads until it has a message, and a peer can send any number of frames without one. It also reads
//! request headers of any length up to its own limit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wake_after_others;

/// How many bytes are read before other tasks of the thread run.
const MAX_BYTES_AT_ONCE: usize = 64 << 10;

/// The most bytes of a host's handshake.
pub(super) const MAX_HANDSHAKE_BYTES: usize = 4 << 10;

/// A stream that yields after every 64 KiB, and fails if its handshake is too long.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    /// How many bytes may be read before the stream yields.
    left: usize,
    /// The most bytes of the handshake, until it is over.
    handshake: Option<usize>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, max_handshake: usize) -> Self {
        Self { stream, left: max_handshake, handshake: Some(max_handshake) }
    }

    /// Ends the handshake.
    pub(super) fn established(&mut self) {
        self.handshake = None;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            if let Some(max) = self.handshake {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, TooLong(max))));
            }
            self.left = MAX_BYTES_AT_ONCE;
            wake_after_others(cx);
            return Poll::Pending;
        }
        let len = self.left.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(len));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        self.left -= count;
        Poll::Ready(Ok(()))
    }
}

/// A handshake is longer than this many bytes.
#[derive(Debug, thiserror::Error)]
#[error("a handshake is longer than {0} bytes")]
pub(super) struct TooLong(pub(super) usize);

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
