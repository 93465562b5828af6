//! Which calls of an execution wait for a person: while all do, its clock is paused. And what a call holds until its result is
//! passed on.

use std::any::Any;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::events::{Awaited, CallHandle};

/// How many calls of one execution wait for a person.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingApprovals(Arc<Pending>);

#[derive(Debug, Default)]
struct Pending {
    calls: AtomicUsize,
    /// The driver of the execution, which is woken when the count changes: other tasks ask questions, too.
    driver: AtomicWaker,
}

impl PendingApprovals {
    /// The number of calls that wait for a person. The task is woken when it changes.
    pub(crate) fn poll_count(&self, cx: &Context<'_>) -> usize {
        self.0.driver.register(cx.waker());
        self.0.calls.load(Ordering::SeqCst)
    }

    fn begin(&self) {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.driver.wake();
    }

    fn end(&self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
        self.0.driver.wake();
    }
}

/// One call: whether it waits for a person, for how long it has waited, its observers, and what it holds. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CallWaits(Arc<CallState>);

#[derive(Debug)]
struct CallState {
    /// Counts the waiting calls of the execution.
    approvals: PendingApprovals,
    clock: Mutex<WaitClock>,
    /// Notified when the clock starts or stops.
    changed: Notify,
    observed: CallHandle,
    held: Mutex<Held>,
}

/// What a call [holds](crate::ToolContext::hold) until its result is passed on.
#[derive(Default)]
pub(crate) struct Held(Vec<Box<dyn Any + Send>>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.0.len())
    }
}

/// The time in which a call waits for a person.
#[derive(Debug, Default)]
struct WaitClock {
    /// How many questions about the call are open.
    questions: usize,
    /// When the first open question was asked.
    since: Option<Instant>,
    /// The time of earlier waits.
    total: Duration,
}

impl CallWaits {
    pub(crate) fn new(approvals: PendingApprovals, observed: CallHandle) -> Self {
        let (clock, changed, held) = (Mutex::default(), Notify::new(), Mutex::default());
        Self(Arc::new(CallState { approvals, clock, changed, observed, held }))
    }

    pub(crate) fn hold(&self, value: Box<dyn Any + Send>) {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner).0.push(value);
    }

    pub(crate) fn take_held(&self) -> Held {
        std::mem::take(&mut *self.0.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn observed(&self) -> &CallHandle {
        &self.0.observed
    }

    pub(crate) fn add(&self, awaited: Awaited) -> WaitForPerson {
        let is_first = {
            let mut clock = self.clock();
            clock.questions += 1;
            clock.questions == 1 && clock.since.replace(Instant::now()).is_none()
        };
        if is_first {
            self.0.approvals.begin();
            self.0.changed.notify_waiters();
            self.0.observed.waiting(awaited);
        }
        WaitForPerson(self.clone())
    }

    fn remove(&self) {
        let ended = {
            let mut clock = self.clock();
            clock.questions -= 1;
            let ended = clock.since.filter(|_| clock.questions == 0);
            if let Some(since) = ended {
                clock.total += since.elapsed();
                clock.since = None;
            }
            ended.is_some()
        };
        if ended {
            self.0.approvals.end();
            self.0.changed.notify_waiters();
            self.0.observed.resumed();
        }
    }

    /// See [`ToolContext::within`](super::ToolContext::within).
    pub(crate) async fn within<T>(&self, timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
        let (began, before) = (Instant::now(), self.waited().0);
        let mut future = pin!(future);
        loop {
            let changed = self.0.changed.notified();
            let (waited, is_waiting) = self.waited();
            let left = timeout.saturating_add(waited.saturating_sub(before)).saturating_sub(began.elapsed());
            tokio::select! {
                biased;
                output = &mut future => return Some(output),
                () = changed => {}
                () = tokio::time::sleep(left), if !is_waiting => return None,
            }
        }
    }

    /// The time in which the call has waited for a person, and whether it does now.
    fn waited(&self) -> (Duration, bool) {
        let clock = self.clock();
        let now = clock.since.map_or(Duration::ZERO, |since| since.elapsed());
        (clock.total.saturating_add(now), clock.since.is_some())
    }

    fn clock(&self) -> MutexGuard<'_, WaitClock> {
        self.0.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a call as one that waits for a person, until this value is dropped: see
/// [`ToolContext::wait_for_person`](crate::ToolContext::wait_for_person).
#[derive(Debug)]
#[must_use = "the call waits for a person as long as this lives"]
pub struct WaitForPerson(CallWaits);

impl Drop for WaitForPerson {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test(start_paused = true)]
    async fn time_in_which_a_person_is_asked_does_not_count() {
        const SECOND: Duration = Duration::from_secs(1);
        let waits = CallWaits::new(PendingApprovals::default(), CallHandle::default());
        drop((waits.add(Awaited::Answer), tokio::time::sleep(SECOND).await)); // before the timeout begins
        let began = Instant::now();
        let asks = async {
            for _ in 0..2 {
                tokio::time::sleep(SECOND / 4).await;
                let (_first, _second) = (waits.add(Awaited::Answer), waits.add(Awaited::Approval));
                tokio::time::sleep(10 * SECOND).await;
            }
        };
        let (answer, ()) = tokio::join!(waits.within(SECOND, pending::<()>()), asks);
        assert_eq!((answer, began.elapsed()), (None, 21 * SECOND));
        assert_eq!(waits.within(Duration::ZERO, async { 1 }).await, Some(1));
        assert_eq!(waits.within(Duration::MAX, async { 2 }).await, Some(2));
    }
}
