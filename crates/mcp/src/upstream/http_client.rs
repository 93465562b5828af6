//! The HTTP client of rmcp, with the tokens of OAuth and two corrections of answers: an error without an id, as some servers send it,
//! is given the id of the request that it answers, as the call would otherwise wait for its timeout; and the results of calls are
//! read as such (`misread`).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Url;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, JsonRpcRequest, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::MAX_MESSAGE_BYTES;
use super::misread::as_call_result;
use crate::oauth::{Authorization, Unauthorized};

pub(super) type Failure = StreamableHttpError<reqwest::Error>;
pub(super) type Headers = HashMap<HeaderName, HeaderValue>;

#[derive(Clone)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    tokens: Option<Tokens>,
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
        Self { client, tokens }
    }

    /// Posts a message of the older transport. The answer arrives elsewhere.
    pub(super) async fn post_line(&self, url: &Url, line: Bytes, headers: &Headers) -> Result<(), Failure> {
        let post = |client: reqwest::Client, token: Option<String>| {
            let request = client.post(url.clone()).headers(headers.iter().map(cloned).collect()).body(line.clone());
            let request = request.header(CONTENT_TYPE, "application/json");
            let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
            let post = async {
                match request.send().await?.status() {
                    status if status.is_success() => Ok(()),
                    status => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into())),
                }
            };
            post.boxed()
        };
        self.authorized(post).await
    }

    /// Sends a request with the token of the server, if there is one. One that is rejected is renewed once.
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

    /// `None` if there is no token. An answer may be that the token is rejected.
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
        StreamableHttpError::UnexpectedServerResponse(text) => text.starts_with("HTTP 401"),
        StreamableHttpError::Client(error) => error.status() == Some(StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

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
        let request = if let JsonRpcMessage::Request(request) = &message { Some(Request::new(request)) } else { None };
        let post = move |client: reqwest::Client, token| {
            let (uri, message, session, headers) = (uri.clone(), message.clone(), session.clone(), headers.clone());
            let post = async move {
                client.post_message_with_max_sse_event_size(uri, message, session, token, headers, max_event).await
            };
            post.boxed()
        };
        let sent = self.authorized(post).await?;
        let Some(request) = request else { return Ok(sent) };
        Ok(match sent {
            StreamableHttpPostResponse::Json(answer, session) => {
                StreamableHttpPostResponse::Json(with_id(answer, &request.id), session)
            }
            StreamableHttpPostResponse::Sse(events, session) => {
                let events = events.map(move |event| event.map(|event| request.corrected(event)));
                StreamableHttpPostResponse::Sse(events.boxed(), session)
            }
            sent => sent,
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
            let (uri, session, headers) = (uri.clone(), session.clone(), headers.clone());
            async move { client.delete_session(uri, session, token, headers).await }.boxed()
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
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
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
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let get = move |client: reqwest::Client, token| {
            let (uri, session, last, headers) = (uri.clone(), session.clone(), last_event.clone(), headers.clone());
            let get = async move {
                client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, max_event).await
            };
            get.boxed()
        };
        self.authorized(get).await
    }
}

/// What an answer belongs to.
struct Request {
    id: RequestId,
    is_call: bool,
}

impl Request {
    fn new(request: &JsonRpcRequest<ClientRequest>) -> Self {
        Self { id: request.id.clone(), is_call: matches!(request.request, ClientRequest::CallToolRequest(_)) }
    }

    /// Events of a response belong to its request.
    fn corrected(&self, mut event: Sse) -> Sse {
        if let Some(data) = &mut event.data
            && self.may_need_correction(data)
            && let Ok(answer) = serde_json::from_str::<ServerJsonRpcMessage>(data)
        {
            let answer = if self.is_call { as_call_result(answer, data.as_bytes()) } else { answer };
            if let Ok(corrected) = serde_json::to_string(&with_id(answer, &self.id)) {
                *data = corrected;
            }
        }
        event
    }

    fn may_need_correction(&self, data: &str) -> bool {
        let may_be_error = data.len() <= MAX_ERROR_BYTES && data.contains("\"error\"");
        may_be_error || self.is_call && MISLEADING.iter().any(|name| data.contains(name))
    }
}

fn with_id(mut answer: ServerJsonRpcMessage, request: &RequestId) -> ServerJsonRpcMessage {
    if let JsonRpcMessage::Error(error) = &mut answer {
        error.id.get_or_insert_with(|| request.clone());
    }
    answer
}

/// The members by which other results are known.
const MISLEADING: [&str; 6] =
    ["\"tools\"", "\"prompts\"", "\"contents\"", "\"resources\"", "\"resourceTemplates\"", "\"messages\""];

/// Longer events are not taken for errors.
const MAX_ERROR_BYTES: usize = 64 << 10;
