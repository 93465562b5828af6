//! The token endpoint of an authorization server (RFC 6749 §3.2): how this client authenticates itself, and what responses say.
//!
//! A token that was issued is used, whatever else its response has: lifetimes and scopes are hints.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, StatusCode};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::error::status_text;
use super::http::{Body, OAuthHttp, Response};
use super::metadata::scope_list;
use super::{Credentials, LoginError, RequestError, line};

/// How a client authenticates itself at the token endpoint (RFC 7591 §2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuthentication {
    /// By nothing: the client is public.
    None,
    /// By a header with its secret.
    #[default]
    ClientSecretBasic,
    /// By its secret in the body.
    ClientSecretPost,
}

impl ClientAuthentication {
    /// The method of a client: as it is registered, or else one that the server supports. `supported` is empty if that is unknown.
    pub(super) fn of_client(has_secret: bool, registered: Option<&str>, supported: &[String]) -> Self {
        let supports = |method: &str| supported.iter().any(|other| other == method);
        match registered {
            _ if !has_secret => Self::None,
            Some("none") => Self::None,
            Some("client_secret_basic") => Self::ClientSecretBasic,
            Some("client_secret_post") => Self::ClientSecretPost,
            _ if supports("client_secret_post") && !supports("client_secret_basic") => Self::ClientSecretPost,
            _ => Self::ClientSecretBasic,
        }
    }

    /// The method that a client asks for when it registers itself: none, if the server supports that.
    pub(super) fn to_register(supported: &[String]) -> &'static str {
        let supports = |method: &&str| supported.iter().any(|other| other == method);
        ["none", "client_secret_basic", "client_secret_post"].into_iter().find(supports).unwrap_or("none")
    }
}

/// A client at an endpoint that it authenticates itself at.
#[derive(Clone, Copy)]
pub(super) struct Endpoint<'a> {
    url: &'a Url,
    client_id: &'a str,
    client_secret: Option<&'a str>,
    http: &'a OAuthHttp,
}

impl<'a> Endpoint<'a> {
    pub(super) fn of(credentials: &'a Credentials, url: &'a Url, http: &'a OAuthHttp) -> Self {
        let Credentials { client_id, client_secret, .. } = credentials;
        Self { url, client_id, client_secret: client_secret.as_deref(), http }
    }

    /// Requests tokens. If the client is rejected, its secret is sent in the other ways, too: servers are not always right
    /// about what they support. Returns the way that was accepted.
    pub(super) async fn request_tokens(
        self,
        authentication: ClientAuthentication,
        grant: &[(&str, &str)],
    ) -> Result<(Tokens, ClientAuthentication), TokenError> {
        let first = match self.request_once(authentication, grant).await {
            Err(error) if error.may_reject_client() && self.client_secret.is_some() => error,
            tokens => return Ok((tokens?, authentication)),
        };
        for other in [ClientAuthentication::ClientSecretBasic, ClientAuthentication::ClientSecretPost] {
            if other != authentication
                && let Ok(tokens) = self.request_once(other, grant).await
            {
                return Ok((tokens, other));
            }
        }
        Err(first)
    }

    async fn request_once(
        self,
        authentication: ClientAuthentication,
        grant: &[(&str, &str)],
    ) -> Result<Tokens, TokenError> {
        Tokens::read(&self.post(authentication, grant).await?)
    }

    /// Posts a form, with the client's authentication.
    pub(super) async fn post(
        self,
        authentication: ClientAuthentication,
        fields: &[(&str, &str)],
    ) -> Result<Response, RequestError> {
        let mut fields = fields.to_vec();
        let mut request = self.http.request(Method::POST, self.url.clone()).header(ACCEPT, "application/json");
        match (authentication, self.client_secret) {
            (ClientAuthentication::ClientSecretBasic, Some(secret)) => {
                request = request.header(AUTHORIZATION, basic(self.client_id, secret));
            }
            (ClientAuthentication::ClientSecretPost, Some(secret)) => {
                fields.extend([("client_id", self.client_id), ("client_secret", secret)]);
            }
            _ => fields.push(("client_id", self.client_id)),
        }
        self.http.send(request.header(CONTENT_TYPE, FORM).body(form(&fields)), Body::Whole).await
    }
}

/// The header with an id and a secret (RFC 6749 §2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encode(id), encode(secret))))
}

/// Encodes fields as `application/x-www-form-urlencoded`.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// The tokens in a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) access: String,
    /// The token for renewals, if there is a new one.
    pub(super) refresh: Option<String>,
    /// The scopes, if the response names them.
    pub(super) scopes: Option<Vec<String>>,
    /// The lifetime of the access token in seconds, if it is known.
    pub(super) lifetime: Option<u64>,
}

impl Tokens {
    /// Reads a response. An error can have any status, also 200.
    pub(super) fn read(response: &Response) -> Result<Self, TokenError> {
        let members = members(response.body()).unwrap_or_default();
        let text = |name: &str| members.get(name).and_then(Json::as_str).map(str::trim).filter(|text| !text.is_empty());
        let access = match text("access_token") {
            Some(token) if response.status().is_success() => token,
            _ => return Err(TokenError::Refused(Refusal::read(response.status(), &members, "access_token"))),
        };
        let kind = text("token_type").unwrap_or_default().to_ascii_lowercase();
        if BOUND_TYPES.contains(&kind.as_str()) {
            return Err(TokenError::Bound);
        }
        if !is_token(access) {
            return Err(TokenError::Invalid);
        }
        let refresh = text("refresh_token").filter(|token| is_token(token)).map(str::to_owned);
        let scopes = members.get("scope").map(scope_list).filter(|scopes| !scopes.is_empty());
        Ok(Self { access: access.to_owned(), refresh, scopes, lifetime: members.get("expires_in").and_then(lifetime) })
    }
}

/// Why an authorization server refuses a request (RFC 6749 §5.2, RFC 7591 §3.2.2).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The code of the error, if the response has one.
    pub(super) code: Option<String>,
    /// The reason as a clause.
    pub(super) reason: String,
}

impl Refusal {
    /// Reads a response that lacks the `expected` member.
    pub(super) fn read(status: StatusCode, members: &Map<String, Json>, expected: &str) -> Self {
        let text = |name: &str| members.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        let code = text("error").or_else(|| members.get("error")?.get("code")?.as_str());
        let description = text("error_description").or_else(|| text("message"));
        let reason = match (code, description) {
            (Some(code), Some(description)) => format!("{code}: {description}"),
            (Some(reason), None) | (None, Some(reason)) => reason.to_owned(),
            (None, None) if status.is_success() => format!("its response has no `{expected}`"),
            (None, None) => status_text(status.as_u16()),
        };
        let is_client = status == StatusCode::UNAUTHORIZED && code.is_none();
        let code = if is_client { Some("invalid_client") } else { code };
        Self { code: code.map(str::to_owned), reason: line(&reason) }
    }
}

/// The members of a response: of an object, or of a form, as some servers send it.
pub(super) fn members(body: &[u8]) -> Option<Map<String, Json>> {
    if let Ok(members) = serde_json::from_slice(body) {
        return Some(members);
    }
    let fields = form_urlencoded::parse(body).into_owned();
    let members: Map<_, _> = fields.map(|(name, value)| (name, Json::String(value))).collect();
    Some(members).filter(|members| members.contains_key("access_token") || members.contains_key("error"))
}

/// A number of seconds, which may be a text. Zero and less say nothing: the token is used until it is rejected.
fn lifetime(value: &Json) -> Option<u64> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Duration::try_from_secs_f64(seconds).ok().map(|lifetime| lifetime.as_secs()).filter(|&seconds| seconds > 0)
}

/// Whether a text can be a token: printable ASCII without spaces, of a length that fits into a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Why no token is issued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    Request(RequestError),
    Refused(Refusal),
    /// A token that is bound to a key.
    Bound,
    /// A token that cannot be sent.
    Invalid,
}

impl TokenError {
    /// Whether the server may know the client by another authentication.
    fn may_reject_client(&self) -> bool {
        let codes = ["invalid_client", "invalid_request", "unauthorized_client"];
        matches!(self, Self::Refused(Refusal { code: Some(code), .. }) if codes.contains(&code.as_str()))
    }

    /// Whether the grant or the client is not valid any more, so that repeating the request does not help.
    pub(super) fn is_final(&self) -> bool {
        let codes = ["invalid_grant", "invalid_client", "unauthorized_client"];
        // Some servers have codes of their own, such as `bad_refresh_token`.
        let is_final = |code: &str| codes.contains(&code) || code.contains("refresh_token");
        matches!(self, Self::Refused(Refusal { code: Some(code), .. }) if is_final(code))
    }
}

impl From<RequestError> for TokenError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<TokenError> for LoginError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Request(error) => Self::Request(error),
            TokenError::Refused(refusal) => Self::Exchange(refusal.reason),
            TokenError::Bound => Self::TokenType,
            TokenError::Invalid => Self::InvalidToken,
        }
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Types of tokens that need more than a header (RFC 9449, and others).
const BOUND_TYPES: &[&str] = &["dpop", "mac", "pop"];

/// The maximum length of a token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(status: u16, body: impl Into<Vec<u8>>) -> Response {
        let mut response = Response::new(body.into());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    }

    fn read(body: &Json) -> Result<Tokens, TokenError> {
        Tokens::read(&response(200, body.to_string()))
    }

    #[test]
    fn a_client_is_authenticated_as_it_is_registered() {
        use ClientAuthentication::{ClientSecretBasic, ClientSecretPost, None as Public};
        let (basic, post) = ("client_secret_basic", "client_secret_post");
        for (has_secret, registered, supported, expected) in [
            (true, Some(post), &[post, basic][..], ClientSecretPost),
            (true, Some(post), &[], ClientSecretPost),
            (true, Some(post), &[basic], ClientSecretPost),
            (true, Some(basic), &[post], ClientSecretBasic),
            (true, Some("none"), &[basic], Public),
            (true, Some("private_key_jwt"), &[post], ClientSecretPost),
            (true, None, &[], ClientSecretBasic),
            (true, None, &[post], ClientSecretPost),
            (true, None, &["none", post, basic], ClientSecretBasic),
            (false, Some(basic), &[basic], Public),
            (false, None, &[], Public),
        ] {
            let supported: Vec<_> = supported.iter().map(|&method| method.to_owned()).collect();
            let method = ClientAuthentication::of_client(has_secret, registered, &supported);
            assert_eq!(method, expected, "{has_secret} {registered:?} {supported:?}");
        }
        for (supported, expected) in [
            (&[][..], "none"),
            (&[basic, "none"], "none"),
            (&[post, basic], basic),
            (&[post], post),
            (&["private_key_jwt"], "none"),
        ] {
            let supported: Vec<_> = supported.iter().map(|&method| method.to_owned()).collect();
            assert_eq!(ClientAuthentication::to_register(&supported), expected);
        }
    }

    #[test]
    fn ids_and_secrets_are_encoded_before_they_are_a_header() {
        let decoded = |header: String| {
            String::from_utf8(BASE64_STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap()).unwrap()
        };
        assert_eq!(decoded(basic("mine", "s3cret")), "mine:s3cret");
        assert_eq!(decoded(basic("a:b c", "ü+/=")), "a%3Ab+c:%C3%BC%2B%2F%3D");
    }

    #[test]
    fn lifetimes_are_hints() {
        for (text, expected) in [
            ("3600", Some(3600)),
            ("\"3599\"", Some(3599)),
            ("\" 60 \"", Some(60)),
            ("3600.5", Some(3600)),
            ("3.6e3", Some(3600)),
            ("1e300", None),
            ("\"1e3\"", Some(1000)),
            ("0", None),
            ("-1", None),
            ("0.5", None),
            ("null", None),
            ("\"soon\"", None),
            ("\"NaN\"", None),
            ("\"inf\"", None),
            ("true", None),
            ("[]", None),
        ] {
            let body = format!(r#"{{ "access_token": "a", "token_type": "Bearer", "expires_in": {text} }}"#);
            let tokens = Tokens::read(&response(200, body)).unwrap();
            assert_eq!((tokens.access.as_str(), tokens.lifetime), ("a", expected), "{text}");
        }
    }

    #[test]
    fn other_members_do_not_reject_a_token() {
        let scopes = |tokens: Tokens| tokens.scopes.unwrap_or_default().join("+");
        for (members, refresh, expected) in [
            (json!({}), None, ""),
            (json!({ "token_type": null, "refresh_token": null, "scope": null, "error": null }), None, ""),
            (json!({ "token_type": "user", "refresh_token": "", "scope": "", "error": "" }), None, ""),
            (json!({ "token_type": "BEARER", "refresh_token": "r", "scope": "a b" }), Some("r"), "a+b"),
            (json!({ "token_type": 1, "refresh_token": " r\n", "scope": ["a", "b", 3] }), Some("r"), "a+b"),
            (json!({ "refresh_token": "x\r\ny", "scope": "repo,gist" }), None, "repo+gist"),
            (json!({ "refresh_token": { "a": 1 }, "scope": { "a": 1 }, "id_token": 5 }), None, ""),
            (json!({ "refresh_token": "x".repeat(20_000), "scope": "a  b\nc" }), None, "a+b+c"),
        ] {
            let mut body = json!({ "access_token": " token\n" });
            body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            let tokens = read(&body).unwrap();
            assert_eq!((tokens.access.as_str(), tokens.refresh.as_deref()), ("token", refresh), "{members}");
            assert_eq!(scopes(tokens), expected, "{members}");
        }
        let created = Tokens::read(&response(201, r#"{ "access_token": "a" }"#)).unwrap();
        assert_eq!(created.access, "a");
        let form = Tokens::read(&response(200, "access_token=a%2Bb&scope=repo%2Cgist&token_type=bearer&expires_in=60"));
        let form = form.unwrap();
        assert_eq!((form.access.as_str(), form.lifetime), ("a+b", Some(60)));
        assert_eq!(scopes(form), "repo+gist");
    }

    #[test]
    fn errors_are_found_whatever_the_status_is() {
        for (status, body, code, reason) in [
            (200, r#"{ "error": "invalid_grant" }"#, Some("invalid_grant"), "invalid_grant"),
            (200, r#"{ "ok": false, "error": "bad_refresh_token" }"#, Some("bad_refresh_token"), "bad_refresh_token"),
            (200, "error=invalid_grant&error_description=too+late", Some("invalid_grant"), "invalid_grant: too late"),
            (400, r#"{ "error": "x", "error_description": "a\nb" }"#, Some("x"), "x: a b"),
            (400, r#"{ "error": { "code": "x" }, "message": "y" }"#, Some("x"), "x: y"),
            (400, r#"{ "access_token": "a", "error": "x" }"#, Some("x"), "x"),
            (401, "", Some("invalid_client"), "HTTP 401 Unauthorized"),
            (503, "<html>", None, "HTTP 503 Service Unavailable"),
            (200, "{}", None, "its response has no `access_token`"),
            (200, "[]", None, "its response has no `access_token`"),
            (200, "<html>", None, "its response has no `access_token`"),
            (200, r#"{ "access_token": "" }"#, None, "its response has no `access_token`"),
            (200, r#"{ "access_token": 5 }"#, None, "its response has no `access_token`"),
        ] {
            let error = Tokens::read(&response(status, body)).unwrap_err();
            let expected = TokenError::Refused(Refusal { code: code.map(str::to_owned), reason: reason.to_owned() });
            assert_eq!(error, expected, "{status} {body}");
        }
        let TokenError::Refused(Refusal { reason, .. }) = read(&json!({ "error": "x".repeat(5000) })).unwrap_err()
        else {
            panic!()
        };
        assert!(reason.chars().count() <= 301, "{reason}");
        for (body, expected) in [
            (json!({ "access_token": "a", "token_type": "DPoP" }), TokenError::Bound),
            (json!({ "access_token": "a", "token_type": "mac" }), TokenError::Bound),
            (json!({ "access_token": "a b" }), TokenError::Invalid),
            (json!({ "access_token": "a\u{7f}" }), TokenError::Invalid),
            (json!({ "access_token": "x".repeat(20_000) }), TokenError::Invalid),
        ] {
            assert_eq!(read(&body).unwrap_err(), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_response_is_read(status in 200_u16..600, body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = Tokens::read(&response(status, body));
        }
    }
}
