//! The part of a store that all handles share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::database::Database;
use crate::limits::ThreadLimits;

pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) limits: ThreadLimits,
    pub(crate) signals: Signals,
    pub(crate) clock: Clock,
}

pub(crate) type Clock = Box<dyn Fn() -> SystemTime + Send + Sync>;

impl Inner {
    /// Milliseconds since 1970, at least 0.
    pub(crate) fn now(&self) -> i64 {
        let since_1970 = (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Wakes subscriptions. Signals carry no events: subscriptions read them from the database, so slow ones miss none.
#[derive(Default)]
pub(crate) struct Signals(Mutex<HashMap<Arc<str>, watch::Sender<()>>>);

impl Signals {
    pub(crate) fn listen(&self, thread: &Arc<str>) -> watch::Receiver<()> {
        let mut signals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signals.retain(|_, signal| signal.receiver_count() > 0);
        signals.entry(Arc::clone(thread)).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    pub(crate) fn wake(&self, thread: &str) {
        if let Some(signal) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(thread) {
            signal.send_replace(());
        }
    }

    pub(crate) fn end(&self, thread: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(thread);
    }

    pub(crate) fn end_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
