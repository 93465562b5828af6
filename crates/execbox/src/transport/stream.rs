//! Messages over a byte stream, one per line. An attachment is a line `*LENGTH` followed by that many bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use execbox_core::budget::Budget;
use execbox_core::protocol::{Frame, LineDecoder, LineError, StreamEnd};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};

use super::pipe::{PipeReader, PipeWriter};
use super::{MAX_MESSAGE_BYTES, NOOP_WAKER, Received, TokenRejection, Transport, wake_after_others};

/// The most bytes per read.
const READ_CHUNK: usize = 64 << 10;

/// The most reads that may pass without a message before other tasks of the thread run.
const MAX_READS: usize = 16;

/// The largest buffer of sent messages that is kept for the next ones, in bytes.
const MAX_KEPT_BUFFER: usize = 64 << 10;

/// The first bytes with which TLS answers what is not TLS: an alert, of a version 3.x.
const TLS_ALERT: &[u8] = &[21, 3];

/// A host has connected without TLS to a runner that requires it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the runner uses TLS; use an address of tls: or wss://")]
pub(crate) struct RunnerUsesTls;

/// A [`Transport`] over the two directions of a byte stream.
#[derive(Debug)]
pub struct StreamTransport<R, W> {
    reader: R,
    writer: W,
    lines: LineDecoder,
    chunk: Vec<u8>,
    /// The queued lines, and how many of their bytes are written.
    out: Vec<u8>,
    written: usize,
    /// The error of a first line that is a rejection. `None` after the first line, and for other peers than runners.
    rejection: Option<TokenRejection>,
    /// Deregisters the reader, if it can be read without a registration.
    deregister: Option<fn(&mut R)>,
}

impl<R, W> StreamTransport<R, W> {
    /// Creates a transport over `reader` and `writer`. Wrap types that are not `Unpin` in `Box::pin`.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer,
            lines: LineDecoder::new(MAX_MESSAGE_BYTES),
            chunk: Vec::new(),
            out: Vec::new(),
            written: 0,
            rejection: None,
            deregister: None,
        }
    }

    /// Charges messages and attachments that are not received completely to `budget`. One that the budget does not cover breaks
    /// the transport.
    #[must_use]
    pub fn charged_to(mut self, budget: &Budget) -> Self {
        self.lines.charge_to(budget);
        self
    }

    /// Fails with `rejection` if the first line tells of a rejected token.
    pub(super) fn rejected_with(self, rejection: TokenRejection) -> Self {
        Self { rejection: Some(rejection), ..self }
    }

    /// Receives these bytes before those of the stream.
    pub(super) fn preceded_by(mut self, bytes: &[u8]) -> Self {
        self.lines.push(bytes);
        self
    }

    /// Queues bytes. The space of bytes that are written is used again.
    fn queue(&mut self, bytes: &[u8]) {
        if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.out.extend_from_slice(bytes);
    }

    /// Returns the reader and the writer if no message is buffered in either direction.
    pub fn into_idle_parts(self) -> Option<(R, W)> {
        (self.out.is_empty() && self.lines.is_empty()).then_some((self.reader, self.writer))
    }
}

impl StreamTransport<PipeReader, PipeWriter> {
    pub(super) fn over_pipes(reader: PipeReader, writer: PipeWriter) -> Self {
        Self { deregister: Some(PipeReader::deregister), ..Self::new(reader, writer) }
    }
}

impl<S: AsyncRead + AsyncWrite> StreamTransport<ReadHalf<S>, WriteHalf<S>> {
    /// Creates a transport over one bidirectional stream.
    pub fn over(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self::new(reader, writer)
    }
}

impl<R: AsyncRead + Unpin, W> StreamTransport<R, W> {
    /// Reads some bytes into `lines`. Returns how many; none at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.chunk.is_empty() {
            self.chunk = vec![0; READ_CHUNK];
        }
        let mut buffer = ReadBuf::new(&mut self.chunk);
        ready!(Pin::new(&mut self.reader).poll_read(cx, &mut buffer))?;
        if self.rejection.is_some() && buffer.filled().starts_with(TLS_ALERT) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, RunnerUsesTls)));
        }
        self.lines.push(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl<R, W> Transport for StreamTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        if self.out.is_empty() {
            self.out = message;
        } else {
            self.queue(&message);
        }
        self.out.push(b'\n');
        Ok(())
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.queue(format!("*{}\n", bytes.len()).as_bytes());
        self.queue(&bytes);
        Ok(())
    }

    fn can_attach(&self) -> bool {
        true
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            match ready!(Pin::new(&mut self.writer).poll_write(cx, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        if self.out.capacity() > MAX_KEPT_BUFFER {
            self.out = Vec::new();
        }
        self.out.clear();
        self.written = 0;
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        for _ in 0..MAX_READS {
            match self.lines.next_frame() {
                Some(Ok(Frame::Line(line))) => {
                    let rejection = self.rejection.take().filter(|_| TokenRejection::is_line(&line));
                    let received = rejection.map_or(Ok(Received::Message(line)), |rejection| Err(rejection.into()));
                    return Poll::Ready(received);
                }
                Some(Ok(Frame::Attachment(bytes))) => return Poll::Ready(Ok(Received::Attachment(bytes))),
                Some(Err(LineError::Oversized(cap))) => return Poll::Ready(Ok(Received::TooLong(cap))),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error))),
                None => {}
            }
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(match self.lines.end() {
                    StreamEnd::Clean => Ok(Received::End),
                    StreamEnd::CutOff => Err(io::ErrorKind::UnexpectedEof.into()),
                });
            }
        }
        wake_after_others(cx);
        Poll::Pending
    }

    fn charge_to(&mut self, budget: &Budget) {
        self.lines.charge_to(budget);
    }

    fn receive_now(&mut self) -> Option<bool> {
        self.deregister?(&mut self.reader);
        let read = self.poll_read(&mut Context::from_waker(NOOP_WAKER));
        Some(matches!(read, Poll::Ready(Ok(1..))))
    }
}
