//! A bounded pool of runners: worker threads or runner processes, each of which executes one request at a time and is
//! kept for the next one.
//!
//! ```text
//!   acquire ─► Granted(Reuse) · Granted(Start) · Waiting · Err(Rejected)
//!                 │                │               └──► Output::Grant, in order of arrival · Output::Reject
//!                 └──────┬─────────┘
//!                   the request
//!                 ┌──────┴───────┐
//!              release        discard              idle for too long · closed ──► Output::Stop
//! ```
//!
//! The pool decides who gets the next runner, how many runners there may be, and when a waiter times out. It starts and stops
//! none itself and reads no clock: a driver does, and passes the time as a [`Duration`] since an epoch of its choice. Call
//! [`Pool::poll_output`] until it returns `None` after every method that changes the pool.

use std::collections::VecDeque;
use std::time::Duration;

/// The size of a pool and of its queue.
///
/// ```
/// use execbox_core::pool::PoolOptions;
///
/// let options = PoolOptions::default().max_size(2);
/// assert_eq!((options.min_size, options.queue_limit), (0, 1000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolOptions {
    /// The largest number of runners. Default 0, for which executors take the number of cores, at most 4; a [`Pool`] without
    /// an executor takes 1.
    pub max_size: usize,
    /// The number of runners that are kept, however long they are idle. Default 0.
    pub min_size: usize,
    /// The time after which an idle runner is stopped. Default 30 s.
    pub idle_timeout: Duration,
    /// The largest number of requests that wait for a runner; one more is rejected with [`Rejected::QueueFull`]. Default 1000.
    pub queue_limit: usize,
    /// The time after which a waiting request is rejected with [`Rejected::QueueTimeout`]. Default 30 s.
    pub queue_timeout: Duration,
}

impl PoolOptions {
    crate::setters! {
        max_size: usize,
        min_size: usize,
        idle_timeout: Duration,
        queue_limit: usize,
        queue_timeout: Duration,
    }
}

impl Default for PoolOptions {
    /// The defaults of all executors.
    fn default() -> Self {
        Self {
            max_size: 0,
            min_size: 0,
            idle_timeout: Duration::from_secs(30),
            queue_limit: 1000,
            queue_timeout: Duration::from_secs(30),
        }
    }
}

/// Why a request got no runner. Nothing of it was executed, so it is safe to try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The queue has [`PoolOptions::queue_limit`] waiters already.
    #[error("the executor is overloaded: {busy} runners are busy, {waiting} requests are waiting")]
    QueueFull {
        /// The number of runners in use.
        busy: usize,
        /// The number of waiting requests.
        waiting: usize,
    },
    /// No runner was released within [`PoolOptions::queue_timeout`].
    #[error("the executor is overloaded: no runner was free within {} ms", .0.as_millis())]
    QueueTimeout(Duration),
    /// The pool was closed.
    #[error("the executor is closed")]
    Closed,
}

/// A place among the runners. It ends with [`release`](Pool::release) or [`discard`](Pool::discard).
#[derive(Debug, PartialEq, Eq)]
pub enum Grant<R> {
    /// An idle runner.
    Reuse(R),
    /// Permission to start a runner.
    Start,
}

/// The success of [`Pool::acquire`].
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired<R> {
    /// A runner is available.
    Granted(Grant<R>),
    /// The waiter is queued; an [`Output`] will name it.
    Waiting {
        /// The time at which the waiter is rejected; `None` if that is too far away for a [`Duration`].
        until: Option<Duration>,
    },
}

/// An instruction to the driver of a [`Pool`].
#[derive(Debug, PartialEq, Eq)]
pub enum Output<R, W> {
    /// Pass the grant to the waiter; if the waiter is gone, release or discard it.
    Grant(W, Grant<R>),
    /// Reject the waiter.
    Reject(W, Rejected),
    /// Stop this runner.
    Stop(R),
}

/// A pool of runners `R` with waiters `W`.
#[derive(Debug)]
pub struct Pool<R, W> {
    options: PoolOptions,
    /// The idle runners. The most recently used one is at the back and is reused first, so that the others can time out.
    idle: VecDeque<Idle<R>>,
    /// The number of runners in use or being started.
    busy: usize,
    waiting: VecDeque<Waiting<W>>,
    closed: bool,
    outputs: VecDeque<Output<R, W>>,
}

#[derive(Debug)]
struct Idle<R> {
    runner: R,
    since: Duration,
}

#[derive(Debug)]
struct Waiting<W> {
    waiter: W,
    since: Duration,
}

impl<R, W> Pool<R, W> {
    /// An empty pool.
    pub fn new(options: PoolOptions) -> Self {
        let (idle, waiting, outputs) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { options, idle, busy: 0, waiting, closed: false, outputs }
    }

    /// The number of runners, those being started included.
    pub fn size(&self) -> usize {
        self.idle.len() + self.busy
    }

    /// The number of idle runners.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// The number of waiters.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self) -> Option<Duration> {
        let oldest = self.idle.front().filter(|_| self.size() > self.options.min_size);
        let idle = oldest.and_then(|idle| idle.since.checked_add(self.options.idle_timeout));
        let wait = self.waiting.front().and_then(|first| first.since.checked_add(self.options.queue_timeout));
        idle.into_iter().chain(wait).min()
    }

    /// The next instruction to the driver.
    pub fn poll_output(&mut self) -> Option<Output<R, W>> {
        self.outputs.pop_front()
    }

    /// Asks for a runner. `waiter` is called if the request has to wait; the output that ends the wait carries its result.
    ///
    /// # Errors
    /// [`Rejected::QueueFull`] or [`Rejected::Closed`].
    pub fn acquire(&mut self, waiter: impl FnOnce() -> W, now: Duration) -> Result<Acquired<R>, Rejected> {
        if self.closed {
            return Err(Rejected::Closed);
        }
        // No waiter is overtaken: while one waits, no runner is idle and none can be started.
        if let Some(Idle { runner, .. }) = self.idle.pop_back() {
            self.busy += 1;
            return Ok(Acquired::Granted(Grant::Reuse(runner)));
        }
        if self.can_grow() {
            self.busy += 1;
            return Ok(Acquired::Granted(Grant::Start));
        }
        if self.waiting.len() >= self.options.queue_limit {
            return Err(Rejected::QueueFull { busy: self.busy, waiting: self.waiting.len() });
        }
        self.waiting.push_back(Waiting { waiter: waiter(), since: now });
        Ok(Acquired::Waiting { until: now.checked_add(self.options.queue_timeout) })
    }

    /// Grants as many [`Grant::Start`] as are needed for `count` runners, within [`PoolOptions::max_size`], and returns
    /// their number.
    ///
    /// # Errors
    /// [`Rejected::Closed`].
    pub fn grow_to(&mut self, count: usize) -> Result<usize, Rejected> {
        if self.closed {
            return Err(Rejected::Closed);
        }
        let more = count.min(self.max_size()).saturating_sub(self.size());
        self.busy += more;
        Ok(more)
    }

    /// Ends a grant with a runner that can execute the next request.
    pub fn release(&mut self, runner: R, now: Duration) {
        if self.closed {
            self.busy -= 1;
            self.outputs.push_back(Output::Stop(runner));
        } else if let Some(Waiting { waiter, .. }) = self.waiting.pop_front() {
            self.outputs.push_back(Output::Grant(waiter, Grant::Reuse(runner)));
        } else {
            self.busy -= 1;
            self.idle.push_back(Idle { runner, since: now });
            self.handle_timeout(now); // The idle timeout may be zero.
        }
    }

    /// Ends a grant without a runner: it ended, or was not started. The first waiter may start another.
    pub fn discard(&mut self) {
        self.busy -= 1;
        if self.can_grow()
            && let Some(Waiting { waiter, .. }) = self.waiting.pop_front()
        {
            self.busy += 1;
            self.outputs.push_back(Output::Grant(waiter, Grant::Start));
        }
    }

    /// Removes the waiters for which `is_gone` returns true.
    pub fn remove_waiters(&mut self, is_gone: impl Fn(&W) -> bool) {
        self.waiting.retain(|waiting| !is_gone(&waiting.waiter));
    }

    /// Stops the runners that were idle for too long, and rejects the waiters that waited for too long.
    pub fn handle_timeout(&mut self, now: Duration) {
        let is_over = |since: Duration, timeout| since.checked_add(timeout).is_some_and(|end| now >= end);
        while self.size() > self.options.min_size
            && self.idle.front().is_some_and(|idle| is_over(idle.since, self.options.idle_timeout))
        {
            let idle = self.idle.pop_front();
            self.outputs.extend(idle.map(|idle| Output::Stop(idle.runner)));
        }
        while self.waiting.front().is_some_and(|first| is_over(first.since, self.options.queue_timeout)) {
            let rejected = Rejected::QueueTimeout(self.options.queue_timeout);
            let first = self.waiting.pop_front();
            self.outputs.extend(first.map(|first| Output::Reject(first.waiter, rejected)));
        }
    }

    /// Rejects every waiter and every later request, and stops the idle runners now, the busy ones when they are released.
    pub fn close(&mut self) {
        self.closed = true;
        let waiting = self.waiting.drain(..);
        self.outputs.extend(waiting.map(|waiting| Output::Reject(waiting.waiter, Rejected::Closed)));
        self.outputs.extend(self.idle.drain(..).map(|idle| Output::Stop(idle.runner)));
    }

    fn max_size(&self) -> usize {
        self.options.max_size.max(1)
    }

    fn can_grow(&self) -> bool {
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
        PoolOptions { max_size: 2, queue_limit: 2, queue_timeout: ms(50), idle_timeout: ms(100), min_size: 0 }
    }

    fn outputs<R, W>(pool: &mut Pool<R, W>) -> Vec<Output<R, W>> {
        std::iter::from_fn(|| pool.poll_output()).collect()
    }

    #[test]
    fn runners_start_up_to_max_size_and_then_requests_wait_in_order() {
        let mut pool = pool(options());
        assert_eq!(pool.acquire(|| "a", ms(0)), Ok(Acquired::Granted(Grant::Start)));
        assert_eq!(pool.acquire(|| "b", ms(0)), Ok(Acquired::Granted(Grant::Start)));
        assert_eq!(pool.acquire(|| "c", ms(1)), Ok(Acquired::Waiting { until: Some(ms(51)) }));
        assert_eq!(pool.acquire(|| "d", ms(2)), Ok(Acquired::Waiting { until: Some(ms(52)) }));
        let rejected = Rejected::QueueFull { busy: 2, waiting: 2 };
        assert_eq!(pool.acquire(|| "e", ms(3)), Err(rejected));
        pool.release(7, ms(4));
        pool.discard();
        let expected = [Output::Grant("c", Grant::Reuse(7)), Output::Grant("d", Grant::Start)];
        assert_eq!(outputs(&mut pool), expected, "in order of arrival; a discarded runner is replaced");
        assert_eq!((pool.size(), pool.idle(), pool.waiting()), (2, 0, 0));
    }

    #[test]
    fn the_most_recently_used_runner_is_reused_and_the_others_time_out() {
        let mut pool = pool(PoolOptions { min_size: 1, ..options() });
        assert_eq!(pool.grow_to(9), Ok(2));
        pool.release(1, ms(0));
        pool.release(2, ms(10));
        assert_eq!(pool.next_timeout(), Some(ms(100)));
        assert_eq!(pool.acquire(|| "a", ms(20)), Ok(Acquired::Granted(Grant::Reuse(2))));
        pool.handle_timeout(ms(100));
        assert_eq!(outputs(&mut pool), [Output::Stop(1)]);
        pool.release(2, ms(101));
        assert_eq!(pool.next_timeout(), None, "min_size runners are kept");
        pool.handle_timeout(ms(9999));
        assert_eq!((outputs(&mut pool), pool.idle()), (vec![], 1));
    }

    #[test]
    fn waiters_time_out_and_dropped_waiters_are_skipped() {
        let mut pool = pool(PoolOptions { max_size: 1, ..options() });
        pool.acquire(|| "a", ms(0)).unwrap();
        pool.acquire(|| "b", ms(5)).unwrap();
        pool.acquire(|| "c", ms(6)).unwrap();
        pool.remove_waiters(|waiter| *waiter == "b");
        assert_eq!(pool.next_timeout(), Some(ms(56)));
        pool.handle_timeout(ms(56));
        assert_eq!(outputs(&mut pool), [Output::Reject("c", Rejected::QueueTimeout(ms(50)))]);
        pool.release(1, ms(60));
        assert_eq!((outputs(&mut pool), pool.idle()), (vec![], 1));
    }

    #[test]
    fn closing_rejects_every_waiter_and_stops_every_runner() {
        let mut pool = pool(options());
        pool.grow_to(2).unwrap();
        pool.release(1, ms(0));
        pool.acquire(|| "a", ms(0)).unwrap();
        pool.acquire(|| "b", ms(0)).unwrap();
        pool.release(1, ms(0));
        pool.acquire(|| "c", ms(0)).unwrap();
        pool.acquire(|| "d", ms(0)).unwrap();
        let _ = outputs(&mut pool);
        pool.close();
        let closed = |waiter| Output::Reject(waiter, Rejected::Closed);
        assert_eq!(outputs(&mut pool), [closed("c"), closed("d")]);
        assert_eq!(pool.acquire(|| "e", ms(1)), Err(Rejected::Closed));
        assert_eq!(pool.grow_to(2), Err(Rejected::Closed));
        pool.release(1, ms(1));
        pool.discard();
        assert_eq!((outputs(&mut pool), pool.size()), (vec![Output::Stop(1)], 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Acquire,
        Release,
        Discard,
        Wait(u64),
        GrowTo(usize),
        Close,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Acquire),
            4 => Just(Step::Release),
            2 => Just(Step::Discard),
            3 => (0_u64..60).prop_map(Step::Wait),
            1 => (0_usize..5).prop_map(Step::GrowTo),
            1 => Just(Step::Close),
        ]
    }

    proptest! {
        /// In every order of steps: never more than `max_size` runners, no waiter while a runner is idle, one answer for each
        /// waiter, and no waiter or idle runner after `close`.
        #[test]
        fn every_request_is_answered_once_and_every_runner_is_stopped(
            steps in prop::collection::vec(step(), 0..80), max_size in 0_usize..4, min_size in 0_usize..4,
        ) {
            let mut pool: Pool<u32, u32> = Pool::new(PoolOptions { max_size, min_size, ..options() });
            let (mut now, mut next, mut started) = (ms(0), 0, 0);
            let (mut waiting, mut granted, mut alive) = (Vec::new(), Vec::new(), Vec::new());
            for step in steps.into_iter().chain([Step::Close]) {
                match step {
                    Step::Acquire => {
                        next += 1;
                        match pool.acquire(|| next, now) {
                            Ok(Acquired::Granted(grant)) => granted.push(grant),
                            Ok(Acquired::Waiting { .. }) => waiting.push(next),
                            Err(_) => {}
                        }
                    }
                    Step::Release => {
                        if let Some(grant) = granted.pop() {
                            let runner = match grant {
                                Grant::Reuse(runner) => runner,
                                Grant::Start => { started += 1; alive.push(started); started }
                            };
                            pool.release(runner, now);
                        }
                    }
                    Step::Discard => if let Some(grant) = granted.pop() {
                        if let Grant::Reuse(runner) = grant { alive.retain(|one| *one != runner) }
                        pool.discard();
                    },
                    Step::Wait(time) => { now += ms(time); pool.handle_timeout(now) }
                    Step::GrowTo(count) => {
                        for _ in 0..pool.grow_to(count).unwrap_or(0) { granted.push(Grant::Start) }
                        pool.handle_timeout(now); // Runners kept for `min_size` may be overdue.
                    }
                    Step::Close => pool.close(),
                }
                while let Some(output) = pool.poll_output() {
                    match output {
                        Output::Grant(waiter, grant) => {
                            prop_assert_eq!(waiting.remove(0), waiter, "waiters are served in order of arrival");
                            granted.push(grant);
                        }
                        Output::Reject(waiter, _) => {
                            prop_assert!(waiting.contains(&waiter));
                            waiting.retain(|one| *one != waiter);
                        }
                        Output::Stop(runner) => alive.retain(|one| *one != runner),
                    }
                }
                prop_assert!(pool.size() <= max_size.max(1));
                prop_assert_eq!(pool.size() - pool.idle(), granted.len());
                prop_assert_eq!(pool.waiting(), waiting.len());
                prop_assert!(waiting.is_empty() || pool.idle() == 0 && pool.size() == max_size.max(1));
                prop_assert!(pool.next_timeout().is_none_or(|due| due > now || matches!(now, Duration::ZERO)));
            }
            prop_assert!(waiting.is_empty() && pool.idle() == 0);
            let used = granted.iter().filter(|grant| matches!(grant, Grant::Reuse(_))).count();
            prop_assert_eq!(alive.len(), used);
        }
    }
}
