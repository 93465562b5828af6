//! Logging in to a server, and out.

use std::sync::Arc;
use std::time::Duration;

use execbox::core::text::cut;
use http::{Method, StatusCode, header};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, OAuthClientConfig,
    ProtectedResourceMetadataInvalidReason,
};
use serde_json::{Value as Json, json};

use super::callback::{Answer, Callback};
use super::http::{OAuthHttp, is_secure, origin};
use super::{Credentials, LoginError, OAuthClient};

/// A login that waits for the browser of the user.
pub struct Login {
    manager: AuthorizationManager,
    http: OAuthHttp,
    callback: Callback,
    url: String,
    state: String,
    /// The credentials, still without tokens.
    credentials: Credentials,
}

/// Whether a server accepts requests without a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginState {
    /// The server rejects such requests with HTTP 401.
    Needed,
    /// The server accepts such requests, or rejects them for another reason.
    NotNeeded,
}

impl Login {
    /// Discovers the authorization server of `url`, and registers this client there unless `client` has an id. Trusts
    /// `certificates` (PEM) in addition to those of the system. `timeout` limits each request.
    pub async fn start(
        url: &str,
        client: &OAuthClient,
        certificates: &str,
        timeout: Duration,
    ) -> Result<Self, LoginError> {
        let server = parse("the server", url)?;
        let http = OAuthHttp::new(&server, certificates, timeout)?;
        let started = tokio::time::timeout(MAX_DISCOVERY, Self::discover(server, client, http)).await;
        started.unwrap_or(Err(LoginError::Slow))
    }

    async fn discover(server: Url, client: &OAuthClient, http: OAuthHttp) -> Result<Self, LoginError> {
        let challenge = challenge(&server, &http).await?;
        let client_http = Arc::new(http.clone());
        let resource = canonical(server);
        let manager = AuthorizationManager::new_with_oauth_http_client(resource.clone(), client_http).await;
        let mut manager = manager.map_err(|error| explain(&error, &http))?;
        let resolved = manager.resolve_metadata_from_challenge(challenge.as_deref()).await;
        let resolved = resolved.map_err(|error| explain(&error, &http))?;
        if resolved.source != AuthorizationMetadataSource::ProtectedResourceMetadata {
            check_resource(&resource, &http).await?;
        }
        if !resolved.source.is_discovered() {
            return Err(LoginError::NotSupported);
        }
        let metadata = resolved.metadata;
        check_endpoints(&metadata, &http)?;
        manager.set_metadata(metadata.clone());
        let callback = Callback::bind(client.callback_port).await?;
        let scopes = match &client.scopes[..] {
            [] => manager.select_initial_scopes(&[]).await,
            scopes => scopes.to_vec(),
        };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let config = register(&mut manager, client, &metadata, &callback.redirect_uri(), &scopes, &http).await?;
        let url = manager.get_authorization_url(&scopes).await.map_err(|error| explain(&error, &http))?;
        let parameter = |name: &str| {
            let url = Url::parse(&url).ok()?;
            // The last parameter of this name: the endpoint may have others.
            url.query_pairs().filter(|(key, _)| key == name).last().map(|(_, value)| value.into_owned())
        };
        let state = parameter("state").ok_or(LoginError::Metadata("no state".to_owned()))?;
        let resource = parameter("resource").unwrap_or_else(|| resource.to_string());
        let scopes = scopes.into_iter().map(str::to_owned).collect();
        let credentials = without_tokens(config, metadata, resource, scopes);
        Ok(Self { manager, http, callback, url, state, credentials })
    }

    /// The page where the user logs in: `https`, or `http` on this computer.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until the browser returns, and exchanges its code for tokens. Has no time limit for the user.
    pub async fn finish(self) -> Result<Credentials, LoginError> {
        let (code, issuer) = match self.callback.answer(&self.state).await {
            Answer::Code { code, issuer } => (code, issuer),
            Answer::Refused(reason) => return Err(LoginError::Refused(line(&reason))),
        };
        let issuer = issuer.as_deref();
        let exchanged = self.manager.exchange_code_for_token_with_issuer(&code, &self.state, issuer).await;
        let response = exchanged.map_err(|error| explain(&error, &self.http))?;
        let response = serde_json::to_value(response).map_err(|_| LoginError::InvalidToken)?;
        self.credentials.with_tokens(&response)
    }
}

/// Checks whether a server needs a login: sends the first request of MCP without a token.
pub async fn login_state(url: &str, certificates: &str, timeout: Duration) -> Result<LoginState, LoginError> {
    let server = parse("the server", url)?;
    let http = OAuthHttp::new(&server, certificates, timeout)?;
    let status = probe(&server, &http).await?.status();
    Ok(if status == StatusCode::UNAUTHORIZED { LoginState::Needed } else { LoginState::NotNeeded })
}

/// Asks the authorization server to revoke the tokens. Returns whether it supports that.
pub async fn revoke(credentials: &Credentials, certificates: &str, timeout: Duration) -> Result<bool, LoginError> {
    let Some(endpoint) = &credentials.revocation_endpoint else { return Ok(false) };
    let http = OAuthHttp::new(&parse("the server", &credentials.resource)?, certificates, timeout)?;
    let endpoint = chosen("the revocation endpoint", endpoint, &http)?;
    let (token, hint) = match &credentials.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&credentials.access_token, "access_token"),
    };
    let mut fields = vec![("token", token.as_str()), ("token_type_hint", hint), ("client_id", &credentials.client_id)];
    let mut request = http.request(Method::POST, endpoint.clone());
    match &credentials.client_secret {
        Some(secret) if credentials.secret_in_body => fields.push(("client_secret", secret)),
        Some(secret) => request = request.basic_auth(&credentials.client_id, Some(secret)),
        None => {}
    }
    let request =
        request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form(endpoint, &fields));
    let response = http.send(request.build().map_err(|_| LoginError::Url)?).await?;
    match response.status() {
        status if status.is_success() => Ok(true),
        status => Err(LoginError::Refused(format!("HTTP {status}"))),
    }
}

/// The URL of a server as it is sent to other servers: without its query and password, which may be secret.
fn canonical(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    // Both calls fail for URLs without a host only.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// The challenge of the server in its answer to a request without a token.
async fn challenge(server: &Url, http: &OAuthHttp) -> Result<Option<String>, LoginError> {
    let response = probe(server, http).await?;
    let challenges = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
    let mut challenges = challenges.filter_map(|value| value.to_str().ok().map(str::to_owned));
    Ok(challenges.find(|challenge| challenge.to_ascii_lowercase().contains("resource_metadata")))
}

/// Fails if the metadata at the well-known path are for another URL: rmcp ignores such metadata.
async fn check_resource(server: &Url, http: &OAuthHttp) -> Result<(), LoginError> {
    let mut place = server.clone();
    place.set_path(&format!("/.well-known/oauth-protected-resource{}", server.path().trim_end_matches('/')));
    let request = http.request(Method::GET, place).build().map_err(|_| LoginError::Url)?;
    let response = http.send(request).await?;
    let metadata: Json = serde_json::from_slice(response.body()).unwrap_or_default();
    let Some(found) = metadata["resource"].as_str().filter(|_| response.status() == StatusCode::OK) else {
        return Ok(());
    };
    let is_prefix = |url: Url| url.origin() == server.origin() && server.path().starts_with(url.path());
    if Url::parse(found).is_ok_and(is_prefix) {
        return Ok(());
    }
    Err(LoginError::ResourceMismatch { expected: bare(server), found: line(found) })
}

/// Sends an `initialize` request without a token.
async fn probe(server: &Url, http: &OAuthHttp) -> Result<http::Response<Vec<u8>>, LoginError> {
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "execbox", "version": env!("CARGO_PKG_VERSION") }
    } });
    let request = http.request(Method::POST, server.clone()).header(header::CONTENT_TYPE, "application/json");
    let request = request.header(header::ACCEPT, "application/json, text/event-stream").body(initialize.to_string());
    Ok(http.send(request.build().map_err(|_| LoginError::Url)?).await?)
}

/// The configured client, or one that registers itself.
async fn register(
    manager: &mut AuthorizationManager,
    client: &OAuthClient,
    metadata: &AuthorizationMetadata,
    redirect_uri: &str,
    scopes: &[&str],
    http: &OAuthHttp,
) -> Result<OAuthClientConfig, LoginError> {
    let Some(id) = &client.client_id else {
        if metadata.registration_endpoint.is_none() {
            return Err(LoginError::NoRegistration);
        }
        return manager.register_client("Execbox", redirect_uri, scopes).await.map_err(|error| explain(&error, http));
    };
    let mut config = OAuthClientConfig::new(id, redirect_uri);
    if let Some(secret) = &client.client_secret {
        config = config.with_client_secret(secret);
    }
    manager.configure_client(config.clone()).map_err(|error| explain(&error, http))?;
    Ok(config)
}

fn without_tokens(
    client: OAuthClientConfig,
    metadata: AuthorizationMetadata,
    resource: String,
    scopes: Vec<String>,
) -> Credentials {
    let field = |name: &str| metadata.additional_fields.get(name);
    let methods = field("token_endpoint_auth_methods_supported").and_then(|methods| methods.as_array());
    let has = |method: &str| methods.is_some_and(|methods| methods.iter().any(|one| one.as_str() == Some(method)));
    Credentials {
        client_id: client.client_id,
        client_secret: client.client_secret,
        secret_in_body: has("client_secret_post") && !has("client_secret_basic"),
        resource,
        revocation_endpoint: field("revocation_endpoint").and_then(|url| url.as_str()).map(str::to_owned),
        issuer: metadata.issuer,
        token_endpoint: metadata.token_endpoint,
        access_token: String::new(),
        refresh_token: None,
        scopes,
        renew_at: None,
    }
}

/// Fails unless all endpoints are encrypted and in no greater scope than the server.
fn check_endpoints(metadata: &AuthorizationMetadata, http: &OAuthHttp) -> Result<(), LoginError> {
    chosen("the authorization endpoint", &metadata.authorization_endpoint, http)?;
    chosen("the token endpoint", &metadata.token_endpoint, http)?;
    let mut registration = metadata.registration_endpoint.iter();
    registration.try_for_each(|url| chosen("the registration endpoint", url, http).map(drop))
}

/// Parses a URL in metadata. Fails unless tokens may be sent to it on behalf of the server.
fn chosen(what: &'static str, url: &str, http: &OAuthHttp) -> Result<Url, LoginError> {
    let url = parse(what, url)?;
    if http.may_reach(&url) { Ok(url) } else { Err(LoginError::Local { what, origin: origin(&url) }) }
}

/// Parses a URL. Fails unless tokens may be sent to it.
fn parse(what: &'static str, url: &str) -> Result<Url, LoginError> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or(LoginError::Url)?;
    if is_secure(&url) { Ok(url) } else { Err(LoginError::Insecure { what, origin: origin(&url) }) }
}

/// Converts an error of rmcp. If a request failed, its error is the cause.
fn explain(error: &AuthError, http: &OAuthHttp) -> LoginError {
    if let Some(failed) = http.take_failed() {
        return failed.into();
    }
    match error {
        AuthError::ProtectedResourceMetadataInvalid { reason, .. } => match &**reason {
            ProtectedResourceMetadataInvalidReason::ResourceMismatch { reference, permitted } => {
                LoginError::ResourceMismatch { expected: bare(reference), found: bare(permitted) }
            }
            reason => LoginError::Metadata(line(&reason.to_string())),
        },
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            LoginError::IssuerMismatch { expected: line(expected_issuer), found: line(received_issuer) }
        }
        AuthError::AuthorizationServerMissingIssuer { .. } => LoginError::Metadata("missing `issuer`".to_owned()),
        AuthError::AuthorizationServersUnavailable { authorization_servers, .. } => LoginError::Metadata(line(
            &format!("no authorization server has usable metadata: {}", authorization_servers.join(", ")),
        )),
        AuthError::DiscoveryRequestFailed { url, source } => {
            LoginError::Metadata(line(&format!("{}: {source}", origin(url))))
        }
        AuthError::PkceUnsupported => LoginError::Pkce,
        AuthError::NoAuthorizationSupport => LoginError::NotSupported,
        AuthError::RegistrationFailed(reason) => LoginError::Registration(line(reason)),
        AuthError::TokenExchangeFailed(reason) => LoginError::Exchange(line(reason)),
        error => LoginError::Metadata(line(&error.to_string())),
    }
}

/// A URL without its query and password.
fn bare(url: &Url) -> String {
    line(&format!("{}{}", origin(url), url.path()))
}

/// The beginning of a text, on one line.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    cut(&words.collect::<Vec<_>>().join(" "), MAX_TEXT)
}

/// Encodes fields as `application/x-www-form-urlencoded`.
fn form(mut url: Url, fields: &[(&str, &str)]) -> String {
    url.set_query(None);
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// The maximum duration of discovery and registration.
const MAX_DISCOVERY: Duration = Duration::from_mins(1);

/// The maximum length of a text of a server in an error, in characters.
const MAX_TEXT: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_closer_than_the_server_are_named() {
        let http = |server: &str| OAuthHttp::new(&Url::parse(server).unwrap(), "", Duration::from_mins(1)).unwrap();
        let metadata = |name: &str, url: &str| {
            let mut metadata = json!({
                "authorization_endpoint": "https://a.example/", "token_endpoint": "https://a.example/token",
                "registration_endpoint": "https://a.example/register"
            });
            metadata[name] = url.into();
            serde_json::from_value::<AuthorizationMetadata>(metadata).unwrap()
        };
        let (public, private) = (http("https://mcp.example.com"), http("https://192.168.0.2"));
        let local = http("http://localhost:3000/mcp");
        for name in ["authorization", "token", "registration"] {
            for (url, is_private) in
                [("http://127.0.0.1:1", false), ("https://[::1]:1", false), ("https://10.0.0.1:1", true)]
            {
                let metadata = metadata(&format!("{name}_endpoint"), url);
                let error = check_endpoints(&metadata, &public).unwrap_err().to_string();
                let is = "is on this computer or in a private network";
                assert_eq!(error, format!("the {name} endpoint {is} ({url}), but the server is not"));
                assert_eq!(check_endpoints(&metadata, &private).is_ok(), is_private, "{name} {url}");
                check_endpoints(&metadata, &local).unwrap();
            }
        }
    }
}
