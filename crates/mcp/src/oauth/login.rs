//! Logging in to a server, and out.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Url;
use sha2::{Digest as _, Sha256};

use super::callback::Callback;
use super::challenge::add_scopes;
use super::client::Client;
use super::discovery::{Discovered, Probe, discover};
use super::http::{OAuthHttp, parse_endpoint, parse_url};
use super::metadata::{ServerMetadata, is_same_issuer};
use super::tokens::{Endpoint, Refusal, members};
use super::{Credentials, LoginError, OAuthClient, line};

/// A login that waits for the browser of the user.
pub struct Login {
    http: OAuthHttp,
    callback: Callback,
    url: Url,
    request: AuthorizationRequest,
    server: ServerMetadata,
    /// The credentials, still without tokens.
    credentials: Credentials,
}

/// What one request for authorization must be answered with.
struct AuthorizationRequest {
    redirect_uri: String,
    /// Binds the answer to the request.
    state: String,
    /// The secret of PKCE (RFC 7636), which binds the code to this client.
    verifier: String,
}

/// Whether a server accepts requests without a login. The set is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginState {
    /// The server rejects such requests with HTTP 401.
    Needed,
    /// The server accepts such requests, or rejects them for another reason.
    NotNeeded,
}

impl Login {
    /// Discovers the authorization server of `url`, and registers this client there unless `client` is known to it. Trusts
    /// `certificates` (PEM) in addition to those of the system. `timeout` limits each request.
    ///
    /// `previous` are the credentials that this login replaces: their scopes are requested again, with those that a call has
    /// lacked; and a configured client stays bound to their authorization server, unless `client` names one.
    pub async fn start(
        url: &str,
        client: &OAuthClient,
        previous: Option<&Credentials>,
        certificates: &str,
        timeout: Duration,
    ) -> Result<Self, LoginError> {
        let server = parse_url("the server", url)?;
        let http = OAuthHttp::new(&server, certificates, timeout)?;
        let started = tokio::time::timeout(MAX_DISCOVERY, Self::begin(server, client, previous, http)).await;
        started.unwrap_or(Err(LoginError::Slow))
    }

    async fn begin(
        server: Url,
        client: &OAuthClient,
        previous: Option<&Credentials>,
        http: OAuthHttp,
    ) -> Result<Self, LoginError> {
        let discovered = discover(server, &http).await?;
        check_binding(client, previous, &discovered.server.issuer)?;
        let scopes = scopes(client, previous, &discovered);
        let Discovered { resource, server, is_default, .. } = discovered;
        let callback = Callback::bind(client.callback_port).await?;
        let client = Client::find(client, &server, &callback, &scopes, &http).await.map_err(|error| match error {
            // A server without metadata and without registration has no OAuth.
            LoginError::Registration(_) | LoginError::Request(_) if is_default => LoginError::NotSupported,
            error => error,
        })?;
        let request = AuthorizationRequest {
            redirect_uri: client.redirect_uri,
            state: random().ok_or(LoginError::Random)?,
            verifier: random().ok_or(LoginError::Random)?,
        };
        let credentials = Credentials {
            client_id: client.id,
            client_secret: client.secret,
            authentication: client.authentication,
            issuer: server.issuer.clone(),
            resource,
            token_endpoint: server.token_endpoint.to_string(),
            revocation_endpoint: server.revocation_endpoint.as_ref().map(Url::to_string),
            access_token: String::new(),
            refresh_token: None,
            scopes,
            missing_scopes: Vec::new(),
            renew_at: None,
        };
        let url = request.url(&server.authorization_endpoint, &credentials);
        if url.as_str().len() > MAX_ADDRESS {
            return Err(LoginError::Address);
        }
        Ok(Self { http, callback, url, request, server, credentials })
    }

    /// The page where the user logs in: `https`, or `http` on this computer.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Waits until the browser returns, and exchanges its code for tokens. Has no time limit for the user.
    pub async fn finish(self) -> Result<Credentials, LoginError> {
        let Self { http, callback, request, server, credentials, .. } = self;
        let answer = callback.answer(&request.state).await;
        // An answer of another server is not even shown (RFC 9207 §2.4).
        check_issuer(&server, answer.issuer.as_deref())?;
        let code = answer.code.map_err(|reason| LoginError::Refused(line(&reason)))?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &request.redirect_uri),
            ("code_verifier", &request.verifier),
        ];
        credentials.request_tokens(&grant, &http).await.map_err(Into::into)
    }
}

impl AuthorizationRequest {
    /// The page where the user logs in (RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2.1).
    fn url(&self, endpoint: &Url, credentials: &Credentials) -> Url {
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier));
        let scopes = credentials.scopes.join(" ");
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", &credentials.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("state", &self.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &credentials.resource),
        ];
        if !scopes.is_empty() {
            parameters.push(("scope", &scopes));
        }
        if credentials.scopes.iter().any(|scope| scope == OFFLINE) {
            parameters.push(("prompt", "consent")); // OpenID Connect Core §11 requires it.
        }
        let others: Vec<_> = endpoint.query_pairs().into_owned().collect();
        let others = others.iter().filter(|(name, _)| parameters.iter().all(|(other, _)| other != name));
        let mut url = endpoint.clone();
        url.query_pairs_mut().clear().extend_pairs(others).extend_pairs(&parameters);
        url
    }
}

/// The scopes that are requested: the configured ones; or those that the server asks for, with those of the previous login.
fn scopes(client: &OAuthClient, previous: Option<&Credentials>, discovered: &Discovered) -> Vec<String> {
    if !client.scopes.is_empty() {
        return client.scopes.clone();
    }
    let mut scopes = Vec::new();
    if let Some(previous) = previous {
        if is_same_issuer(&previous.issuer, &discovered.server.issuer) {
            add_scopes(&mut scopes, &previous.scopes);
        }
        add_scopes(&mut scopes, &previous.missing_scopes);
    }
    add_scopes(&mut scopes, &discovered.scopes);
    let can_stay = discovered.server.scopes.iter().any(|scope| scope == OFFLINE);
    if can_stay && !scopes.is_empty() {
        add_scopes(&mut scopes, &[OFFLINE.to_owned()]);
    }
    scopes
}

/// Fails if a configured client is registered with another authorization server: it must not get the client's secret.
fn check_binding(client: &OAuthClient, previous: Option<&Credentials>, found: &str) -> Result<(), LoginError> {
    let is_bound = |previous: &&Credentials| client.client_id.as_ref() == Some(&previous.client_id);
    let bound = previous.filter(is_bound).map(|previous| &previous.issuer).filter(|issuer| !issuer.is_empty());
    match client.issuer.as_ref().or(bound) {
        Some(expected) if !is_same_issuer(expected, found) => {
            Err(LoginError::OtherServer { expected: line(expected), found: line(found) })
        }
        _ => Ok(()),
    }
}

/// Fails unless the answer is from the authorization server that was asked (RFC 9207 §2.4).
fn check_issuer(server: &ServerMetadata, stated: Option<&str>) -> Result<(), LoginError> {
    match stated {
        Some(stated) if stated != server.issuer => {
            Err(LoginError::IssuerMismatch { expected: line(&server.issuer), found: line(stated) })
        }
        None if server.states_issuer => Err(LoginError::MissingIssuer),
        _ => Ok(()),
    }
}

/// A text that nobody can guess, with 256 random bits.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Checks whether a server needs a login: sends the first requests of MCP without a token.
pub async fn login_state(url: &str, certificates: &str, timeout: Duration) -> Result<LoginState, LoginError> {
    let server = parse_url("the server", url)?;
    let http = OAuthHttp::new(&server, certificates, timeout)?;
    let probe = Probe::send(&server, &http).await?;
    Ok(if probe.needs_login { LoginState::Needed } else { LoginState::NotNeeded })
}

/// Asks the authorization server to revoke the tokens (RFC 7009). Returns whether it supports that.
pub async fn revoke(credentials: &Credentials, certificates: &str, timeout: Duration) -> Result<bool, LoginError> {
    if credentials.access_token.is_empty() {
        return Ok(true); // The authorization server has rejected them.
    }
    let Some(endpoint) = &credentials.revocation_endpoint else { return Ok(false) };
    let resource = parse_url("the server", &credentials.resource)?;
    let http = OAuthHttp::new(&resource, certificates, timeout)?;
    let url = parse_endpoint("the revocation endpoint", &resource, endpoint, &http)?;
    let (token, hint) = match &credentials.refresh_token {
        Some(token) => (token.as_str(), "refresh_token"),
        None => (credentials.access_token.as_str(), "access_token"),
    };
    let fields = [("token", token), ("token_type_hint", hint)];
    let response = Endpoint::of(credentials, &url, &http).post(credentials.authentication, &fields).await?;
    let members = members(response.body()).unwrap_or_default();
    let refusal = Refusal::read(response.status(), &members, "error");
    let is_revoked = response.status().is_success() && refusal.code.is_none();
    if is_revoked { Ok(true) } else { Err(LoginError::Refused(refusal.reason)) }
}

/// The scope of tokens that can be renewed while the user is away (OpenID Connect Core §11).
const OFFLINE: &str = "offline_access";

/// The maximum length of the address of the page where the user logs in, in bytes.
pub(super) const MAX_ADDRESS: usize = 64 << 10;

/// The maximum duration of discovery and registration.
const MAX_DISCOVERY: Duration = Duration::from_mins(1);
