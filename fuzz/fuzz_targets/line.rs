//! A stream of lines and attachments, cut anywhere: however it is cut, the frames are the same, but for attachments that the
//! budget does not cover; what is kept is charged, and messages are read.

#![no_main]

use execbox_core::budget::Budget;
use execbox_core::protocol::{Attachments, HostMessage, Message, RunnerMessage};
use execbox_core::protocol::{LineDecoder, LineError, decode_line};
use libfuzzer_sys::fuzz_target;

const CAP: usize = 256;

fuzz_target!(|input: (&[u8], Vec<u8>)| {
    let (stream, cuts) = input;
    let whole = frames(std::iter::once(stream));
    let mut rest = stream;
    let parts = cuts.iter().map_while(|cut| {
        let (part, after) = rest.split_at((*cut as usize).min(rest.len()));
        rest = after;
        Some(part)
    });
    let mut parts: Vec<_> = parts.collect();
    parts.push(rest);
    let cut = frames(parts.into_iter());
    assert!(
        cut.len() == whole.len() && cut.iter().zip(&whole).all(|(cut, whole)| is_same(cut, whole)),
        "{cut:?} {whole:?}"
    );
    for line in stream.split(|byte| *byte == b'\n') {
        if let Ok(object) = decode_line(line.to_vec()) {
            let _ = HostMessage::from_object(object.clone(), Attachments::default());
            let _ = RunnerMessage::from_object(object, Attachments::default());
        }
    }
});

const EXHAUSTED: &str = "exhausted";

/// Whether a frame is the same, however the stream is cut. Bytes that arrive together are taken at once and not charged, so
/// the cuts decide whether the budget covers an attachment. No line exceeds the budget.
fn is_same(cut: &str, whole: &str) -> bool {
    cut == whole || (cut == EXHAUSTED && whole.starts_with("Ok(Attachment("))
}

fn frames<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let budget = Budget::new(2 * CAP);
    let mut decoder = LineDecoder::new(CAP);
    decoder.charge_to(&budget);
    let mut frames = Vec::new();
    for part in parts {
        decoder.push(part);
        while let Some(frame) = decoder.next_frame() {
            frames.push(match frame {
                Err(LineError::Exhausted(_)) => EXHAUSTED.to_owned(),
                frame => format!("{frame:?}"),
            });
        }
        assert!(budget.used() <= budget.limit());
    }
    frames.push(format!("{:?}", decoder.end()));
    frames
}
