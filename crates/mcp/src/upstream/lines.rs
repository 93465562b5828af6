//! Lines of limited length from an untrusted peer.
//!
//! The rest of a line that is too long is discarded as it arrives. If the line is a response, an error response with the
//! same id is inserted after it, so that the request fails at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::model::RequestId;
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};

/// A stream in which no line is longer than `max` bytes.
pub(super) struct CappedLines<R> {
    inner: R,
    max: usize,
    /// The length of the current line so far, including what was discarded.
    length: usize,
    scanner: IdScanner,
    /// Bytes to be read next, from `at`.
    ready: Vec<u8>,
    at: usize,
}

impl<R> CappedLines<R> {
    pub(super) fn new(inner: R, max: usize) -> Self {
        Self { inner, max, length: 0, scanner: IdScanner::default(), ready: Vec::new(), at: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = self.max.saturating_sub(self.length);
            self.length = self.length.saturating_add(part.len());
            for &byte in part {
                self.scanner.next(byte);
            }
            self.ready.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if self.length > self.max {
            // The incomplete line is not valid JSON and is ignored by the reader.
            self.ready.push(b'\n');
            if let Some(id) = self.scanner.response_id() {
                let message = format!("response longer than {} bytes", self.max);
                let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": message } });
                self.ready.extend(error.to_string().into_bytes());
                self.ready.push(b'\n');
            }
        }
        (self.length, self.scanner) = (0, IdScanner::default());
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CappedLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.at == this.ready.len() {
            this.ready.clear();
            this.at = 0;
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.take(chunk.filled());
        }
        let next = &this.ready[this.at..];
        let next = &next[..next.len().min(buf.remaining())];
        buf.put_slice(next);
        this.at += next.len();
        Poll::Ready(Ok(()))
    }
}

/// Finds the member `id` of an object byte by byte, without storing the object.
#[derive(Default)]
struct IdScanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    is_request: bool,
    /// The current member of the outermost object, without nested values, up to [`MAX_MEMBER`] bytes.
    member: Vec<u8>,
    id: Option<RequestId>,
}

impl IdScanner {
    fn next(&mut self, byte: u8) {
        let nests = !self.in_string && matches!(byte, b'{' | b'[' | b'}' | b']');
        let ends_member = self.depth == 1 && !self.in_string && matches!(byte, b',' | b'}');
        if ends_member {
            self.end_member();
        } else if self.depth == 1 && !nests && self.member.len() < MAX_MEMBER {
            self.member.push(byte);
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' | b'[' if nests => self.depth = self.depth.saturating_add(1),
            b'}' | b']' if nests => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn end_member(&mut self) {
        let member = self.member.trim_ascii();
        if let Some(value) = member.strip_prefix(b"\"id\"").map(<[u8]>::trim_ascii_start)
            && let Some(value) = value.strip_prefix(b":")
        {
            self.id = serde_json::from_slice(value).ok();
        }
        self.is_request |= member.starts_with(b"\"method\"");
        self.member.clear();
    }

    /// The id, if the line is a response and not a request.
    fn response_id(&mut self) -> Option<RequestId> {
        self.id.take().filter(|_| !self.is_request)
    }
}

/// The size of a read, and the maximum length of a member, in bytes.
const CHUNK: usize = 8 << 10;
const MAX_MEMBER: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::CappedLines;

    async fn read(text: &[u8], max: usize) -> String {
        let mut read = Vec::new();
        CappedLines::new(text, max).read_to_end(&mut read).await.unwrap();
        String::from_utf8_lossy(&read).into_owned()
    }

    #[tokio::test]
    async fn a_response_that_is_too_long_becomes_an_error_with_its_id() {
        let error = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"response longer than 30 bytes"}}}}"#
            )
        };
        let long = "x".repeat(40);
        for (line, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":5,"result":{{"id":6,"a":["{long}"]}}}}"#), "5"),
            (format!(r#"{{"result":{{"a":"{long}\\\",","id":6}},"id" : 7,"jsonrpc":"2.0"}}"#), "7"),
            (format!(r#"{{"result":"{long}}},\"id\":1", "id":"a\"b"}}"#), r#""a\"b""#),
        ] {
            let read = read(format!("short\n{line}\nshort\n").as_bytes(), 30).await;
            let lines: Vec<&str> = read.lines().collect();
            assert_eq!(lines, ["short", &line[..30], &error(id), "short"]);
        }
    }

    #[tokio::test]
    async fn a_line_that_is_no_response_becomes_no_error() {
        let long = "x".repeat(40);
        for line in [
            long.clone(),
            format!(r#"{{"method":"ping","id":5,"params":"{long}"}}"#),
            format!(r#"{{"params":"{long}"}}"#),
            format!(r#"{{"id":{{"id":1}},"a":"{long}"}}"#),
            format!(r#"{{"id":{long}}}"#),
        ] {
            assert_eq!(read(format!("{line}\nshort\n").as_bytes(), 30).await.lines().count(), 2);
        }
    }

    proptest! {
        #[test]
        fn no_line_exceeds_the_limit_and_short_lines_are_unchanged(
            lines in prop::collection::vec("[a{}\\[\\]\",:\\\\id0-9]{0,40}", 0..8), max in 0usize..50,
        ) {
            let text = lines.iter().fold(String::new(), |text, line| text + line + "\n");
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(read(text.as_bytes(), max));
            let read: Vec<&str> = read.lines().filter(|line| !line.contains("response longer")).collect();
            prop_assert_eq!(read.len(), lines.len());
            for (line, read) in lines.iter().zip(read) {
                prop_assert_eq!(read, if line.len() < max { line } else { &line[..line.len().min(max)] });
            }
        }
    }
}
