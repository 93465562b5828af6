//! Redaction of secrets: credentials of the configuration, and tokens of logins.
//!
//! Text is redacted where it leaves: in `server/run.rs`, by the command line, in status and logs. Names and schemas never are.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use execbox::ExecuteResult;
use serde_json::Value as Json;

/// Values that are redacted from what leaves for clients, logs and terminals. What programs compute with is never changed.
///
/// Each occurrence as a whole token is replaced by the name of the secret, as `${NAME}`: `test` is not found in `testing`.
/// Only the value itself is found, not encodings of it (base64, a hash, parts). Clones share the secrets. At most
/// [`MAX_SECRETS`](Self::MAX_SECRETS) are kept, the newest ones.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    secrets: VecDeque<Secret>,
    /// Finds the values. `None` if there are none.
    finder: Option<AhoCorasick>,
}

#[derive(Clone, PartialEq, Eq)]
struct Secret {
    name: String,
    value: String,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.list() == other.list()
    }
}

impl Eq for Secrets {}

impl Secrets {
    /// The minimum length of a value that is redacted, in bytes: shorter ones occur by chance.
    pub const MIN_LENGTH: usize = 4;

    /// The maximum number of secrets.
    pub const MAX_SECRETS: usize = 4_096;

    /// Creates secrets from pairs of name and value. Values of fewer than [`MIN_LENGTH`](Self::MIN_LENGTH) bytes are
    /// ignored, and so are values that have a name already.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let new = Self::default();
        new.extend(secrets.into_iter().map(|(name, value)| Secret { name, value }));
        new
    }

    /// Adds secrets to this and all its clones. The oldest are dropped if there are too many.
    pub fn add(&self, others: &Self) {
        if !Arc::ptr_eq(&self.0, &others.0) {
            self.extend(others.list());
        }
    }

    /// Adds a token to this and all its clones.
    pub(crate) fn add_token(&self, name: &str, value: &str) {
        self.extend([Secret { name: name.to_owned(), value: value.to_owned() }]);
    }

    fn extend(&self, new: impl IntoIterator<Item = Secret>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut is_changed = false;
        for secret in new.into_iter().filter(|secret| secret.value.len() >= Self::MIN_LENGTH) {
            if all.secrets.iter().any(|known| known.value == secret.value) {
                continue;
            }
            is_changed = true;
            all.secrets.push_back(secret);
            if all.secrets.len() > Self::MAX_SECRETS {
                all.secrets.pop_front();
            }
        }
        if is_changed {
            let values = all.secrets.iter().map(|secret| &secret.value);
            all.finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values).ok();
        }
    }

    /// Replaces the secrets in a text.
    pub fn redact(&self, text: String) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.redacted(&text).unwrap_or(text)
    }

    /// Replaces the secrets in all strings of a value. The keys of objects stay.
    pub fn redact_json(&self, value: &mut Json) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut rest = if known.finder.is_some() { vec![value] } else { Vec::new() };
        while let Some(value) = rest.pop() {
            match value {
                Json::String(text) => {
                    if let Some(redacted) = known.redacted(text) {
                        *text = redacted;
                    }
                }
                Json::Array(items) => rest.extend(items),
                Json::Object(members) => rest.extend(members.values_mut()),
                Json::Null | Json::Bool(_) | Json::Number(_) => {}
            }
        }
    }

    /// Replaces the secrets in the value of a result, in its error and in its log.
    pub fn redact_result(&self, result: &mut ExecuteResult) {
        match &mut result.outcome {
            Ok(Some(value)) => self.redact_json(value),
            Ok(None) => {}
            Err(error) => error.message = self.redact(std::mem::take(&mut error.message)),
        }
        for line in &mut result.logs {
            *line = self.redact(std::mem::take(line));
        }
    }

    /// Whether any string of a value contains a secret.
    pub(crate) fn occur_in(&self, value: &Json) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut rest = if known.finder.is_some() { vec![value] } else { Vec::new() };
        while let Some(value) = rest.pop() {
            match value {
                Json::String(text) if known.next(text, 0).is_some() => return true,
                Json::Array(items) => rest.extend(items),
                Json::Object(members) => rest.extend(members.values()),
                _ => {}
            }
        }
        false
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).secrets.is_empty()
    }

    fn list(&self) -> VecDeque<Secret> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).secrets.clone()
    }
}

impl Known {
    /// The text without secrets; `None` if there are none in it.
    fn redacted(&self, text: &str) -> Option<String> {
        let mut found = self.next(text, 0)?;
        let (mut redacted, mut at) = (String::with_capacity(text.len()), 0);
        loop {
            let (start, secret) = found;
            redacted += &text[at..start];
            redacted += &format!("${{{}}}", secret.name);
            at = start + secret.value.len();
            match self.next(text, at) {
                Some(next) => found = next,
                None => return Some(redacted + &text[at..]),
            }
        }
    }

    /// The next secret in a text that is a whole token, and where it begins.
    fn next(&self, text: &str, from: usize) -> Option<(usize, &Secret)> {
        let finder = self.finder.as_ref()?;
        let mut from = from;
        while let Some(found) = finder.find(Input::new(text).range(from..)) {
            let start = found.start();
            let longest = &self.secrets[found.pattern().as_usize()];
            if is_whole(text, start, &longest.value) {
                return Some((start, longest));
            }
            // A shorter secret may begin at the same place.
            let begins =
                |secret: &&Secret| text[start..].starts_with(&secret.value) && is_whole(text, start, &secret.value);
            if let Some(shorter) = self.secrets.iter().filter(begins).max_by_key(|secret| secret.value.len()) {
                return Some((start, shorter));
            }
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        }
        None
    }
}

/// Whether the value at `start` is not a part of a longer word.
fn is_whole(text: &str, start: usize, value: &str) -> bool {
    let (before, after) = (&text[..start], &text[start + value.len()..]);
    let joins = |a: Option<char>, b: Option<char>| a.is_some_and(is_word) && b.is_some_and(is_word);
    let begins = !joins(before.chars().next_back(), value.chars().next()) || ends_with_escape(before);
    begins && !joins(value.chars().next_back(), after.chars().next())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text ends with an escape sequence of JSON (`\n`, `\u000a`) or of URLs (`%20`), whose last character is no part of
/// the word after it.
fn ends_with_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_hex = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    match bytes {
        [.., b'\\', b'b' | b'f' | b'n' | b'r' | b't'] => true,
        [.., b'\\', b'u', a, b, c, d] => is_hex(&[*a, *b, *c, *d]),
        [.., b'%', a, b] => is_hex(&[*a, *b]),
        _ => false,
    }
}

/// Shows the names only.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.list().iter().map(|secret| &secret.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Secrets;

    fn secrets(pairs: &[(&str, &str)]) -> Secrets {
        Secrets::new(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn secrets_are_redacted_in_texts_and_strings_but_not_in_keys() {
        let secrets = secrets(&[("A", "hunter2"), ("LONGER", "hunter22"), ("SHORT", "abc")]);
        assert_eq!(secrets.redact("hunter22, hunter2, abc".into()), "${LONGER}, ${A}, abc");
        let mut value = json!({ "a": ["x hunter2", 1, { "hunter2": null }] });
        assert!(secrets.occur_in(&value) && !secrets.occur_in(&json!({ "hunter2": ["abc"] })));
        secrets.redact_json(&mut value);
        assert_eq!(value, json!({ "a": ["x ${A}", 1, { "hunter2": null }] }));
        assert_eq!(format!("{secrets:?}"), r#"{"A", "LONGER"}"#);
    }

    #[test]
    fn only_whole_tokens_are_redacted() {
        let secrets = secrets(&[("T", "test"), ("DASHED", "test-one"), ("SIGN", "=x+y=")]);
        for (text, redacted) in [
            ("a test of testing, latest, test_2, étest", "a ${T} of testing, latest, test_2, étest"),
            ("test", "${T}"),
            ("test-one test-ones", "${DASHED} ${T}-ones"),
            (r#"{"a":"\ntest\u0020test"}"#, r#"{"a":"\n${T}\u0020${T}"}"#),
            ("?key=test&b=%20test", "?key=${T}&b=%20${T}"),
            ("a=x+y=b", "a${SIGN}b"),
            ("testtest test.test", "testtest ${T}.${T}"),
        ] {
            assert_eq!(secrets.redact(text.into()), redacted, "{text}");
        }
    }

    #[test]
    fn tokens_are_redacted_by_all_clones_and_the_oldest_are_dropped() {
        let secrets = Secrets::default();
        let clone = secrets.clone();
        let many = (0..Secrets::MAX_SECRETS).map(|number| ("token".to_owned(), format!("token-{number:04}")));
        clone.add(&Secrets::new(many));
        secrets.add_token("token", "token-last");
        assert_eq!(clone.redact("token-0000 token-0001 token-last".into()), "token-0000 ${token} ${token}");
    }
}
