//! Secrets that servers are given, and that nobody else is to read.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

/// Values that are hidden wherever a server says them: in results, errors, descriptions and on its standard error.
///
/// Each occurrence gives way to the secret's name, as `${NAME}`. A value is found as it is, not in another encoding
/// of it (base64, a hash, in pieces). Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Arc<[Secret]>);

#[derive(PartialEq, Eq)]
struct Secret {
    name: String,
    value: String,
}

impl Secrets {
    /// Secrets by name. Values of fewer than [`SHORTEST`](Self::SHORTEST) bytes are not hidden: they would be found
    /// in text that has nothing to do with them.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = secrets.into_iter().filter(|(_, value)| value.len() >= Self::SHORTEST);
        let mut secrets: Vec<Secret> = secrets.map(|(name, value)| Secret { name, value }).collect();
        // One that contains another is hidden whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        Self(secrets.into())
    }

    /// How long a value must be, in bytes, to be hidden.
    pub const SHORTEST: usize = 4;

    /// The text without them.
    pub fn hide(&self, mut text: String) -> String {
        for Secret { name, value } in &*self.0 {
            if text.contains(value) {
                text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        text
    }

    /// Hides them in all strings and keys of a value.
    pub fn hide_in(&self, value: &mut Json) {
        let mut rest = if self.0.is_empty() { Vec::new() } else { vec![value] };
        while let Some(value) = rest.pop() {
            match value {
                Json::String(text) => *text = self.hide(std::mem::take(text)),
                Json::Array(items) => rest.extend(items),
                Json::Object(members) => {
                    if members.keys().any(|key| self.is_in(key)) {
                        *members = std::mem::take(members).into_iter().map(|(key, v)| (self.hide(key), v)).collect();
                    }
                    rest.extend(members.values_mut());
                }
                Json::Null | Json::Bool(_) | Json::Number(_) => {}
            }
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of them is in a text.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(&secret.value))
    }
}

/// The names alone.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|secret| &secret.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Secrets;

    #[test]
    fn secrets_are_hidden_in_text_values_and_keys() {
        let secrets = [("A", "hunter2"), ("LONGER", "hunter22"), ("SHORT", "abc")];
        let secrets = Secrets::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(secrets.hide("hunter22, hunter2, abc".into()), "${LONGER}, ${A}, abc");
        let mut value = json!({ "a": ["x hunter2", 1, { "hunter2": null }] });
        secrets.hide_in(&mut value);
        assert_eq!(value, json!({ "a": ["x ${A}", 1, { "${A}": null }] }));
        assert_eq!(format!("{secrets:?}"), r#"{"LONGER", "A"}"#);
    }
}
