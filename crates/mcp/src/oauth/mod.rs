//! OAuth 2.1 for MCP servers over HTTP: logging in, keeping the tokens, and renewing them.
//!
//! [`Login`] discovers the authorization server of a URL, registers this client there and waits for the browser of the
//! user. Its [`Credentials`] are kept in a [`TokenStore`], from which an [`Upstream`](crate::upstream::Upstream) takes the
//! token of each request.
//!
//! | module | purpose |
//! |---|---|
//! | `login` | [`Login`]: the request for authorization with PKCE, and its answer |
//! | `discovery`, `metadata` | the authorization server of a URL, and its endpoints |
//! | `client` | which client logs in: a configured one, or one that is registered for the login |
//! | `callback` | the page on a loopback port to which the browser returns |
//! | `tokens` | the token endpoint: authentication of the client, and reading of tokens |
//! | `authorization` | the token of a connection: renewed when it expires or is rejected |
//! | `challenge` | what a server asks for that rejects a request |
//! | `http`, `address_scope` | the requests: limited in size and time, without redirects, in no greater scope than the server |
//! | `error` | why a login fails |
//!
//! An authorization server is as untrusted as the MCP server that names it: it gets no credentials but its own. A token is sent to
//! the URL that it was issued for, and no request with one follows a redirect.
//!
//! The protocol is a few forms over HTTP, and is implemented here because servers deviate from it. In rmcp, which was used before,
//! the first document of a discovery that does not fit ends it; the metadata of the server, not the registration, decides how a
//! client authenticates itself; and an odd lifetime rejects a token that was issued, as in the crate `oauth2` below it.

mod address_scope;
mod authorization;
mod callback;
mod challenge;
mod client;
mod discovery;
mod error;
mod http;
mod login;
mod metadata;
mod tokens;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use execbox_core::text::cut;
use reqwest::Url;
use serde::{Deserialize, Serialize};

pub use error::{LoginError, MetadataProblem, RequestError, RequestProblem};
pub use login::{Login, LoginState, login_state, revoke};

pub(crate) use authorization::{Authorization, Unauthorized};
pub(crate) use challenge::Challenge;

use self::http::OAuthHttp;
use tokens::{ClientAuthentication, Endpoint, TokenError};

/// The client that a configuration registers with an authorization server. All members are optional.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthClient {
    /// The id of a client that is registered already. Default: the client registers itself.
    pub client_id: Option<String>,
    /// The secret of that client. Default: none; the client is public.
    pub client_secret: Option<String>,
    /// The `https` URL of the client's metadata, which is its id where authorization servers support that (OAuth Client ID
    /// Metadata Document). Default: the client registers itself.
    pub client_metadata_url: Option<String>,
    /// The authorization server that the client belongs to: no other gets its secret. Default: the one that the server names;
    /// after a login, that of the login.
    pub issuer: Option<String>,
    /// The scopes that are requested. Default: those that the server asks for.
    pub scopes: Vec<String>,
    /// The port on 127.0.0.1 to which the browser returns. Default: a free one.
    pub callback_port: Option<u16>,
}

impl OAuthClient {
    execbox_core::setters! {
        client_id: impl Into<Option<String>>,
        client_secret: impl Into<Option<String>>,
        client_metadata_url: impl Into<Option<String>>,
        issuer: impl Into<Option<String>>,
        scopes: Vec<String>,
        callback_port: impl Into<Option<u16>>,
    }
}

/// Omits the secret.
impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("OAuthClient");
        debug.field("client_id", &self.client_id).field("client_metadata_url", &self.client_metadata_url);
        debug.field("issuer", &self.issuer).field("scopes", &self.scopes);
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
    /// How the client authenticates itself, as the authorization server has accepted it.
    #[serde(default)]
    authentication: ClientAuthentication,
    #[serde(default)]
    issuer: String,
    /// The URL of the server that the tokens were requested for.
    resource: String,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// The scopes that were granted, or else requested.
    #[serde(default)]
    scopes: Vec<String>,
    /// The scopes that calls have lacked since the login.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing_scopes: Vec<String>,
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

    /// What is left when the tokens are not valid any more: the client stays bound to its authorization server, and the next
    /// login requests the same scopes.
    fn without_tokens(self) -> Self {
        Self { access_token: String::new(), refresh_token: None, renew_at: Some(0), ..self }
    }

    /// The scopes that calls have lacked since the login. The next login requests them, too.
    pub fn missing_scopes(&self) -> &[String] {
        &self.missing_scopes
    }

    /// Requests tokens for a grant (RFC 6749 §4.1.3, §6), and takes them.
    async fn request_tokens(mut self, grant: &[(&str, &str)], http: &OAuthHttp) -> Result<Self, TokenError> {
        let url = Url::parse(&self.token_endpoint).map_err(|_| TokenError::Invalid)?;
        let grant = [grant, &[("resource", &self.resource)]].concat();
        let (tokens, authentication) =
            Endpoint::of(&self, &url, http).request_tokens(self.authentication, &grant).await?;
        self.authentication = authentication;
        self.access_token = tokens.access;
        // If the server sends no new refresh token, the old one stays valid.
        self.refresh_token = tokens.refresh.or(self.refresh_token);
        self.scopes = tokens.scopes.unwrap_or(self.scopes);
        let renew_at = |lifetime: u64| now().saturating_add(lifetime - (lifetime / 2).min(RENEW_BEFORE));
        self.renew_at = tokens.lifetime.map(renew_at);
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

/// The beginning of a text of a server, on one line.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    cut(&words.collect::<Vec<_>>().join(" "), MAX_TEXT)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// The maximum length of a text of a server in an error, in characters.
const MAX_TEXT: usize = 300;

/// How long before its expiry a token is renewed, in seconds; at most half of its lifetime.
const RENEW_BEFORE: u64 = 30;
