//! The token that a listening runner can require.
//!
//! Over WebSocket it is sent as `Authorization: Bearer …`; over TCP and Unix sockets as the first line, before the protocol:
//! `{"type":"authenticate","token":"…"}`. A runner that requires no token ignores that line, like every message of an
//! unknown type.

use std::fmt;

use execbox_core::protocol::decode_line;
use serde_json::{Value as Json, json};
use subtle::ConstantTimeEq as _;

/// A shared secret of 1 to 1024 visible ASCII characters. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// An invalid token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid token: expected 1 to 1024 visible ASCII characters without spaces")]
pub struct TokenError;

impl Token {
    /// Creates a token. Surrounding white space is removed.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let fits = (1..=1024).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError) }
    }

    /// The first line that presents the token, without the line end, for hosts that write to a socket directly.
    pub fn to_line(&self) -> Vec<u8> {
        json!({ "type": "authenticate", "token": self.0 }).to_string().into_bytes()
    }

    /// Whether a first line presents this token.
    pub(super) fn is_in_line(&self, line: &[u8]) -> bool {
        let Ok(object) = decode_line(line.to_vec()) else { return false };
        let field = |name| object.get(name).and_then(Json::as_str);
        field("type") == Some("authenticate") && self.is(field("token").unwrap_or_default())
    }

    /// The value of an `Authorization` header.
    pub(super) fn to_header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether the value of an `Authorization` header presents this token.
    pub fn is_in_header(&self, value: &str) -> bool {
        let Some((scheme, presented)) = value.split_once(' ') else { return false };
        scheme.eq_ignore_ascii_case("bearer") && self.is(presented.trim())
    }

    /// Compares in constant time for tokens of equal length.
    fn is(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
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
    fn only_the_same_text_presents_a_token() {
        let token = Token::new(" s3cret\n").unwrap();
        assert!(token.is_in_line(&token.to_line()) && token.is_in_header(&token.to_header()));
        assert!(token.is_in_header("bearer s3cret"));
        for presented in ["", "s3cre", "s3cret!", "S3cret", "s3creu"] {
            assert!(!token.is_in_header(&format!("Bearer {presented}")), "{presented}");
            let line = json!({ "type": "authenticate", "token": presented }).to_string();
            assert!(!token.is_in_line(line.as_bytes()), "{presented}");
        }
        assert!(!token.is_in_line(br#"{"type":"execute","token":"s3cret"}"#));
        assert!(!token.is_in_line(br#"{"type":"authenticate","token":["s3cret"]}"#));
        assert!(!token.is_in_header("Basic s3cret"));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn texts_that_do_not_fit_in_a_header_are_rejected() {
        for text in ["", "  ", "two words", "tök", "a\u{7f}b", &"x".repeat(1025)] {
            assert_eq!(Token::new(text), Err(TokenError), "{text:?}");
        }
    }
}
