//! MCP servers over streamable HTTP.
//!
//! rmcp speaks the protocol: it caps bodies and events at 16 MiB, and begins a new session where the server has ended
//! one. Here are the client that it uses, and what its failures mean.

use std::collections::HashMap;
use std::error::Error;

use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};

use super::{MAX_MESSAGE_BYTES, UpstreamError, UpstreamOptions};

/// Where a server is, and what it is sent with every request.
pub(super) struct Remote {
    client: reqwest::Client,
    config: StreamableHttpClientTransportConfig,
}

impl Remote {
    pub(super) fn new(
        name: &str,
        url: &str,
        headers: &[(String, String)],
        options: &UpstreamOptions,
    ) -> Result<Self, UpstreamError> {
        let fits = reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !fits {
            return Err(UpstreamError::Url(options.secrets.hide(url.to_owned())));
        }
        let headers = headers.iter().map(header).collect::<Result<HashMap<_, _>, _>>()?;
        let config = StreamableHttpClientTransportConfig::with_uri(url)
            .custom_headers(headers)
            .max_concurrent_requests(MAX_REQUESTS)
            .max_sse_event_size(MAX_MESSAGE_BYTES);
        let client = client(options).map_err(|error| UpstreamError::Connect {
            name: name.to_owned(),
            reason: format!("TLS cannot be set up: {error}; are there certificates of authorities on this system?"),
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

/// Trusts the system's authorities, and those of the options. It follows redirects to the same origin only, so that
/// headers go nowhere else.
fn client(options: &UpstreamOptions) -> reqwest::Result<reqwest::Client> {
    // The first provider of a process is kept: if the application has chosen one, that is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        // An idle connection whose last answer was not read to its end would stall the next request.
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

/// What failed, as a clause; `None` if the error is of something else than HTTP. Addresses are not part of it.
pub(super) fn reason(error: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
    Some(match error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
        StreamableHttpError::AuthRequired(_) => "it refuses the credentials (HTTP 401)".to_owned(),
        StreamableHttpError::InsufficientScope(_) => "it refuses the credentials (HTTP 403)".to_owned(),
        StreamableHttpError::HttpStatus(error) => format!("it answers HTTP {}", error.status),
        StreamableHttpError::UnexpectedServerResponse(text) => status(text).unwrap_or_else(|| NOT_MCP.to_owned()),
        StreamableHttpError::UnexpectedContentType(_) | StreamableHttpError::Deserialize(_) => NOT_MCP.to_owned(),
        StreamableHttpError::ResponseBodyTooLarge { .. } | StreamableHttpError::Sse(_) => broken(),
        StreamableHttpError::SessionExpired
        | StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::ReinitializationFailed(_) => "it ended the session, and begins no new one".to_owned(),
        StreamableHttpError::Client(error) => of_client(error),
        _ => "the connection is lost".to_owned(),
    })
}

/// What there is to say of an answer without an end: rmcp does not tell why.
pub(super) fn broken() -> String {
    format!("its answer breaks off or is longer than {MAX_MESSAGE_BYTES} bytes")
}

/// `HTTP 404 Not Found` of `HTTP 404 Not Found: and what the server says of it`.
fn status(text: &str) -> Option<String> {
    let line = text.split(':').next().unwrap_or_default();
    line.starts_with("HTTP ").then(|| format!("it answers {line}"))
}

fn of_client(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(_)) => return "its certificate is not trusted".to_owned(),
            Some(_) => return "it does not agree on TLS".to_owned(),
            None => {}
        }
        // What an `io::Error` is made of is not its source.
        let inner = error.downcast_ref().and_then(std::io::Error::get_ref);
        cause = inner.map_or_else(|| error.source(), |inner| Some(inner));
    }
    match error {
        error if error.is_timeout() => "it does not answer in time".to_owned(),
        error if error.is_connect() => "nobody answers at its address".to_owned(),
        error if error.is_redirect() => "it redirects in circles".to_owned(),
        _ => "the connection is lost".to_owned(),
    }
}

const NOT_MCP: &str = "it answers something that is not MCP";

/// What the protocol itself sends.
const RESERVED: &[&str] = &["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

/// How many requests are sent at once, and how many redirects one follows.
const MAX_REQUESTS: usize = 64;
const MAX_REDIRECTS: usize = 5;
