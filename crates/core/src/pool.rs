//! A bounded pool of shells: what is costly to make, serves one execution at a time and can serve the
//! next one after it (a worker thread, a child process).
//!
//! ```text
//!   acquire ─► Granted(Use) · Granted(Make) · Waiting · Refused
//!                 │              │               └──► Output::Grant, first come first served · Output::Refuse
//!                 └──────┬───────┘
//!                  the execution
//!                 ┌──────┴───────┐
//!              put_back        lost                 idle too long · closed ──► Output::Discard
//! ```
//!
//! It knows who is next, how many shells there may be, and whose patience is over. It makes none, ends
//! none, and never asks for the time: that is for a driver, which hands in the time as a [`Duration`]
//! since an epoch of its own choosing. After every method that can lead to outputs, poll them until there
//! are none.

use std::collections::VecDeque;
use std::time::Duration;

/// How large a pool may be, and how patient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// How many shells there may be at once. Default: one for each core, at most 4. At least 1 is taken.
    pub max_size: usize,
    /// How many shells are kept, however long they idle. Default 0.
    pub min_size: usize,
    /// How long a shell idles before it is let go. Default 30 s.
    pub idle_timeout: Duration,
    /// How many executions may wait for a shell; one more is [refused](Rejected::QueueFull). Default 1000.
    pub max_waiting: usize,
    /// How long an execution may wait before it is [refused](Rejected::WaitedTooLong). Default 30 s.
    pub max_wait: Duration,
}

impl PoolOptions {
    /// The defaults on a machine of so many cores.
    pub fn for_cores(cores: usize) -> Self {
        Self {
            max_size: cores.clamp(1, 4),
            min_size: 0,
            idle_timeout: Duration::from_secs(30),
            max_waiting: 1000,
            max_wait: Duration::from_secs(30),
        }
    }
}

/// Why an execution gets no shell. Nothing of it has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Too many wait already.
    #[error("the executor is overloaded: all {busy} runners are busy, and {waiting} executions wait already")]
    QueueFull {
        /// How many shells are in use.
        busy: usize,
        /// How many executions wait.
        waiting: usize,
    },
    /// No shell came free in time.
    #[error("the executor is overloaded: no runner came free within {} ms", .0.as_millis())]
    WaitedTooLong(Duration),
    /// The pool was closed.
    #[error("the executor has been disposed of")]
    Closed,
}

/// What an execution gets: a shell, or the right to make one. Either is to be ended by
/// [`put_back`](Pool::put_back) or [`lost`](Pool::lost).
#[derive(Debug, PartialEq, Eq)]
pub enum Grant<S> {
    /// A shell that has served before.
    Use(S),
    /// There is room for one more.
    Make,
}

/// What came of [`Pool::acquire`].
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired<S> {
    /// At once.
    Granted(Grant<S>),
    /// Not yet: the waiter is in the queue, and an [`Output`] will name it.
    Waiting {
        /// When its patience is over; `None` for a patience too long to be a time.
        until: Option<Duration>,
    },
    /// Not at all.
    Refused(Rejected),
}

/// What a driver of a [`Pool`] has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<S, W> {
    /// Hand this to the waiter. If the waiter is gone, give it back.
    Grant(W, Grant<S>),
    /// Tell the waiter.
    Refuse(W, Rejected),
    /// End this shell.
    Discard(S),
}

/// A pool of shells `S`, for which `W`s wait.
#[derive(Debug)]
pub struct Pool<S, W> {
    options: PoolOptions,
    /// The one that was used last is at the back, and is used next: the others may get old.
    idle: VecDeque<Idle<S>>,
    /// Shells in use or being made.
    busy: usize,
    waiting: VecDeque<Waiting<W>>,
    closed: bool,
    outputs: VecDeque<Output<S, W>>,
}

#[derive(Debug)]
struct Idle<S> {
    shell: S,
    since: Duration,
}

#[derive(Debug)]
struct Waiting<W> {
    waiter: W,
    since: Duration,
}

impl<S, W> Pool<S, W> {
    /// An empty one.
    pub fn new(options: PoolOptions) -> Self {
        let (idle, waiting, outputs) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { options, idle, busy: 0, waiting, closed: false, outputs }
    }

    /// How many shells there are, those being made included.
    pub fn size(&self) -> usize {
        self.idle.len() + self.busy
    }

    /// How many shells wait for work.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// How many executions wait for a shell.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        let oldest = self.idle.front().filter(|_| self.size() > self.options.min_size);
        let idle = oldest.and_then(|idle| idle.since.checked_add(self.options.idle_timeout));
        let wait = self.waiting.front().and_then(|first| first.since.checked_add(self.options.max_wait));
        idle.into_iter().chain(wait).min()
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output<S, W>> {
        self.outputs.pop_front()
    }

    /// An execution wants a shell. If it has to wait, `waiter` is what the output will name it by.
    pub fn acquire(&mut self, waiter: impl FnOnce() -> W, now: Duration) -> Acquired<S> {
        if self.closed {
            return Acquired::Refused(Rejected::Closed);
        }
        // Whoever waits came first; there is nothing free then.
        if let Some(Idle { shell, .. }) = self.idle.pop_back() {
            self.busy += 1;
            return Acquired::Granted(Grant::Use(shell));
        }
        if self.may_grow() {
            self.busy += 1;
            return Acquired::Granted(Grant::Make);
        }
        if self.waiting.len() >= self.options.max_waiting {
            return Acquired::Refused(Rejected::QueueFull { busy: self.busy, waiting: self.waiting.len() });
        }
        self.waiting.push_back(Waiting { waiter: waiter(), since: now });
        Acquired::Waiting { until: now.checked_add(self.options.max_wait) }
    }

    /// The right to make shells until there are `count`, as far as there may be: how many to make. Refused where the pool
    /// is closed.
    pub fn grow_to(&mut self, count: usize) -> Result<usize, Rejected> {
        if self.closed {
            return Err(Rejected::Closed);
        }
        let more = count.min(self.max_size()).saturating_sub(self.size());
        self.busy += more;
        Ok(more)
    }

    /// A shell is free again, and fit for the next execution.
    pub fn put_back(&mut self, shell: S, now: Duration) {
        if self.closed {
            self.busy -= 1;
            self.outputs.push_back(Output::Discard(shell));
        } else if let Some(Waiting { waiter, .. }) = self.waiting.pop_front() {
            self.outputs.push_back(Output::Grant(waiter, Grant::Use(shell)));
        } else {
            self.busy -= 1;
            self.idle.push_back(Idle { shell, since: now });
            self.handle_timeout(now); // It may be to idle for no time at all.
        }
    }

    /// A shell that was in use is no more, or one that was to be made was not. Whoever waits longest may
    /// make another.
    pub fn lost(&mut self) {
        self.busy -= 1;
        if self.may_grow()
            && let Some(Waiting { waiter, .. }) = self.waiting.pop_front()
        {
            self.busy += 1;
            self.outputs.push_back(Output::Grant(waiter, Grant::Make));
        }
    }

    /// Takes those out of the queue that do not wait any more.
    pub fn forget_waiting(&mut self, gone: impl Fn(&W) -> bool) {
        self.waiting.retain(|waiting| !gone(&waiting.waiter));
    }

    /// Lets go what idles for too long, beyond the least that is kept, and refuses who waits for too long.
    pub fn handle_timeout(&mut self, now: Duration) {
        let over = |since: Duration, patience| since.checked_add(patience).is_some_and(|end| now >= end);
        while self.size() > self.options.min_size
            && self.idle.front().is_some_and(|idle| over(idle.since, self.options.idle_timeout))
        {
            let idle = self.idle.pop_front();
            self.outputs.extend(idle.map(|idle| Output::Discard(idle.shell)));
        }
        while self.waiting.front().is_some_and(|first| over(first.since, self.options.max_wait)) {
            let refusal = Rejected::WaitedTooLong(self.options.max_wait);
            let first = self.waiting.pop_front();
            self.outputs.extend(first.map(|first| Output::Refuse(first.waiter, refusal)));
        }
    }

    /// Takes no more executions, refuses those that wait, and lets every shell go: the idle ones now, those
    /// in use when they are put back.
    pub fn close(&mut self) {
        self.closed = true;
        let waiting = self.waiting.drain(..);
        self.outputs.extend(waiting.map(|waiting| Output::Refuse(waiting.waiter, Rejected::Closed)));
        self.outputs.extend(self.idle.drain(..).map(|idle| Output::Discard(idle.shell)));
    }

    fn max_size(&self) -> usize {
        self.options.max_size.max(1)
    }

    fn may_grow(&self) -> bool {
        !self.closed && self.size() < self.max_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pool(options: PoolOptions) -> Pool<u32, &'static str> {
        Pool::new(options)
    }

    fn options() -> PoolOptions {
        PoolOptions { max_size: 2, max_waiting: 2, max_wait: ms(50), idle_timeout: ms(100), min_size: 0 }
    }

    fn outputs<S, W>(pool: &mut Pool<S, W>) -> Vec<Output<S, W>> {
        std::iter::from_fn(|| pool.poll_output()).collect()
    }

    #[test]
    fn shells_are_made_up_to_the_most_and_then_executions_wait_in_order() {
        let mut pool = pool(options());
        assert_eq!(pool.acquire(|| "a", ms(0)), Acquired::Granted(Grant::Make));
        assert_eq!(pool.acquire(|| "b", ms(0)), Acquired::Granted(Grant::Make));
        assert_eq!(pool.acquire(|| "c", ms(1)), Acquired::Waiting { until: Some(ms(51)) });
        assert_eq!(pool.acquire(|| "d", ms(2)), Acquired::Waiting { until: Some(ms(52)) });
        let refusal = Rejected::QueueFull { busy: 2, waiting: 2 };
        assert_eq!(pool.acquire(|| "e", ms(3)), Acquired::Refused(refusal));
        pool.put_back(7, ms(4));
        pool.lost();
        let expected = [Output::Grant("c", Grant::Use(7)), Output::Grant("d", Grant::Make)];
        assert_eq!(outputs(&mut pool), expected, "first come, first served; a lost one may be made anew");
        assert_eq!((pool.size(), pool.idle(), pool.waiting()), (2, 0, 0));
    }

    #[test]
    fn the_shell_that_was_used_last_is_used_next_and_the_others_get_old() {
        let mut pool = pool(PoolOptions { min_size: 1, ..options() });
        assert_eq!(pool.grow_to(9), Ok(2));
        pool.put_back(1, ms(0));
        pool.put_back(2, ms(10));
        assert_eq!(pool.next_timeout(), Some(ms(100)));
        assert_eq!(pool.acquire(|| "a", ms(20)), Acquired::Granted(Grant::Use(2)));
        pool.handle_timeout(ms(100));
        assert_eq!(outputs(&mut pool), [Output::Discard(1)]);
        pool.put_back(2, ms(101));
        assert_eq!(pool.next_timeout(), None, "the last one is kept");
        pool.handle_timeout(ms(9999));
        assert_eq!((outputs(&mut pool), pool.idle()), (vec![], 1));
    }

    #[test]
    fn who_waits_too_long_is_refused_and_who_is_gone_is_forgotten() {
        let mut pool = pool(PoolOptions { max_size: 1, ..options() });
        pool.acquire(|| "a", ms(0));
        pool.acquire(|| "b", ms(5));
        pool.acquire(|| "c", ms(6));
        pool.forget_waiting(|waiter| *waiter == "b");
        assert_eq!(pool.next_timeout(), Some(ms(56)));
        pool.handle_timeout(ms(56));
        assert_eq!(outputs(&mut pool), [Output::Refuse("c", Rejected::WaitedTooLong(ms(50)))]);
        pool.put_back(1, ms(60));
        assert_eq!((outputs(&mut pool), pool.idle()), (vec![], 1));
    }

    #[test]
    fn closing_wakes_every_waiter_and_lets_every_shell_go() {
        let mut pool = pool(options());
        pool.grow_to(2).unwrap();
        pool.put_back(1, ms(0));
        pool.acquire(|| "a", ms(0));
        pool.acquire(|| "b", ms(0));
        pool.put_back(1, ms(0));
        pool.acquire(|| "c", ms(0));
        pool.acquire(|| "d", ms(0));
        let _ = outputs(&mut pool);
        pool.close();
        let closed = |waiter| Output::Refuse(waiter, Rejected::Closed);
        assert_eq!(outputs(&mut pool), [closed("c"), closed("d")]);
        assert_eq!(pool.acquire(|| "e", ms(1)), Acquired::Refused(Rejected::Closed));
        assert_eq!(pool.grow_to(2), Err(Rejected::Closed));
        pool.put_back(1, ms(1));
        pool.lost();
        assert_eq!((outputs(&mut pool), pool.size()), (vec![Output::Discard(1)], 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Acquire,
        PutBack,
        Lose,
        Wait(u64),
        GrowTo(usize),
        Close,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Acquire),
            4 => Just(Step::PutBack),
            2 => Just(Step::Lose),
            3 => (0_u64..60).prop_map(Step::Wait),
            1 => (0_usize..5).prop_map(Step::GrowTo),
            1 => Just(Step::Close),
        ]
    }

    proptest! {
        /// Whatever happens: never too many shells, nobody waits while one is free, nobody is answered
        /// twice, and at the end nobody and nothing is left over.
        #[test]
        fn every_execution_is_answered_once_and_every_shell_ends(
            steps in prop::collection::vec(step(), 0..80), max_size in 0_usize..4, min_size in 0_usize..4,
        ) {
            let mut pool: Pool<u32, u32> = Pool::new(PoolOptions { max_size, min_size, ..options() });
            let (mut now, mut next, mut made) = (ms(0), 0, 0);
            let (mut waiting, mut granted, mut alive) = (Vec::new(), Vec::new(), Vec::new());
            for step in steps.into_iter().chain([Step::Close]) {
                match step {
                    Step::Acquire => {
                        next += 1;
                        match pool.acquire(|| next, now) {
                            Acquired::Granted(grant) => granted.push(grant),
                            Acquired::Waiting { .. } => waiting.push(next),
                            Acquired::Refused(_) => {}
                        }
                    }
                    Step::PutBack => {
                        if let Some(grant) = granted.pop() {
                            let shell = match grant {
                                Grant::Use(shell) => shell,
                                Grant::Make => { made += 1; alive.push(made); made }
                            };
                            pool.put_back(shell, now);
                        }
                    }
                    Step::Lose => if let Some(grant) = granted.pop() {
                        if let Grant::Use(shell) = grant { alive.retain(|one| *one != shell) }
                        pool.lost();
                    },
                    Step::Wait(time) => { now += ms(time); pool.handle_timeout(now) }
                    Step::GrowTo(count) => {
                        for _ in 0..pool.grow_to(count).unwrap_or(0) { granted.push(Grant::Make) }
                        pool.handle_timeout(now); // What was kept for `min_size` may have been due for long.
                    }
                    Step::Close => pool.close(),
                }
                while let Some(output) = pool.poll_output() {
                    match output {
                        Output::Grant(waiter, grant) => {
                            prop_assert_eq!(waiting.remove(0), waiter, "first come, first served");
                            granted.push(grant);
                        }
                        Output::Refuse(waiter, _) => {
                            prop_assert!(waiting.contains(&waiter));
                            waiting.retain(|one| *one != waiter);
                        }
                        Output::Discard(shell) => alive.retain(|one| *one != shell),
                    }
                }
                prop_assert!(pool.size() <= max_size.max(1));
                prop_assert_eq!(pool.size() - pool.idle(), granted.len());
                prop_assert_eq!(pool.waiting(), waiting.len());
                prop_assert!(waiting.is_empty() || pool.idle() == 0 && pool.size() == max_size.max(1));
                prop_assert!(pool.next_timeout().is_none_or(|due| due > now || matches!(now, Duration::ZERO)));
            }
            prop_assert!(waiting.is_empty() && pool.idle() == 0);
            let used = granted.iter().filter(|grant| matches!(grant, Grant::Use(_))).count();
            prop_assert_eq!(alive.len(), used);
        }
    }
}
