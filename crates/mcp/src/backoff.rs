//! Exponential backoff between attempts to connect, without jitter. [`Backoff`] says when to try; the crate `backon` would run the
//! loop.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Counts attempts, and computes when the next one is due: the pause doubles with each, up to 128 times the first.
#[derive(Debug)]
pub(crate) struct Backoff {
    first_pause: Duration,
    attempts: AtomicU32,
}

impl Backoff {
    pub(crate) fn new(first_pause: Duration) -> Self {
        Self { first_pause, attempts: AtomicU32::new(0) }
    }

    /// Counts an attempt, and returns the earliest time of the next one.
    pub(crate) fn next_attempt(&self) -> Instant {
        let attempts = self.attempts.fetch_add(1, Ordering::Relaxed);
        Instant::now() + self.first_pause.saturating_mul(1 << attempts.min(MAX_DOUBLINGS))
    }

    /// Starts again with the first pause.
    pub(crate) fn reset(&self) {
        self.attempts.store(0, Ordering::Relaxed);
    }
}

const MAX_DOUBLINGS: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_pause_doubles_up_to_128_times_until_it_is_reset() {
        let backoff = Backoff::new(Duration::from_millis(1));
        let pause = || backoff.next_attempt() - Instant::now();
        let doubled: Vec<u128> = (0..9).map(|_| pause().as_millis()).collect();
        assert_eq!(doubled, [1, 2, 4, 8, 16, 32, 64, 128, 128]);
        backoff.reset();
        assert_eq!(pause(), Duration::from_millis(1));
    }
}
