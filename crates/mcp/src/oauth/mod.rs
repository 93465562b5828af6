//! OAuth 2.1 for MCP servers over HTTP: logging in, keeping the tokens, and renewing them.
//!
//! [`Login`] discovers the authorization server of a URL, registers this client there and waits for the browser of the
//! user. Its [`Credentials`] are kept in a [`TokenStore`], from which an [`Upstream`](crate::upstream::Upstream) takes the
//! token of each request.
//!
//! | module | purpose |
//! |---|---|
//! | `login` | [`Login`]: discovery, registration, PKCE, the code, the tokens; rmcp implements the protocol |
//! | `callback` | the page on a loopback port to which the browser returns |
//! | `authorization` | the token of a connection: renewed when it expires or is rejected |
//! | `http`, `address_scope` | the requests: limited in size and time, without redirects, in no greater scope than the server |
//! | `error` | why a login fails |
//!
//! An authorization server is as untrusted as the MCP server that names it: it gets no credentials but its own.

mod address_scope;
mod authorization;
mod callback;
mod error;
mod http;
mod login;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use error::{LoginError, RequestError, RequestProblem};
pub use login::{Login, LoginState, login_state, revoke};

pub(crate) use authorization::{Authorization, Unauthorized};

/// The client that a configuration registers with an authorization server. All members are optional.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuthClient {
    /// The id of a client that is registered already. Default: the client registers itself.
    pub client_id: Option<String>,
    /// The secret of that client. Default: none; the client is public.
    pub client_secret: Option<String>,
    /// The scopes that are requested. Default: those that the server asks for.
    pub scopes: Vec<String>,
    /// The port on 127.0.0.1 to which the browser returns. Default: a free one.
    pub callback_port: Option<u16>,
}

/// Omits the secret.
impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("OAuthClient");
        debug.field("client_id", &self.client_id).field("scopes", &self.scopes);
        debug.field("callback_port", &self.callback_port).finish_non_exhaustive()
    }
}

/// The result of a login: the tokens, and the data that is needed to renew and to revoke them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// Whether the secret is sent in the body, because the server does not support headers.
    #[serde(default)]
    secret_in_body: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// The URL of the server that the tokens were requested for.
    resource: String,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    /// The time from which the access token is renewed before it is used, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renew_at: Option<u64>,
}

impl Credentials {
    /// Whether the access token can be used without renewing it.
    fn is_fresh(&self) -> bool {
        self.renew_at.is_none_or(|at| now() < at)
    }

    /// Whether the access token is valid or can be renewed. The server may have revoked the tokens.
    pub fn is_usable(&self) -> bool {
        self.is_fresh() || self.refresh_token.is_some()
    }

    /// Takes the tokens of a response of the token endpoint.
    fn with_tokens(mut self, response: &serde_json::Value) -> Result<Self, LoginError> {
        let text = |name: &str| response[name].as_str().map(str::to_owned);
        let kind = text("token_type").unwrap_or_default();
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(LoginError::TokenType);
        }
        self.access_token = text("access_token").filter(|token| is_token(token)).ok_or(LoginError::InvalidToken)?;
        // If the server sends no new refresh token, the old one stays valid.
        if let Some(token) = text("refresh_token") {
            self.refresh_token = Some(Some(token).filter(|token| is_token(token)).ok_or(LoginError::InvalidToken)?);
        }
        if let Some(scope) = text("scope") {
            self.scopes = scope.split_whitespace().map(str::to_owned).collect();
        }
        let lifetime = response["expires_in"].as_u64();
        self.renew_at = lifetime.map(|lifetime| now().saturating_add(lifetime - (lifetime / 2).min(RENEW_BEFORE)));
        Ok(self)
    }
}

/// Omits the tokens.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Credentials");
        debug.field("issuer", &self.issuer).field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// Keeps the credentials of servers. Credentials belong to the name and the URL of a server: a server with another URL does
/// not get them. The functions may block.
pub trait TokenStore: fmt::Debug + Send + Sync {
    /// The credentials of a server.
    fn load(&self, server: &str, url: &str) -> Result<Option<Credentials>, StoreError>;

    /// Replaces the credentials of a server; `None` removes them.
    fn save(&self, server: &str, url: &str, credentials: Option<&Credentials>) -> Result<(), StoreError>;

    /// Keeps other processes from renewing the tokens of a server until the result is dropped. `None` while another
    /// process holds the lock. Default: always succeeds, for stores that no other process uses.
    fn try_lock(&self, _server: &str, _url: &str) -> Result<Option<Box<dyn Send>>, StoreError> {
        Ok(Some(Box::new(())))
    }
}

/// Why stored credentials cannot be read or written, as a clause. Contains no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Whether a text can be a token: printable ASCII without spaces, of a length that fits into a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// The maximum length of a token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// How long before its expiry a token is renewed, in seconds; at most half of its lifetime.
const RENEW_BEFORE: u64 = 30;
