//! Turns of the guests on one thread: between any two turns, the runtime polls its timers and sockets.
//!
//! A guest that computes yields its thread every few milliseconds and wakes its task at once. Tokio runs a woken task again
//! before it polls timers and sockets, which it does only every 61 tasks or when no task is ready: after 61 turns of two
//! milliseconds, more than a tenth of a second has passed. So the task is woken by [`yield_now`](tokio::task::yield_now)
//! instead, which waits until the runtime has polled, and no other guest of the thread computes before.
//!
//! ```text
//!   guest 1 computes, yields │ 2 and 3 wait │ the runtime polls, other tasks run │ guest 2 computes, yields │ …
//! ```

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use execbox_core::engine::{Guest, Turn};
use futures_util::task::AtomicWaker;

/// The turns of one guest.
pub(crate) struct Turns {
    signal: Arc<Signal>,
    /// The waker that the guest is polled with: the signal.
    waker: Waker,
    /// The guest's place in the queue: the guest that has waited longest has the lowest number. Places are unique.
    place: u64,
}

impl Turns {
    pub(crate) fn new() -> Self {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        Self { signal, waker, place: last_place() }
    }

    /// Calls [`Guest::poll_turn`] if it is the guest's turn; otherwise `Pending`.
    pub(crate) fn poll(&mut self, guest: &mut dyn Guest, cx: &mut Context<'_>) -> Poll<Turn> {
        thread_local! { static QUEUE: Queue = Queue::default(); }
        QUEUE.with(|queue| {
            if !queue.lock().may_compute(self.place) {
                queue.wait(self.place, cx.waker());
                return Poll::Pending;
            }
            let (turn, has_yielded) = self.signal.poll(guest, &self.waker, cx);
            if has_yielded {
                self.place = last_place();
                queue.lock().spent = true;
                queue.wait(self.place, cx.waker());
            }
            turn
        })
    }
}

/// A place behind all others, across threads: tasks can move.
fn last_place() -> u64 {
    static PLACES: AtomicU64 = AtomicU64::new(0);
    PLACES.fetch_add(1, Ordering::Relaxed)
}

/// The queue of the guests of one thread.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Whether a guest has used its turn, and the runtime has not polled since.
    spent: bool,
    /// The place of the guest whose turn it is; `None` if any guest may compute.
    next: Option<u64>,
    /// Tasks to wake when the runtime has polled, by the places of their guests. While there are any, a [`RuntimePoll`] is
    /// pending.
    waiting: BTreeMap<u64, Waker>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a task when the runtime has polled.
    fn wait(&self, place: u64, task: &Waker) {
        let is_first = {
            let mut state = self.lock();
            state.waiting.insert(place, task.clone());
            state.waiting.len() == 1
        };
        if is_first {
            let poll = Waker::from(Arc::new(RuntimePoll(self.clone())));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&poll));
        }
    }
}

impl State {
    fn may_compute(&mut self, place: u64) -> bool {
        if self.spent || self.next.is_some_and(|next| next != place) {
            return false;
        }
        self.next = None;
        true
    }
}

/// A waker that the runtime wakes when it has polled, or drops when it ends.
struct RuntimePoll(Queue);

impl Wake for RuntimePoll {
    fn wake(self: Arc<Self>) {}
}

impl Drop for RuntimePoll {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.lock();
            state.spent = false;
            let waiting = std::mem::take(&mut state.waiting);
            // If the next guest has not computed (its task has ended, or waits for another thread), any guest may in this
            // round. Otherwise no guest ever computes if the tasks of the next guests always move: the runtime moves the first
            // of more than 256 that are woken.
            let is_missed = state.next.is_some();
            state.next = waiting.keys().next().copied().filter(|_| !is_missed);
            waiting
        };
        waiting.into_values().for_each(Waker::wake);
    }
}

/// The waker of a guest. While the guest is being polled, waking is only recorded.
#[derive(Default)]
struct Signal {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Signal {
    const IDLE: u8 = 0;
    const POLLED: u8 = 1;
    const WOKEN: u8 = 2;

    /// Polls the guest. Also returns whether it has yielded: it has more to compute.
    fn poll(&self, guest: &mut dyn Guest, waker: &Waker, cx: &mut Context<'_>) -> (Poll<Turn>, bool) {
        self.task.register(cx.waker());
        self.state.store(Self::POLLED, Ordering::SeqCst);
        let turn = guest.poll_turn(&mut Context::from_waker(waker));
        let woken = self.state.swap(Self::IDLE, Ordering::SeqCst) == Self::WOKEN;
        if woken && turn.is_ready() {
            cx.waker().wake_by_ref(); // The guest can continue later.
        }
        let has_yielded = woken && turn.is_pending();
        (turn, has_yielded)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let recorded = self.state.compare_exchange(Self::POLLED, Self::WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if recorded == Err(Self::IDLE) {
            self.task.wake();
        }
    }
}
