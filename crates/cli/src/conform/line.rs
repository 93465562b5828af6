//! Lines to a runner and from it, with nothing lost and nothing hidden: bytes that are no message are
//! heard as such.
//!
//! What is heard while something else is done waits here. What should be heard is for
//! [`play`](super::play).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use execbox::core::protocol::line::LineDecoder;
use serde_json::{Map, Value as Json};
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use super::peer::{Peer, Stderr};

/// The longest line that is read.
const MAX_LINE_BYTES: usize = 64 << 20;

/// How much is read at once.
const READ_CHUNK: usize = 64 << 10;

/// Something that a runner did.
#[derive(Debug)]
pub(crate) enum Heard {
    Message(Map<String, Json>),
    /// A line that is no JSON object: why, and its text.
    Garbage(String, String),
    /// It says no more.
    End,
}

/// Both directions of a connection.
pub(crate) struct Lines {
    peer: Peer,
    /// Whether the runner can still be spoken to.
    is_open: bool,
    /// Whether bytes are taken in while other things are done.
    pub(crate) is_reading: bool,
    has_ended: bool,
    chunk: Box<[u8]>,
    unfinished: Vec<u8>,
    decoder: LineDecoder,
    inbox: VecDeque<Heard>,
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

    /// Sends bytes, and reads meanwhile. A runner that has gone away is no error: what was expected of it
    /// will be missed. `false` if it has not read them in time.
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

    /// Ends what is said to the runner.
    pub(crate) async fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = self.peer.writer.shutdown().await; // It may have gone away.
            self.peer.writer = Box::new(tokio::io::sink()); // A pipe is closed by being dropped.
        }
    }

    /// The next thing that the runner does; `None` if it does nothing for that long.
    pub(crate) async fn hear(&mut self, within: Duration) -> Option<Heard> {
        let hearing = poll_fn(|cx| {
            loop {
                if let Some(heard) = self.inbox.pop_front() {
                    return Poll::Ready(heard);
                }
                if self.has_ended {
                    return Poll::Ready(Heard::End);
                }
                ready!(self.poll_read(cx));
            }
        });
        timeout(within, hearing).await.ok()
    }

    /// Puts back what was heard, to be heard again.
    pub(crate) fn unhear(&mut self, heard: Heard) {
        if !matches!(heard, Heard::End) {
            self.inbox.push_front(heard);
        }
    }

    /// Lets time pass, and takes in what comes.
    pub(crate) async fn wait(&mut self, time: Duration) {
        let reading = poll_fn(|cx| {
            while self.is_reading && self.poll_read(cx).is_ready() {}
            Poll::<()>::Pending
        });
        let _ = timeout(time, reading).await;
    }

    /// Takes in a piece of what the runner writes; pending when there is none, or will never be one.
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

    /// Takes lines out of what is in the chunk; nothing in it is the end.
    fn take(&mut self, count: usize) {
        let mut bytes = &self.chunk[..count];
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.unfinished.extend(&bytes[..=end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.unfinished);
            self.decoder.push(&line);
            self.inbox.extend(self.decoder.next().map(|decoded| heard(decoded, &line)));
        }
        self.unfinished.extend(bytes);
        let is_too_long = self.unfinished.len() > MAX_LINE_BYTES;
        if count == 0 || is_too_long {
            self.has_ended = true;
            let fault = if is_too_long { "a line that does not end" } else { "a line without its end" };
            let rest = std::mem::take(&mut self.unfinished);
            if !rest.is_empty() {
                self.inbox.push_back(Heard::Garbage(fault.to_owned(), String::from_utf8_lossy(&rest).into_owned()));
            }
        }
    }
}

fn heard<E: ToString>(decoded: Result<Map<String, Json>, E>, line: &[u8]) -> Heard {
    match decoded {
        Ok(message) => Heard::Message(message),
        Err(error) => Heard::Garbage(error.to_string(), String::from_utf8_lossy(line).trim_end().to_owned()),
    }
}
