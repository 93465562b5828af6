//! Secrets from the configuration of servers, which are not shown to anyone else.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

/// Values that are redacted from everything a server sends: results, errors, descriptions and standard error.
///
/// Each occurrence is replaced by the name of the secret, as `${NAME}`. Only the value itself is found, not encodings of
/// it (base64, a hash, parts). Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Arc<[Secret]>);

#[derive(PartialEq, Eq)]
struct Secret {
    name: String,
    value: String,
}

impl Secrets {
    /// Creates secrets from pairs of name and value. Values of fewer than [`MIN_LENGTH`](Self::MIN_LENGTH) bytes are
    /// ignored: they occur by chance in unrelated text.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = secrets.into_iter().filter(|(_, value)| value.len() >= Self::MIN_LENGTH);
        let mut secrets: Vec<Secret> = secrets.map(|(name, value)| Secret { name, value }).collect();
        // The longest first: a secret that contains another one is replaced as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        Self(secrets.into())
    }

    /// The minimum length of a value that is redacted, in bytes.
    pub const MIN_LENGTH: usize = 4;

    /// Replaces the secrets in a text.
    pub fn redact(&self, mut text: String) -> String {
        for Secret { name, value } in &*self.0 {
            if text.contains(value) {
                text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        text
    }

    /// Replaces the secrets in all strings and keys of a value.
    pub fn redact_json(&self, value: &mut Json) {
        let mut rest = if self.0.is_empty() { Vec::new() } else { vec![value] };
        while let Some(value) = rest.pop() {
            match value {
                Json::String(text) => *text = self.redact(std::mem::take(text)),
                Json::Array(items) => rest.extend(items),
                Json::Object(members) => {
                    if members.keys().any(|key| self.occur_in(key)) {
                        *members = std::mem::take(members).into_iter().map(|(key, v)| (self.redact(key), v)).collect();
                    }
                    rest.extend(members.values_mut());
                }
                Json::Null | Json::Bool(_) | Json::Number(_) => {}
            }
        }
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a text contains any of the secrets.
    pub fn occur_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(&secret.value))
    }
}

/// Shows the names only.
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
    fn secrets_are_redacted_in_text_values_and_keys() {
        let secrets = [("A", "hunter2"), ("LONGER", "hunter22"), ("SHORT", "abc")];
        let secrets = Secrets::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(secrets.redact("hunter22, hunter2, abc".into()), "${LONGER}, ${A}, abc");
        let mut value = json!({ "a": ["x hunter2", 1, { "hunter2": null }] });
        secrets.redact_json(&mut value);
        assert_eq!(value, json!({ "a": ["x ${A}", 1, { "${A}": null }] }));
        assert_eq!(format!("{secrets:?}"), r#"{"LONGER", "A"}"#);
    }
}
