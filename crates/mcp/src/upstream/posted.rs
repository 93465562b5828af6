//! Reads the response to a message that was posted: the answer, a stream of events with the answer, or something else.
//!
//! The body of a response answers its request, whatever id it states: a call would otherwise wait for its timeout.

use http::StatusCode;
use reqwest::Response;
use rmcp::model::{ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};

use super::MAX_MESSAGE_BYTES;
use super::http_client::{EVENTS, Failure, RequestError, SESSION_ID, unexpected};
use super::received::{Received, Request};
use super::unexpected::{Unexpected, header, media_type};

/// A response to a message that was posted.
pub(super) struct Posted {
    pub(super) received: Received,
    /// `None` if the message needs no answer.
    pub(super) request: Option<Request>,
    pub(super) has_session: bool,
    /// The maximum length of an event, in bytes.
    pub(super) max_event: usize,
}

impl Posted {
    /// Reads the response. The error of JSON-RPC in one with a status of failure is part of the failure.
    pub(super) async fn read(self, response: Response) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && self.has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if self.request.is_none() && status != StatusCode::UNAUTHORIZED {
            // Nothing else that matters is in the response to a notification.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let Some(request) = self.request.as_ref().filter(|_| status.is_success()) else {
            return self.read_failure(response).await;
        };
        let session = header(&response, SESSION_ID);
        if media_type(&response) == EVENTS {
            let events = self.received.events(response, self.max_event);
            return Ok(StreamableHttpPostResponse::Sse(self.received.response(events, request.clone()), session));
        }
        let failure = Unexpected::new(&response);
        match self.received.json(response, MAX_MESSAGE_BYTES, request).await? {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // The answer may come on a stream of messages.
            Err(_) if status == StatusCode::ACCEPTED && self.received.answers.accept(&request.id) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(body) => Err(unexpected(failure.with_body(&body))),
        }
    }

    /// The failure of a response, with the error of JSON-RPC in its body, if there is one.
    async fn read_failure(self, response: Response) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        let failure = Unexpected::new(&response);
        let body = self.received.beginning(response).await;
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let discovery = self.request.as_ref().filter(|request| request.is_discovery && !self.has_session);
        if let Some(request) = discovery.filter(|_| status.is_client_error() && !is_refused) {
            // Older servers reject the unknown request in different ways. The connection is then tried without discovery.
            let answer = self.error(&body).unwrap_or_else(|| {
                let text = String::from_utf8_lossy(&body);
                let error =
                    ErrorData::invalid_request(format!("server/discover rejected with HTTP {status}: {text}"), None);
                JsonRpcMessage::error(error, Some(request.id.clone()))
            });
            return Ok(StreamableHttpPostResponse::Json(with_own_id(answer, request), None));
        }
        let is_limited = status == StatusCode::TOO_MANY_REQUESTS;
        let answer = self.error(&body).filter(|_| !is_refused && !is_limited);
        Err(unexpected(failure.with_answer(answer).with_body(&body)))
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

/// Makes the error of JSON-RPC in a failure the answer.
pub(super) fn as_answer(
    posted: Result<StreamableHttpPostResponse, Failure>,
) -> Result<StreamableHttpPostResponse, Failure> {
    match posted {
        Err(StreamableHttpError::Client(RequestError::Unexpected(mut response))) => match response.answer.take() {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(*answer, None)),
            None => Err(StreamableHttpError::Client(RequestError::Unexpected(response))),
        },
        posted => posted,
    }
}
