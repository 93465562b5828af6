//! The driver of [`Pool`](core::Pool): waiters as futures, timeouts in real time.

use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::available_parallelism;
use std::time::Duration;

use execbox_core::pool::{self as core, Acquired, Grant, Output, PoolOptions, Rejected};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::runtime;

type Answer<R> = Result<Grant<R>, Rejected>;
type WaiterSender<R> = oneshot::Sender<Answer<R>>;

/// A shared pool of idle runners `R`.
pub(crate) struct Pool<R> {
    state: Mutex<State<R>>,
    /// The zero of the pool's times.
    epoch: Instant,
    /// Notified after every change: [`close`](Self::close) waits for the last runner to end.
    changed: Notify,
}

struct State<R> {
    pool: core::Pool<R, WaiterSender<R>>,
    /// Calls `handle_timeout` when it is due.
    timer: Option<JoinHandle<()>>,
}

/// The largest default size of a pool.
const MAX_DEFAULT_SIZE: usize = 4;

/// A permit to run one runner. [`release`](Self::release) ends it; dropping it discards the runner, and another may be started
/// in its place.
pub(crate) struct Lease<R: Send + 'static> {
    pool: Arc<Pool<R>>,
    released: bool,
}

impl<R: Send + 'static> Pool<R> {
    pub(crate) fn new(options: PoolOptions) -> Arc<Self> {
        let cores = || available_parallelism().map_or(1, NonZero::get).min(MAX_DEFAULT_SIZE);
        let max_size = if options.max_size == 0 { cores() } else { options.max_size };
        let options = options.max_size(max_size);
        let state = Mutex::new(State { pool: core::Pool::new(options), timer: None });
        Arc::new(Self { state, epoch: Instant::now(), changed: Notify::new() })
    }

    /// Waits for a permit. Without a runner in the result, the caller has to start one.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<(Lease<R>, Option<R>), Rejected> {
        let mut waiter = None;
        let acquired = self.lock().pool.acquire(
            || {
                let (sender, answer) = oneshot::channel();
                waiter = Some(Waiter { pool: self, answer });
                sender
            },
            self.epoch.elapsed(),
        )?;
        let grant = match (acquired, waiter) {
            (Acquired::Granted(grant), _) => grant,
            (Acquired::Waiting { until }, Some(waiter)) => waiter.wait(until).await?,
            (Acquired::Waiting { .. }, None) => unreachable!("the pool asked for a waiter"),
        };
        let runner = match grant {
            Grant::Reuse(runner) => Some(runner),
            Grant::Start => None,
        };
        Ok((self.lease(), runner))
    }

    /// Permits for the runners that have to be started until there are `count`.
    pub(crate) fn grow_to(self: &Arc<Self>, count: usize) -> Result<Vec<Lease<R>>, Rejected> {
        let more = self.lock().pool.grow_to(count)?;
        Ok((0..more).map(|_| self.lease()).collect())
    }

    /// Rejects waiters and later requests, and waits until every runner has ended.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.change(core::Pool::close);
        loop {
            let changed = self.changed.notified();
            if self.lock().pool.size() == 0 {
                return;
            }
            changed.await;
        }
    }

    fn lease(self: &Arc<Self>) -> Lease<R> {
        Lease { pool: Arc::clone(self), released: false }
    }

    fn release(self: &Arc<Self>, runner: R) {
        let now = self.epoch.elapsed();
        self.change(|pool| pool.release(runner, now));
    }

    /// Changes the pool and carries out its outputs.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut core::Pool<R, WaiterSender<R>>)) {
        let mut state = self.lock();
        change(&mut state.pool);
        // Dropped after the lock is released: stopping a runner may take a moment.
        let mut stopped = Vec::new();
        while let Some(output) = state.pool.poll_output() {
            match output {
                Output::Stop(runner) => stopped.push(runner),
                Output::Reject(waiter, rejected) => drop(waiter.send(Err(rejected))),
                Output::Grant(waiter, grant) => match waiter.send(Ok(grant)) {
                    Err(Ok(Grant::Reuse(runner))) => state.pool.release(runner, self.epoch.elapsed()),
                    Err(Ok(Grant::Start)) => state.pool.discard(),
                    Ok(()) | Err(Err(_)) => {}
                },
            }
        }
        self.ensure_timer(&mut state);
        drop(state);
        drop(stopped);
        self.changed.notify_waiters();
    }

    /// Starts the timer if it is needed and there is a runtime with timers.
    fn ensure_timer(self: &Arc<Self>, state: &mut State<R>) {
        let is_running = state.timer.as_ref().is_some_and(|timer| !timer.is_finished());
        if !is_running
            && state.pool.next_timeout().is_some()
            && let Ok(runtime) = runtime::with_timers()
        {
            state.timer = Some(runtime.spawn(run_timer(Arc::downgrade(self))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Drop for Pool<R> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(timer) = &state.timer {
            timer.abort();
        }
    }
}

/// Calls `handle_timeout` when it is due, until no timeout is pending.
async fn run_timer<R: Send + 'static>(pool: Weak<Pool<R>>) {
    loop {
        let due = {
            let Some(pool) = pool.upgrade() else { return };
            let mut state = pool.lock();
            let due = state.pool.next_timeout().and_then(|due| pool.epoch.checked_add(due));
            let Some(due) = due else {
                state.timer = None;
                return;
            };
            due
        };
        tokio::time::sleep_until(due).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = pool.epoch.elapsed();
        pool.change(|pool| pool.handle_timeout(now));
    }
}

/// A place in the queue, which is released on drop.
struct Waiter<'a, R: Send + 'static> {
    pool: &'a Arc<Pool<R>>,
    answer: oneshot::Receiver<Answer<R>>,
}

impl<R: Send + 'static> Waiter<'_, R> {
    /// Waits for the answer, at most until `until`. The timer of the pool may run later than that.
    async fn wait(mut self, until: Option<Duration>) -> Answer<R> {
        let until = until.and_then(|until| self.pool.epoch.checked_add(until));
        let Some(due) = until else { return self.answered().await };
        if let Ok(answer) = tokio::time::timeout_at(due, self.answered()).await {
            return answer;
        }
        let now = self.pool.epoch.elapsed();
        self.pool.change(|pool| pool.handle_timeout(now));
        self.answered().await
    }

    async fn answered(&mut self) -> Answer<R> {
        (&mut self.answer).await.unwrap_or(Err(Rejected::Closed))
    }
}

impl<R: Send + 'static> Drop for Waiter<'_, R> {
    fn drop(&mut self) {
        self.answer.close();
        match self.answer.try_recv() {
            Ok(Ok(Grant::Reuse(runner))) => self.pool.release(runner),
            Ok(Ok(Grant::Start)) => self.pool.change(core::Pool::discard),
            Ok(Err(_)) => {}
            Err(_) => self.pool.change(|pool| pool.remove_waiters(oneshot::Sender::is_closed)),
        }
    }
}

impl<R: Send + 'static> Lease<R> {
    /// Gives back a runner that can execute the next request.
    pub(crate) fn release(mut self, runner: R) {
        self.released = true;
        self.pool.release(runner);
    }
}

impl<R: Send + 'static> Drop for Lease<R> {
    fn drop(&mut self) {
        if !self.released {
            self.pool.change(core::Pool::discard);
        }
    }
}
