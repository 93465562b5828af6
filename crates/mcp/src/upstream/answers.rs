//! The answers of a server, and their memory, from their arrival until the senders of the requests have converted them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use execbox_core::budget::{Budget, Charge, Exhausted, Meter};
use execbox_core::value::parse_json;
use rmcp::model::{
    ClientNotification, ClientRequest, JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification, ServerResult,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::Value as Json;
use tokio::time::Instant;

use super::lenient::Kind;
use super::progress::CallsInProgress;

/// The answers to the requests over one connection. Clones share them.
#[derive(Clone)]
pub(super) struct Answers(Arc<Inner>);

struct Inner {
    budget: Budget,
    /// The requests without an answer, and those whose answer is being converted.
    requests: Mutex<HashMap<RequestId, Expected>>,
    /// The number of open streams of messages that respond to no request.
    message_streams: AtomicUsize,
    /// The calls among the requests, which servers report about.
    calls: CallsInProgress,
}

struct Expected {
    kind: Kind,
    /// The id of the last event in the response, from which a broken response can be resumed.
    last_event: Option<String>,
    /// Whether the answer is expected on a stream of messages: the response had none.
    is_accepted: bool,
    answered: Option<Answered>,
}

/// An answer that the sender of the request has not converted yet.
struct Answered {
    data: Option<Json>,
    _charge: Charge,
}

impl Kind {
    fn of(request: &ClientRequest) -> Self {
        match request {
            ClientRequest::InitializeRequest(_) => Self::Initialize,
            ClientRequest::DiscoverRequest(_) => Self::Discover,
            ClientRequest::ListToolsRequest(_) => Self::Tools,
            ClientRequest::CallToolRequest(_)
            | ClientRequest::ReadResourceRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::CompleteRequest(_) => Self::Data,
            _ => Self::Other,
        }
    }

    /// Whether the sender of the request takes the answer, and reports when it is converted. Other answers are converted at
    /// once.
    fn is_taken(self) -> bool {
        matches!(self, Self::Tools | Self::Data)
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::new(CallsInProgress::default())
    }
}

impl Answers {
    pub(super) fn new(calls: CallsInProgress) -> Self {
        let (budget, message_streams) = (Budget::new(MAX_ANSWERS), AtomicUsize::new(0));
        Self(Arc::new(Inner { budget, requests: Mutex::default(), message_streams, calls }))
    }

    /// Takes a report about a call, so that it is not overtaken by the answer: rmcp handles notifications at the same time.
    /// Returns every other message.
    pub(super) fn take_report(&self, message: RxJsonRpcMessage<RoleClient>) -> Option<RxJsonRpcMessage<RoleClient>> {
        let JsonRpcMessage::Notification(notification) = message else { return Some(message) };
        match notification.notification {
            ServerNotification::ProgressNotification(progress) => self.0.calls.report(progress.params),
            ServerNotification::LoggingMessageNotification(log) => self.0.calls.log(log.params),
            other => {
                return Some(JsonRpcMessage::Notification(JsonRpcNotification { notification: other, ..notification }));
            }
        }
        None
    }

    /// Charges a message before it is parsed.
    pub(super) fn charge(&self, bytes: usize) -> Result<Charge, Exhausted> {
        self.0.budget.charge(bytes)
    }

    /// Charges an answer in all `bytes`. Waits while other answers leave no room for it, at most [`MAX_WAIT`], and not if it is
    /// not expected any more.
    pub(super) async fn cover(&self, request: &RequestId, charge: &mut Charge, bytes: usize) -> Result<(), Exhausted> {
        let more = bytes.saturating_sub(charge.bytes());
        let until = Instant::now() + MAX_WAIT;
        loop {
            match charge.add(more) {
                Err(_) if Instant::now() < until && self.expected(request).is_some() => tokio::time::sleep(PAUSE).await,
                charged => return charged,
            }
        }
    }

    /// An empty charge, for data that arrives later.
    pub(super) fn nothing(&self) -> Charge {
        self.charge(0).unwrap_or_default()
    }

    /// The budget of the answers and their conversion.
    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Records that a message is sent: a request is expected to be answered from now on, and a cancelled one no longer.
    pub(super) fn sent(&self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => {
                let kind = Kind::of(&request.request);
                let expected = Expected { kind, last_event: None, is_accepted: false, answered: None };
                self.requests().insert(request.id.clone(), expected);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(call) = &cancelled.params.request_id
                {
                    self.forget(call);
                }
            }
            _ => {}
        }
    }

    /// The id of the unanswered request that a message with the id `answered` belongs to. Some servers return numeric ids as
    /// strings.
    pub(super) fn expected(&self, answered: &RequestId) -> Option<RequestId> {
        let requests = self.requests();
        let is_expected = |id: &RequestId| requests.get(id).is_some_and(|expected| expected.answered.is_none());
        if is_expected(answered) {
            return Some(answered.clone());
        }
        let RequestId::String(text) = answered else { return None };
        text.parse().ok().map(RequestId::Number).filter(is_expected)
    }

    /// The only unanswered request, if there is one: an error without an id belongs to it.
    pub(super) fn only_expected(&self) -> Option<RequestId> {
        let requests = self.requests();
        let mut unanswered = requests.iter().filter(|(_, expected)| expected.answered.is_none());
        let (id, _) = unanswered.next()?;
        unanswered.next().is_none().then(|| id.clone())
    }

    /// How the answer to a request is read. Fails if the request has ended: nobody takes the answer.
    pub(super) fn kind(&self, request: &RequestId) -> Result<Kind, String> {
        let requests = self.requests();
        requests.get(request).map(|expected| expected.kind).ok_or_else(|| "the request has ended".to_owned())
    }

    /// Records an answer, with its data if this crate reads it. Keeps its charge until the request ends, or returns the charge
    /// if the answer is converted at once.
    pub(super) fn answered(&self, request: &RequestId, data: Option<Json>, charge: Charge) -> Charge {
        let mut requests = self.requests();
        match requests.get_mut(request) {
            Some(expected) if expected.kind.is_taken() => {
                expected.answered = Some(Answered { data, _charge: charge });
                Charge::none()
            }
            _ => {
                requests.remove(request);
                charge
            }
        }
    }

    /// Takes the data of an answer. Its charge is held until the request ends. `result` is what rmcp has read: the data if the
    /// caller of [`import`](super::import()) owns the connection, whose answers are not here.
    pub(super) fn take_or(&self, request: &RequestId, result: ServerResult) -> Json {
        let mut requests = self.requests();
        let kept = requests.get_mut(request).and_then(|expected| expected.answered.as_mut()?.data.take());
        kept.unwrap_or_else(|| serde_json::to_value(result).unwrap_or_default())
    }

    /// Records the id of an event in the response to a request that is not answered yet.
    pub(super) fn can_resume(&self, request: &RequestId, event: String) {
        if let Some(expected) = self.requests().get_mut(request) {
            expected.last_event = Some(event);
        }
    }

    /// Whether a request is not answered, and its response has an event from which it can be resumed.
    pub(super) fn is_resumable(&self, request: &RequestId) -> bool {
        let requests = self.requests();
        requests.get(request).is_some_and(|expected| expected.answered.is_none() && expected.last_event.is_some())
    }

    /// The unanswered request whose response is resumed from an event.
    pub(super) fn resumed_from(&self, event: &str) -> Option<RequestId> {
        let requests = self.requests();
        let is_resumed =
            |expected: &Expected| expected.answered.is_none() && expected.last_event.as_deref() == Some(event);
        requests.iter().find(|(_, expected)| is_resumed(expected)).map(|(id, _)| id.clone())
    }

    /// Records that a response had no answer. Returns whether a stream of messages is open that may bring it.
    pub(super) fn accept(&self, request: &RequestId) -> bool {
        let is_open = self.0.message_streams.load(Ordering::Relaxed) > 0;
        if let Some(expected) = self.requests().get_mut(request) {
            expected.is_accepted = is_open;
        }
        is_open
    }

    /// The requests whose answers were expected on streams of messages, if none is open any more.
    pub(super) fn orphans(&self) -> Vec<RequestId> {
        if self.0.message_streams.load(Ordering::Relaxed) > 0 {
            return Vec::new();
        }
        let requests = self.requests();
        let orphans = requests.iter().filter(|(_, expected)| expected.is_accepted && expected.answered.is_none());
        orphans.map(|(id, _)| id.clone()).collect()
    }

    /// Counts a stream of messages until the returned value is dropped.
    pub(super) fn open_messages(&self) -> MessageStream {
        self.0.message_streams.fetch_add(1, Ordering::Relaxed);
        MessageStream(self.clone())
    }

    /// A request, if it is sent, until its answer is not needed any more.
    pub(super) fn kept(&self, request: Option<RequestId>) -> Kept {
        Kept { answers: self.clone(), request, converted: Vec::new() }
    }

    /// Records that a request has ended, and releases the charge for its answer.
    pub(super) fn forget(&self, request: &RequestId) {
        self.requests().remove(request);
    }

    /// Records that all requests have ended.
    pub(super) fn forget_all(&self) {
        self.requests().clear();
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Expected>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the charges for the answer to a request, and for what it is converted to. The request has ended when this is dropped.
pub(super) struct Kept {
    answers: Answers,
    pub(super) request: Option<RequestId>,
    converted: Vec<Charge>,
}

impl Kept {
    /// Parses a text in an answer within `limit` bytes of memory, and charges the values. `None` if it is not JSON, or too large.
    pub(super) fn parse(&mut self, text: &str, limit: usize) -> Option<Json> {
        let mut meter = Meter::new(self.answers.budget(), limit, &|| false);
        let parsed = parse_json(text, &mut meter).ok()?;
        self.converted.push(meter.finish());
        Some(parsed)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(request) = &self.request {
            self.answers.forget(request);
        }
    }
}

/// An open stream of messages.
pub(super) struct MessageStream(Answers);

impl Drop for MessageStream {
    fn drop(&mut self) {
        self.0.0.message_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long an answer waits for room, and the pause between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// How much memory the answers of one connection may take at once, in bytes.
pub(super) const MAX_ANSWERS: usize = 96 << 20;
