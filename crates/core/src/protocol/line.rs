//! The line codec: one JSON object per line (runner specification, "JSON Transport Note").
//!
//! Lines end with `\n` and with nothing else: U+2028 is data, and a `\r` before the end is tolerated.
//! A line longer than the cap is dropped as it comes and never kept. A line `*LENGTH` announces an attachment: so many bytes
//! behind it are no lines (see [`code`](super::code)). What the objects mean is for
//! [`message`]; reading and writing the bytes is for the driver.

use std::collections::VecDeque;
use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::message::{self, Fault, MessageError, Object};

/// Why a line is not a JSON object. Decoding goes on with the next line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is longer than the cap.
    #[error("a line is longer than {0} bytes")]
    Oversized(usize),
    /// Its bytes are not text.
    #[error("a line is not UTF-8")]
    NotUtf8,
    /// It is not JSON.
    #[error("a line is not JSON: {0}")]
    NotJson(String),
    /// It is a JSON object that cannot be held. What it is about is known all the same, so that it can be answered.
    #[error(transparent)]
    Unreadable(Box<MessageError>),
    /// It is JSON, but no object.
    #[error("a line is JSON, but no object")]
    NotAnObject,
}

/// The longest attachment that is kept, in bytes. A longer one is dropped as it comes.
pub const MAX_ATTACHMENT_BYTES: usize = 64 << 20;

/// What a stream is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line, its end not included.
    Line(Vec<u8>),
    /// An attachment.
    Attachment(Vec<u8>),
}

/// How a stream of lines ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Between two lines.
    Clean,
    /// In the middle of a line.
    CutOff,
}

/// Takes lines out of bytes as they come.
///
/// Call [`push`](Self::push) with what was read, take what became whole, either as it is
/// ([`next_frame`](Self::next_frame)) or decoded (as an iterator), and so on; at the end of the stream,
/// [`end`](Self::end). It keeps at most the cap of an unfinished line; lines that are whole it
/// keeps until they are taken. As an iterator it is empty *for now*, not for good.
#[derive(Debug)]
pub struct LineDecoder {
    cap: usize,
    unfinished: Vec<u8>,
    /// The unfinished line was longer than the cap: what is left of it is dropped.
    dropping: bool,
    attachment: Option<Attachment>,
    whole: VecDeque<Result<Frame, LineError>>,
}

/// An attachment that is not whole yet.
#[derive(Debug)]
struct Attachment {
    left: usize,
    /// `None` for one that is dropped as it comes.
    bytes: Option<Vec<u8>>,
}

impl LineDecoder {
    /// For lines of at most `cap` bytes, the line's end not counted.
    pub fn new(cap: usize) -> Self {
        Self { cap, unfinished: Vec::new(), dropping: false, attachment: None, whole: VecDeque::new() }
    }

    /// Takes in bytes, cut anywhere.
    pub fn push(&mut self, mut bytes: &[u8]) {
        loop {
            bytes = self.attach(bytes);
            let Some(end) = memchr::memchr(b'\n', bytes) else { break };
            self.extend(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    /// Takes what belongs to the attachment under way; what is left is lines.
    fn attach<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(attachment) = &mut self.attachment else { return bytes };
        let (mine, rest) = bytes.split_at(attachment.left.min(bytes.len()));
        attachment.left -= mine.len();
        if let Some(kept) = &mut attachment.bytes {
            kept.extend_from_slice(mine);
        }
        if attachment.left == 0
            && let Some(Attachment { bytes: Some(bytes), .. }) = self.attachment.take()
        {
            self.whole.push_back(Ok(Frame::Attachment(bytes)));
        }
        rest
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.dropping {
            return;
        }
        if self.unfinished.len() + bytes.len() > self.cap {
            self.unfinished = Vec::new();
            self.dropping = true;
            self.whole.push_back(Err(LineError::Oversized(self.cap)));
        } else {
            self.unfinished.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) {
        if mem::take(&mut self.dropping) {
            return;
        }
        let line = mem::take(&mut self.unfinished);
        let Some(left) = announced(&line) else {
            return self.whole.push_back(Ok(Frame::Line(line)));
        };
        let bytes = if left <= MAX_ATTACHMENT_BYTES {
            Some(Vec::new())
        } else {
            self.whole.push_back(Err(LineError::Oversized(MAX_ATTACHMENT_BYTES)));
            None
        };
        self.attachment = Some(Attachment { left, bytes });
        self.attach(&[]); // It may be empty.
    }

    /// The next line or attachment that is whole. Empty lines are skipped.
    pub fn next_frame(&mut self) -> Option<Result<Frame, LineError>> {
        loop {
            match self.whole.pop_front()? {
                Ok(Frame::Line(line)) if line.trim_ascii().is_empty() => {}
                frame => return Some(frame),
            }
        }
    }

    /// Whether nothing is kept: no line that is whole, and no part of one.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.end() == StreamEnd::Clean
    }

    /// How the stream ended, given that no more bytes come.
    pub fn end(&self) -> StreamEnd {
        if self.dropping || !self.unfinished.is_empty() || self.attachment.is_some() {
            StreamEnd::CutOff
        } else {
            StreamEnd::Clean
        }
    }

    /// How many bytes are kept of the line that is not whole yet: never more than the cap.
    pub fn unfinished_len(&self) -> usize {
        self.unfinished.len()
    }
}

impl Iterator for LineDecoder {
    type Item = Result<Object, LineError>;

    /// The next line that is whole, decoded. Attachments are skipped.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_frame()? {
                Ok(Frame::Line(line)) => return Some(decode_line(line)),
                Ok(Frame::Attachment(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// How long the attachment is that a line announces, if it does.
fn announced(line: &[u8]) -> Option<usize> {
    let digits = line.strip_prefix(b"*")?;
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Reads one line. Duplicate keys are as in `JSON.parse` (the last one counts), `__proto__` is a key
/// like any other, and nesting is bounded by the parser (128): what nests deeper is [`LineError::Unreadable`].
pub fn decode_line(line: Vec<u8>) -> Result<Object, LineError> {
    let mut line = String::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
    let json = serde_json::from_str(&line).or_else(|error| {
        line = mend_surrogates(&line).ok_or(error)?;
        serde_json::from_str(&line)
    });
    match json {
        Ok(Json::Object(object)) => Ok(object),
        Ok(_) => Err(LineError::NotAnObject),
        Err(error) => Err(unreadable(&line, &error)),
    }
}

/// What names a message, read without holding the rest: that is skipped, however deep it nests.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    call_id: Option<String>,
}

fn unreadable(line: &str, error: &serde_json::Error) -> LineError {
    let why = error.to_string();
    let Ok(Envelope { kind, id, call_id }) = serde_json::from_str(line) else { return LineError::NotJson(why) };
    let id = if message::id_field(&kind) == "id" { id } else { call_id };
    LineError::Unreadable(Box::new(MessageError { kind, id, fault: Fault::Unreadable(why) }))
}

/// The text with every escape of a lone surrogate made one of U+FFFD; `None` if there is none.
///
/// `JSON.stringify` writes a lone surrogate as `\ud800`, which is JSON, and which no Rust string can
/// hold: it becomes what `String.prototype.toWellFormed` makes of it.
fn mend_surrogates(line: &str) -> Option<String> {
    let mut mended = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = line[at..].find('\\') {
        let escape = at + found;
        match (unit_at(line, escape), unit_at(line, escape + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => at = escape + 12,
            (Some(0xd800..0xe000), _) => {
                mended += &line[kept..escape];
                mended += "\\ufffd";
                at = escape + 6;
                kept = at;
            }
            _ => at = escape + 1 + line[escape + 1..].chars().next()?.len_utf8(),
        }
    }
    (kept > 0).then(|| mended + &line[kept..])
}

/// The UTF-16 unit that an escape at this place stands for: `\ud800`.
fn unit_at(line: &str, at: usize) -> Option<u16> {
    let digits = line.get(at..at + 6)?.strip_prefix("\\u")?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

/// A message is too long for the line that it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is {len} bytes long, and the transport takes at most {cap}")]
pub struct TooLong {
    /// How long the line would be, its end not counted.
    pub len: usize,
    /// How long it may be.
    pub cap: usize,
}

/// A message as the text of its line, the end not included.
///
/// # Errors
/// One of more than `cap` bytes is refused. What to do then is for the session to say (`handle_too_long`).
pub fn encode_message(message: &impl Serialize, cap: usize) -> Result<Vec<u8>, TooLong> {
    let text = serde_json::to_vec(message).expect("a message is plain data, and memory takes every write");
    if text.len() > cap {
        return Err(TooLong { len: text.len(), cap });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn decode_all(cap: usize, chunks: &[&[u8]]) -> (Vec<Result<Json, LineError>>, StreamEnd) {
        let mut decoder = LineDecoder::new(cap);
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            assert!(decoder.unfinished_len() <= cap);
            items.extend(decoder.by_ref().map(|item| item.map(Json::Object)));
        }
        (items, decoder.end())
    }

    fn one(line: &str) -> Result<Json, LineError> {
        let (mut items, end) = decode_all(1 << 20, &[line.as_bytes(), b"\n"]);
        assert_eq!((items.len(), end), (1, StreamEnd::Clean), "{line}");
        items.remove(0)
    }

    #[test]
    fn lines_end_with_a_newline_and_with_nothing_else() {
        let text = "\n{\"a\":\"\u{2028}\"}\r\n  \r\n{\"b\":\"\u{85}\\n\"}\n";
        let expected = vec![Ok(json!({"a": "\u{2028}"})), Ok(json!({"b": "\u{85}\n"}))];
        assert_eq!(decode_all(99, &[text.as_bytes()]), (expected, StreamEnd::Clean));
    }

    #[test]
    fn the_end_of_the_stream_and_a_cut_off_are_two_answers() {
        assert_eq!(decode_all(99, &[]).1, StreamEnd::Clean);
        assert_eq!(decode_all(99, &[b"{}\n"]).1, StreamEnd::Clean);
        assert_eq!(decode_all(99, &[b"{}\n{}"]), (vec![Ok(json!({}))], StreamEnd::CutOff));
        assert_eq!(decode_all(3, &[b"{    }"]).1, StreamEnd::CutOff);
    }

    #[test]
    fn a_line_beyond_the_cap_is_dropped_once_and_decoding_goes_on() {
        let mut decoder = LineDecoder::new(4);
        for _ in 0..1000 {
            decoder.push(b"xyz");
            assert!(decoder.unfinished_len() <= 4);
        }
        assert_eq!(decoder.next(), Some(Err(LineError::Oversized(4))), "told before the line is over");
        assert_eq!(decoder.next(), None);
        decoder.push(b"\n{  }\n{   }\n{}\n");
        let items: Vec<_> = decoder.map(|item| item.map(Json::Object)).collect();
        assert_eq!(items, [Ok(json!({})), Err(LineError::Oversized(4)), Ok(json!({}))]);
    }

    #[test]
    fn attachments_are_no_lines() {
        let mut decoder = LineDecoder::new(99);
        let bytes = b"*5\n{}\n{}{\"a\":1}\n*0\n*x\n*\n";
        for byte in bytes {
            decoder.push(&[*byte]);
        }
        let frames: Vec<_> = std::iter::from_fn(|| decoder.next_frame()).collect();
        let line = |text: &str| Ok(Frame::Line(text.as_bytes().to_vec()));
        let attachment = |text: &str| Ok(Frame::Attachment(text.as_bytes().to_vec()));
        let expected = vec![attachment("{}\n{}"), line("{\"a\":1}"), attachment(""), line("*x"), line("*")];
        assert_eq!(frames, expected);
        decoder.push(b"*3\nab");
        assert_eq!((decoder.end(), decoder.is_empty()), (StreamEnd::CutOff, false));
    }

    #[test]
    fn an_attachment_beyond_the_cap_is_dropped_as_it_comes() {
        let mut decoder = LineDecoder::new(99);
        decoder.push(format!("*{}\n", MAX_ATTACHMENT_BYTES + 1).as_bytes());
        assert_eq!(decoder.next_frame(), Some(Err(LineError::Oversized(MAX_ATTACHMENT_BYTES))));
        for _ in 0..=MAX_ATTACHMENT_BYTES / (1 << 20) {
            decoder.push(&vec![
                b'\n';
                if decoder.attachment.as_ref().is_some_and(|one| one.left < 1 << 20) {
                    1
                } else {
                    1 << 20
                }
            ]);
        }
        decoder.push(b"{}\n");
        assert_eq!(decoder.next_frame(), Some(Ok(Frame::Line(b"{}".to_vec()))));
    }

    #[test]
    fn what_is_no_object_is_told_apart() {
        assert!(matches!(one("{"), Err(LineError::NotJson(_))));
        assert!(matches!(one("{} {}"), Err(LineError::NotJson(_))));
        assert!(matches!(one("{\"a\":NaN}"), Err(LineError::NotJson(_))));
        for line in ["[]", "null", "\"{}\"", "1"] {
            assert_eq!(one(line), Err(LineError::NotAnObject), "{line}");
        }
        assert_eq!(decode_all(9, &[b"{\"\xff\":1}\n"]).0, [Err(LineError::NotUtf8)]);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(one(&nested(120)).is_ok());
        assert!(matches!(one(&nested(100_000)), Err(LineError::NotJson(_))));
    }

    #[test]
    fn duplicate_and_magic_keys_are_plain_data() {
        assert_eq!(one(r#"{"a":1,"a":2}"#), Ok(json!({"a": 2})));
        assert_eq!(one(r#"{"__proto__":{"x":1}}"#).unwrap().to_string(), r#"{"__proto__":{"x":1}}"#);
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (escaped, text) in [
            (r"\ud800", "\u{fffd}"),
            (r"a\udc00\ud83d\ude00\uD83D", "a\u{fffd}😀\u{fffd}"),
            (r"\ud800\ud83d\ude00", "\u{fffd}😀"),
            (r"\ud800\\ud800é", "\u{fffd}\\ud800é"),
        ] {
            assert_eq!(one(&format!(r#"{{"a":"{escaped}"}}"#)), Ok(json!({ "a": text })), "{escaped}");
        }
        for line in [r#"{"a":"\ud8"}"#, r#"{"a":"\ud800"#, r#"{"a":"\"#, r#"{"a":"\uééé"}"#] {
            assert!(matches!(one(line), Err(LineError::NotJson(_))), "{line}");
        }
    }

    #[test]
    fn a_message_beyond_the_cap_is_refused() {
        assert_eq!(encode_message(&json!({"a": 1}), 6), Err(TooLong { len: 7, cap: 6 }));
        assert_eq!(encode_message(&json!({"a": 1}), 7), Ok(b"{\"a\":1}".to_vec()));
    }

    /// Bytes that look like the protocol often enough to get somewhere.
    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            3 => Just(b"\n".to_vec()),
            3 => Just(b"{\"type\":\"done\"}".to_vec()),
            1 => Just(b"{\"a\":\"\\ud800\"}".to_vec()),
            1 => Just(b"\\ud83d".to_vec()),
            2 => prop::collection::vec(any::<u8>(), 0..20),
        ];
        prop::collection::vec(token, 0..20).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn bytes_cut_anywhere_give_the_same_lines(
            bytes in noise(), cap in 0_usize..40, cuts in prop::collection::vec(0_usize..400, 0..12),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode_all(cap, &chunks), decode_all(cap, &[&bytes]));
        }

        #[test]
        fn mending_is_total(text in "[\\\\udD8c0-9a-fé\"]{0,40}") {
            mend_surrogates(&text);
        }
    }
}
