//! Redaction of the secrets of servers: values of the configuration, and tokens.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value as Json;

/// Values that are redacted from everything a server sends: results, errors, descriptions and standard error.
///
/// Each occurrence is replaced by the name of the secret, as `${NAME}`. Only the value itself is found, not encodings of
/// it (base64, a hash, parts). Cheap to clone. Equality compares the secrets of the configuration only.
#[derive(Clone, Default)]
pub struct Secrets {
    configured: Arc<[Secret]>,
    /// Tokens of a login, which change while a server is connected. Shared by all clones.
    tokens: Arc<RwLock<Vec<Secret>>>,
}

#[derive(PartialEq, Eq)]
struct Secret {
    name: String,
    value: String,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.configured == other.configured
    }
}

impl Eq for Secrets {}

impl Secrets {
    /// Creates secrets from pairs of name and value. Values of fewer than [`MIN_LENGTH`](Self::MIN_LENGTH) bytes are
    /// ignored: they occur by chance in unrelated text.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = secrets.into_iter().filter(|(_, value)| value.len() >= Self::MIN_LENGTH);
        let mut secrets: Vec<Secret> = secrets.map(|(name, value)| Secret { name, value }).collect();
        // The longest first: a secret that contains another one is replaced as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        Self { configured: secrets.into(), tokens: Arc::default() }
    }

    /// Adds a token to this and all its clones. If there are [`MAX_TOKENS`] already, the oldest is dropped.
    pub(crate) fn add_token(&self, name: &str, value: &str) {
        let is_known = |tokens: &[Secret]| tokens.iter().any(|token| token.value == value);
        if value.len() < Self::MIN_LENGTH || is_known(&self.tokens()) {
            return;
        }
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() == MAX_TOKENS {
            tokens.remove(0);
        }
        tokens.push(Secret { name: name.to_owned(), value: value.to_owned() });
    }

    /// The minimum length of a value that is redacted, in bytes.
    pub const MIN_LENGTH: usize = 4;

    /// Replaces the secrets in a text.
    pub fn redact(&self, mut text: String) -> String {
        for Secret { name, value } in self.tokens().iter().chain(&*self.configured) {
            if text.contains(value) {
                text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        text
    }

    /// Replaces the secrets in all strings and keys of a value.
    pub fn redact_json(&self, value: &mut Json) {
        let mut rest = if self.is_empty() { Vec::new() } else { vec![value] };
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
        self.configured.is_empty() && self.tokens().is_empty()
    }

    /// Whether a text contains any of the secrets.
    pub fn occur_in(&self, text: &str) -> bool {
        self.tokens().iter().chain(&*self.configured).any(|secret| text.contains(&secret.value))
    }

    fn tokens(&self) -> RwLockReadGuard<'_, Vec<Secret>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the names only.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.configured.iter().map(|secret| &secret.name)).finish()
    }
}

/// The maximum number of tokens. Earlier tokens are kept because messages may still contain them.
const MAX_TOKENS: usize = 12;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MAX_TOKENS, Secrets};

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

    #[test]
    fn tokens_are_redacted_by_all_clones_and_the_oldest_are_dropped() {
        let secrets = Secrets::default();
        let clone = secrets.clone();
        (0..=MAX_TOKENS).for_each(|number| secrets.add_token("token", &format!("token-{number:02}")));
        assert_eq!(clone.redact("token-00 token-01 token-12".into()), "token-00 ${token} ${token}");
        assert!(clone == Secrets::default() && !clone.is_empty());
    }
}
