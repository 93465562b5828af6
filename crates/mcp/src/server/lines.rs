//! MCP over a pair of byte streams, one message per line, as on standard input and output.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::text::bytes_text;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use super::reading::{self, Answer, Unreadable};
use crate::scanner::Scanner;

/// The transport for a [`CodeServer`](super::CodeServer) that serves one client over a pair of byte streams, such as standard
/// input and output, with one message per line. Use it in a tokio runtime.
///
/// In contrast to rmcp's transport, it answers requests that cannot be read, reads escapes of lone surrogates as U+FFFD, and
/// stops reading while the client does not read its answers. A line has at most 16 MiB; the rest of a longer one is discarded.
/// Before the handshake, notifications are ignored.
pub struct LineTransport<R, W> {
    lines: Lines<R>,
    writer: Writer<W>,
    /// The write of the answer to the last line, if that could not be read.
    answering: Option<JoinHandle<io::Result<()>>>,
    /// Whether the request was received with which the handshake ends.
    has_begun: bool,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Creates a transport that reads messages from `reader` and writes messages to `writer`.
    pub fn new(reader: R, writer: W) -> Self {
        Self { lines: Lines::new(reader), writer: Writer::new(writer), answering: None, has_begun: false }
    }

    /// The next message; `None` at the end of the input, or if nothing can be written. Cancel safe.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.wait_for_room().await.ok()?;
            let line = self.lines.next().await.ok()??;
            match message(line) {
                Ok(message) if self.admits(&message) => return Some(message),
                Err(Unreadable::Request(answer)) => self.answering = Some(tokio::spawn(self.writer.write(answer))),
                // The request of the server fails, instead of waiting for a response that was already received.
                Err(Unreadable::Response(answer)) if self.has_begun && answer.id.is_some() => {
                    return Some(JsonRpcMessage::error(answer.error, answer.id));
                }
                Ok(_) | Err(Unreadable::Notification(_) | Unreadable::Response(_)) => {}
            }
        }
    }

    /// Waits until the client has read enough of the answers to earlier lines.
    async fn wait_for_room(&mut self) -> io::Result<()> {
        if let Some(answering) = &mut self.answering {
            let written = answering.await;
            self.answering = None;
            written??;
        }
        self.writer.wait_for_room().await;
        Ok(())
    }

    /// Whether the server accepts the message now: rmcp ends when it receives anything but a request before the handshake.
    fn admits(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => self.has_begun |= ends_handshake(&request.request),
            _ if !self.has_begun => return false,
            _ => {}
        }
        true
    }
}

/// The message in a line. A request of an unknown method is answered here because rmcp would, before the handshake, complain
/// about something else.
fn message(line: Line) -> Result<ClientJsonRpcMessage, Unreadable> {
    let message = match line {
        Line::Text(text) => reading::read(&text)?.message,
        Line::Excess(unreadable) => return Err(unreadable),
    };
    match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CustomRequest(custom) => {
                let error = reading::unknown_method(&custom.method);
                Err(Unreadable::Request(Box::new(Answer::new(Some(request.id), error))))
            }
            _ => Ok(JsonRpcMessage::Request(request)),
        },
        message => Ok(message),
    }
}

/// Whether rmcp ends its handshake with the request: with `initialize`, or with the first request that states its protocol.
fn ends_handshake(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let is_known = |version| ProtocolVersion::KNOWN_VERSIONS.contains(&version);
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(is_known)
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.writer.write(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await;
        Ok(())
    }
}

impl<R, W> std::fmt::Debug for LineTransport<R, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineTransport").field("has_begun", &self.has_begun).finish_non_exhaustive()
    }
}

/// Writes messages one after another.
struct Writer<W> {
    /// `None` when closed.
    inner: Arc<Mutex<Option<W>>>,
    /// The number of messages that are not written yet.
    unwritten: watch::Sender<usize>,
}

/// A message that is not written yet.
struct Unwritten(watch::Sender<usize>);

impl Unwritten {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Writer<W> {
    fn new(writer: W) -> Self {
        Self { inner: Arc::new(Mutex::new(Some(writer))), unwritten: watch::Sender::new(0) }
    }

    /// Writes a message after those for which this was called before.
    fn write<M: Serialize + Send + 'static>(
        &self,
        message: M,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static + use<M, W> {
        let (inner, unwritten) = (Arc::clone(&self.inner), Unwritten::new(&self.unwritten));
        async move {
            let mut inner = inner.lock().await;
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let written = match inner.as_mut() {
                Some(writer) => write(writer, &line).await,
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            if written.is_err() {
                *inner = None; // A further message would continue a line that is not complete.
            }
            drop(unwritten);
            written
        }
    }

    async fn wait_for_room(&self) {
        // Cannot fail: this is a sender.
        let _ = self.unwritten.subscribe().wait_for(|count| *count < MAX_UNWRITTEN).await;
    }

    /// Closes the stream, after a short time also if the client does not read.
    async fn close(&self) {
        let closed = async { drop(self.inner.lock().await.take()) };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
    }
}

async fn write(writer: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    writer.write_all(line).await?;
    writer.flush().await
}

/// A stream of lines, of which none is kept beyond the limits.
struct Lines<R> {
    inner: R,
    chunk: Box<[u8]>,
    /// The part of `chunk` that is not read yet.
    unread: Range<usize>,
    /// The current line so far.
    line: Vec<u8>,
    /// Set when the current line is longer than [`MAX_LINE`]: it is scanned, and not kept.
    scanner: Option<Scanner>,
}

/// A line that is not blank.
enum Line {
    Text(Vec<u8>),
    /// A line beyond a limit.
    Excess(Unreadable),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(inner: R) -> Self {
        Self { inner, chunk: vec![0; CHUNK].into(), unread: 0..0, line: Vec::new(), scanner: None }
    }

    /// The next line that is not blank; `None` at the end. The last line needs no line feed. Cancel safe.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            while !self.unread.is_empty() {
                if self.take()
                    && let Some(line) = self.end_line()
                {
                    return Ok(Some(line));
                }
            }
            let read = self.inner.read(&mut self.chunk).await?;
            self.unread = 0..read;
            if read == 0 {
                return Ok(self.end_line());
            }
        }
    }

    /// Takes bytes up to the end of the line or of the chunk. Returns whether the line is complete.
    fn take(&mut self) -> bool {
        let unread = &self.chunk[self.unread.clone()];
        let end = unread.iter().position(|&byte| byte == b'\n');
        let part = &unread[..end.unwrap_or(unread.len())];
        self.unread.start += part.len() + usize::from(end.is_some());
        if self.scanner.is_none() && part.len() > MAX_LINE - self.line.len() {
            self.scanner = Some(Scanner::of(&std::mem::take(&mut self.line)));
        }
        match &mut self.scanner {
            Some(scanner) => scanner.scan(part),
            None => self.line.extend_from_slice(part),
        }
        end.is_some()
    }

    /// Ends the current line. `None` if it is blank.
    fn end_line(&mut self) -> Option<Line> {
        let line = std::mem::take(&mut self.line);
        if let Some(scanner) = self.scanner.take() {
            let reason = format!("longer than {}", bytes_text(MAX_LINE as u64));
            return Some(Line::Excess(unreadable(&scanner, &reason)));
        }
        if line.strip_prefix(reading::BYTE_ORDER_MARK).unwrap_or(&line).trim_ascii().is_empty() {
            return None;
        }
        let scanner = Scanner::of(&line);
        if reading::memory(&scanner) > MAX_MEMORY {
            let reason = format!("so many values that it takes more than {}", bytes_text(MAX_MEMORY as u64));
            return Some(Line::Excess(unreadable(&scanner, &reason)));
        }
        Some(Line::Text(line))
    }
}

/// The answer to a message of which only this much is known.
fn unreadable(scanner: &Scanner, reason: &str) -> Unreadable {
    Unreadable::invalid(scanner.is_response(), scanner.id().cloned(), reason)
}

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 16 << 20;

/// The maximum memory of a message while it is read, in bytes.
const MAX_MEMORY: usize = 128 << 20;

/// The number of messages that are not written yet with which no further line is read.
const MAX_UNWRITTEN: usize = 64;

/// How long a client may take to read the last message when the connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The size of a read, in bytes.
const CHUNK: usize = 8 << 10;
