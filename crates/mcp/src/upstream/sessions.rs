//! What is known of the sessions of one connection over HTTP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The sessions of one connection, one after another. The id of a session is empty if the server gives none. Clones share what
/// is known.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    tools_changed: Arc<Notify>,
    /// The last session that has answered a request.
    answered: Arc<Mutex<Option<Arc<str>>>>,
    /// The last session that has had a stream of messages.
    streamed: Arc<Mutex<Option<Arc<str>>>>,
    /// Whether a handshake was completed.
    has_begun: Arc<AtomicBool>,
}

impl Sessions {
    /// `tools_changed` is notified when another session may have other tools.
    pub(super) fn new(tools_changed: &Arc<Notify>) -> Self {
        Self { tools_changed: Arc::clone(tools_changed), ..Self::default() }
    }

    /// Records that a session has answered a request.
    pub(super) fn record_answer(&self, session: &Arc<str>) {
        let mut answered = self.answered();
        if answered.as_ref() != Some(session) {
            *answered = Some(Arc::clone(session));
        }
    }

    /// Whether a session has answered a request.
    pub(super) fn has_answered(&self, session: &Arc<str>) -> bool {
        self.answered().as_ref() == Some(session)
    }

    /// Records that a session has a stream of messages.
    pub(super) fn record_stream(&self, session: &Arc<str>) {
        *self.streamed() = Some(Arc::clone(session));
    }

    /// Whether a session has had a stream of messages: not all servers have them.
    pub(super) fn has_streamed(&self, session: &Arc<str>) -> bool {
        self.streamed().as_ref() == Some(session)
    }

    /// Whether a handshake was completed: the protocol of 2026-07-28 has neither handshakes nor sessions.
    pub(super) fn have_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Records that a handshake was completed: after the first one, a session was renewed.
    pub(super) fn record_handshake(&self) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            self.record_loss();
        }
    }

    /// Records that another session may have other tools.
    pub(super) fn record_loss(&self) {
        self.tools_changed.notify_one();
    }

    fn answered(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streamed(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.streamed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
