//! Lines of limited length from an untrusted peer, and the memory that they will take when they are parsed.
//!
//! The rest of a line that exceeds a limit is discarded as it arrives. The id of the line is still found, so that the request
//! fails at once. Discarded bytes count as [unasked](Unasked), because a line may be endless. The codec of `tokio-util` knows neither
//! the id of a line that is too long nor the memory that parsing takes.

use std::io;

use rmcp::model::RequestId;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::unasked::Unasked;
use crate::scanner::Scanner;

/// A stream of lines, none of which is kept beyond the limits.
pub(super) struct Lines<R> {
    inner: R,
    limits: LineLimits,
    unasked: Unasked,
    chunk: Box<[u8; CHUNK]>,
    /// The bytes of `chunk` that are not read yet.
    unread: std::ops::Range<usize>,
    line: Vec<u8>,
    /// The scanner of the current line so far, including what was discarded.
    scanner: Scanner,
}

/// The limits of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineLimits {
    /// The maximum length, in bytes.
    pub(super) bytes: usize,
    /// The maximum memory of the parsed line, in bytes.
    pub(super) memory: usize,
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The text, unless it exceeds a limit.
    pub(super) text: Result<Vec<u8>, Excess>,
    /// The id of the request that the line answers, if it is a response.
    pub(super) answers: Option<RequestId>,
    /// The length in bytes, including discarded bytes.
    pub(super) length: usize,
    /// The approximate memory of the parsed line, in bytes.
    pub(super) memory: usize,
}

/// The limit that a line exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    Bytes,
    Memory,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(inner: R, limits: LineLimits, unasked: Unasked) -> Self {
        let (line, scanner) = (Vec::new(), Scanner::default());
        Self { inner, limits, unasked, chunk: Box::new([0; CHUNK]), unread: 0..0, line, scanner }
    }

    /// The next line; `None` at the end, which discards an incomplete line. Cancel safe. Fails if more bytes were discarded
    /// than are allowed.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if self.unread.is_empty() {
                let read = self.inner.read(&mut self.chunk[..]).await?;
                self.unread = 0..read;
                if read == 0 {
                    return Ok(None);
                }
            }
            if let Some(line) = self.take()? {
                return Ok(Some(line));
            }
        }
    }

    /// Takes bytes up to the end of the line or of the chunk.
    fn take(&mut self) -> io::Result<Option<Line>> {
        let unread = &self.chunk[self.unread.clone()];
        let end = unread.iter().position(|&byte| byte == b'\n');
        let part = &unread[..end.unwrap_or(unread.len())];
        if self.scanner.length() > self.limits.bytes {
            self.unasked.spend(0, part.len()).map_err(io::Error::other)?;
        }
        self.unread.start += part.len() + usize::from(end.is_some());
        self.scanner.scan(part);
        if self.excess().is_none() {
            self.line.extend(part);
        } else {
            self.line = Vec::new();
        }
        Ok(end.map(|_| self.end_line()))
    }

    fn excess(&self) -> Option<Excess> {
        match self.limits {
            LineLimits { bytes, .. } if self.scanner.length() > bytes => Some(Excess::Bytes),
            LineLimits { memory, .. } if self.scanner.memory() > memory => Some(Excess::Memory),
            _ => None,
        }
    }

    fn end_line(&mut self) -> Line {
        let excess = self.excess();
        let scanner = std::mem::take(&mut self.scanner);
        let (length, memory) = (scanner.length(), scanner.memory());
        let text = std::mem::take(&mut self.line);
        Line { text: excess.map_or(Ok(text), Err), answers: scanner.answered(), length, memory }
    }
}

/// The id of the request that a message answers, if it is a response, and the approximate memory of the parsed message.
pub(super) fn measure(message: &[u8]) -> (Option<RequestId>, usize) {
    let scanner = Scanner::of(message);
    let memory = scanner.memory();
    (scanner.answered(), memory)
}

/// The size of a read, in bytes.
const CHUNK: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const UNLIMITED: LineLimits = LineLimits { bytes: usize::MAX, memory: usize::MAX };

    async fn read(text: &[u8], limits: LineLimits) -> Vec<Line> {
        let mut lines = Lines::new(text, limits, Unasked::default());
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        read
    }

    #[tokio::test]
    async fn a_response_that_is_too_long_is_identified() {
        let long = "x".repeat(40);
        for (line, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":5,"result":{{"id":6,"a":["{long}"]}}}}"#), json!(5)),
            (format!(r#"{{"result":{{"a":"{long}\\\",","id":6}},"id" : 7,"jsonrpc":"2.0"}}"#), json!(7)),
            (format!(r#"{{"result":"{long}}},\"id\":1", "id":"a\"b"}}"#), json!("a\"b")),
        ] {
            let limits = LineLimits { bytes: 30, ..UNLIMITED };
            let read = read(format!("short\n{line}\nshort\n").as_bytes(), limits).await;
            let texts: Vec<_> = read.iter().map(|line| line.text.as_deref()).collect();
            assert_eq!(texts, [Ok(&b"short"[..]), Err(&Excess::Bytes), Ok(b"short")]);
            assert_eq!(serde_json::to_value(&read[1].answers).unwrap(), id);
        }
    }

    #[tokio::test]
    async fn a_line_that_is_no_response_answers_nothing() {
        let long = "x".repeat(40);
        for line in [
            long.clone(),
            format!(r#"{{"method":"ping","id":5,"params":"{long}"}}"#),
            format!(r#"{{"params":"{long}"}}"#),
            format!(r#"{{"id":{{"id":1}},"a":"{long}"}}"#),
            format!(r#"{{"id":{long}}}"#),
        ] {
            let read = read(format!("{line}\nshort\n").as_bytes(), LineLimits { bytes: 30, ..UNLIMITED }).await;
            assert_eq!((read.len(), &read[0].answers), (2, &None));
        }
    }

    #[tokio::test]
    async fn a_line_with_too_many_values_is_not_kept() {
        let zeros = format!(r#"{{"id":1,"result":[{}0]}}"#, "0,".repeat(1_000)) + "\n";
        let text = format!(r#"{{"id":2,"result":"{}"}}"#, "0,".repeat(1_000)) + "\n";
        let limits = LineLimits { memory: 100_000, ..UNLIMITED };
        let read = read((zeros + &text).as_bytes(), limits).await;
        assert_eq!(read[0].text, Err(Excess::Memory));
        assert!(read[0].memory > 190_000 && read[0].answers == Some(RequestId::Number(1)));
        assert!(read[1].text.is_ok() && read[1].memory < 10_000);
    }

    proptest! {
        #[test]
        fn no_line_exceeds_the_limit_and_short_lines_are_unchanged(
            lines in prop::collection::vec("[a{}\\[\\]\":,\\\\id0-9]{0,40}", 0..8), max in 0usize..50,
        ) {
            let text = lines.iter().fold(String::new(), |text, line| text + line + "\n");
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(read(text.as_bytes(), LineLimits { bytes: max, ..UNLIMITED }));
            prop_assert_eq!(read.len(), lines.len());
            for (line, read) in lines.iter().zip(read) {
                let expected = if line.len() <= max { Ok(line.clone().into_bytes()) } else { Err(Excess::Bytes) };
                prop_assert_eq!(read.text, expected);
            }
        }
    }
}
