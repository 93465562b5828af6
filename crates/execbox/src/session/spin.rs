//! Waiting awake for a few microseconds before a thread sleeps.
//!
//! Waking a sleeping thread takes 20 to 60 µs, longer than most programs and tool calls. Where the other side of a session
//! answered sooner than that the last time, its next message is waited for awake. Waits in vain make the following ones sleep at
//! once, twice as many each time, so that a slow peer, or one that has no processor, costs next to nothing. Where several
//! programs are executed at once, all waits sleep at once: processors have other work then. A thread that waits awake lets others
//! run on its processor: among them may be the one that it waits for.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a wait stays awake.
const AWAKE: Duration = Duration::from_micros(100);

/// Messages that follow each other sooner than this are taken in together: calls that a program makes at once.
const PAUSE: Duration = Duration::from_micros(2);

/// After this many waits in vain in sequence, the number that sleep at once no longer grows: 256.
const MAX_MISSES: u32 = 8;

/// The number of processors. Asks the system at the first call, which a jailed process must have made before.
pub(crate) fn processors() -> usize {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    *PROCESSORS
}

/// How many programs this process has other threads and processes execute: each can keep two threads awake.
static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);

/// A program that is executed on another thread or in another process, or waits for that, as long as this exists.
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

/// Whether a thread that is awake takes no processor from another.
fn is_free() -> bool {
    EXECUTIONS.load(Ordering::Relaxed).max(1) * 2 <= processors()
}

/// The waits of one side of a session.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    misses: u32,
    /// How many of the next waits sleep at once.
    skip: u32,
}

impl Spin {
    /// Waits until something has arrived, and more no longer follows at once, if that is likely to be soon. Returns whether
    /// something has. `has_arrived` says it of the time since it was asked before; `None` if it cannot.
    pub(crate) fn wait(&mut self, mut has_arrived: impl FnMut() -> Option<bool>) -> bool {
        if self.skip > 0 || !is_free() {
            self.skip = self.skip.saturating_sub(1);
            return false;
        }
        let since = Instant::now();
        while since.elapsed() < AWAKE {
            match has_arrived() {
                None => return false,
                Some(true) => {
                    self.misses = 0;
                    let mut last = Instant::now();
                    while last.elapsed() < PAUSE && since.elapsed() < AWAKE {
                        if has_arrived() == Some(true) {
                            last = Instant::now();
                        }
                    }
                    return true;
                }
                Some(false) => thread::yield_now(),
            }
        }
        self.misses = MAX_MISSES.min(self.misses + 1);
        self.skip = 1 << self.misses;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_make_the_next_ones_sleep_at_once() {
        let mut spin = Spin::default();
        let mut stays_awake = || {
            let mut asked = 0;
            let in_vain = || {
                asked += 1;
                Some(false)
            };
            assert!(!spin.wait(in_vain));
            asked > 0
        };
        if processors() > 1 {
            let awake = [(); 10].map(|()| stays_awake());
            assert_eq!(awake, [true, false, false, true, false, false, false, false, true, false]);
        }
    }

    #[test]
    fn a_wait_that_ends_soon_makes_the_next_one_stay_awake() {
        let mut spin = Spin { misses: 5, skip: 0 };
        if processors() > 1 {
            let mut arrivals = [false, true, true].into_iter();
            assert!(spin.wait(|| Some(arrivals.next().unwrap_or(false))));
            assert_eq!(arrivals.next(), None, "both are taken in");
            assert_eq!((spin.misses, spin.skip), (0, 0));
        }
    }
}
