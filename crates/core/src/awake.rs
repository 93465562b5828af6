//! Whether a thread that waits stays awake for a moment before it sleeps: a rule, without a clock.
//!
//! Waking a thread takes longer than many waits, so a thread stays awake if its last waits were short. A *miss* is a wait that
//! stayed awake for its limit or longer. After each miss in sequence, twice as many waits sleep at once.

use std::time::Duration;

/// The waits of one thread for another thread. The first wait stays awake.
#[derive(Debug, Default, Clone)]
pub struct Awake {
    misses: u32,
    /// How many of the next waits sleep at once.
    skip: u32,
}

/// The number of misses in sequence up to which more waits sleep at once: at most 256.
const MAX_MISSES: u32 = 8;

/// A wait that took this many times its limit shows that the thread had no processor: the machine may be busy.
const BUSY: u32 = 10;

/// The number of misses that a wait on a busy machine counts as: fewer than [`MAX_MISSES`], as one such wait may be chance.
const BUSY_MISSES: u32 = 4;

impl Awake {
    /// Whether the wait that begins now stays awake. If so, [`end`](Self::end) is to be called when it no longer does.
    pub fn begin(&mut self) -> bool {
        let stays = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        stays
    }

    /// Counts a wait that stayed awake for `waited`. It is a miss if that is `limit` or longer.
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
