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
    failures: Arc<Mutex<FailuresInARow>>,
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

    /// Records whether a request has failed without an answer of the server.
    pub(super) fn record_outcome(&self, is_failure: bool) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).record(is_failure);
    }

    /// Whether requests have failed one after another, without an answer in between.
    pub(super) fn are_failing(&self) -> bool {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).are_many()
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

/// Counts the requests that have failed since the last answer.
#[derive(Debug, Default)]
struct FailuresInARow(u32);

impl FailuresInARow {
    fn record(&mut self, is_failure: bool) {
        self.0 = if is_failure { self.0.saturating_add(1) } else { 0 };
    }

    fn are_many(&self) -> bool {
        self.0 >= MANY_FAILURES
    }
}

/// How many failures in a row raise doubts about the session: one is an accident.
const MANY_FAILURES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_without_an_answer_in_between_are_many() {
        for (outcomes, are_many) in
            [("", false), ("f", false), ("ff", true), ("fff", true), ("faf", false), ("ffa", false), ("affaff", true)]
        {
            let mut failures = FailuresInARow::default();
            for outcome in outcomes.chars() {
                failures.record(outcome == 'f');
            }
            assert_eq!(failures.are_many(), are_many, "{outcomes:?}");
        }
        let mut failures = FailuresInARow(u32::MAX);
        failures.record(true);
        assert!(failures.are_many());
    }
}
