//! Lines to and from a runner. Nothing is dropped: invalid lines are received as such, and lines that arrive during other steps
//! are queued.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use execbox_core::protocol::LineDecoder;
use memchr::memchr;
use serde_json::{Map, Value as Json};
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use super::peer::{Peer, Stderr};

/// The maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;

/// The number of bytes that are read at once.
const READ_CHUNK: usize = 64 << 10;

#[derive(Debug)]
pub(crate) enum Inbound {
    Message(Map<String, Json>),
    /// A line that is not a JSON object: the error and the text of the line.
    InvalidFrame(String, String),
    /// The end of the stream.
    End,
}

/// Both directions of a connection.
pub(crate) struct Lines {
    peer: Peer,
    /// Whether the sending direction is open.
    is_open: bool,
    /// Whether to read during other steps.
    pub(crate) is_reading: bool,
    has_ended: bool,
    chunk: Box<[u8]>,
    unfinished: Vec<u8>,
    decoder: LineDecoder,
    inbox: VecDeque<Inbound>,
}

impl Lines {
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            is_open: true,
            is_reading: true,
            has_ended: false,
            chunk: vec![0; READ_CHUNK].into(),
            unfinished: Vec::new(),
            decoder: LineDecoder::new(MAX_LINE_BYTES),
            inbox: VecDeque::new(),
        }
    }

    pub(crate) fn stderr(&self) -> &Stderr {
        &self.peer.stderr
    }

    /// Sends bytes and reads meanwhile. Returns `false` if the runner does not read them in time. A closed connection is not an
    /// error here; the next expected message will be missing.
    pub(crate) async fn send(&mut self, bytes: &[u8], within: Duration) -> bool {
        let mut sent = 0;
        let sending = poll_fn(|cx| {
            while self.is_reading && self.poll_read(cx).is_ready() {}
            self.poll_send(bytes, &mut sent, cx)
        });
        match timeout(within, sending).await {
            Ok(Ok(())) => true,
            Ok(Err(_)) => {
                self.is_open = false;
                true
            }
            Err(_) => false,
        }
    }

    fn poll_send(&mut self, bytes: &[u8], sent: &mut usize, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.is_open && *sent < bytes.len() {
            match ready!(Pin::new(&mut self.peer.writer).poll_write(cx, &bytes[*sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *sent += count,
            }
        }
        if self.is_open { Pin::new(&mut self.peer.writer).poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Closes the sending direction.
    pub(crate) async fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = self.peer.writer.shutdown().await; // The runner may have closed it.
            self.peer.writer = Box::new(tokio::io::sink()); // Dropping a pipe closes it.
        }
    }

    /// Receives the next message; `None` after `within`.
    pub(crate) async fn receive(&mut self, within: Duration) -> Option<Inbound> {
        let receiving = poll_fn(|cx| {
            loop {
                if let Some(inbound) = self.inbox.pop_front() {
                    return Poll::Ready(inbound);
                }
                if self.has_ended {
                    return Poll::Ready(Inbound::End);
                }
                ready!(self.poll_read(cx));
            }
        });
        timeout(within, receiving).await.ok()
    }

    /// Queues a message again, as the next.
    pub(crate) fn put_back(&mut self, inbound: Inbound) {
        if !matches!(inbound, Inbound::End) {
            self.inbox.push_front(inbound);
        }
    }

    /// Waits and reads meanwhile.
    pub(crate) async fn wait(&mut self, time: Duration) {
        let reading = poll_fn(|cx| {
            while self.is_reading && self.poll_read(cx).is_ready() {}
            Poll::<()>::Pending
        });
        let _ = timeout(time, reading).await;
    }

    /// Reads a chunk; pending if there is none, also after the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_ended {
            return Poll::Pending;
        }
        let mut buffer = ReadBuf::new(&mut self.chunk);
        let read = ready!(Pin::new(&mut self.peer.reader).poll_read(cx, &mut buffer));
        let count = if read.is_ok() { buffer.filled().len() } else { 0 };
        self.take(count);
        Poll::Ready(())
    }

    /// Splits the chunk into lines; an empty chunk is the end of the stream.
    fn take(&mut self, count: usize) {
        let mut bytes = &self.chunk[..count];
        while let Some(end) = memchr(b'\n', bytes) {
            self.unfinished.extend(&bytes[..=end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.unfinished);
            self.decoder.push(&line);
            self.inbox.extend(self.decoder.next().map(|decoded| inbound(decoded, &line)));
        }
        self.unfinished.extend(bytes);
        let is_too_long = self.unfinished.len() > MAX_LINE_BYTES;
        if count == 0 || is_too_long {
            self.has_ended = true;
            let fault = if is_too_long { "the line is too long" } else { "the last line has no line feed" };
            let rest = std::mem::take(&mut self.unfinished);
            if !rest.is_empty() {
                self.inbox
                    .push_back(Inbound::InvalidFrame(fault.to_owned(), String::from_utf8_lossy(&rest).into_owned()));
            }
        }
    }
}

fn inbound<E: ToString>(decoded: Result<Map<String, Json>, E>, line: &[u8]) -> Inbound {
    match decoded {
        Ok(message) => Inbound::Message(message),
        Err(error) => Inbound::InvalidFrame(error.to_string(), String::from_utf8_lossy(line).trim_end().to_owned()),
    }
}
