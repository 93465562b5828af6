//! Whether a thread that waits stays awake for a moment before it sleeps: a rule, without a clock.
//!
//! Waking a thread takes longer than many waits. So a thread stays awake if the last waits were short. A wait in vain makes the
//! following ones sleep at once, twice as many each time.

use std::time::Duration;

/// The waits of one thread for one other. The first stays awake.
#[derive(Debug, Default, Clone)]
pub struct Awake {
    misses: u32,
    /// How many of the next waits sleep at once.
    skip: u32,
}

/// After this many waits in vain in sequence, the number that sleep at once no longer grows: 256.
const MAX_MISSES: u32 = 8;

/// A thread that was to be awake for a time and took this many times as long had no processor: the machine may be busy.
const BUSY: u32 = 10;

/// Such a wait counts as this many in vain. One may be chance: what is waited for computed on the processor of the thread.
const BUSY_MISSES: u32 = 4;

impl Awake {
    /// Whether the wait that begins now stays awake. If so, [`end`](Self::end) is to be called when it no longer does.
    pub fn begin(&mut self) -> bool {
        let stays = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        stays
    }

    /// A wait that stayed awake has taken so long, and was in vain if that is `limit` or longer.
    pub fn end(&mut self, waited: Duration, limit: Duration) {
        self.misses = match waited {
            _ if waited < limit => 0,
            _ if waited < BUSY * limit => MAX_MISSES.min(self.misses + 1),
            _ => MAX_MISSES.min(self.misses + BUSY_MISSES),
        };
        self.skip = if self.misses == 0 { 0 } else { 1 << self.misses };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(100);

    #[test]
    fn waits_in_vain_make_the_next_ones_sleep_at_once() {
        let mut awake = Awake::default();
        let mut stays = || {
            let stays = awake.begin();
            if stays {
                awake.end(LIMIT, LIMIT);
            }
            stays
        };
        let stayed = [(); 10].map(|()| stays());
        assert_eq!(stayed, [true, false, false, true, false, false, false, false, true, false]);
    }

    #[test]
    fn a_wait_that_ends_soon_makes_the_next_one_stay_awake() {
        let mut awake = Awake { misses: 5, skip: 0 };
        assert!(awake.begin());
        awake.end(LIMIT / 2, LIMIT);
        assert!(awake.begin());
    }

    #[test]
    fn on_a_busy_machine_the_next_waits_sleep() {
        let mut awake = Awake::default();
        let asleep = [(); 4].map(|()| {
            awake.end(BUSY * LIMIT, LIMIT);
            (0..1000).take_while(|_| !awake.begin()).count()
        });
        assert_eq!(asleep, [16, 256, 256, 256]);
    }
}
