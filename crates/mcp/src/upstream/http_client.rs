//! The requests of streamable HTTP, with the tokens of OAuth. Their responses are read by [`Posted`] and [`Received`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use reqwest::{RequestBuilder, Response, Url};
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};
use tokio::sync::Notify;

use super::MAX_MESSAGE_BYTES;
use super::lenient;
use super::posted::{Posted, as_answer};
use super::received::{Events, Received, Request};
use super::sessions::Sessions;
use super::unexpected::{Unexpected, media_type};
use crate::oauth::{Authorization, Challenge, Unauthorized};

pub(super) type Failure = StreamableHttpError<RequestError>;

/// Errors of requests, in addition to those of rmcp.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// There is no response, or its body is incomplete.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// The response is no message of MCP, or has a status of failure.
    #[error("HTTP {}", .0.status)]
    Unexpected(Box<Unexpected>),
    /// The server rejects the credentials, and says what it asks for.
    #[error("HTTP {status}")]
    Rejected { status: StatusCode, challenge: Challenge },
    /// There is no valid login.
    #[error(transparent)]
    Unauthorized(#[from] Unauthorized),
}

/// Converts an error of reqwest.
pub(super) fn lost(error: reqwest::Error) -> Failure {
    StreamableHttpError::Client(error.into())
}

pub(super) fn unexpected(response: Unexpected) -> Failure {
    StreamableHttpError::Client(RequestError::Unexpected(Box::new(response)))
}

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;

#[derive(Clone)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    tokens: Option<Tokens>,
    pub(super) received: Received,
    pub(super) sessions: Sessions,
}

/// The tokens of OAuth, and the client that sends them: it follows no redirects.
#[derive(Clone)]
struct Tokens {
    client: reqwest::Client,
    authorization: Arc<Authorization>,
}

/// A session of a connection, and what requests over it need.
#[derive(Clone, Copy)]
struct OpenSession<'a> {
    id: &'a Arc<str>,
    uri: &'a str,
    headers: &'a Headers,
}

impl HttpClient {
    /// `tokens` are sent by a client that follows no redirects.
    pub(super) fn new(client: reqwest::Client, tokens: Option<(reqwest::Client, Authorization)>) -> Self {
        let tokens = tokens.map(|(client, authorization)| Tokens { client, authorization: Arc::new(authorization) });
        Self { client, tokens, received: Received::default(), sessions: Sessions::default() }
    }

    /// A clone for one connection, whose responses are read by `received`. `tools_changed` is notified when its session was
    /// renewed.
    pub(super) fn over(&self, received: &Received, tools_changed: &Arc<Notify>) -> Self {
        Self { received: received.clone(), sessions: Sessions::new(tools_changed), ..self.clone() }
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
        let received = self.received.clone();
        let get = move |client: reqwest::Client, token| {
            let request = request(&client, Method::GET, &uri, token, &headers).header(ACCEPT, ACCEPTED);
            let request = with_session(request, session.as_deref());
            let request = last.iter().fold(request, |request, last| request.header("last-event-id", last));
            opened(request, received.clone()).boxed()
        };
        Ok(self.received.events(self.authorized(get).await?, max))
    }

    /// Posts a message of the older transport. The answer arrives on the stream of events.
    pub(super) async fn post_line(&self, url: &Url, line: Bytes, headers: &Headers) -> Result<(), Failure> {
        let post = |client: reqwest::Client, token: Option<String>| {
            let request = client.post(url.clone()).headers(headers.iter().map(cloned).collect()).body(line.clone());
            let request = request.header(CONTENT_TYPE, "application/json");
            let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
            let received = self.received.clone();
            async move {
                let response = send(request).await?;
                if response.status().is_success() { Ok(()) } else { Err(refused(response, &received).await) }
            }
            .boxed()
        };
        self.authorized(post).await
    }

    /// Posts a message.
    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: Headers,
        max_event: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let _answered = self.received.unanswered.remove(&message);
        self.received.answers.sent(&message);
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let expected = if let JsonRpcMessage::Request(request) = &message { Some(Request::new(request)) } else { None };
        let sent = expected.as_ref().map(|request| request.id.clone());
        let post = |client: reqwest::Client, token| {
            let request = request(&client, Method::POST, &uri, token, &headers).header(ACCEPT, ACCEPTED);
            let request = with_session(request, session.as_deref()).header(CONTENT_TYPE, JSON).body(body.clone());
            let (received, has_session) = (self.received.clone(), session.is_some());
            let posted = Posted { received, request: expected.clone(), has_session, max_event };
            async move { posted.read(send(request).await?).await }.boxed()
        };
        let id = session.clone().unwrap_or_default();
        let open = OpenSession { id: &id, uri: &uri, headers: &headers };
        let posted = match needs_session(&message) && self.sessions.have_begun() {
            true => self.over_session(self.authorized(post), open).await,
            false => self.authorized(post).await,
        };
        as_answer(posted).inspect_err(|_| {
            if let Some(request) = &sent {
                self.received.answers.forget(request);
            }
        })
    }

    /// Asks for the state of a session: a server that has lost it refuses a ping.
    async fn ping(&self, open: OpenSession<'_>) -> SessionState {
        let ping = |client: reqwest::Client, token| {
            let request = request(&client, Method::POST, open.uri, token, open.headers).header(ACCEPT, ACCEPTED);
            let session = Some(&**open.id).filter(|id| !id.is_empty());
            let request = with_session(request, session).header(CONTENT_TYPE, JSON).body(PING);
            let received = self.received.clone();
            async move {
                let response = send(request).await?;
                let status = response.status();
                Ok(session_state(status, &received.beginning(response).await))
            }
            .boxed()
        };
        let answered = tokio::time::timeout(PING_TIMEOUT, self.authorized(ping)).await;
        answered.ok().and_then(Result::ok).unwrap_or(SessionState::Unknown)
    }

    async fn has_lost(&self, open: OpenSession<'_>) -> bool {
        self.ping(open).await == SessionState::Lost
    }

    /// Whether a session has ended, asked only if earlier answers leave it in doubt. A session whose requests fail one after
    /// another, as where the server behind a proxy is gone, has ended unless it answers.
    async fn has_ended(&self, open: OpenSession<'_>) -> bool {
        let (is_doubted, is_failing) = (self.received.take_doubt(), self.is_failing());
        if !is_doubted && !is_failing || !self.sessions.has_answered(open.id) {
            return false;
        }
        match self.ping(open).await {
            SessionState::Lost => true,
            SessionState::Unknown => is_failing,
            SessionState::Open => {
                self.sessions.record_outcome(false);
                false
            }
        }
    }

    /// Whether requests fail one after another. Not while other requests, which a new session would end, are not answered.
    fn is_failing(&self) -> bool {
        self.sessions.are_failing() && self.received.answers.only_expected().is_some()
    }

    /// Posts a request over a session, unless the session has ended. rmcp renews an expired session and sends the request again.
    /// A session that has not answered any request, and one whose loss is a failure of the server, which may have done
    /// something, ends with its connection instead; the next call opens another one.
    async fn over_session(
        &self,
        post: impl Future<Output = Result<StreamableHttpPostResponse, Failure>>,
        open: OpenSession<'_>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        if self.has_ended(open).await {
            return Err(StreamableHttpError::SessionExpired);
        }
        let posted = post.await;
        self.sessions.record_outcome(posted.as_ref().is_err_and(is_down));
        let has_answered = self.sessions.has_answered(open.id);
        match &posted {
            Ok(_) => self.sessions.record_answer(open.id),
            Err(StreamableHttpError::Client(RequestError::Unexpected(response))) if response.may_end_session() => {
                if !self.has_lost(open).await {
                    return posted;
                }
                if has_answered && !response.status.is_server_error() {
                    return Err(StreamableHttpError::SessionExpired);
                }
                self.disconnect();
            }
            Err(_) if self.is_failing() && !has_answered => self.disconnect(),
            Err(_) => {}
        }
        posted
    }

    /// Opens another connection if a stream of messages cannot be opened again because the server has lost the session: it may
    /// have other tools.
    async fn on_closed(&self, error: &Failure, open: OpenSession<'_>) {
        if let StreamableHttpError::Client(RequestError::Unexpected(response)) = error
            && response.may_end_session()
            && self.sessions.has_streamed(open.id)
            && self.has_lost(open).await
        {
            self.disconnect();
            self.sessions.record_loss();
        }
    }

    fn disconnect(&self) {
        self.received.disconnect.set_reason("the server has lost the session".to_owned());
        self.received.disconnect.trigger();
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
            Ok(answer) => {
                authorization.record(None);
                Ok(answer)
            }
            Err(error) => match lacking(&error) {
                // The login is valid for other requests.
                Some(scopes) => Err(unauthorized(authorization.lacks(scopes.to_vec()).await)),
                None if is_401(&error) => Err(refuse(authorization, &authorization.needs_login())),
                None => Err(error),
            },
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
        if !answer.as_ref().is_err_and(|error| is_401(error) && lacking(error).is_none()) {
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
    unauthorized(error.clone())
}

fn unauthorized(error: Unauthorized) -> Failure {
    StreamableHttpError::Client(error.into())
}

fn cloned((name, value): (&HeaderName, &HeaderValue)) -> (HeaderName, HeaderValue) {
    (name.clone(), value.clone())
}

/// Whether the server has answered with status 401.
fn is_401(error: &Failure) -> bool {
    match error {
        StreamableHttpError::Client(RequestError::Rejected { status, .. }) => *status == StatusCode::UNAUTHORIZED,
        StreamableHttpError::Client(RequestError::Unexpected(response)) => response.status == StatusCode::UNAUTHORIZED,
        StreamableHttpError::Client(RequestError::Http(error)) => error.status() == Some(StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

/// The scopes that a token lacks which the server accepts otherwise.
fn lacking(error: &Failure) -> Option<&[String]> {
    let StreamableHttpError::Client(RequestError::Rejected { status, challenge }) = error else { return None };
    let is_known = *status == StatusCode::FORBIDDEN || challenge.is_scope_insufficient;
    Some(&challenge.scopes[..]).filter(|scopes| is_known && !scopes.is_empty())
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
    let status = response.status();
    let is_rejected = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
    if is_rejected && response.headers().contains_key(WWW_AUTHENTICATE) {
        let challenge = Challenge::read(response.headers());
        return Err(StreamableHttpError::Client(RequestError::Rejected { status, challenge }));
    }
    Ok(response)
}

/// Sends a request for a stream of events.
async fn opened(request: RequestBuilder, received: Received) -> Result<Response, Failure> {
    let response = send(request).await?;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        return Err(StreamableHttpError::ServerDoesNotSupportSse);
    }
    let is_stream = response.status().is_success() && [EVENTS, JSON].contains(&media_type(&response).as_str());
    if is_stream { Ok(response) } else { Err(refused(response, &received).await) }
}

/// The failure of a request whose response is no answer.
async fn refused(response: Response, received: &Received) -> Failure {
    let failure = Unexpected::new(&response);
    unexpected(failure.with_body(&received.beginning(response).await))
}

/// What the answer to a ping says about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Open,
    Lost,
    /// The server was not reached, or has too much to do.
    Unknown,
}

/// The state of the session of a ping that was answered.
fn session_state(status: StatusCode, body: &[u8]) -> SessionState {
    // Events are lines, too; their data is JSON.
    let mut lines = body.split(|&byte| byte == b'\n').map(|line| line.strip_prefix(b"data:").unwrap_or(line));
    match lenient::error_in(body).or_else(|| lines.find_map(lenient::error_in)) {
        // Not all servers support pings.
        Some(error) if error.code == ErrorCode::METHOD_NOT_FOUND => SessionState::Open,
        None if status.is_success() => SessionState::Open,
        _ if DOWN.contains(&status) => SessionState::Unknown,
        _ => SessionState::Lost,
    }
}

/// Whether a request has failed without an answer of the server itself.
fn is_down(error: &Failure) -> bool {
    match error {
        StreamableHttpError::Client(RequestError::Unexpected(response)) => DOWN.contains(&response.status),
        StreamableHttpError::Client(RequestError::Http(_)) => true,
        _ => false,
    }
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
        if !is_initialized(&message) {
            return self.post(uri, message, session, headers, max_event).await;
        }
        // rmcp sends nothing else until the notification is taken, which some servers never confirm.
        let client = self.clone();
        let posting = tokio::spawn(async move {
            let post = client.post(uri, message, session, headers, max_event);
            tokio::time::timeout(MAX_NOTIFICATION, post).await
        });
        let posted = match tokio::time::timeout(NOTIFICATION_PATIENCE, posting).await {
            Ok(Ok(Ok(posted))) if !posted.as_ref().is_err_and(is_down) => posted,
            _ => Ok(StreamableHttpPostResponse::Accepted),
        };
        posted.inspect(|_| self.sessions.record_handshake())
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
        let received = self.received.clone();
        if let Some(id) = last_event.as_deref().and_then(|event| received.answers.resumed_from(event)) {
            let events = self.events(uri, session, last_event, headers, max_event).await;
            return Ok(match events {
                Ok(events) => received.response(events, Request { id, is_discovery: false }),
                Err(_) => failing(&received, &[id]),
            });
        }
        let open = received.answers.open_messages();
        match self.events(Arc::clone(&uri), session.clone(), last_event, headers.clone(), max_event).await {
            Ok(events) => {
                if let Some(session) = &session {
                    self.sessions.record_stream(session);
                }
                Ok(received.messages(events, open))
            }
            Err(error) => {
                drop(open);
                if let Some(session) = &session {
                    self.on_closed(&error, OpenSession { id: session, uri: &uri, headers: &headers }).await;
                }
                let orphans = received.answers.orphans();
                if orphans.is_empty() { Err(error) } else { Ok(failing(&received, &orphans)) }
            }
        }
    }
}

/// A stream of the failures of requests whose answers cannot arrive any more.
fn failing(received: &Received, requests: &[RequestId]) -> Events {
    stream::iter(received.failures(requests, "connection lost before the answer")).map(Ok).boxed()
}

/// Whether a message is a request after the handshake.
fn needs_session(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    !matches!(request.request, ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_))
}

fn is_initialized(message: &ClientJsonRpcMessage) -> bool {
    matches!(
        message,
        JsonRpcMessage::Notification(notification)
            if matches!(notification.notification, ClientNotification::InitializedNotification(_))
    )
}

pub(super) const SESSION_ID: &str = "mcp-session-id";
pub(super) const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const ACCEPTED: &str = "text/event-stream, application/json";

/// The statuses of servers that are not reached, or have too much to do.
const DOWN: [StatusCode; 5] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// How long messages wait for the response to a notification before them, and how long that may take at all.
pub(super) const NOTIFICATION_PATIENCE: Duration = Duration::from_secs(3);
const MAX_NOTIFICATION: Duration = Duration::from_mins(1);

/// The ping that asks whether a session exists, and how long its answer may take.
const PING: &str = r#"{"jsonrpc":"2.0","id":"session","method":"ping"}"#;
const PING_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_tells_the_state_of_its_session() {
        use SessionState::{Lost, Open, Unknown};
        for (status, body, state) in [
            (200, r#"{"jsonrpc":"2.0","id":"session","result":{}}"#, Open),
            (200, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"session\",\"result\":{}}\n\n", Open),
            (202, "", Open),
            (404, r#"{"error":{"code":-32601,"message":"Method not found"}}"#, Open),
            (503, r#"{"error":{"code":-32601,"message":"Method not found"}}"#, Open),
            (200, r#"{"error":{"code":-32001,"message":"Session not found"}}"#, Lost),
            (200, "data: {\"error\":{\"code\":-32000,\"message\":\"no session\"}}\n\n", Lost),
            (404, "", Lost),
            (401, "", Lost),
            (500, "no transport", Lost),
            (408, "", Unknown),
            (429, "slow down", Unknown),
            (502, "", Unknown),
            (503, r#"{"error":{"code":-32000,"message":"overloaded"}}"#, Unknown),
            (504, "", Unknown),
        ] {
            assert_eq!(session_state(StatusCode::from_u16(status).unwrap(), body.as_bytes()), state, "{status} {body}");
        }
    }
}
