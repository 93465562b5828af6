//! The requests of streamable HTTP, with the tokens of OAuth. Their responses are read by [`Received`].
//!
//! The body of a response answers its request, whatever id it states: a call would otherwise wait for its timeout.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use reqwest::{RequestBuilder, Response, Url};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};

use super::MAX_MESSAGE_BYTES;
use super::received::{Events, Received, Request};
use crate::oauth::{Authorization, Unauthorized};

pub(super) type Failure = StreamableHttpError<RequestError>;

/// Errors of requests, in addition to those of rmcp.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// There is no response, or its body is incomplete.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// The server refuses the request with this status.
    #[error("HTTP {status}")]
    Refused { status: StatusCode, body: String },
}

/// Converts an error of reqwest.
pub(super) fn lost(error: reqwest::Error) -> Failure {
    StreamableHttpError::Client(error.into())
}

fn refused(status: StatusCode, body: String) -> Failure {
    StreamableHttpError::Client(RequestError::Refused { status, body })
}
pub(super) type Headers = HashMap<HeaderName, HeaderValue>;

#[derive(Clone)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    tokens: Option<Tokens>,
    pub(super) received: Received,
}

/// The tokens of OAuth, and the client that sends them: it follows no redirects.
#[derive(Clone)]
struct Tokens {
    client: reqwest::Client,
    authorization: Arc<Authorization>,
}

impl HttpClient {
    /// `tokens` are sent by a client that follows no redirects.
    pub(super) fn new(client: reqwest::Client, tokens: Option<(reqwest::Client, Authorization)>) -> Self {
        let tokens = tokens.map(|(client, authorization)| Tokens { client, authorization: Arc::new(authorization) });
        Self { client, tokens, received: Received::default() }
    }

    /// A clone for one connection, whose responses are read by `received`.
    pub(super) fn over(&self, received: &Received) -> Self {
        Self { received: received.clone(), ..self.clone() }
    }

    /// Opens a stream of events, each of at most `max` bytes.
    pub(super) async fn events(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<Events, Failure> {
        let get = move |client: reqwest::Client, token| {
            let request = request(&client, Method::GET, &uri, token, &headers).header(ACCEPT, ACCEPTED);
            let request = with_session(request, session.as_deref());
            let request = last.iter().fold(request, |request, last| request.header("last-event-id", last));
            opened(request).boxed()
        };
        Ok(self.received.events(self.authorized(get).await?, max))
    }

    /// Posts a message of the older transport. The answer arrives on the stream of events.
    pub(super) async fn post_line(&self, url: &Url, line: Bytes, headers: &Headers) -> Result<(), Failure> {
        let post = |client: reqwest::Client, token: Option<String>| {
            let request = client.post(url.clone()).headers(headers.iter().map(cloned).collect()).body(line.clone());
            let request = request.header(CONTENT_TYPE, "application/json");
            let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
            let post = async {
                match request.send().await.map_err(lost)?.status() {
                    status if status.is_success() => Ok(()),
                    status => Err(refused(status, String::new())),
                }
            };
            post.boxed()
        };
        self.authorized(post).await
    }

    /// Sends a request with the token of the server, if there is one. A token that is rejected is renewed once.
    async fn authorized<T>(
        &self,
        request: impl Fn(reqwest::Client, Option<String>) -> BoxFuture<'static, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Failure> {
        let Some(Tokens { client, authorization }) = &self.tokens else {
            return request(self.client.clone(), None).await;
        };
        let answer = Self::with_token(client, authorization, &request).await;
        let answer = match answer {
            Ok(None) => request(self.client.clone(), None).await,
            Ok(Some(answer)) => answer,
            Err(error) => Err(refuse(authorization, &error)),
        };
        match answer {
            Err(error) if is_401(&error) => Err(refuse(authorization, &authorization.needs_login())),
            Ok(answer) => {
                authorization.record(None);
                Ok(answer)
            }
            error => error,
        }
    }

    /// Sends a request with the token; `None` if there is none. The answer may be that the renewed token is rejected, too.
    async fn with_token<T>(
        client: &reqwest::Client,
        authorization: &Arc<Authorization>,
        request: &(impl Fn(reqwest::Client, Option<String>) -> BoxFuture<'static, Result<T, Failure>> + Send + Sync),
    ) -> Result<Option<Result<T, Failure>>, Unauthorized> {
        let Some(token) = authorization.token().await? else { return Ok(None) };
        let answer = request(client.clone(), Some(token.clone())).await;
        if !answer.as_ref().is_err_and(is_401) {
            return Ok(Some(answer));
        }
        let token = authorization.renew(token).await?;
        Ok(Some(request(client.clone(), Some(token)).await))
    }

    /// Why the last request had no valid token, as a clause.
    pub(super) fn login_problem(&self) -> Option<String> {
        self.tokens.as_ref()?.authorization.problem()
    }
}

fn refuse(authorization: &Authorization, error: &Unauthorized) -> Failure {
    authorization.record(Some(error));
    AuthError::AuthorizationFailed(error.to_string()).into()
}

fn cloned((name, value): (&HeaderName, &HeaderValue)) -> (HeaderName, HeaderValue) {
    (name.clone(), value.clone())
}

/// Whether the server has answered with status 401.
fn is_401(error: &Failure) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::HttpStatus(error) => error.status == 401,
        StreamableHttpError::Client(RequestError::Refused { status, .. }) => *status == StatusCode::UNAUTHORIZED,
        StreamableHttpError::Client(RequestError::Http(error)) => error.status() == Some(StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

/// A request with the headers of the server.
fn request(
    client: &reqwest::Client,
    method: Method,
    uri: &str,
    token: Option<String>,
    headers: &Headers,
) -> RequestBuilder {
    let request = client.request(method, uri).headers(headers.iter().map(cloned).collect());
    if let Some(token) = token { request.bearer_auth(token) } else { request }
}

fn with_session(request: RequestBuilder, session: Option<&str>) -> RequestBuilder {
    if let Some(session) = session { request.header(SESSION_ID, session) } else { request }
}

/// Sends a request. Fails if the server asks for another token.
async fn send(request: RequestBuilder) -> Result<Response, Failure> {
    let response = request.send().await.map_err(lost)?;
    let challenge = header(&response, WWW_AUTHENTICATE);
    match (response.status(), challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let scope = scope(&challenge);
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => Ok(response),
    }
}

/// Sends a request for a stream of events.
async fn opened(request: RequestBuilder) -> Result<Response, Failure> {
    let response = send(request).await?;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        return Err(StreamableHttpError::ServerDoesNotSupportSse);
    }
    if let Some(error) = unavailable(&response) {
        return Err(error.into());
    }
    let response = response.error_for_status().map_err(lost)?;
    match media_type(&response) {
        kind if kind == EVENTS || kind == JSON => Ok(response),
        kind => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
    }
}

/// A response to a message that was posted.
struct Posted {
    received: Received,
    /// `None` if the message needs no answer.
    request: Option<Request>,
    has_session: bool,
    max_event: usize,
}

impl Posted {
    async fn read(self, response: Response) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && self.has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = header(&response, SESSION_ID);
        if !status.is_success() {
            return self.read_failure(response, session).await;
        }
        match &self.request {
            // Nothing that matters is in the response to a notification.
            None => Ok(StreamableHttpPostResponse::Accepted),
            Some(_) if media_type(&response) == EVENTS => {
                let events = self.received.events(response, self.max_event);
                Ok(StreamableHttpPostResponse::Sse(self.received.checked(events, self.request), session))
            }
            Some(request) => {
                let answer = self.received.json(response, MAX_MESSAGE_BYTES, request).await?;
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
        }
    }

    /// The error of JSON-RPC in a response with a status of failure, or the status.
    async fn read_failure(
        self,
        response: Response,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (status, unavailable) = (response.status(), unavailable(&response));
        let is_json = media_type(&response) == JSON;
        if let Some(error) = unavailable {
            if !is_json || status == StatusCode::TOO_MANY_REQUESTS {
                return Err(error.into());
            }
            let body = self.received.body(response, MAX_FAILURE_BYTES).await;
            let answer = body.ok().and_then(Result::ok).and_then(|(body, _)| self.error(&body));
            return answer.map(|answer| StreamableHttpPostResponse::Json(answer, session)).ok_or(error.into());
        }
        let body = match self.received.body(response, MAX_FAILURE_BYTES).await {
            Ok(Ok((body, _))) => body,
            Err(error @ StreamableHttpError::ResponseBodyTooLarge { .. }) => return Err(error),
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let text = String::from_utf8_lossy(&body);
        let discovery = self.request.as_ref().filter(|request| request.is_discovery && !self.has_session);
        if let Some(request) = discovery.filter(|_| status.is_client_error() && !is_refused) {
            // Older servers reject the unknown request in different ways. The connection is then tried without discovery.
            let answer = self.error(&body).unwrap_or_else(|| {
                let error =
                    ErrorData::invalid_request(format!("server/discover rejected with HTTP {status}: {text}"), None);
                JsonRpcMessage::error(error, Some(request.id.clone()))
            });
            return Ok(StreamableHttpPostResponse::Json(with_own_id(answer, request), None));
        }
        match self.error(&body).filter(|_| !is_refused) {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            None => Err(refused(status, text.into_owned())),
        }
    }

    fn error(&self, body: &[u8]) -> Option<ServerJsonRpcMessage> {
        self.received.error(body, self.request.as_ref())
    }
}

/// Replaces the id of an error by that of the request.
fn with_own_id(mut answer: ServerJsonRpcMessage, request: &Request) -> ServerJsonRpcMessage {
    if let JsonRpcMessage::Error(error) = &mut answer {
        error.id = Some(request.id.clone());
    }
    answer
}

/// The error of a response with the status 429 or 5xx: the server has failed, or gets too many requests.
fn unavailable(response: &Response) -> Option<HttpStatusError> {
    let status = response.status();
    let is_unavailable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    is_unavailable.then(|| HttpStatusError::new(status.as_u16(), header(response, RETRY_AFTER)))
}

/// A header, if it is text.
fn header(response: &Response, name: impl reqwest::header::AsHeaderName) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The media type of a body in lower case, without parameters.
fn media_type(response: &Response) -> String {
    let stated = header(response, CONTENT_TYPE).unwrap_or_default();
    stated.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The scope that a challenge asks for.
fn scope(challenge: &str) -> Option<String> {
    let start = challenge.to_ascii_lowercase().find("scope=")? + "scope=".len();
    let value = &challenge[start..];
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => value.split([',', ';', ' ', '\t']).next()?,
    };
    Some(scope.to_owned()).filter(|scope| !scope.is_empty())
}

impl StreamableHttpClient for HttpClient {
    type Error = RequestError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, MAX_MESSAGE_BYTES).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let _answered = self.received.unanswered.remove(&message);
        self.received.answers.sent(&message);
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let expected = if let JsonRpcMessage::Request(request) = &message { Some(Request::new(request)) } else { None };
        let (received, sent) = (self.received.clone(), expected.as_ref().map(|request| request.id.clone()));
        let post = move |client: reqwest::Client, token| {
            let request = request(&client, Method::POST, &uri, token, &headers).header(ACCEPT, ACCEPTED);
            let request = with_session(request, session.as_deref()).header(CONTENT_TYPE, JSON).body(body.clone());
            let (received, has_session) = (received.clone(), session.is_some());
            let posted = Posted { received, request: expected.clone(), has_session, max_event };
            async move { posted.read(send(request).await?).await }.boxed()
        };
        self.authorized(post).await.inspect_err(|_| {
            if let Some(request) = &sent {
                self.received.answers.forget(request);
            }
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let delete = move |client: reqwest::Client, token| {
            let request = request(&client, Method::DELETE, &uri, token, &headers);
            let request = with_session(request, Some(&session));
            async move {
                let response = request.send().await.map_err(lost)?;
                if response.status() != StatusCode::METHOD_NOT_ALLOWED {
                    response.error_for_status().map_err(lost)?;
                }
                Ok(())
            }
            .boxed()
        };
        self.authorized(delete).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, MAX_MESSAGE_BYTES).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<Events, Failure> {
        if self.received.disconnect.is_triggered() {
            return Err(StreamableHttpError::ServerDoesNotSupportSse); // The stream is not tried again.
        }
        let events = self.events(uri, session, last_event, headers, max_event).await?;
        Ok(self.received.clone().checked(events, None))
    }
}

const SESSION_ID: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const ACCEPTED: &str = "text/event-stream, application/json";

/// The longest body of a response with a status of failure, in bytes.
const MAX_FAILURE_BYTES: usize = 64 << 10;
