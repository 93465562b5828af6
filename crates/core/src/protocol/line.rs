//! The line codec: one JSON object per line (runner specification, "JSON Transport Note").
//!
//! Lines end with `\n` only: U+2028 is data, and a `\r` before the end is accepted. The bytes of a line longer than the cap
//! are dropped as they come. A line `*LENGTH` announces an [attachment](super::attachments): the next `LENGTH` bytes are
//! not lines.

use std::{fmt, mem};

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};

use super::attachments::MAX_ATTACHMENT_BYTES;
use super::fields::{Fault, MessageError, Object, id_field};
use crate::budget::{Budget, Charge, Exhausted, Meter};
use crate::text;
use crate::value::{JsonError, MEMBER_COST, NODE_COST, Seed, Value, ValueSeed, parse_with};

/// Why a line is not a JSON object. Decoding continues with the next line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is longer than the cap.
    #[error("a line is longer than {0} bytes")]
    Oversized(usize),
    /// One message has more attachments than this number.
    #[error("a message has more than {0} attachments")]
    TooManyAttachments(usize),
    /// The budget does not cover the line or attachment. It was dropped.
    #[error("a line or an attachment exceeds the budget: {0}")]
    Exhausted(Exhausted),
    /// The line is not UTF-8.
    #[error("a line is not UTF-8")]
    NotUtf8,
    /// The line is not JSON.
    #[error("a line is not JSON: {0}")]
    NotJson(String),
    /// The line is a JSON object that cannot be represented. Its type and id are known, so that it can be answered.
    #[error(transparent)]
    Unreadable(Box<MessageError>),
    /// The line is JSON, but not an object.
    #[error("a line is JSON, but not an object")]
    NotAnObject,
}

/// An element of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line without its end.
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

/// Splits a stream of bytes into lines and attachments.
///
/// Call [`push`](Self::push) with the bytes that were read, then take the complete lines, either raw
/// ([`next_frame`](Self::next_frame)) or decoded (as an iterator), and so on; at the end of the stream, call
/// [`end`](Self::end). Bytes are split when frames are taken, so that the caller can do other work between any two. The
/// decoder keeps the bytes that were pushed and not taken, and one incomplete line or attachment. The iterator yields
/// items again after the next `push`.
#[derive(Debug)]
pub struct LineDecoder {
    cap: usize,
    /// The bytes that were pushed; those before `split` are split.
    pushed: Vec<u8>,
    split: usize,
    /// The beginning of a line.
    incomplete: Vec<u8>,
    /// The incomplete line is longer than the cap: the rest of it is dropped.
    dropping: bool,
    attachment: Option<Attachment>,
    /// The charge for the incomplete line or attachment.
    charge: Charge,
}

/// An incomplete attachment.
#[derive(Debug)]
struct Attachment {
    left: usize,
    /// `None` if the attachment is dropped.
    bytes: Option<Vec<u8>>,
}

impl LineDecoder {
    /// A decoder for lines of at most `cap` bytes, not counting the line's end.
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            pushed: Vec::new(),
            split: 0,
            incomplete: Vec::new(),
            dropping: false,
            attachment: None,
            charge: Charge::none(),
        }
    }

    /// Charges incomplete lines and attachments to `budget` from here on. One that it does not cover is dropped, and reported
    /// as [`LineError::Exhausted`].
    pub fn charge_to(&mut self, budget: &Budget) {
        self.charge.move_to(budget);
    }

    /// Adds bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pushed.drain(..self.split);
        self.split = 0;
        self.pushed.extend_from_slice(bytes);
    }

    /// The next complete line or attachment. Empty lines are skipped.
    pub fn next_frame(&mut self) -> Option<Result<Frame, LineError>> {
        while self.split < self.pushed.len() {
            let frame = if self.attachment.is_some() { self.split_attachment() } else { self.split_line() };
            if self.charge.bytes() > 0 {
                self.charge.shrink_to(self.incomplete_len());
            }
            if let Some(frame) = frame.transpose() {
                return Some(frame);
            }
        }
        None
    }

    /// Takes the bytes that belong to the incomplete attachment. Returns it if it is complete now.
    fn split_attachment(&mut self) -> Result<Option<Frame>, LineError> {
        let Some(attachment) = &mut self.attachment else { return Ok(None) };
        let rest = &self.pushed[self.split..];
        let attached = &rest[..attachment.left.min(rest.len())];
        self.split += attached.len();
        attachment.left -= attached.len();
        let is_complete = attachment.left == 0;
        if let Some(kept) = &mut attachment.bytes {
            if !is_complete && let Err(error) = self.charge.add(attached.len()) {
                attachment.bytes = None;
                return Err(LineError::Exhausted(error));
            }
            reserve(kept, attached.len());
            kept.extend_from_slice(attached);
        }
        let complete = self.attachment.take_if(|_| is_complete);
        Ok(complete.and_then(|attachment| attachment.bytes).map(Frame::Attachment))
    }

    /// Takes the bytes up to the end of the line. Returns the line if it is complete now, unless it is empty or announces
    /// an attachment.
    fn split_line(&mut self) -> Result<Option<Frame>, LineError> {
        let rest = &self.pushed[self.split..];
        let end = memchr::memchr(b'\n', rest);
        let part = &rest[..end.unwrap_or(rest.len())];
        self.split += end.map_or(part.len(), |end| end + 1);
        if !self.dropping {
            let kept = match self.incomplete.len() + part.len() > self.cap {
                true => Err(LineError::Oversized(self.cap)),
                // A line that ends here is taken at once.
                false if end.is_some() => Ok(()),
                false => self.charge.add(part.len()).map_err(LineError::Exhausted),
            };
            if let Err(error) = kept {
                self.incomplete = Vec::new();
                self.dropping = end.is_none();
                return Err(error);
            }
            reserve(&mut self.incomplete, part.len());
            self.incomplete.extend_from_slice(part);
        }
        if end.is_none() || mem::take(&mut self.dropping) {
            return Ok(None);
        }
        self.end_line()
    }

    fn end_line(&mut self) -> Result<Option<Frame>, LineError> {
        let line = mem::take(&mut self.incomplete);
        let Some(left) = announced(&line) else {
            let is_empty = line.trim_ascii().is_empty();
            return Ok((!is_empty).then_some(Frame::Line(line)));
        };
        if left == 0 {
            return Ok(Some(Frame::Attachment(Vec::new())));
        }
        let is_kept = left <= MAX_ATTACHMENT_BYTES;
        self.attachment = Some(Attachment { left, bytes: is_kept.then(Vec::new) });
        if is_kept { Ok(None) } else { Err(LineError::Oversized(MAX_ATTACHMENT_BYTES)) }
    }

    fn incomplete_len(&self) -> usize {
        let attached = self.attachment.as_ref().and_then(|attachment| attachment.bytes.as_ref());
        self.incomplete.len() + attached.map_or(0, Vec::len)
    }

    /// Whether no bytes are kept, split or not.
    pub fn is_empty(&self) -> bool {
        self.end() == StreamEnd::Clean
    }

    /// How the stream ended, if no more bytes come. Call it when there is no further frame.
    pub fn end(&self) -> StreamEnd {
        let is_split = self.split == self.pushed.len();
        if is_split && !self.dropping && self.incomplete.is_empty() && self.attachment.is_none() {
            StreamEnd::Clean
        } else {
            StreamEnd::CutOff
        }
    }
}

impl Iterator for LineDecoder {
    type Item = Result<Object, LineError>;

    /// The next complete line, decoded. Attachments are skipped.
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

/// Makes room for `more` bytes, and at most a quarter more than is used: what is charged is about what is allocated.
fn reserve(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        bytes.reserve_exact(more.max(bytes.len() / 4));
    }
}

/// The length of the attachment that a line announces, if it does.
fn announced(line: &[u8]) -> Option<usize> {
    let digits = line.strip_prefix(b"*")?;
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Reads one line. Of duplicate keys the last one counts, as in `JSON.parse`; `__proto__` is an ordinary key. The parser
/// limits nesting to 128 levels: a deeper object is [`LineError::Unreadable`].
///
/// # Errors
/// The line is not a JSON object.
pub fn decode_line(line: Vec<u8>) -> Result<Object, LineError> {
    read_line(line, None, &mut Meter::alone(usize::MAX)).map(|(object, _)| object)
}

/// Reads one line, charged to `meter`. The member named `direct` is read to a value and is not in the object.
///
/// # Errors
/// As [`decode_line`]; [`LineError::Unreadable`] also if the meter refuses.
pub(super) fn read_line(
    line: Vec<u8>,
    direct: Option<&'static str>,
    meter: &mut Meter<'_>,
) -> Result<(Object, Option<Value>), LineError> {
    let mut line = String::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
    let read = parse_object(&line, direct, meter).or_else(|error| {
        line = text::mend_surrogates(&line).ok_or(error)?;
        parse_object(&line, direct, meter)
    });
    match read {
        Ok(Some(parts)) => Ok(parts),
        Ok(None) => Err(LineError::NotAnObject),
        Err(error) => Err(unreadable(&line, &error)),
    }
}

/// `None` if the text is JSON, but not an object.
fn parse_object(
    text: &str,
    direct: Option<&'static str>,
    meter: &mut Meter<'_>,
) -> Result<Option<(Object, Option<Value>)>, JsonError> {
    if !text.trim_start().starts_with('{') {
        return parse_with(text, meter, |_, from| IgnoredAny::deserialize(from)).map(|_| None);
    }
    parse_with(text, meter, |meter, from| from.deserialize_map(Line { direct, meter })).map(Some)
}

/// Reads the members of a message.
struct Line<'m, 's> {
    direct: Option<&'static str>,
    meter: &'m mut Meter<'s>,
}

impl<'de> Visitor<'de> for Line<'_, '_> {
    type Value = (Object, Option<Value>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let (mut object, mut value) = (Object::new(), None);
        while let Some(key) = access.next_key::<String>()? {
            if self.direct == Some(key.as_str()) {
                value = Some(access.next_value_seed(ValueSeed(self.meter))?);
            } else {
                self.meter.spend(NODE_COST + 2 * MEMBER_COST + key.len()).map_err(A::Error::custom)?;
                object.insert(key, access.next_value_seed(Seed(self.meter))?);
            }
        }
        Ok((object, value))
    }
}

/// The fields that identify a message. The rest is skipped, however deep it nests.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    call_id: Option<String>,
}

fn unreadable(line: &str, error: &JsonError) -> LineError {
    let why = error.to_string();
    let Ok(Envelope { kind, id, call_id }) = serde_json::from_str(line) else { return LineError::NotJson(why) };
    let id = if id_field(&kind) == "id" { id } else { call_id };
    LineError::Unreadable(Box::new(MessageError { kind, id, fault: Fault::Unreadable(why) }))
}

/// A message is longer than the transport's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is {len} bytes long, and the transport takes at most {cap}")]
pub struct TooLong {
    /// The length of the line in bytes, without its end.
    pub len: usize,
    /// The limit in bytes.
    pub cap: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    fn decode_all(cap: usize, chunks: &[&[u8]]) -> (Vec<Result<Json, LineError>>, StreamEnd) {
        let mut decoder = LineDecoder::new(cap);
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            assert!(decoder.incomplete.len() <= cap);
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
    fn only_a_newline_ends_a_line() {
        let text = "\n{\"a\":\"\u{2028}\"}\r\n  \r\n{\"b\":\"\u{85}\\n\"}\n";
        let expected = vec![Ok(json!({"a": "\u{2028}"})), Ok(json!({"b": "\u{85}\n"}))];
        assert_eq!(decode_all(99, &[text.as_bytes()]), (expected, StreamEnd::Clean));
    }

    #[test]
    fn a_clean_end_differs_from_a_cut_off_line() {
        assert_eq!(decode_all(99, &[]).1, StreamEnd::Clean);
        assert_eq!(decode_all(99, &[b"{}\n"]).1, StreamEnd::Clean);
        assert_eq!(decode_all(99, &[b"{}\n{}"]), (vec![Ok(json!({}))], StreamEnd::CutOff));
        assert_eq!(decode_all(3, &[b"{    }"]).1, StreamEnd::CutOff);
    }

    #[test]
    fn a_line_beyond_the_cap_is_reported_once_and_decoding_continues() {
        let mut decoder = LineDecoder::new(4);
        for _ in 0..1000 {
            decoder.push(b"xyz");
            assert!(decoder.incomplete.len() <= 4);
        }
        assert_eq!(decoder.next(), Some(Err(LineError::Oversized(4))), "reported before the line ends");
        assert_eq!(decoder.next(), None);
        decoder.push(b"\n{  }\n{   }\n{}\n");
        let items: Vec<_> = decoder.map(|item| item.map(Json::Object)).collect();
        assert_eq!(items, [Ok(json!({})), Err(LineError::Oversized(4)), Ok(json!({}))]);
    }

    #[test]
    fn attachments_are_not_split_into_lines() {
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
    fn an_attachment_beyond_the_cap_is_dropped() {
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
    fn bytes_are_split_when_frames_are_taken() {
        let mut decoder = LineDecoder::new(99);
        decoder.push(&b"*0\n".repeat(1 << 20));
        assert_eq!(decoder.pushed.len() - decoder.split, 3 << 20);
        for taken in 1..=1000 {
            assert_eq!(decoder.next_frame(), Some(Ok(Frame::Attachment(Vec::new()))));
            assert_eq!(decoder.split, 3 * taken);
        }
        decoder.push(b"{}\n");
        assert_eq!(decoder.by_ref().count(), 1);
        assert!(decoder.is_empty());
    }

    #[test]
    fn incomplete_lines_and_attachments_are_charged_until_they_are_taken() {
        let budget = Budget::new(10);
        let mut decoder = LineDecoder::new(99);
        decoder.charge_to(&budget);
        let exhausted = |used, requested| Some(Err(LineError::Exhausted(Exhausted { limit: 10, used, requested })));
        decoder.push(b"{\"a\":");
        assert_eq!((decoder.next_frame(), budget.used()), (None, 5));
        decoder.push(b"1}\n \n*3\nab");
        assert_eq!(decoder.next_frame(), Some(Ok(Frame::Line(b"{\"a\":1}".to_vec()))));
        assert_eq!((decoder.next_frame(), budget.used()), (None, 2));
        decoder.push(b"c12345678");
        assert_eq!(decoder.next_frame(), Some(Ok(Frame::Attachment(b"abc".to_vec()))));
        assert_eq!((decoder.next_frame(), budget.used()), (None, 8));
        decoder.push(b"901");
        assert_eq!((decoder.next_frame(), budget.used()), (exhausted(8, 3), 0));
        decoder.push(b"2\n*13\n01234567");
        assert_eq!((decoder.next_frame(), budget.used()), (None, 8));
        decoder.push(b"8901");
        assert_eq!((decoder.next_frame(), budget.used()), (exhausted(8, 4), 0));
        decoder.push(b"2{}\n");
        assert_eq!(decoder.next_frame(), Some(Ok(Frame::Line(b"{}".to_vec()))));
        assert_eq!((decoder.end(), budget.used()), (StreamEnd::Clean, 0));
    }

    #[test]
    fn lines_that_are_not_objects_have_distinct_errors() {
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
    fn duplicate_keys_and_proto_are_ordinary_data() {
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

    /// Bytes that often look like the protocol.
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
        fn chunking_does_not_change_the_lines(
            bytes in noise(), cap in 0_usize..40, cuts in prop::collection::vec(0_usize..400, 0..12),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode_all(cap, &chunks), decode_all(cap, &[&bytes]));
        }

        #[test]
        fn mending_never_panics(text in "[\\\\udD8c0-9a-fé\"]{0,40}") {
            text::mend_surrogates(&text);
        }
    }
}
