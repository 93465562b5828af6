//! Guests that compute on one thread take turns, and between any two turns the runtime looks at its timers and sockets.
//!
//! A guest that computes gives its thread back every few milliseconds and wakes its task at once. A task that is woken at
//! once is run again before the runtime asks the system what has happened: it does so only every 61 tasks, or when there
//! is nothing else to run. Sixty-one turns of two milliseconds are more than a tenth of a second. So here the task is woken
//! by [`yield_now`](tokio::task::yield_now), which waits for the runtime to have looked; and no other guest of the thread
//! computes before.
//!
//! ```text
//!   guest 1 computes, gives way │ 2 and 3 wait │ the runtime looks, other tasks run │ guest 2 computes, gives way │ …
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
    /// The signal, as the guest is given it.
    waker: Waker,
    /// Its place among those that wait: who had no turn for longest has the lowest number. No two guests have one.
    place: u64,
}

impl Turns {
    pub(crate) fn new() -> Self {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        Self { signal, waker, place: last_place() }
    }

    /// [`Guest::poll_turn`], when it is the guest's turn. `Pending` is as there.
    pub(crate) fn poll(&mut self, guest: &mut dyn Guest, cx: &mut Context<'_>) -> Poll<Turn> {
        thread_local! { static LINE: Line = Line::default(); }
        LINE.with(|line| {
            if !line.lock().may_compute(self.place) {
                line.wait(self.place, cx.waker());
                return Poll::Pending;
            }
            let (turn, gave_way) = self.signal.poll(guest, &self.waker, cx);
            if gave_way {
                self.place = last_place();
                line.lock().spent = true;
                line.wait(self.place, cx.waker());
            }
            turn
        })
    }
}

/// A place behind all others, of all threads: tasks may move.
fn last_place() -> u64 {
    static PLACES: AtomicU64 = AtomicU64::new(0);
    PLACES.fetch_add(1, Ordering::Relaxed)
}

/// The guests of one thread.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// A guest has used its turn up, and the runtime has not looked since.
    spent: bool,
    /// The place of the guest whose turn it is, if it is anybody's in particular.
    next: Option<u64>,
    /// Tasks to be woken when the runtime has looked, by the places of their guests. While there are any, a [`Look`] is
    /// under way.
    waiting: BTreeMap<u64, Waker>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a task when the runtime has looked.
    fn wait(&self, place: u64, task: &Waker) {
        let is_first = {
            let mut state = self.lock();
            state.waiting.insert(place, task.clone());
            state.waiting.len() == 1
        };
        if is_first {
            let look = Waker::from(Arc::new(Look(self.clone())));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&look));
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

/// Woken by the runtime when it has looked; or dropped, by one that ends.
struct Look(Line);

impl Wake for Look {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Look {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.lock();
            state.spent = false;
            let waiting = std::mem::take(&mut state.waiting);
            // Who does not come although it is next (its task has ended, or moved) is passed over in the next round.
            state.next = waiting.keys().next().copied();
            waiting
        };
        waiting.into_values().for_each(Waker::wake);
    }
}

/// What a guest is given to wake its task by. While the guest is polled, that is only noted.
#[derive(Default)]
struct Signal {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Signal {
    const IDLE: u8 = 0;
    const POLLED: u8 = 1;
    const WOKEN: u8 = 2;

    /// Polls the guest, and says whether it has given way: it computes, and only its thread is free.
    fn poll(&self, guest: &mut dyn Guest, waker: &Waker, cx: &mut Context<'_>) -> (Poll<Turn>, bool) {
        self.task.register(cx.waker());
        self.state.store(Self::POLLED, Ordering::SeqCst);
        let turn = guest.poll_turn(&mut Context::from_waker(waker));
        let woken = self.state.swap(Self::IDLE, Ordering::SeqCst) == Self::WOKEN;
        if woken && turn.is_ready() {
            cx.waker().wake_by_ref(); // It has news for later.
        }
        let gave_way = woken && turn.is_pending();
        (turn, gave_way)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(Self::POLLED, Self::WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(Self::IDLE) {
            self.task.wake();
        }
    }
}
