//! Messages over a byte stream, one per line. An attachment is a line `*LENGTH` followed by that many bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use execbox_core::protocol::line::{Frame, LineDecoder, LineError, StreamEnd};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};

use super::{MAX_MESSAGE_BYTES, Received, Transport};

/// The most bytes per read.
const READ_CHUNK: usize = 64 << 10;

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
}

impl<R, W> StreamTransport<R, W> {
    /// Creates a transport over `reader` and `writer`. Wrap types that are not `Unpin` in `Box::pin`.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer,
            lines: LineDecoder::new(MAX_MESSAGE_BYTES),
            chunk: Vec::with_capacity(READ_CHUNK),
            out: Vec::new(),
            written: 0,
        }
    }

    /// Returns the reader and the writer if no message is buffered in either direction.
    pub fn into_idle_parts(self) -> Option<(R, W)> {
        (self.out.is_empty() && self.lines.is_empty()).then_some((self.reader, self.writer))
    }
}

impl<S: AsyncRead + AsyncWrite> StreamTransport<ReadHalf<S>, WriteHalf<S>> {
    /// Creates a transport over one bidirectional stream.
    pub fn over(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self::new(reader, writer)
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
            self.out.extend_from_slice(&message);
        }
        self.out.push(b'\n');
        Ok(())
    }

    fn attach(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.out.extend_from_slice(format!("*{}\n", bytes.len()).as_bytes());
        self.out.extend_from_slice(&bytes);
        Ok(())
    }

    fn attaches(&self) -> bool {
        true
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            match ready!(Pin::new(&mut self.writer).poll_write(cx, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.out.clear();
        self.written = 0;
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        loop {
            match self.lines.next_frame() {
                Some(Ok(Frame::Line(line))) => return Poll::Ready(Ok(Received::Message(line))),
                Some(Ok(Frame::Attachment(bytes))) => return Poll::Ready(Ok(Received::Attachment(bytes))),
                Some(Err(LineError::Oversized(cap))) => return Poll::Ready(Ok(Received::TooLong(cap))),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error))),
                None => {}
            }
            let mut buffer = ReadBuf::uninit(self.chunk.spare_capacity_mut());
            ready!(Pin::new(&mut self.reader).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(match self.lines.end() {
                    StreamEnd::Clean => Ok(Received::End),
                    StreamEnd::CutOff => Err(io::ErrorKind::UnexpectedEof.into()),
                });
            }
            self.lines.push(buffer.filled());
        }
    }
}
