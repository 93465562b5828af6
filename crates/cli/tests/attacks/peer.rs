//! Scripts of hostile peers: the messages that one sends, and those that it waits for. `tests/attacks/README.md` documents the
//! steps.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::expand::expand;

/// A step of a script.
#[derive(Debug, Clone)]
enum Step {
    /// `> TEXT`: sends the text and a line feed. `raw TEXT`: sends the text with its escapes alone.
    Send(String),
    /// `< TEXT`: reads until a line that contains the text.
    Receive(String),
    /// `< closed`: reads until the connection ends.
    Closed,
    /// `repeat COUNT` … `end`.
    Repeat(u64, Vec<Step>),
    Wait(Duration),
    /// `hold`: keeps the connection without reading until the attack is over.
    Hold,
    Close,
}

/// The steps of a script.
#[derive(Debug, Clone)]
pub(crate) struct Script(Vec<Step>);

impl Script {
    pub(crate) fn parse(text: &str) -> Self {
        let mut blocks = vec![Vec::new()];
        let mut counts = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(count) = line.strip_prefix("repeat ") {
                counts.push(count.parse().unwrap_or_else(|_| panic!("not a count: {line}")));
                blocks.push(Vec::new());
                continue;
            }
            let steps = if line == "end" {
                let block = blocks.pop().unwrap();
                vec![Step::Repeat(counts.pop().unwrap_or_else(|| panic!("`end` without `repeat`")), block)]
            } else {
                steps(line)
            };
            blocks.last_mut().unwrap().extend(steps);
        }
        assert!(counts.is_empty(), "`repeat` without `end`");
        Self(blocks.pop().unwrap())
    }
}

fn steps(line: &str) -> Vec<Step> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let answer = |method: &str, result: String| {
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{result}}}\n");
        vec![Step::Receive(format!("\"method\":\"{method}\"")), Step::Send(answer)]
    };
    match word {
        ">" => vec![Step::Send(expand(rest) + "\n")],
        "raw" => vec![Step::Send(unescape(&expand(rest)))],
        "<" if rest == "closed" => vec![Step::Closed],
        "<" => vec![Step::Receive(rest.to_owned())],
        "wait" => vec![Step::Wait(Duration::from_millis(rest.parse().unwrap()))],
        "hold" => vec![Step::Hold],
        "close" => vec![Step::Close],
        // The usual answers of an MCP server.
        "initialize" => answer("initialize", INITIALIZED.to_owned()),
        "list" => answer("tools/list", format!("{{\"tools\":{}}}", expand(rest))),
        "call" => answer("tools/call", expand(rest)),
        _ => panic!("unknown step {line:?}"),
    }
}

const INITIALIZED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"evil","version":"1"}}"#;

/// Replaces `\r`, `\n` and `\xHH`: bytes up to 0xff, kept as characters until they are sent.
fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        unescaped.push_str(&rest[..at]);
        let (character, length) = match rest.as_bytes().get(at + 1) {
            Some(b'r') => ('\r', 2),
            Some(b'n') => ('\n', 2),
            Some(b'x') => (char::from(u8::from_str_radix(&rest[at + 2..at + 4], 16).unwrap()), 4),
            _ => panic!("unknown escape in {rest}"),
        };
        unescaped.push(character);
        rest = &rest[at + length..];
    }
    unescaped + rest
}

/// A peer that plays a script over a connection.
pub(crate) struct Peer<R, W> {
    reader: BufReader<R>,
    writer: W,
    /// The `id`, the `callId` and the token for progress that were received last, as JSON.
    id: String,
    call_id: String,
    token: String,
    until: Instant,
}

impl<R: Read, W: Write> Peer<R, W> {
    /// A peer that plays until that time. Reads and writes of its connection must time out, so that it can read the clock.
    pub(crate) fn new(reader: R, writer: W, until: Instant) -> Self {
        Self {
            reader: BufReader::new(reader),
            writer,
            id: "1".to_owned(),
            call_id: "1".to_owned(),
            token: "1".to_owned(),
            until,
        }
    }

    /// Plays the script. An error means that the other side closed the connection, or that the time is over.
    pub(crate) fn play(&mut self, script: &Script) -> io::Result<()> {
        self.play_all(&script.0, 0)
    }

    fn play_all(&mut self, steps: &[Step], number: u64) -> io::Result<()> {
        for step in steps {
            match step {
                Step::Send(text) => {
                    let filled = self.fill(text, number);
                    self.send(filled.as_deref().unwrap_or(text))?;
                }
                Step::Receive(part) => while !self.line()?.contains(part.as_str()) {},
                Step::Closed => while self.line().is_ok() {},
                Step::Repeat(count, steps) => (1..=*count).try_for_each(|number| self.play_all(steps, number))?,
                Step::Wait(time) => std::thread::sleep(*time),
                Step::Hold => std::thread::sleep(self.until.saturating_duration_since(Instant::now())),
                Step::Close => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(())
    }

    /// The text with the values that were received last, if it refers to them.
    fn fill(&self, text: &str, number: u64) -> Option<String> {
        if !text.contains('$') && !text.contains("%n") {
            return None;
        }
        let text = text.replace("$id", &self.id).replace("$callId", &self.call_id).replace("$token", &self.token);
        Some(text.replace("%n", &number.to_string()))
    }

    /// Sends text. Characters up to 0xff of a `raw` step are bytes; all others are UTF-8.
    fn send(&mut self, text: &str) -> io::Result<()> {
        let is_raw = !text.is_ascii() && text.chars().all(|character| u32::from(character) < 256);
        let bytes = if is_raw {
            text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
        } else {
            text.as_bytes().to_vec()
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if Instant::now() > self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) => self.go_on(error)?,
            }
        }
        self.writer.flush()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        loop {
            match self.reader.read_until(b'\n', &mut line) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => break,
                Err(error) => self.go_on(error)?,
            }
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        if let Ok(message) = serde_json::from_str::<Json>(&line) {
            let token = &message["params"]["_meta"]["progressToken"];
            let received = [&message["id"], &message["callId"], token];
            for (received, kept) in received.into_iter().zip([&mut self.id, &mut self.call_id, &mut self.token]) {
                if !received.is_null() {
                    *kept = received.to_string();
                }
            }
        }
        Ok(line)
    }

    /// Succeeds if an error is only a timeout of the socket, and there is time left.
    fn go_on(&self, error: io::Error) -> io::Result<()> {
        let is_timeout = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        if is_timeout && Instant::now() < self.until { Ok(()) } else { Err(error) }
    }
}
