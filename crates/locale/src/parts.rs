//! Formatted text in parts, as `formatToParts` returns it.

use serde_json::Value;

/// Text with the kind of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts(pub Vec<(&'static str, String)>);

impl Parts {
    /// Appends text; literals beside each other are one part.
    pub(crate) fn push(&mut self, kind: &'static str, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some((last, before)) if *last == kind && kind == "literal" => before.push_str(text),
            _ => self.0.push((kind, text.to_owned())),
        }
    }

    pub(crate) fn append(&mut self, other: Parts) {
        for (kind, text) in other.0 {
            self.push(kind, &text);
        }
    }

    /// The text without its parts.
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Kinds and texts, alternating.
    pub(crate) fn to_value(&self) -> Value {
        self.0.iter().flat_map(|(kind, text)| [Value::from(*kind), Value::from(text.as_str())]).collect()
    }
}
