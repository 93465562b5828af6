//! The client of a login: configured, described by metadata of its own, or registered for this login (RFC 7591).

use http::{Method, header};
use reqwest::Url;
use serde_json::{Value as Json, json};

use super::callback::Callback;
use super::http::{Body, OAuthHttp};
use super::metadata::ServerMetadata;
use super::tokens::{ClientAuthentication, Refusal, members};
use super::{LoginError, OAuthClient, RequestError};

/// A client that an authorization server knows.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) authentication: ClientAuthentication,
    pub(super) redirect_uri: String,
}

impl Client {
    /// The configured client; or one that is known by the URL of its metadata, if the server supports that; or one that
    /// registers itself.
    pub(super) async fn find(
        configured: &OAuthClient,
        server: &ServerMetadata,
        callback: &Callback,
        scopes: &[String],
        http: &OAuthHttp,
    ) -> Result<Self, LoginError> {
        let OAuthClient { client_id, client_secret, client_metadata_url, .. } = configured;
        let known = |id: &str, secret: Option<&String>| Self {
            id: id.to_owned(),
            secret: secret.cloned(),
            authentication: ClientAuthentication::of_client(secret.is_some(), None, &server.authentications),
            redirect_uri: callback.redirect_uri("127.0.0.1"),
        };
        if let Some(id) = client_id {
            return Ok(known(id, client_secret.as_ref()));
        }
        if let Some(url) = client_metadata_url {
            check_metadata_url(url)?;
            if server.reads_client_metadata {
                return Ok(known(url, None));
            }
        }
        let endpoint = server.registration_endpoint.as_ref().ok_or(LoginError::NoRegistration)?;
        let mut registered = Self::register(endpoint, server, callback.redirect_uri("127.0.0.1"), scopes, http).await?;
        if registered.as_ref().is_err_and(is_redirect_refused) {
            registered = Self::register(endpoint, server, callback.redirect_uri("localhost"), scopes, http).await?;
        }
        registered.map_err(|refusal| LoginError::Registration(refusal.reason))
    }

    async fn register(
        endpoint: &Url,
        server: &ServerMetadata,
        redirect_uri: String,
        scopes: &[String],
        http: &OAuthHttp,
    ) -> Result<Result<Self, Refusal>, RequestError> {
        let mut registration = json!({
            "client_name": "Execbox",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": ClientAuthentication::to_register(&server.authentications),
            "application_type": "native",
        });
        if !scopes.is_empty() {
            registration["scope"] = scopes.join(" ").into();
        }
        let request = http.request(Method::POST, endpoint.clone()).header(header::CONTENT_TYPE, "application/json");
        let request = request.header(header::ACCEPT, "application/json").body(registration.to_string());
        let response = http.send(request, Body::Whole).await?;
        let members = members(response.body()).unwrap_or_default();
        let text = |name: &str| members.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        let number = || members.get("client_id").filter(|id| id.is_number()).map(ToString::to_string);
        let Some(id) = text("client_id").map(str::to_owned).or_else(number).filter(|_| response.status().is_success())
        else {
            return Ok(Err(Refusal::read(response.status(), &members, "client_id")));
        };
        let secret = text("client_secret").map(str::to_owned);
        let method = text("token_endpoint_auth_method");
        let authentication = ClientAuthentication::of_client(secret.is_some(), method, &server.authentications);
        Ok(Ok(Self { id, secret, authentication, redirect_uri }))
    }
}

/// Whether a server rejects the address to which the browser returns. Some accept only one name of this computer.
fn is_redirect_refused(refusal: &Refusal) -> bool {
    refusal.code.as_deref() == Some("invalid_redirect_uri")
}

fn check_metadata_url(url: &str) -> Result<(), LoginError> {
    let parsed = Url::parse(url).ok().filter(|url| url.scheme() == "https" && url.path() != "/");
    parsed.map(drop).ok_or(LoginError::ClientMetadataUrl)
}
