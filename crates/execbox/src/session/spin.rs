//! Busy-waiting for a few microseconds before a thread sleeps.
//!
//! Waking a sleeping thread takes 20 to 60 µs, longer than most programs and tool calls. If the other side of a session
//! answered sooner than that the last time, the thread busy-waits for the next message: see [`Awake`]. So a slow peer, or one
//! that has no processor, costs next to nothing. If the programs that are executed at once can keep more threads busy than
//! there are processors, threads sleep at once. A thread that busy-waits yields its processor to others: one of them may be the
//! one that it waits for.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use execbox_core::awake::Awake;

/// The longest time that a thread busy-waits.
const AWAKE: Duration = Duration::from_micros(200);

/// Messages that follow each other sooner than this are processed together: calls that a program makes at once.
const PAUSE: Duration = Duration::from_micros(2);

/// The number of processors. Asks the system at the first call, which a jailed process must have made before.
pub(crate) fn processors() -> usize {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    *PROCESSORS
}

/// How many programs other threads and processes execute for this process: each can keep two threads busy.
static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts a program that is executed on another thread or in another process, or waits for that, until this is dropped.
pub(crate) struct Execution(());

impl Execution {
    pub(crate) fn new() -> Self {
        EXECUTIONS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        EXECUTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a thread that busy-waits takes no processor from another.
fn is_free() -> bool {
    EXECUTIONS.load(Ordering::Relaxed).max(1) * 2 <= processors()
}

/// The waits of one side of a session.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    awake: Awake,
}

impl Spin {
    /// Busy-waits for messages if one is likely to arrive soon, until no more follow at once. Returns whether one has arrived.
    /// `has_message` returns whether one has arrived since it was called before; `None` if it cannot know.
    pub(crate) fn wait(&mut self, has_message: impl FnMut() -> Option<bool>) -> bool {
        let since = Instant::now();
        is_free() && self.awake.begin() && self.spin(|| since.elapsed(), has_message)
    }

    /// Busy-waits. `elapsed` is the time since the wait began.
    fn spin(&mut self, elapsed: impl Fn() -> Duration, mut has_message: impl FnMut() -> Option<bool>) -> bool {
        while elapsed() < AWAKE {
            match has_message() {
                None => return false,
                Some(true) => {
                    self.awake.end(Duration::ZERO, AWAKE);
                    let mut pause_ends = elapsed() + PAUSE;
                    while elapsed() < pause_ends.min(AWAKE) {
                        if has_message() == Some(true) {
                            pause_ends = elapsed() + PAUSE;
                        }
                    }
                    return true;
                }
                Some(false) => thread::yield_now(),
            }
        }
        self.awake.end(elapsed(), AWAKE);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Busy-waits with a clock that shows half a microsecond more at each reading: the thread yields in between, which takes
    /// milliseconds on a busy machine. Messages arrive at `arrivals`, in nanoseconds. Returns whether one arrived, and when the
    /// wait ended.
    fn spin(arrivals: &[u64]) -> (bool, u64) {
        let now = Cell::new(0);
        let elapsed = || Duration::from_nanos(now.replace(now.get() + 500));
        let mut pending = arrivals.iter().peekable();
        let stayed =
            Spin::default().spin(elapsed, || Some(pending.next_if(|arrival| **arrival <= now.get()).is_some()));
        (stayed, now.get())
    }

    #[test]
    fn a_wait_takes_in_what_follows_at_once_and_ends() {
        let (arrived, end) = spin(&[50_000, 51_500, 53_000, 58_000]);
        assert!(arrived && (55_000..57_000).contains(&end), "2 µs after 53 µs: {end}");
        let (arrived, end) = spin(&(50..500).map(|microseconds| microseconds * 1_000).collect::<Vec<_>>());
        assert!(arrived && (200_000..202_000).contains(&end), "without end: {end}");
        let (arrived, end) = spin(&[400_000]);
        assert!(!arrived && (200_000..202_000).contains(&end), "in vain: {end}");
    }
}
