//! Discovery: the authorization server of an MCP server, and the scopes that it asks for.
//!
//! A document that cannot be read or that is not the server's is not used, but it hides no other: the next place is tried.
//! If none fits, the error names what is wrong with the first document.

use http::{Method, StatusCode, header};
use reqwest::{RequestBuilder, Url};
use serde_json::{Value as Json, json};

use super::challenge::Challenge;
use super::http::{Body, OAuthHttp, Response, parse_url};
use super::metadata::{ResourceMetadata, ServerMetadata, at};
use super::{LoginError, RequestError, line};

/// What is known before the user logs in.
#[derive(Debug)]
pub(super) struct Discovered {
    /// The URL that tokens are requested for.
    pub(super) resource: String,
    /// The scopes that the server asks for.
    pub(super) scopes: Vec<String>,
    pub(super) server: ServerMetadata,
    /// Whether the endpoints are those of a server without metadata.
    pub(super) is_default: bool,
}

/// Finds the authorization server of an MCP server.
pub(super) async fn discover(server: Url, http: &OAuthHttp) -> Result<Discovered, LoginError> {
    let probe = Probe::send(&server, http).await?;
    let mut search = Search { server: canonical(server), http, misfit: None, failure: None };
    let resource = search.resource(&probe.challenge).await?;
    let found = match &resource {
        Some(resource) if !resource.authorization_servers.is_empty() => {
            search.named_server(&resource.authorization_servers).await.map(Some)
        }
        _ => search.own_server().await,
    };
    let (found, is_default) = match found? {
        Some(found) => (found, false),
        None if probe.needs_login => (ServerMetadata::default_of(&search.server), true),
        None => return Err(LoginError::NotSupported),
    };
    let (resource, supported) = match resource {
        Some(metadata) => (metadata.resource, metadata.scopes),
        None => (search.server.to_string(), Vec::new()),
    };
    let asked = probe.challenge.scopes;
    let scopes = if asked.is_empty() { supported } else { asked };
    Ok(Discovered { resource, scopes, server: found, is_default })
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

/// A search for metadata.
struct Search<'a> {
    server: Url,
    http: &'a OAuthHttp,
    /// Why the first document does not fit.
    misfit: Option<LoginError>,
    /// Why the first request failed.
    failure: Option<RequestError>,
}

impl Search<'_> {
    /// The metadata of the resource. If they are those of another resource, nothing is assumed in place of them.
    async fn resource(&mut self, challenge: &Challenge) -> Result<Option<ResourceMetadata>, LoginError> {
        let named = challenge.resource_metadata.as_deref().and_then(|place| self.server.join(place).ok());
        let mut places = ResourceMetadata::places(&self.server);
        places.retain(|place| Some(place) != named.as_ref());
        for place in named.into_iter().chain(places) {
            let Some(document) = self.document(&place).await else { continue };
            match ResourceMetadata::read(&document, &self.server) {
                Ok(Some(metadata)) => {
                    (self.misfit, self.failure) = (None, None);
                    return Ok(Some(metadata));
                }
                Ok(None) => {}
                Err(error) => _ = self.misfit.get_or_insert(error),
            }
        }
        self.misfit.take().map_or(Ok(None), Err)
    }

    /// The first authorization server with metadata of those that the resource names.
    async fn named_server(&mut self, issuers: &[String]) -> Result<ServerMetadata, LoginError> {
        for issuer in issuers {
            let url = match parse_url("the authorization server", issuer) {
                Ok(url) => url,
                Err(error) => {
                    self.misfit.get_or_insert(error);
                    continue;
                }
            };
            let mut places = ServerMetadata::places(&url);
            if url.path() != "/" {
                // Some servers with a path have their metadata at the root.
                places.extend(ServerMetadata::places(&at(&url, "")));
            }
            if let Some(found) = self.issuer(places, issuer).await {
                return Ok(found);
            }
        }
        let missing = || LoginError::NoMetadata(line(&issuers.join(", ")));
        Err(self.reason().unwrap_or_else(missing))
    }

    /// The MCP server as its own authorization server (MCP 2025-03-26 §2.3): by its path, or by its origin.
    async fn own_server(&mut self) -> Result<Option<ServerMetadata>, LoginError> {
        let mut issuers = vec![self.server.clone(), at(&self.server, "")];
        issuers.dedup();
        for url in issuers {
            if let Some(found) = self.issuer(ServerMetadata::places(&url), url.as_str()).await {
                return Ok(Some(found));
            }
        }
        self.reason().map_or(Ok(None), Err)
    }

    /// The metadata of an issuer, at one of these places.
    async fn issuer(&mut self, places: Vec<Url>, issuer: &str) -> Option<ServerMetadata> {
        for place in places {
            let Some(document) = self.document(&place).await else { continue };
            match ServerMetadata::read(&document, &place, issuer, self.http) {
                Ok(Some(metadata)) => return Some(metadata),
                Ok(None) => {}
                Err(error) => _ = self.misfit.get_or_insert(error),
            }
        }
        None
    }

    async fn document(&mut self, place: &Url) -> Option<Json> {
        match self.http.document(place).await {
            Ok(document) => document,
            Err(error) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    /// Why nothing was found. A document says more than a request that failed.
    fn reason(&mut self) -> Option<LoginError> {
        self.misfit.take().or_else(|| self.failure.take().map(LoginError::Request))
    }
}

/// What a server answers to requests without a token.
pub(super) struct Probe {
    pub(super) needs_login: bool,
    challenge: Challenge,
}

impl Probe {
    /// Sends the first requests of MCP as a client without a token does: in the modern way, and then in the legacy way. Some
    /// servers admit the first of them without a token.
    pub(super) async fn send(server: &Url, http: &OAuthHttp) -> Result<Self, RequestError> {
        let mut response = modern(server, http).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            response = legacy(server, http).await?;
        }
        let needs_login = response.status() == StatusCode::UNAUTHORIZED;
        let challenge = if needs_login { Challenge::read(response.headers()) } else { Challenge::default() };
        Ok(Self { needs_login, challenge })
    }
}

/// The response to the first requests of MCP 2026-07-28, which has no handshake.
async fn modern(server: &Url, http: &OAuthHttp) -> Result<Response, RequestError> {
    let send = async |method: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": client_info()
        });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": { "_meta": meta } });
        let request = http.request(Method::POST, server.clone()).header(VERSION, MODERN).header("mcp-method", method);
        post(request, http, &message).await
    };
    let discovered = send("server/discover").await?;
    if discovered.status().is_success() { send("tools/list").await } else { Ok(discovered) }
}

/// The response to the first requests of older versions. The older transport begins with a stream.
async fn legacy(server: &Url, http: &OAuthHttp) -> Result<Response, RequestError> {
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client_info() });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = post(http.request(Method::POST, server.clone()), http, &initialize).await?;
    if response.status().is_success() {
        let session = response.headers().get(SESSION).cloned();
        let request = |method| {
            let request = http.request(method, server.clone());
            session.iter().fold(request, |request, id| request.header(SESSION, id).header(VERSION, LEGACY))
        };
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let listed = post(request(Method::POST), http, &list).await;
        if session.is_some() {
            let _ = http.send(request(Method::DELETE), Body::Skipped).await; // Servers need not support that.
        }
        return listed;
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    let stream = http.request(Method::GET, server.clone()).header(header::ACCEPT, "text/event-stream");
    Ok(http.send(stream, Body::Skipped).await.unwrap_or(response))
}

async fn post(request: RequestBuilder, http: &OAuthHttp, message: &Json) -> Result<Response, RequestError> {
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let request = request.header(header::ACCEPT, "application/json, text/event-stream").body(message.to_string());
    http.send(request, Body::Skipped).await
}

fn client_info() -> Json {
    json!({ "name": "execbox", "version": env!("CARGO_PKG_VERSION") })
}

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
