//! The requests of a server that are not answered yet.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The requests of the peer that are not answered yet. Each has a permit, which is held until its answer is written. Clones
/// share the requests.
#[derive(Clone)]
pub(super) struct Unanswered {
    room: Arc<Semaphore>,
    permits: Arc<Mutex<HashMap<RequestId, OwnedSemaphorePermit>>>,
}

impl Default for Unanswered {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_UNANSWERED)), permits: Arc::default() }
    }
}

impl Unanswered {
    /// Waits until there is room for a request.
    pub(super) async fn room(&self) {
        let _ = self.room.acquire().await;
    }

    /// Records a request, or the cancellation of one. Returns false for a request that must be ignored: another unanswered one
    /// has its id, or there is no room.
    pub(super) fn record(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) => {
                let Entry::Vacant(entry) = permits.entry(request.id.clone()) else { return false };
                let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else { return false };
                entry.insert(permit);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    permits.remove(id); // rmcp sends no answer.
                }
            }
            _ => {}
        }
        true
    }

    /// The permit of the request that a message answers.
    pub(super) fn remove(&self, message: &TxJsonRpcMessage<RoleClient>) -> Option<OwnedSemaphorePermit> {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => error.id.as_ref()?,
            _ => return None,
        };
        self.permits.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// The maximum number of requests of the peer that are not answered yet, or whose answers are not written.
pub(super) const MAX_UNANSWERED: usize = 1024;
