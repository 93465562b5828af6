//! Values in messages: as JSON, truncated before they are written.

use std::io;

use execbox_core::text::cut;
use serde_json::Value as Json;

/// The length of the message of a violation, in characters.
pub(super) const MAX_CHARS: usize = 240;

/// A value as JSON, truncated.
pub(super) fn shown(value: &Json) -> String {
    let mut text = Truncated(Vec::new());
    let _ = serde_json::to_writer(&mut text, value);
    cut(&String::from_utf8_lossy(&text.0), MAX_CHARS)
}

/// `1, "a" or null`, truncated.
pub(super) fn list(values: &[&Json]) -> String {
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        if text.len() > MAX_CHARS {
            break;
        }
        let separator = match at {
            0 => "",
            at if at + 1 == values.len() => " or ",
            _ => ", ",
        };
        text += separator;
        text += &shown(value);
    }
    cut(&text, MAX_CHARS)
}

/// Fails when there is enough text for [`MAX_CHARS`] characters.
struct Truncated(Vec<u8>);

impl io::Write for Truncated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (4 * MAX_CHARS + 4).saturating_sub(self.0.len());
        if room == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = bytes.len().min(room);
        self.0.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
