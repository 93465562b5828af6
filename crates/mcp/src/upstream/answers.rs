//! What the answers of a server hold, from their arrival until their calls have converted them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox_core::budget::{Budget, Charge, Exhausted};
use rmcp::model::RequestId;

/// The answers to the requests of calls over one connection. Clones share them.
#[derive(Clone)]
pub(super) struct Answers(Arc<Inner>);

struct Inner {
    budget: Budget,
    /// Those without an answer, and those whose answer is being converted.
    requests: Mutex<HashMap<RequestId, Expected>>,
}

struct Expected {
    /// It calls a tool.
    is_call: bool,
    /// For the answer.
    charge: Option<Charge>,
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

    /// What the answers and their conversion are charged to.
    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// A request was sent; `is_call` says whether it calls a tool.
    pub(super) fn expect(&self, request: RequestId, is_call: bool) {
        self.requests().insert(request, Expected { is_call, charge: None });
    }

    /// Whether this request calls a tool, and has not ended.
    pub(super) fn is_of_call(&self, request: &RequestId) -> bool {
        self.requests().get(request).is_some_and(|expected| expected.is_call)
    }

    /// Keeps what is charged for the answer until the request ends. An answer that nobody waits for is charged to nobody.
    pub(super) fn keep(&self, request: &RequestId, charge: Charge) {
        if let Some(expected) = self.requests().get_mut(request) {
            expected.charge = Some(charge);
        }
    }

    /// The request has ended.
    pub(super) fn forget(&self, request: &RequestId) {
        self.requests().remove(request);
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Expected>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much memory the answers of one connection may take at once, in bytes.
const MAX_ANSWERS: usize = 256 << 20;
