//! MCP servers over HTTP.
//!
//! rmcp implements streamable HTTP: sessions, and streams that are resumed. `http_client` makes the requests, and `received`
//! reads the responses within limits. This module configures them and describes failures. `sse` has the older transport.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Url;
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use tokio::sync::Notify;

use super::http_client::{Failure, HttpClient, RequestError};
use super::received::{Received, reason_of_stream};
use super::sse::{self, SseStream};
use super::unexpected::line;
use super::{FailurePlace, HttpProtocol, MAX_MESSAGE_BYTES, Remote, ServerFailure, UpstreamError, UpstreamOptions};
use crate::Secrets;
use crate::certificates::client_builder;
use crate::http_failure::{HttpFailure, http_failure, is_temporary};
use crate::oauth::{Authorization, Challenge, Unauthorized};

/// The URL of a server, the headers of every request, and the client that sends them.
pub(super) struct HttpEndpoint {
    client: HttpClient,
    url: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    protocol: HttpProtocol,
}

impl HttpEndpoint {
    pub(super) fn new(name: &str, remote: Remote<'_>, options: &UpstreamOptions) -> Result<Self, UpstreamError> {
        let Remote { server, url: text, headers, protocol } = remote;
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| UpstreamError::Url(options.secrets.redact(text.to_owned())))?;
        let headers = headers.iter().map(header).collect::<Result<HashMap<_, _>, _>>()?;
        let client = |redirects| {
            client(options, redirects).map_err(|error| {
                let reason = format!("TLS setup failed: {error}; are root certificates installed on this system?");
                UpstreamError::Connect { name: name.to_owned(), failure: ServerFailure::new(reason) }
            })
        };
        let tokens = options.tokens.as_ref().filter(|_| !headers.contains_key(&AUTHORIZATION));
        let tokens = tokens.map(|tokens| {
            let (strict, timeout) = (client(Policy::none())?, options.connect_timeout.min(MAX_TOKEN_REQUEST));
            let (store, secrets) = (Arc::clone(tokens), options.secrets.clone());
            let changes = options.changes.clone();
            let authorization = Authorization::new(store, server, text, strict.clone(), timeout, secrets, changes);
            Ok::<_, UpstreamError>((strict, authorization))
        });
        let client = HttpClient::new(client(Policy::custom(same_origin))?, tokens.transpose()?);
        Ok(Self { client, url, headers, protocol })
    }

    /// Why the last request had no valid token, as a clause.
    pub(super) fn login_problem(&self) -> Option<String> {
        self.client.login_problem()
    }

    pub(super) fn protocol(&self) -> HttpProtocol {
        self.protocol
    }

    /// Creates a transport of streamable HTTP. `received` checks and charges the responses. `tools_changed` is notified when a
    /// session was renewed.
    pub(super) fn transport(
        &self,
        received: &Received,
        tools_changed: &Arc<Notify>,
    ) -> StreamableHttpClientTransport<HttpClient> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers.clone())
            .max_concurrent_requests(MAX_REQUESTS)
            .max_sse_event_size(MAX_MESSAGE_BYTES);
        config.channel_buffer_capacity = 1; // Messages in the channel are not charged any more.
        let mut retries = ExponentialBackoff::default();
        retries.max_delay = Some(MAX_RETRY_DELAY);
        config.retry_config = Arc::new(retries);
        StreamableHttpClientTransport::with_client(self.client.over(received, tools_changed), config)
    }

    /// Opens a stream of the older transport. Returns a reader of received lines and a writer of lines to send. A failure to
    /// send triggers the `disconnect` of `received`.
    pub(super) async fn open_sse(&self, received: &Received, secrets: &Secrets) -> Result<SseStream, ServerFailure> {
        sse::open(&self.client.over(received, &Arc::default()), &self.url, &self.headers, secrets).await
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

/// Creates a client. Fails with a reason as a clause.
fn client(options: &UpstreamOptions, redirects: Policy) -> Result<reqwest::Client, String> {
    let builder = client_builder(&options.certificates).map_err(|error| error.to_string())?;
    let client = builder.connect_timeout(options.connect_timeout).redirect(redirects).build();
    client.map_err(|error| error.to_string())
}

/// Follows redirects to the same origin only, so that no other server receives the headers.
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
pub(super) fn reason(error: &(dyn Error + Send + Sync + 'static), secrets: &Secrets) -> Option<String> {
    Some(reason_of(error.downcast_ref()?, secrets))
}

/// What failed; `None` if the error is not from HTTP.
pub(super) fn failure(error: &(dyn Error + Send + Sync + 'static), secrets: &Secrets) -> Option<ServerFailure> {
    Some(failure_of(error.downcast_ref()?, secrets))
}

pub(super) fn failure_of(error: &Failure, secrets: &Secrets) -> ServerFailure {
    let is_temporary = match error {
        StreamableHttpError::Client(RequestError::Http(error)) => {
            let HttpFailure { origin, reason } = http_failure(error);
            let place = origin.map(|origin| FailurePlace::Address(origin.into()));
            return ServerFailure { place, is_temporary: is_temporary(error), ..ServerFailure::new(reason) };
        }
        StreamableHttpError::Client(RequestError::Unexpected(response)) => {
            let status = response.status;
            let asks_to_wait =
                [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS].contains(&status);
            asks_to_wait || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        }
        _ => false,
    };
    let needs_login = match error {
        StreamableHttpError::Client(RequestError::Unauthorized(error)) => !matches!(error, Unauthorized::Store),
        _ => false,
    };
    ServerFailure { needs_login, is_temporary, ..ServerFailure::new(reason_of(error, secrets)) }
}

/// Whether a server has answered, with a failure that another first message may not have.
pub(super) fn is_answered(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    match error.downcast_ref::<Failure>() {
        Some(StreamableHttpError::Client(RequestError::Unexpected(response))) => {
            let is_refused = matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            !is_refused && response.status != StatusCode::TOO_MANY_REQUESTS
        }
        Some(_) => false,
        None => true, // The connection is no HTTP.
    }
}

/// Whether a server rejects the first message with a status that servers of the older transport use.
pub(super) fn may_be_sse(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let Some(StreamableHttpError::Client(RequestError::Unexpected(response))) = error.downcast_ref::<Failure>() else {
        return false;
    };
    [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&response.status)
}

pub(super) fn reason_of(error: &Failure, secrets: &Secrets) -> String {
    match error {
        StreamableHttpError::Client(RequestError::Unauthorized(error)) => error.to_string(),
        StreamableHttpError::Client(RequestError::Rejected { status, challenge }) => rejection(*status, challenge),
        StreamableHttpError::UnexpectedServerResponse(_) | StreamableHttpError::Deserialize(_) => {
            "invalid response: not an MCP message".to_owned()
        }
        StreamableHttpError::Sse(error) => reason_of_stream(error),
        StreamableHttpError::ResponseBodyTooLarge { .. } => too_long(),
        StreamableHttpError::SessionExpired
        | StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::ReinitializationFailed(_) => "session ended and could not be renewed".to_owned(),
        StreamableHttpError::Client(RequestError::Http(error)) => http_failure(error).to_string(),
        StreamableHttpError::Client(RequestError::Unexpected(response)) => response.describe(secrets),
        _ => "connection lost".to_owned(),
    }
}

fn rejection(status: StatusCode, challenge: &Challenge) -> String {
    match (status, &challenge.scopes[..]) {
        (StatusCode::UNAUTHORIZED, _) => {
            "credentials rejected (HTTP 401): check the `headers` of the server in the configuration".to_owned()
        }
        (_, []) => "credentials rejected (HTTP 403)".to_owned(),
        (_, scopes) => {
            format!("credentials rejected (HTTP 403): the server requires the scope {:?}", line(&scopes.join(" ")))
        }
    }
}

/// The reason for a response that is too long.
pub(super) fn too_long() -> String {
    format!("response longer than {MAX_MESSAGE_BYTES} bytes")
}

/// Headers that MCP itself sends.
const RESERVED: &[&str] = &["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

/// The time limit of a request for tokens. Connecting may take less.
const MAX_TOKEN_REQUEST: Duration = Duration::from_secs(15);

/// The maximum number of concurrent requests, and of redirects that one request follows.
const MAX_REQUESTS: usize = 64;
const MAX_REDIRECTS: usize = 5;

/// The longest pause before a stream of messages is opened again.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);
