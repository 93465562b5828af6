//! Reads the responses of a server over HTTP within the limits of a [`Pipe`](super::pipe::Pipe).
//!
//! Bodies and events are charged as they arrive, and the memory for parsing them is charged before rmcp parses them. The
//! charge for the answer to a call is held until the call has converted it, the charge for another event until rmcp requests
//! the next one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::vec;

use execbox_core::budget::{Charge, Exhausted};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use rmcp::model::{ClientRequest, JsonRpcMessage, JsonRpcRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use sse_stream::{Sse, SseStream};

use super::answers::{Answers, MessageStream};
use super::http::too_long;
use super::http_client::{Failure, lost};
use super::lenient::{self, Answer};
use super::lines::measure;
use super::pipe::{Disconnect, LINE_LIMITS, MAX_ERROR_BYTES, failed, too_many_answers, too_many_values};
use super::unanswered::Unanswered;
use super::unasked::{Flood, Unasked};
use super::unexpected::line;
use crate::http_failure::http_failure;

pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The reader of the responses of one connection. Clones share its state.
#[derive(Clone, Default)]
pub(super) struct Received {
    pub(super) answers: Answers,
    pub(super) unanswered: Unanswered,
    unasked: Unasked,
    pub(super) disconnect: Disconnect,
    /// Whether the server has answered with an error about the session.
    doubts_session: Arc<AtomicBool>,
}

/// The request that a response belongs to.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// Whether the request is `server/discover`, the first one of the newest protocol.
    pub(super) is_discovery: bool,
}

impl Request {
    pub(super) fn new(request: &JsonRpcRequest<ClientRequest>) -> Self {
        let is_discovery = matches!(request.request, ClientRequest::DiscoverRequest(_));
        Self { id: request.id.clone(), is_discovery }
    }
}

impl Received {
    pub(super) fn new(answers: &Answers, unasked: &Unasked, disconnect: &Disconnect) -> Self {
        let (answers, unasked, disconnect) = (answers.clone(), unasked.clone(), disconnect.clone());
        Self { answers, unasked, disconnect, ..Self::default() }
    }

    /// Takes whether the server has answered with an error about the session since the previous call: it may have lost it.
    pub(super) fn take_doubt(&self) -> bool {
        self.doubts_session.swap(false, Ordering::Relaxed)
    }

    /// Reads the answer to a request, whatever id it has.
    fn read_answer(&self, text: &[u8], id: &RequestId) -> Result<Answer, String> {
        let answer = lenient::answer(text, id, self.answers.kind(id)?)?;
        if let JsonRpcMessage::Error(error) = &answer.message {
            let says = error.error.message.to_ascii_lowercase();
            if ["session", "initialize"].iter().any(|word| says.contains(word)) {
                self.doubts_session.store(true, Ordering::Relaxed);
            }
        }
        Ok(answer)
    }

    /// Counts unrequested messages and bytes. Disconnects a server that sends too many.
    pub(super) fn spend(&self, messages: u64, bytes: usize) -> Result<(), Flood> {
        self.unasked.spend(messages, bytes).inspect_err(|flood| {
            self.disconnect.set_reason(flood.to_string());
            self.disconnect.trigger();
        })
    }

    /// Reads a body of at most `max` bytes.
    pub(super) async fn body(
        &self,
        response: reqwest::Response,
        max: usize,
    ) -> Result<Result<(Vec<u8>, Charge), Exhausted>, Failure> {
        let too_large = || StreamableHttpError::ResponseBodyTooLarge { max_size: max };
        if response.content_length().is_some_and(|length| length > max as u64) {
            return Err(too_large());
        }
        let (mut body, mut charge) = (Vec::new(), self.answers.nothing());
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(lost)?;
            if chunk.len() > max - body.len() {
                return Err(too_large());
            }
            // The capacity of a vector is at most twice its length.
            if let Err(exhausted) = charge.add(2 * chunk.len()) {
                return Ok(Err(exhausted));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Ok((body, charge)))
    }

    /// The beginning of a body, or less if it does not arrive in time or is incomplete.
    pub(super) async fn beginning(&self, response: reqwest::Response) -> Vec<u8> {
        let (mut body, mut chunks) = (Vec::new(), response.bytes_stream());
        let read = async {
            while body.len() < MAX_BEGINNING
                && let Some(Ok(chunk)) = chunks.next().await
            {
                body.extend_from_slice(&chunk[..chunk.len().min(MAX_BEGINNING - body.len())]);
            }
        };
        let _ = tokio::time::timeout(BEGINNING_TIMEOUT, read).await;
        body
    }

    /// The answer to a request in a body of JSON; `Err` with the beginning of another body. An answer that exceeds a limit
    /// becomes an error of the request.
    pub(super) async fn json(
        &self,
        response: reqwest::Response,
        max: usize,
        request: &Request,
    ) -> Result<Result<ServerJsonRpcMessage, Vec<u8>>, Failure> {
        let (mut body, mut charge) = match self.body(response, max).await? {
            Ok(read) => read,
            Err(exhausted) => return Ok(Ok(self.fail(&request.id, too_many_answers(exhausted)))),
        };
        let (_, memory) = measure(&body);
        if memory > LINE_LIMITS.memory {
            return Ok(Ok(self.fail(&request.id, too_many_values())));
        }
        if let Err(exhausted) = self.answers.cover(&request.id, &mut charge, memory).await {
            return Ok(Ok(self.fail(&request.id, too_many_answers(exhausted))));
        }
        let Answer { message, data } = match self.read_answer(&body, &request.id) {
            Ok(answer) => answer,
            Err(reason) if body.trim_ascii_start().starts_with(b"{") => return Ok(Ok(self.fail(&request.id, reason))),
            Err(_) => {
                body.truncate(MAX_BEGINNING);
                return Ok(Err(body));
            }
        };
        drop(self.answers.answered(&request.id, data, charge));
        Ok(Ok(message))
    }

    /// The JSON-RPC error in a short body, if there is one.
    pub(super) fn error(&self, body: &[u8], request: Option<&Request>) -> Option<ServerJsonRpcMessage> {
        let _charge = self.answers.charge(measure(body).1).ok()?;
        Some(JsonRpcMessage::error(lenient::error_in(body)?, request.map(|request| request.id.clone())))
    }

    fn fail(&self, request: &RequestId, reason: String) -> ServerJsonRpcMessage {
        drop(self.answers.answered(request, None, Charge::none()));
        failed(request.clone(), reason)
    }

    /// The events of a response, each of at most `max` bytes.
    pub(super) fn events(&self, response: reqwest::Response, max: usize) -> Events {
        let charge = self.answers.nothing();
        let size =
            EventSize { received: self.clone(), max, event: 0, line: 0, is_comment: false, after_cr: false, charge };
        let bytes = response.bytes_stream().scan(Some(size), |size, chunk| {
            let checked = size.as_mut().map(|size| {
                let chunk = chunk?;
                size.add(&chunk).map(|()| chunk)
            });
            if checked.as_ref().is_none_or(Result::is_err) {
                *size = None;
            }
            std::future::ready(checked)
        });
        SseStream::from_bytes_stream(bytes).boxed()
    }

    /// Checks the events of the response to `request` before rmcp parses their data. A request that is not answered when they
    /// end, and cannot be resumed, fails at once.
    pub(super) fn response(self, events: Events, request: Request) -> Events {
        Checked::new(self, events, Source::Response(Responding { request, foreign: None, error: String::new() }))
            .stream()
    }

    /// Checks the events of a stream of messages. When it ends, requests that expect their answers on it fail at once.
    pub(super) fn messages(self, events: Events, open: MessageStream) -> Events {
        Checked::new(self, events, Source::Messages(Some(open))).stream()
    }

    /// The failures of requests, as events in place of their answers.
    pub(super) fn failures(&self, requests: &[RequestId], reason: &str) -> Vec<Sse> {
        let failure = |id| serde_json::to_string(&self.fail(id, reason.to_owned())).unwrap_or_default();
        requests.iter().map(|id| Sse::default().data(failure(id))).collect()
    }

    /// The event without data that rmcp must not parse, and the charge for parsing the event.
    async fn check(&self, mut event: Sse, mut responding: Option<&mut Responding>) -> Result<(Sse, Charge), Flood> {
        if event.event.as_deref() == Some("error")
            && let (Some(responding), Some(data)) = (responding.as_deref_mut(), &event.data)
        {
            responding.error = format!(": {}", line(data));
        }
        let request = responding.as_ref().map(|responding| &responding.request);
        event.retry = event.retry.map(|millis| millis.max(MIN_RETRY_MILLIS));
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        if event.id.as_ref().is_some_and(|id| id.len() > MAX_EVENT_ID) {
            event.id = None;
        }
        if let (Some(request), Some(id)) = (request, &event.id) {
            self.answers.can_resume(&request.id, id.clone());
        }
        let Some(data) = event.data.take().filter(|_| is_message) else {
            self.spend(1, 0)?;
            return Ok((event, Charge::none()));
        };
        let (answers, memory) = measure(data.as_bytes());
        let answered = match &answers {
            Some(id) => self.answers.expected(id),
            None => request.filter(|_| is_error(&data)).and_then(|request| self.answers.expected(&request.id)),
        };
        let charge = if let Some(id) = answered {
            let (text, charge) = self.answer(&data, memory, &id).await;
            event.data = Some(text);
            charge
        } else {
            self.spend(1, data.len())?;
            let charge = if answers.is_none() { self.unasked_message(&data, memory) } else { None };
            match (responding, &charge) {
                (_, Some(_)) => event.data = Some(data),
                (Some(responding), None) if memory <= LINE_LIMITS.memory && lenient::is_answer(data.as_bytes()) => {
                    responding.keep(data, &self.answers);
                }
                _ => {}
            }
            charge.unwrap_or_default()
        };
        Ok((event, charge))
    }

    /// The text of an answer for rmcp. An answer that exceeds a limit or is invalid becomes an error of its request.
    async fn answer(&self, data: &str, memory: usize, id: &RequestId) -> (String, Charge) {
        let failed = |reason| (serde_json::to_string(&self.fail(id, reason)).unwrap_or_default(), Charge::none());
        if memory > LINE_LIMITS.memory {
            return failed(too_many_values());
        }
        let mut charge = self.answers.nothing();
        if let Err(exhausted) = self.answers.cover(id, &mut charge, memory).await {
            return failed(too_many_answers(exhausted));
        }
        match self.read_answer(data.as_bytes(), id) {
            Ok(Answer { message, data }) => {
                (serde_json::to_string(&message).unwrap_or_default(), self.answers.answered(id, data, charge))
            }
            Err(reason) => failed(reason),
        }
    }

    /// The charge for a request or a notification of the server, unless it is ignored.
    fn unasked_message(&self, data: &str, memory: usize) -> Option<Charge> {
        if memory > MAX_UNASKED_MEMORY {
            return None;
        }
        let charge = self.answers.charge(memory).ok()?;
        let message = self.answers.take_report(lenient::unasked(data.as_bytes())?)?;
        self.unanswered.record(&message).then_some(charge)
    }
}

/// Whether a message without an id of ours is an error.
fn is_error(data: &str) -> bool {
    data.len() <= MAX_ERROR_BYTES && data.contains("\"error\"") && lenient::error_in(data.as_bytes()).is_some()
}

/// Why a stream of events ends before its end.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("connection lost")]
    Lost(#[from] reqwest::Error),
    #[error("event too long")]
    TooLong,
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    #[error(transparent)]
    Flood(#[from] Flood),
}

/// Why a stream has ended, as a clause.
pub(super) fn reason_of_stream(error: &SseError) -> String {
    let SseError::Body(error) = error else { return "invalid response: not a stream of events".to_owned() };
    let error: &(dyn Error + 'static) = &**error;
    match error.downcast_ref() {
        Some(Broken::Lost(error)) => http_failure(error).to_string(),
        Some(Broken::TooLong) => too_long(),
        Some(Broken::Exhausted(exhausted)) => too_many_answers(*exhausted),
        Some(Broken::Flood(flood)) => flood.to_string(),
        None => "connection lost".to_owned(),
    }
}

/// Whether a stream was lost, and not ended for what it contained.
fn is_lost(error: &SseError) -> bool {
    let SseError::Body(error) = error else { return false };
    matches!(error.downcast_ref(), Some(Broken::Lost(_)))
}

/// What events respond to.
enum Source {
    Response(Responding),
    /// No request. `None` after the end of the stream.
    Messages(Option<MessageStream>),
}

/// The response to a request.
struct Responding {
    request: Request,
    /// The last answer with the id of no request, or without one, and the charge for its text. If the response ends without
    /// another answer, the request is answered by this one.
    foreign: Option<(String, Charge)>,
    /// The beginning of the last event `error`, as the end of a reason. MCP has no such events.
    error: String,
}

impl Responding {
    fn keep(&mut self, data: String, answers: &Answers) {
        self.foreign = None;
        self.foreign = answers.charge(data.len()).ok().map(|charge| (data, charge));
    }
}

/// Events that are checked before rmcp parses their data.
struct Checked {
    received: Received,
    source: Source,
    /// `None` after their end.
    events: Option<Events>,
    /// The charge for parsing the last event.
    held: Charge,
    /// The answers to unanswered requests, after the end.
    remaining: vec::IntoIter<Sse>,
    error: Option<SseError>,
}

impl Checked {
    fn new(received: Received, events: Events, source: Source) -> Self {
        let (held, remaining) = (Charge::none(), Vec::new().into_iter());
        Self { received, source, events: Some(events), held, remaining, error: None }
    }

    fn stream(self) -> Events {
        stream::unfold(self, async |mut checked| checked.next().await.map(|event| (event, checked))).boxed()
    }

    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        self.held = Charge::none();
        if let Some(events) = &mut self.events {
            let next = events.next().await;
            let responding = if let Source::Response(responding) = &mut self.source { Some(responding) } else { None };
            let checked = match next {
                Some(Ok(event)) => {
                    let checked = self.received.check(event, responding).await;
                    checked.map_err(|flood| Some(SseError::Body(Box::new(Broken::Flood(flood)))))
                }
                Some(Err(error)) => Err(Some(error)),
                None => Err(None),
            };
            match checked {
                Ok((event, charge)) => {
                    self.held = charge;
                    return Some(Ok(event));
                }
                Err(error) => self.end(error).await,
            }
        }
        self.remaining.next().map(Ok).or_else(|| self.error.take().map(Err))
    }

    async fn end(&mut self, error: Option<SseError>) {
        self.events = None;
        let answers = &self.received.answers;
        if let Source::Response(Responding { request, foreign, .. }) = &mut self.source
            && error.is_none()
            && let Some(id) = answers.expected(&request.id)
            && let Some((data, _charge)) = foreign.take()
        {
            let (text, charge) = self.received.answer(&data, measure(data.as_bytes()).1, &id).await;
            self.held = charge;
            self.remaining = vec![Sse::default().data(text)].into_iter();
            return;
        }
        let unanswered = match &mut self.source {
            // rmcp resumes it.
            Source::Response(Responding { request, .. })
                if error.as_ref().is_none_or(is_lost) && answers.is_resumable(&request.id) =>
            {
                Vec::new()
            }
            Source::Response(Responding { request, .. }) => answers.expected(&request.id).into_iter().collect(),
            Source::Messages(open) => {
                *open = None;
                answers.orphans()
            }
        };
        let said = if let Source::Response(responding) = &self.source { &*responding.error } else { "" };
        let without = || format!("the response has ended without the answer{said}");
        let reason = error.as_ref().map_or_else(without, reason_of_stream);
        self.remaining = self.received.failures(&unanswered, &reason).into_iter();
        self.error = error;
    }
}

/// The bytes of the current event of a stream.
struct EventSize {
    received: Received,
    max: usize,
    /// The length of the complete lines of the event.
    event: usize,
    /// The length of the current line.
    line: usize,
    is_comment: bool,
    /// Whether the last byte was a carriage return, which ends a line together with a line feed after it.
    after_cr: bool,
    charge: Charge,
}

impl EventSize {
    /// Adds bytes. Charges the incomplete event, and counts comments and empty lines, which are not part of an event.
    fn add(&mut self, chunk: &[u8]) -> Result<(), Broken> {
        let (mut lines, mut bytes) = (0, 0);
        for &byte in chunk {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                continue;
            }
            if !matches!(byte, b'\r' | b'\n') {
                self.is_comment = if self.line == 0 { byte == b':' } else { self.is_comment };
                self.line += 1;
                if self.event.saturating_add(self.line) > self.max {
                    return Err(Broken::TooLong);
                }
                continue;
            }
            self.after_cr = byte == b'\r';
            let is_empty = self.line == 0 && self.event == 0;
            if is_empty || self.line > 0 && self.is_comment {
                lines += 1;
                bytes += self.line;
            } else if self.line == 0 {
                self.event = 0;
            } else {
                self.event += self.line + 1;
            }
            self.line = 0;
        }
        self.received.spend(lines, bytes)?;
        // The parser copies a line to the event, and its buffers grow.
        let needed = 3 * (self.event + self.line);
        self.charge.shrink_to(needed);
        Ok(self.charge.add(needed - self.charge.bytes())?)
    }
}

/// How much is read of a body that is no answer, in bytes, and for how long.
const MAX_BEGINNING: usize = 64 << 10;
const BEGINNING_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest id of an event from which a response is resumed, in bytes.
const MAX_EVENT_ID: usize = 1 << 10;

/// How much memory a request or a notification may take when it is parsed, in bytes. Some of them wait in queues of rmcp.
const MAX_UNASKED_MEMORY: usize = 8 << 20;

/// The minimum delay before a stream is resumed that a server can request, in milliseconds.
const MIN_RETRY_MILLIS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams, PingRequest};

    use super::*;

    /// The reader of a connection over which calls with these ids were sent.
    fn calling(ids: &[i64]) -> Received {
        let received = Received::default();
        for id in ids {
            let call = CallToolRequest::new(CallToolRequestParams::new("a"));
            let call = JsonRpcMessage::request(ClientRequest::CallToolRequest(call), RequestId::Number(*id));
            received.answers.sent(&call);
        }
        received
    }

    fn zeros(id: &str, count: usize) -> Sse {
        let zeros = "0,".repeat(count);
        Sse::default()
            .data(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":[{zeros}0]}}}}"#))
    }

    async fn data(checked: impl Future<Output = Result<(Sse, Charge), Flood>>) -> Option<String> {
        checked.await.unwrap().0.data
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_charged_until_their_calls_end() {
        let received = calling(&[1, 2, 3, 4]);
        let used = || received.answers.budget().used() >> 20;
        for id in ["1", "\"2\""] {
            assert!(
                data(received.check(zeros(id, 240_000), None)).await.unwrap().len() < 100,
                "the data is kept apart"
            );
        }
        assert!((85..96).contains(&used()), "{}", used());
        let refused = data(received.check(zeros("3", 240_000), None)).await.unwrap();
        assert!(refused.contains("too many large responses at once") && refused.contains("\"id\":3"), "{refused}");
        received.answers.forget(&RequestId::Number(1));
        assert!((42..48).contains(&used()), "{}", used());
        assert!(data(received.check(zeros("4", 240_000), None)).await.unwrap().len() < 100);
        received.answers.forget(&RequestId::Number(2));
        received.answers.forget(&RequestId::Number(4));
        assert_eq!(used(), 0);
        let too_large = data(calling(&[1]).check(zeros("1", 550_000), None)).await.unwrap();
        assert!(too_large.contains("response with so many values that it takes more than 80 MiB"), "{too_large}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_room_unless_its_request_has_ended() {
        let received = calling(&[1, 2, 3]);
        let first = received.check(zeros("1", 400_000), None).await.unwrap();
        let (second, third) = (received.check(zeros("2", 400_000), None), received.check(zeros("3", 400_000), None));
        let ends = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            received.answers.forget(&RequestId::Number(3));
            tokio::time::sleep(Duration::from_secs(1)).await;
            received.answers.forget(&RequestId::Number(1));
        };
        let started = tokio::time::Instant::now();
        let ended = async |checked: &mut (dyn Future<Output = Result<(Sse, Charge), Flood>> + Send + Unpin)| {
            (data(checked).await.unwrap(), started.elapsed().as_secs())
        };
        let (mut second, mut third) = (Box::pin(second), Box::pin(third));
        let (second, third, ()) = tokio::join!(ended(&mut second), ended(&mut third), ends);
        drop(first);
        assert!(second.0.contains("\"result\"") && second.1 == 2, "{second:?}");
        assert!(third.0.contains("too many large responses at once") && third.1 == 1, "{third:?}");
    }

    /// Both requests end when their program is stopped.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_gets_room_after_the_end_of_its_request_is_not_read() {
        let received = calling(&[1, 2]);
        let (first, charge) = received.check(zeros("1", 400_000), None).await.unwrap();
        let ends = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            received.answers.forget(&RequestId::Number(1));
            received.answers.forget(&RequestId::Number(2));
        };
        let (second, ()) = tokio::join!(received.check(zeros("2", 400_000), None), ends);
        let (second, of_second) = second.unwrap();
        assert!(second.data.unwrap().contains("the request has ended"));
        drop((first, charge, of_second));
        assert_eq!(received.answers.budget().used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_no_request_waits_for_are_not_parsed() {
        let received = calling(&[1]);
        assert_eq!(data(received.check(zeros("2", 1), None)).await, None);
        assert!(data(received.check(zeros("1", 1), None)).await.is_some());
        assert_eq!(data(received.check(zeros("1", 1), None)).await, None, "a second one");
        for text in ["", "null", "[]", "no JSON", "{\"method\":", "{\"id\":1,\"id\":2}", "{\"jsonrpc\":\"2.0\"}"] {
            assert_eq!(data(received.check(Sse::default().data(text), None)).await, None, "{text}");
        }
        received.answers.forget(&RequestId::Number(1));
        assert_eq!(received.answers.budget().used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn other_messages_are_charged_until_the_next_event() {
        let received = Received::default();
        let notification = |count: usize| {
            let zeros = "0,".repeat(count);
            Sse::default()
                .data(format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"data":[{zeros}0]}}}}"#))
        };
        let (event, charge) = received.check(notification(1_000), None).await.unwrap();
        assert!(event.data.is_some() && charge.bytes() > 190_000);
        assert_eq!(received.answers.budget().used(), charge.bytes());
        drop(charge);
        assert_eq!(data(received.check(notification(50_000), None)).await, None, "a large one is ignored");
        assert_eq!(received.answers.budget().used(), 0);
        let ping = Sse::default().data(r#"{"jsonrpc":"2.0","id":"s","method":"ping"}"#);
        assert!(data(received.check(ping.clone(), None)).await.is_some());
        assert_eq!(data(received.check(ping, None)).await, None, "its id is in use");
        let event = received.check(Sse::default().event("ping").data("x").retry(0), None).await.unwrap().0;
        assert_eq!((event.data, event.retry), (None, Some(MIN_RETRY_MILLIS)));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_to_other_requests_are_charged_until_the_next_event() {
        let received = Received::default();
        let ping = ClientRequest::PingRequest(PingRequest::default());
        received.answers.sent(&JsonRpcMessage::request(ping, RequestId::Number(1)));
        let (event, charge) = received.check(zeros("1", 1_000), None).await.unwrap();
        assert!(event.data.is_some() && charge.bytes() > 190_000);
    }

    fn size(received: &Received, max: usize) -> EventSize {
        let (received, charge) = (received.clone(), received.answers.nothing());
        EventSize { received, max, event: 0, line: 0, is_comment: false, after_cr: false, charge }
    }

    #[test]
    fn the_bytes_of_an_event_are_charged_as_they_arrive() {
        let received = Received::default();
        let used = || received.answers.budget().used();
        let mut event = size(&received, 100);
        for (text, charged) in [
            ("data: 12", 24),
            ("34\r", 33),
            ("\ndata:", 48),
            ("\n", 51),
            (": comment\n", 51),
            (":", 54),
            ("\n\n", 0),
            ("data\r\r", 0),
            ("\n\r\n", 0),
            ("id: 1\n", 18),
        ] {
            event.add(text.as_bytes()).unwrap();
            assert_eq!(used(), charged, "{text:?}");
        }
        assert!(event.add("x".repeat(95).as_bytes()).is_err(), "too long");
        drop(event);
        assert_eq!(used(), 0);
        // Together, events exceed the budget of the connection.
        let chunk = vec![b'x'; 1 << 20];
        let mut events: Vec<EventSize> = (0..20).map(|_| size(&received, 16 << 20)).collect();
        let added = (0..16).flat_map(|_| 0..20).take_while(|&at| events[at].add(&chunk).is_ok()).count();
        assert_eq!(added, 32);
    }

    #[test]
    fn a_stream_of_comments_or_empty_lines_is_ended() {
        for text in [": \n", "\n", "\r", "\r\n"] {
            let received = Received::default();
            let mut event = size(&received, 100);
            let chunk = text.repeat(1_000);
            let added = (0..1_000).take_while(|_| event.add(chunk.as_bytes()).is_ok()).count();
            assert!((19..40).contains(&added), "{text:?}: {added}");
            assert!(received.disconnect.is_triggered() && received.disconnect.reason().contains("without a request"));
        }
    }
}
