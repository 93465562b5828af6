//! The limit on unrequested messages of a server: notifications, requests, answers to no request, comments and empty lines.
//!
//! Such messages are handled or ignored at once and hold no memory, but take processor time. A server that sends more than
//! the allowance is disconnected. Answers to requests do not count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use execbox_core::text::bytes_text;

use crate::Changes;

/// The allowance of one server, over all its connections. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Unasked(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// `None` before the first message.
    allowance: Option<Allowance>,
    /// Whether a connection was ended, and there is no new one yet.
    is_exceeded: bool,
    /// Notified when `is_exceeded` changes.
    changes: Changes,
}

/// A server has sent more than its allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "disconnected: the server sent too much without a request; allowed are {MAX_MESSAGES} messages and {} at once, and {} messages and \
     {} per second",
    bytes_text(MAX_BYTES),
    MESSAGES_PER_SECOND,
    bytes_text(BYTES_PER_SECOND)
)]
pub(super) struct Flood;

impl Unasked {
    pub(super) fn new(changes: Changes) -> Self {
        Self(Arc::new(Mutex::new(Inner { changes, ..Inner::default() })))
    }

    /// Counts messages of this many bytes together.
    pub(super) fn spend(&self, messages: u64, bytes: usize) -> Result<(), Flood> {
        let (mut inner, now) = (self.lock(), Instant::now());
        let allowance = inner.allowance.get_or_insert_with(|| Allowance::new(now));
        let spent = allowance.spend(messages, bytes as u64, now);
        if spent.is_err() {
            inner.set_exceeded(true);
        }
        spent
    }

    /// Records that there is a new connection.
    pub(super) fn connected(&self) {
        self.lock().set_exceeded(false);
    }

    /// Why the connection was ended; `None` if it was not, or there is a new one.
    pub(super) fn exceeded(&self) -> Option<Flood> {
        self.lock().is_exceeded.then_some(Flood)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn set_exceeded(&mut self, is_exceeded: bool) {
        if std::mem::replace(&mut self.is_exceeded, is_exceeded) != is_exceeded {
            self.changes.notify();
        }
    }
}

/// The messages and bytes that may be sent now. Both grow with time, up to the maximum that may be sent at once.
#[derive(Debug)]
struct Allowance {
    messages: u64,
    bytes: u64,
    /// The time up to which the allowance has grown.
    at: Instant,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { messages: MAX_MESSAGES, bytes: MAX_BYTES, at: now }
    }

    fn spend(&mut self, messages: u64, bytes: u64, now: Instant) -> Result<(), Flood> {
        let passed = now.saturating_duration_since(self.at).as_millis();
        let millis = u64::try_from(passed).unwrap_or(u64::MAX);
        // In shorter steps, growth by less than a message would be lost.
        if millis >= GROWS_EVERY_MILLIS {
            let grown =
                |left: u64, rate: u64, max: u64| left.saturating_add(rate.saturating_mul(millis) / 1000).min(max);
            self.messages = grown(self.messages, MESSAGES_PER_SECOND, MAX_MESSAGES);
            self.bytes = grown(self.bytes, BYTES_PER_SECOND, MAX_BYTES);
            self.at = now;
        }
        let left = self.messages.checked_sub(messages).zip(self.bytes.checked_sub(bytes));
        (self.messages, self.bytes) = left.ok_or(Flood)?;
        Ok(())
    }
}

/// The maximum number of messages, and of their bytes, that may be sent at once.
const MAX_MESSAGES: u64 = 20_000;
const MAX_BYTES: u64 = 128 << 20;

/// The number of messages and bytes that may be sent on average.
const MESSAGES_PER_SECOND: u64 = 1_000;
const BYTES_PER_SECOND: u64 = 8 << 20;

/// How often the allowance grows, in milliseconds.
const GROWS_EVERY_MILLIS: u64 = 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_allowed_and_the_average_is_limited() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let mut sent = |millis: u64, messages: u64, bytes: u64| {
            let now = start + Duration::from_millis(millis);
            (0..messages).take_while(|_| allowance.spend(1, bytes, now).is_ok()).count()
        };
        assert_eq!(sent(0, 30_000, 100), 20_000);
        assert_eq!(sent(0, 1, 0), 0);
        assert_eq!(sent(1_000, 30_000, 100), 1_000);
        // Time that passes in small steps counts.
        assert_eq!((1_001..=2_000).map(|millis| sent(millis, 10, 100)).sum::<usize>(), 1_000);
        assert_eq!(sent(3_600_000, 30_000, 100), 20_000, "no more than at once, however long it was quiet");
        assert_eq!(sent(0, 1, 0), 0, "a clock that goes back");
    }

    #[test]
    fn bytes_are_limited_too() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        assert_eq!(allowance.spend(0, MAX_BYTES + 1, start), Err(Flood));
        assert_eq!(allowance.spend(1, MAX_BYTES, start), Ok(()));
        assert_eq!(allowance.spend(1, 1, start), Err(Flood));
        let later = start + Duration::from_secs(1);
        assert_eq!(allowance.spend(1, BYTES_PER_SECOND, later), Ok(()));
        assert_eq!(allowance.spend(1, 1, later), Err(Flood));
    }

    #[test]
    fn the_reason_is_there_until_the_next_connection() {
        let unasked = Unasked::default();
        assert!(unasked.clone().spend(MAX_MESSAGES + 1, 0).is_err());
        assert_eq!(
            unasked.exceeded().unwrap().to_string(),
            "disconnected: the server sent too much without a request; allowed are 20000 messages and 128 MiB at once, and 1000 \
             messages and 8 MiB per second"
        );
        unasked.connected();
        assert_eq!(unasked.exceeded(), None);
    }
}
