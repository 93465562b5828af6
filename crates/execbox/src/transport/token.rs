//! The token that a listening runner can require.
//!
//! Over WebSocket it is sent as `Authorization: Bearer …`; over TCP and Unix sockets as the first line, before the protocol:
//! `{"type":"authenticate","token":"…"}`. A runner that requires no token ignores that line, like every message of an
//! unknown type. A runner that does not accept the token answers `401`, or `{"type":"rejected","reason":"token"}`,
//! which other hosts ignore, and closes the connection.

use std::{fmt, io};

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

/// Why a runner closed a connection: the inner error of an [`io::Error`]. As the error of receiving, it ends a program
/// with `internal_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRejection {
    /// The host presented no token.
    #[error("the runner requires a token")]
    Missing,
    /// The host presented another token.
    #[error("the runner rejected the token")]
    Wrong,
}

impl TokenRejection {
    /// The rejection that is the inner error of `error`.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
    }

    /// The rejection of a host that has presented a token, or none.
    pub(super) fn of_host(has_presented: bool) -> Self {
        if has_presented { Self::Wrong } else { Self::Missing }
    }

    /// The rejection of a request with this `Authorization` header, or none.
    pub fn of_header(value: Option<&str>) -> Self {
        Self::of_host(value.and_then(bearer).is_some_and(|token| !token.is_empty()))
    }

    /// The line that tells a host of a rejection, with its line end.
    pub(super) const LINE: &[u8] = b"{\"type\":\"rejected\",\"reason\":\"token\"}\n";

    /// Whether the first line of a runner is [`LINE`](Self::LINE), with any members in addition.
    pub(super) fn is_line(line: &[u8]) -> bool {
        const MAX_BYTES: usize = 1024;
        let object = (line.len() <= MAX_BYTES).then(|| decode_line(line.to_vec()));
        let Some(Ok(object)) = object else { return false };
        let is = |name, value| object.get(name).and_then(Json::as_str) == Some(value);
        is("type", "rejected") && is("reason", "token")
    }
}

impl From<TokenRejection> for io::Error {
    fn from(rejection: TokenRejection) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, rejection)
    }
}

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

    /// Checks that a first line presents this token.
    pub(super) fn check_line(&self, line: &[u8]) -> Result<(), TokenRejection> {
        let Ok(object) = decode_line(line.to_vec()) else { return Err(TokenRejection::Missing) };
        let field = |name| object.get(name).and_then(Json::as_str);
        match field("type") {
            Some("authenticate") if self.is(field("token").unwrap_or_default()) => Ok(()),
            Some("authenticate") => Err(TokenRejection::Wrong),
            _ => Err(TokenRejection::Missing),
        }
    }

    /// The value of an `Authorization` header.
    pub(super) fn to_header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether the value of an `Authorization` header presents this token.
    pub fn is_in_header(&self, value: &str) -> bool {
        bearer(value).is_some_and(|presented| self.is(presented))
    }

    /// Compares in constant time for tokens of equal length.
    fn is(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }
}

/// The token in the value of an `Authorization` header.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
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
        assert!(token.check_line(&token.to_line()).is_ok() && token.is_in_header(&token.to_header()));
        assert!(token.is_in_header("bearer s3cret"));
        for presented in ["", "s3cre", "s3cret!", "S3cret", "s3creu"] {
            assert!(!token.is_in_header(&format!("Bearer {presented}")), "{presented}");
            let line = json!({ "type": "authenticate", "token": presented }).to_string();
            assert_eq!(token.check_line(line.as_bytes()), Err(TokenRejection::Wrong), "{presented}");
        }
        assert_eq!(token.check_line(br#"{"type":"execute","token":"s3cret"}"#), Err(TokenRejection::Missing));
        assert_eq!(token.check_line(b"s3cret"), Err(TokenRejection::Missing));
        assert_eq!(token.check_line(br#"{"type":"authenticate","token":["s3cret"]}"#), Err(TokenRejection::Wrong));
        assert!(!token.is_in_header("Basic s3cret"));
        for (header, rejection) in [
            (None, TokenRejection::Missing),
            (Some("Bearer "), TokenRejection::Missing),
            (Some("Basic s3cret"), TokenRejection::Missing),
            (Some("bearer x"), TokenRejection::Wrong),
        ] {
            assert_eq!(TokenRejection::of_header(header), rejection, "{header:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn only_the_line_of_a_rejection_is_one() {
        assert!(TokenRejection::is_line(TokenRejection::LINE.trim_ascii_end()));
        assert!(TokenRejection::is_line(br#"{"type":"rejected","reason":"token","text":"no"}"#));
        for line in [&br#"{"type":"rejected"}"#[..], br#"{"type":"started","reason":"token"}"#, b"rejected", b""] {
            assert!(!TokenRejection::is_line(line), "{line:?}");
        }
        let long = [&br#"{"type":"rejected","reason":"token","text":""#[..], &[b'x'; 1024], br#""}"#].concat();
        assert!(!TokenRejection::is_line(&long), "too long to be parsed twice");
    }

    #[test]
    fn texts_that_do_not_fit_in_a_header_are_rejected() {
        for text in ["", "  ", "two words", "tök", "a\u{7f}b", &"x".repeat(1025)] {
            assert_eq!(Token::new(text), Err(TokenError), "{text:?}");
        }
    }
}
