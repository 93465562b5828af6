//! Busy-waiting for the next message of the application, for a few microseconds before the thread sleeps.
//!
//! Waking a sleeping thread takes longer than many programs and calls. The task wakes itself meanwhile, so that the other tasks of the
//! thread run. An application that answers later than that is not waited for the next time: see [`Awake`].

use std::time::{Duration, Instant};

use execbox_core::awake::Awake;

/// The longest time that the thread stays awake.
const AWAKE: Duration = Duration::from_micros(200);

/// The waits of one connection.
#[derive(Debug)]
pub(crate) struct Wait {
    awake: Awake,
    since: Option<Instant>,
    /// Whether something was written since the last message: the application may answer.
    has_written: bool,
    processors: u64,
}

impl Wait {
    pub(crate) fn new(processors: u64) -> Self {
        Self { awake: Awake::default(), since: None, has_written: false, processors }
    }

    pub(crate) fn written(&mut self) {
        self.has_written = true;
    }

    /// Whether the thread has stayed awake since the last message.
    pub(crate) fn is_awake(&self) -> bool {
        self.since.is_some()
    }

    /// A message has arrived.
    pub(crate) fn received(&mut self, now: Instant) {
        self.has_written = false;
        if let Some(since) = self.since.take() {
            self.awake.end(now - since, AWAKE);
        }
    }

    /// Whether the thread stays awake, for now. `running` programs may need its processor.
    pub(crate) fn stays_awake(&mut self, running: u64, now: Instant) -> bool {
        match self.since {
            None if self.has_written => {
                self.has_written = false;
                let stays = running.max(1) * 2 <= self.processors && self.awake.begin();
                self.since = stays.then_some(now);
                stays
            }
            None => false,
            Some(since) if now - since < AWAKE => true,
            Some(since) => {
                self.since = None;
                self.awake.end(now - since, AWAKE);
                false
            }
        }
    }

    /// The transport cannot be read without waiting.
    pub(crate) fn give_up(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_answers_soon_is_waited_for() {
        let (mut wait, start) = (Wait::new(2), Instant::now());
        let at = |micros| start + Duration::from_micros(micros);
        assert!(!wait.stays_awake(0, at(0)), "nothing was written: it has nothing to answer");
        wait.written();
        assert!(wait.stays_awake(1, at(0)) && wait.stays_awake(1, at(199)));
        wait.received(at(199));
        assert!(!wait.stays_awake(1, at(199)));
        wait.written();
        assert!(wait.stays_awake(1, at(300)) && wait.is_awake());
        assert!(!wait.stays_awake(1, at(500)), "in vain");
        wait.written();
        assert!(!wait.stays_awake(1, at(600)), "after one in vain, the thread sleeps");
    }

    #[test]
    fn the_processors_are_left_to_programs() {
        let (mut wait, now) = (Wait::new(2), Instant::now());
        wait.written();
        assert!(!wait.stays_awake(2, now));
        let mut alone = Wait::new(1);
        alone.written();
        assert!(!alone.stays_awake(0, now));
    }
}
