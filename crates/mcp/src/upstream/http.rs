//! MCP servers over streamable HTTP.
//!
//! rmcp implements the protocol: it limits bodies and events to 16 MiB, and starts a new session when the server has
//! ended one. This module configures its HTTP client and describes its failures.

use std::collections::HashMap;
use std::error::Error;

use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};

use super::{MAX_MESSAGE_BYTES, UpstreamError, UpstreamOptions};

/// The URL of a server, the headers of every request, and the client that sends them.
pub(super) struct HttpEndpoint {
    client: reqwest::Client,
    config: StreamableHttpClientTransportConfig,
}

impl HttpEndpoint {
    pub(super) fn new(
        name: &str,
        url: &str,
        headers: &[(String, String)],
        options: &UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        let is_http = reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !is_http {
            return Err(UpstreamError::Url(options.secrets.redact(url.to_owned())));
        }
        let headers = headers.iter().map(header).collect::<Result<HashMap<_, _>, _>>()?;
        let config = StreamableHttpClientTransportConfig::with_uri(url)
            .custom_headers(headers)
            .max_concurrent_requests(MAX_REQUESTS)
            .max_sse_event_size(MAX_MESSAGE_BYTES);
        let client = client(options).map_err(|error| UpstreamError::Connect {
            name: name.to_owned(),
            reason: format!("TLS setup failed: {error}; are root certificates installed on this system?"),
        })?;
        Ok(Self { client, config })
    }

    pub(super) fn transport(&self) -> StreamableHttpClientTransport<reqwest::Client> {
        StreamableHttpClientTransport::with_client(self.client.clone(), self.config.clone())
    }
}

fn header((name, value): &(String, String)) -> Result<(HeaderName, HeaderValue), UpstreamError> {
    let parsed = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
    match parsed {
        Some((name, _)) if RESERVED.contains(&name.as_str()) => Err(UpstreamError::ReservedHeader(name.to_string())),
        Some((name, mut value)) => {
            value.set_sensitive(true);
            Ok((name, value))
        }
        None => Err(UpstreamError::Header(name.clone())),
    }
}

/// Trusts the root certificates of the system and of the options. Follows redirects to the same origin only, so that no
/// other server receives the headers.
fn client(options: &UpstreamOptions) -> reqwest::Result<reqwest::Client> {
    // Has no effect if the application has installed a provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        // An idle connection whose last response was not read to its end would stall the next request.
        .pool_max_idle_per_host(0)
        .connect_timeout(options.connect_timeout)
        .redirect(Policy::custom(same_origin))
        .tls_certs_merge(reqwest::Certificate::from_pem_bundle(options.certificates.as_bytes())?)
        .build()
}

fn same_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT].contains(&attempt.status());
    let first = attempt.previous().first();
    if keeps_body && first.is_some_and(|first| first.origin() == attempt.url().origin()) {
        if attempt.previous().len() > MAX_REDIRECTS { attempt.error("too many redirects") } else { attempt.follow() }
    } else {
        attempt.stop()
    }
}

/// What failed, as a clause without URLs; `None` if the error is not from HTTP.
pub(super) fn reason(error: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
    Some(match error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
        StreamableHttpError::AuthRequired(_) => "credentials rejected (HTTP 401)".to_owned(),
        StreamableHttpError::InsufficientScope(_) => "credentials rejected (HTTP 403)".to_owned(),
        StreamableHttpError::HttpStatus(error) => format!("HTTP {}", error.status),
        StreamableHttpError::UnexpectedServerResponse(text) => status(text).unwrap_or_else(|| NOT_MCP.to_owned()),
        StreamableHttpError::UnexpectedContentType(_) | StreamableHttpError::Deserialize(_) => NOT_MCP.to_owned(),
        StreamableHttpError::ResponseBodyTooLarge { .. } | StreamableHttpError::Sse(_) => incomplete(),
        StreamableHttpError::SessionExpired
        | StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::ReinitializationFailed(_) => "session ended and could not be renewed".to_owned(),
        StreamableHttpError::Client(error) => of_client(error),
        _ => "connection lost".to_owned(),
    })
}

/// The reason for a response without an end: rmcp does not distinguish the two.
pub(super) fn incomplete() -> String {
    format!("response incomplete or longer than {MAX_MESSAGE_BYTES} bytes")
}

/// Returns `HTTP 404 Not Found` for `HTTP 404 Not Found: body of the response`.
fn status(text: &str) -> Option<String> {
    let line = text.split(':').next().unwrap_or_default();
    line.starts_with("HTTP ").then(|| line.to_owned())
}

fn of_client(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(_)) => return "certificate not trusted".to_owned(),
            Some(_) => return "TLS handshake failed".to_owned(),
            None => {}
        }
        // The inner error of an `io::Error` is not its source.
        let inner = error.downcast_ref().and_then(std::io::Error::get_ref);
        cause = inner.map_or_else(|| error.source(), |inner| Some(inner));
    }
    match error {
        error if error.is_timeout() => "request timed out".to_owned(),
        error if error.is_connect() => "cannot connect to its address".to_owned(),
        error if error.is_redirect() => "too many redirects".to_owned(),
        _ => "connection lost".to_owned(),
    }
}

const NOT_MCP: &str = "invalid response: not an MCP message";

/// Headers that MCP itself sends.
const RESERVED: &[&str] = &["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

/// The maximum number of concurrent requests, and of redirects that one request follows.
const MAX_REQUESTS: usize = 64;
const MAX_REDIRECTS: usize = 5;
