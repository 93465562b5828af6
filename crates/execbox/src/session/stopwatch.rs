//! Measures the CPU time of a guest without a noticeable cost.
//!
//! The CPU clock of a thread is a system call, which takes as long as a short turn of a guest. So it is read only around turns
//! that are likely to be long: those after which the guest has yielded, because it had more to compute. Every other turn
//! counts by the wall clock, which is not a system call. That includes time in which the thread had no processor, so such a
//! turn counts at most [`MAX_TURN`].

use std::task::Poll;
use std::time::Duration;

use execbox_core::engine::{Guest, Turn};
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The most CPU time of a guest until it yields: twice as long as its turns, as ticks and turns are not synchronized.
const MAX_TURN: Duration = Duration::from_millis(4);

/// From this length on, reading a source takes far longer than reading the CPU clock.
const LONG_SOURCE: usize = 16 << 10;

/// Measures the turns of one guest.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// Whether the guest has yielded in its last turn.
    is_computing: bool,
    /// The CPU time that an engine that measures it has reported so far.
    reported: Duration,
}

/// When a turn was, and how long it computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) cpu_time: Duration,
}

impl Stopwatch {
    /// Runs a turn of a guest and measures it.
    pub(crate) fn turn<T>(&mut self, turn: impl FnOnce() -> Poll<T>) -> (Poll<T>, Timed) {
        let running = Running::start(self.is_computing);
        let turn = turn();
        self.is_computing = turn.is_pending();
        let ended = Instant::now();
        (turn, Timed { began: running.began, ended, cpu_time: running.cpu_time_at(ended) })
    }

    /// [`turn`](Self::turn) of a guest, whose engine may [measure the CPU time](Guest::cpu_time) itself.
    pub(crate) fn guest_turn(
        &mut self,
        guest: &mut dyn Guest,
        turn: impl FnOnce(&mut dyn Guest) -> Poll<Turn>,
    ) -> (Poll<Turn>, Timed) {
        let (turn, mut timed) = self.turn(|| turn(guest));
        if let Some(reported) = guest.cpu_time() {
            timed.cpu_time = reported.saturating_sub(self.reported);
            self.reported = reported;
        }
        (turn, timed)
    }
}

/// A measurement that has begun, on one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    began: Instant,
    /// The CPU clock at the beginning; `None` to measure by the wall clock.
    cpu_began: Option<Duration>,
}

/// Begins a measurement of work on a source of `len` bytes.
pub(crate) fn for_source(len: usize) -> Running {
    Running::start(len >= LONG_SOURCE)
}

impl Running {
    fn start(is_long: bool) -> Self {
        Self { began: Instant::now(), cpu_began: if is_long { cpu_clock() } else { None } }
    }

    /// The CPU time since the beginning. To be called on the same thread.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.cpu_time_at(Instant::now())
    }

    fn cpu_time_at(&self, now: Instant) -> Duration {
        match self.cpu_began {
            Some(began) => cpu_clock().unwrap_or_default().saturating_sub(began),
            None => (now - self.began).min(MAX_TURN),
        }
    }
}

/// The CPU time of this thread; `None` where the system does not report it.
fn cpu_clock() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const PAUSE: Duration = Duration::from_millis(30);

    #[test]
    fn sleeping_is_not_computing() {
        let mut stopwatch = Stopwatch::default();
        let (_, first) = stopwatch.turn(|| {
            sleep(PAUSE);
            Poll::<()>::Pending
        });
        assert_eq!(first.cpu_time, MAX_TURN, "by the wall clock");
        assert!(first.ended - first.began >= PAUSE);
        let (_, second) = stopwatch.turn(|| {
            sleep(PAUSE);
            Poll::Ready(())
        });
        assert!(second.cpu_time < PAUSE, "by the CPU clock: {second:?}");
        assert!(!stopwatch.is_computing);
    }

    #[test]
    fn computing_counts() {
        let mut stopwatch = Stopwatch { is_computing: true, ..Stopwatch::default() };
        let mut total = Duration::ZERO;
        while total < PAUSE {
            let (_, timed) = stopwatch.turn(|| {
                std::hint::black_box((0..100_000_u64).fold(0, |a, b| a ^ std::hint::black_box(b)));
                Poll::<()>::Pending
            });
            assert!(timed.cpu_time > Duration::ZERO);
            total += timed.cpu_time;
        }
    }
}
