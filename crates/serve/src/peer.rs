//! Requests of the service to the application, and their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox::ToolContext;
use execbox_core::budget::{Budget, Charge};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::messages::Cancel;
use crate::outbox::{Frame, Outbox};
use crate::rpc::{self, FAILED, RequestId, RpcError};

/// The application at the other end of a connection. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Peer(Arc<Inner>);

#[derive(Default)]
struct Inner {
    outbox: Outbox,
    pending: Mutex<HashMap<u64, Pending>>,
    last_id: AtomicU64,
    attaches: AtomicBool,
}

/// A request without an answer.
struct Pending {
    answer: oneshot::Sender<Answer>,
    /// What answers are charged to.
    budget: Budget,
    /// The call of a tool that waits.
    call: Option<ToolContext>,
}

/// The answer to a request: text that is not read yet, or an error.
pub(crate) type Answer = Result<Reply, RpcError>;

/// The result of a request.
pub(crate) struct Reply {
    pub(crate) result: Box<RawValue>,
    pub(crate) attachments: Vec<Vec<u8>>,
    pub(crate) charge: Charge,
}

impl Peer {
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// Whether the application reads attachments.
    pub(crate) fn attaches(&self) -> bool {
        self.0.attaches.load(Ordering::Relaxed)
    }

    pub(crate) fn set_attaches(&self, attaches: bool) {
        self.0.attaches.store(attaches, Ordering::Relaxed);
    }

    /// Sends a request on behalf of a program, and waits for the answer, which is charged to `budget`. Dropping the future cancels
    /// the request.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &impl Serialize,
        attachments: Vec<Vec<u8>>,
        budget: &Budget,
        call: Option<&ToolContext>,
    ) -> Answer {
        let id = self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let text = rpc::request(Some(id), method, params);
        let text = text.map_err(|error| RpcError::new(FAILED, format!("the input cannot be sent: {error}")))?;
        let (answer, answered) = oneshot::channel();
        self.lock().insert(id, Pending { answer, budget: budget.clone(), call: call.cloned() });
        let mut open = OpenRequest { peer: self, id, is_sent: false };
        let closed = || RpcError::new(FAILED, "the application has closed the connection");
        self.outbox().send(Frame { text, attachments }).await.map_err(|_| closed())?;
        open.is_sent = true;
        answered.await.map_err(|_| closed())?
    }

    /// Passes an answer on. Returns whether there was a request with that id.
    pub(crate) fn answer(&self, id: u64, outcome: Result<Box<RawValue>, RpcError>, attachments: Vec<Vec<u8>>) -> bool {
        let Some(Pending { answer, budget, .. }) = self.lock().remove(&id) else { return false };
        let outcome = outcome.and_then(|result| {
            let attached: usize = attachments.iter().map(Vec::len).sum();
            let charge = budget.charge(result.get().len() + attached).map_err(|exhausted| {
                RpcError::new(FAILED, format!("the answers that wait for the program are too large: {exhausted}"))
            })?;
            Ok(Reply { result, attachments, charge })
        });
        let _ = answer.send(outcome);
        true
    }

    /// The call of a tool that waits for the answer to a request.
    pub(crate) fn call(&self, id: u64) -> Option<ToolContext> {
        self.lock().get(&id)?.call.clone()
    }

    /// Ends all requests: the connection has ended.
    pub(crate) fn close(&self) {
        self.outbox().close();
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose answer is awaited. If it is dropped before, the application learns that.
struct OpenRequest<'a> {
    peer: &'a Peer,
    id: u64,
    is_sent: bool,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let was_pending = self.peer.lock().remove(&self.id).is_some();
        let cancel = Cancel { id: RequestId::Number(self.id.cast_signed()) };
        if was_pending
            && self.is_sent
            && let Ok(text) = rpc::request(None, "cancel", &cancel)
        {
            self.peer.outbox().push(text.into());
        }
    }
}
