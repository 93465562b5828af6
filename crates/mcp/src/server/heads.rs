//! Checks the heads of the requests of a connection before hyper reads them.
//!
//! Two programs can read an ambiguous request differently: a proxy may take a part of it for another request, or for one to
//! another host. hyper accepts some ambiguous requests and hides the ambiguity: it drops `Content-Length` beside
//! `Transfer-Encoding`, and accepts lines that end with LF. [`Heads`] finds them in the bytes, which it does not change. The
//! start of the next head is certain: bodies have one length, and a request with a chunked body is the last one of its
//! connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What makes a request ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ambiguity {
    /// A line that does not end with CR LF, or CR elsewhere.
    LineEnd,
    /// A line that is not a field: it has no colon, a space before the colon, or a space at its beginning (a folded line).
    Field,
    /// Not exactly one `Host`.
    Host,
    /// More than one `Content-Length`, or one that is not a number.
    ContentLength,
    /// `Transfer-Encoding` other than one `chunked`, or beside `Content-Length`.
    TransferEncoding,
    /// The head is longer than the limit.
    TooLong,
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineEnd => "lines must end with CR LF",
            Self::Field => "invalid header field: expected `NAME: VALUE` on one line",
            Self::Host => "expected exactly one Host field",
            Self::ContentLength => "expected at most one Content-Length, a number",
            Self::TransferEncoding => {
                "expected at most one Transfer-Encoding, `chunked`, and no Content-Length beside it"
            }
            Self::TooLong => "the head is too long",
        })
    }
}

/// A stream that checks the heads in the bytes that are read from it.
pub(super) struct CheckedStream<S> {
    inner: S,
    heads: Heads,
    found: Arc<OnceLock<Ambiguity>>,
}

impl<S> CheckedStream<S> {
    /// Checks heads of at most `max` bytes. `found` is set when one is ambiguous, before its bytes are passed on.
    pub(super) fn new(inner: S, max: usize, found: Arc<OnceLock<Ambiguity>>) -> Self {
        Self { inner, heads: Heads::new(max), found }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if let Err(ambiguity) = self.heads.read(&buf.filled()[before..]) {
            let _ = self.found.set(ambiguity);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Reads the heads of the requests of a connection.
#[derive(Debug)]
pub(super) struct Heads {
    state: State,
    max: usize,
}

#[derive(Debug)]
enum State {
    /// The received part of a head, and the offset of its last line.
    Head { bytes: Vec<u8>, line: usize },
    /// A body, with the number of bytes that are left of it.
    Body(u64),
    /// The last request of the connection: nothing more is checked.
    Last,
}

impl State {
    fn head() -> Self {
        Self::Head { bytes: Vec::new(), line: 0 }
    }
}

impl Heads {
    /// Creates a reader of heads of at most `max` bytes.
    pub(super) fn new(max: usize) -> Self {
        Self { state: State::head(), max }
    }

    /// Reads the next bytes of the connection. Fails if they make a head ambiguous.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), Ambiguity> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Last => return Ok(()),
                State::Body(left) => {
                    let read = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[read..];
                    *left -= read as u64;
                    if *left == 0 {
                        self.state = State::head();
                    }
                }
                State::Head { bytes: head, line } => {
                    let read = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
                    let (part, rest) = bytes.split_at(read);
                    bytes = rest;
                    head.extend_from_slice(part);
                    match next(head, *line, self.max) {
                        Ok(Some(state)) => self.state = state,
                        Ok(None) if head.ends_with(b"\n") => *line = head.len(),
                        Ok(None) => {}
                        Err(ambiguity) => {
                            self.state = State::Last;
                            return Err(ambiguity);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The state after a head whose last line begins at `line`; `None` if the head is incomplete.
fn next(head: &[u8], line: usize, max: usize) -> Result<Option<State>, Ambiguity> {
    match &head[line..] {
        _ if head.len() > max => Err(Ambiguity::TooLong),
        // Before a request, empty lines are skipped.
        b"\r\n" if line == 0 => Ok(Some(State::head())),
        b"\r\n" => after(&head[..line]).map(Some),
        last if last.ends_with(b"\n") && !last.ends_with(b"\r\n") => Err(Ambiguity::LineEnd),
        _ => Ok(None),
    }
}

/// The state after a complete head, which is passed without its empty line.
fn after(head: &[u8]) -> Result<State, Ambiguity> {
    let mut lines = head.strip_suffix(b"\n").unwrap_or(head).split(|byte| *byte == b'\n');
    let mut lines = std::iter::from_fn(|| lines.next().map(|line| line.strip_suffix(b"\r").unwrap_or(line)));
    let is_plain = |line: &[u8]| !line.contains(&b'\r');
    if !lines.next().is_some_and(is_plain) {
        return Err(Ambiguity::LineEnd);
    }
    let (mut hosts, mut lengths, mut encodings) = (0, Vec::new(), Vec::new());
    for line in lines {
        if !is_plain(line) {
            return Err(Ambiguity::LineEnd);
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(Ambiguity::Field)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
            return Err(Ambiguity::Field);
        }
        match name.to_ascii_lowercase().as_slice() {
            b"host" => hosts += 1,
            b"content-length" => lengths.push(value),
            b"transfer-encoding" => encodings.push(value),
            _ => {}
        }
    }
    if hosts != 1 {
        return Err(Ambiguity::Host);
    }
    match (&*lengths, &*encodings) {
        ([], []) => Ok(State::head()),
        ([length], []) => match number(length).ok_or(Ambiguity::ContentLength)? {
            0 => Ok(State::head()),
            length => Ok(State::Body(length)),
        },
        ([], [encoding]) if encoding.eq_ignore_ascii_case(b"chunked") => Ok(State::Last),
        (_, []) => Err(Ambiguity::ContentLength),
        _ => Err(Ambiguity::TransferEncoding),
    }
}

/// A number in digits only.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1_000;

    /// Reads a request whole, and in pieces of every size.
    fn read(text: &str) -> Result<bool, Ambiguity> {
        let in_pieces = |size: usize| {
            let mut heads = Heads::new(MAX);
            let read = text.as_bytes().chunks(size).try_for_each(|piece| heads.read(piece));
            read.map(|()| matches!(heads.state, State::Last))
        };
        let whole = in_pieces(text.len());
        for size in 1..text.len() {
            assert_eq!(in_pieces(size), whole, "{text:?} in pieces of {size}");
        }
        whole
    }

    #[test]
    fn unambiguous_requests_are_accepted() {
        for (text, is_last) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
            ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:\t5 \r\n\r\nHost:POST / HTTP/1.1\r\nHost: a\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n\n\n\n", false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nHost: a\r\n\r\n1\r\nx\r\n0\r\n\r\nany", true),
            ("GET / HTTP/1.1\r\nHost:\r\nX: a: b\r\nX: ä\r\nX:\r\n\r\n", false),
        ] {
            assert_eq!(read(text), Ok(is_last), "{text:?}");
        }
    }

    #[test]
    fn ambiguous_requests_are_found_also_after_others() {
        let cases = [
            ("Host: a\r\nHost: a\r\n", Ambiguity::Host),
            ("X: a\r\n", Ambiguity::Host),
            ("Host: a\r\nHOST: b\r\n", Ambiguity::Host),
            ("Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length: 1\r\ncontent-length: 2\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length: 1, 1\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length: +1\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length: 0x1\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length:\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length: 99999999999999999999\r\n", Ambiguity::ContentLength),
            ("Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", Ambiguity::TransferEncoding),
            ("Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n", Ambiguity::TransferEncoding),
            ("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Ambiguity::TransferEncoding),
            ("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", Ambiguity::TransferEncoding),
            ("Host: a\r\nTransfer-Encoding: identity\r\n", Ambiguity::TransferEncoding),
            ("Host: a\r\nTransfer-Encoding: \u{b}chunked\r\n", Ambiguity::TransferEncoding),
            ("Host: a\r\nTransfer-Encoding : chunked\r\n", Ambiguity::Field),
            ("Host: a\r\n Content-Length: 1\r\n", Ambiguity::Field),
            ("Host: a\r\nX: a\r\n\tb\r\n", Ambiguity::Field),
            ("Host: a\r\nX: a\r\n b: c\r\n", Ambiguity::Field),
            ("Host: a\r\nX\r\n", Ambiguity::Field),
            ("Host: a\r\n: a\r\n", Ambiguity::Field),
            ("Host: a\r\nX: a\nContent-Length: 1\r\n", Ambiguity::LineEnd),
            ("Host: a\r\nX: a\rContent-Length: 1\r\n", Ambiguity::LineEnd),
            ("Host: a\r\nX: a\r\r\n", Ambiguity::LineEnd),
            ("Host: a\n", Ambiguity::LineEnd),
        ];
        for (fields, expected) in cases {
            let request = format!("POST / HTTP/1.1\r\n{fields}\r\n");
            assert_eq!(read(&request), Err(expected), "{request:?}");
            let later = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\r\n{request}");
            assert_eq!(read(&later), Err(expected), "{later:?}");
        }
        assert_eq!(read("GET / HTTP/1.1\nHost: a\n\n"), Err(Ambiguity::LineEnd));
        assert_eq!(read("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"), Err(Ambiguity::LineEnd));
        assert_eq!(read(&format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX))), Err(Ambiguity::TooLong));
    }
}
