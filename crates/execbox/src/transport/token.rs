//! The token that a listening runner asks for.
//!
//! Over WebSocket it crosses as `Authorization: Bearer …`. Over TCP and Unix sockets it is the first line,
//! before the protocol: `{"type":"authenticate","token":"…"}`. A runner that asks for none ignores that
//! line, as it ignores every type that it does not know.

use std::fmt;

use execbox_core::protocol::line::decode_line;
use serde_json::{Value as Json, json};

/// A secret that both sides know: 1 to 1024 visible ASCII characters. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A text that cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token is 1 to 1024 visible ASCII characters, without spaces")]
pub struct TokenError;

impl Token {
    /// The token of this text. White space around it is not part of it.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let fits = (1..=1024).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError) }
    }

    /// The first line that shows it, without its end: for hosts that talk to a socket by themselves.
    pub fn to_line(&self) -> Vec<u8> {
        json!({ "type": "authenticate", "token": self.0 }).to_string().into_bytes()
    }

    /// Whether a first line shows this token.
    pub(super) fn is_in_line(&self, line: &[u8]) -> bool {
        let Ok(object) = decode_line(line.to_vec()) else { return false };
        let field = |name| object.get(name).and_then(Json::as_str);
        field("type") == Some("authenticate") && self.is(field("token").unwrap_or_default())
    }

    /// The value of an `Authorization` header.
    pub(super) fn to_header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether the value of an `Authorization` header shows this token.
    pub fn is_in_header(&self, value: &str) -> bool {
        let Some((scheme, shown)) = value.split_once(' ') else { return false };
        scheme.eq_ignore_ascii_case("bearer") && self.is(shown.trim())
    }

    /// Compares without telling by the time that it takes where two texts differ.
    fn is(&self, shown: &str) -> bool {
        let differences = self.0.bytes().zip(shown.bytes()).fold(0, |differences, (a, b)| differences | (a ^ b));
        self.0.len() == shown.len() && std::hint::black_box(differences) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_by_the_very_same_text_and_by_nothing_else() {
        let token = Token::new(" s3cret\n").unwrap();
        assert!(token.is_in_line(&token.to_line()) && token.is_in_header(&token.to_header()));
        assert!(token.is_in_header("bearer s3cret"));
        for shown in ["", "s3cre", "s3cret!", "S3cret", "s3creu"] {
            assert!(!token.is_in_header(&format!("Bearer {shown}")), "{shown}");
            let line = json!({ "type": "authenticate", "token": shown }).to_string();
            assert!(!token.is_in_line(line.as_bytes()), "{shown}");
        }
        assert!(!token.is_in_line(br#"{"type":"execute","token":"s3cret"}"#));
        assert!(!token.is_in_line(br#"{"type":"authenticate","token":["s3cret"]}"#));
        assert!(!token.is_in_header("Basic s3cret"));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn what_cannot_cross_in_a_header_is_no_token() {
        for text in ["", "  ", "two words", "tök", "a\u{7f}b", &"x".repeat(1025)] {
            assert_eq!(Token::new(text), Err(TokenError), "{text:?}");
        }
    }
}
