//! The memory of the answers of a server, from their arrival until their calls have converted them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox::core::budget::{Budget, Charge, Exhausted};
use rmcp::model::{ClientNotification, ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, TxJsonRpcMessage};

/// The answers to the requests over one connection. Clones share them.
#[derive(Clone)]
pub(super) struct Answers(Arc<Inner>);

struct Inner {
    budget: Budget,
    /// The requests without an answer, and those whose answer is being converted.
    requests: Mutex<HashMap<RequestId, Expected>>,
}

struct Expected {
    kind: Kind,
    is_answered: bool,
    /// The charge for the answer.
    _charge: Charge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A call of a tool. The sender reports when the answer is converted.
    Call,
    /// A request that reads or lists resources for a call. The sender reports when the answer is converted.
    Resources,
    /// Any other request. The answer is converted at once.
    Other,
}

impl Kind {
    fn of(request: &ClientRequest) -> Self {
        match request {
            ClientRequest::CallToolRequest(_) => Self::Call,
            ClientRequest::ReadResourceRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_) => Self::Resources,
            _ => Self::Other,
        }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self(Arc::new(Inner { budget: Budget::new(MAX_ANSWERS), requests: Mutex::default() }))
    }
}

impl Answers {
    /// Charges a message before it is parsed.
    pub(super) fn charge(&self, bytes: usize) -> Result<Charge, Exhausted> {
        self.0.budget.charge(bytes)
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
                let expected = Expected { kind, is_answered: false, _charge: Charge::none() };
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
        let is_expected = |id: &RequestId| requests.get(id).is_some_and(|expected| !expected.is_answered);
        if is_expected(answered) {
            return Some(answered.clone());
        }
        let RequestId::String(text) = answered else { return None };
        text.parse().ok().map(RequestId::Number).filter(is_expected)
    }

    /// Whether this request calls a tool, and has not ended.
    pub(super) fn is_of_call(&self, request: &RequestId) -> bool {
        self.requests().get(request).is_some_and(|expected| expected.kind == Kind::Call)
    }

    /// Records an answer. Keeps its charge until the request ends, or returns the charge if the answer is converted at once.
    pub(super) fn answered(&self, request: &RequestId, charge: Charge) -> Charge {
        let mut requests = self.requests();
        match requests.get_mut(request) {
            Some(expected) if expected.kind != Kind::Other => {
                *expected = Expected { kind: expected.kind, is_answered: true, _charge: charge };
                Charge::none()
            }
            _ => {
                requests.remove(request);
                charge
            }
        }
    }

    /// Records that a request has ended, and releases the charge for its answer.
    pub(super) fn forget(&self, request: &RequestId) {
        self.requests().remove(request);
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Expected>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much memory the answers of one connection may take at once, in bytes.
const MAX_ANSWERS: usize = 256 << 20;
