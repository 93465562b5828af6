//! The driver of [`Pool`](core::Pool): executions that wait, and shells that get old, in real time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use execbox_core::pool::{self as core, Acquired, Grant, Output, PoolOptions, Rejected};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// As the defaults are on this machine.
pub(crate) fn default_options() -> PoolOptions {
    PoolOptions::for_cores(std::thread::available_parallelism().map_or(1, usize::from))
}

type Answer<S> = Result<Grant<S>, Rejected>;
type Waiter<S> = oneshot::Sender<Answer<S>>;

/// Shells for executions, shared.
pub(crate) struct Pool<S> {
    state: Mutex<State<S>>,
    /// What the pool's times count from.
    epoch: Instant,
    /// Told whenever a shell is gone for good.
    gone: Notify,
}

struct State<S> {
    pool: core::Pool<S, Waiter<S>>,
    /// Lets old shells go.
    sweeper: Option<JoinHandle<()>>,
}

/// The right to use one shell, or to make one. It ends with [`put_back`](Self::put_back), or by being
/// dropped: the shell is lost then, and another may be made in its place.
pub(crate) struct Lease<S: Send + 'static> {
    pool: Arc<Pool<S>>,
    over: bool,
}

impl<S: Send + 'static> Pool<S> {
    pub(crate) fn new(options: PoolOptions) -> Arc<Self> {
        let state = Mutex::new(State { pool: core::Pool::new(options), sweeper: None });
        Arc::new(Self { state, epoch: Instant::now(), gone: Notify::new() })
    }

    /// Waits for its turn. Without a shell: one is to be made.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<(Lease<S>, Option<S>), Rejected> {
        let mut turn = None;
        let acquired = self.lock().pool.acquire(
            || {
                let (waiter, answer) = oneshot::channel();
                turn = Some(Turn { pool: self, answer });
                waiter
            },
            self.epoch.elapsed(),
        );
        let grant = match (acquired, turn) {
            (Acquired::Granted(grant), _) => grant,
            (Acquired::Refused(refusal), _) => return Err(refusal),
            (Acquired::Waiting { until }, Some(turn)) => turn.come(until).await?,
            (Acquired::Waiting { .. }, None) => unreachable!("whoever waits was named"),
        };
        let shell = match grant {
            Grant::Use(shell) => Some(shell),
            Grant::Make => None,
        };
        Ok((self.lease(), shell))
    }

    /// The right to make what is missing until there are `count`.
    pub(crate) fn grow_to(self: &Arc<Self>, count: usize) -> Result<Vec<Lease<S>>, Rejected> {
        let more = self.lock().pool.grow_to(count)?;
        Ok((0..more).map(|_| self.lease()).collect())
    }

    /// Takes no more executions, wakes those that wait, and waits until every shell is gone.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.change(core::Pool::close);
        loop {
            let gone = self.gone.notified();
            if self.lock().pool.size() == 0 {
                return;
            }
            gone.await;
        }
    }

    fn lease(self: &Arc<Self>) -> Lease<S> {
        Lease { pool: Arc::clone(self), over: false }
    }

    fn put_back(self: &Arc<Self>, shell: S) {
        let now = self.epoch.elapsed();
        self.change(|pool| pool.put_back(shell, now));
    }

    /// Changes the pool, and does what it says.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut core::Pool<S, Waiter<S>>)) {
        let mut state = self.lock();
        change(&mut state.pool);
        // Dropped behind the lock: to end a shell may take a moment.
        let mut discarded = Vec::new();
        while let Some(output) = state.pool.poll_output() {
            match output {
                Output::Discard(shell) => discarded.push(shell),
                Output::Refuse(waiter, refusal) => drop(waiter.send(Err(refusal))),
                Output::Grant(waiter, grant) => match waiter.send(Ok(grant)) {
                    Err(Ok(Grant::Use(shell))) => state.pool.put_back(shell, self.epoch.elapsed()),
                    Err(Ok(Grant::Make)) => state.pool.lost(),
                    Ok(()) | Err(Err(_)) => {}
                },
            }
        }
        self.keep_swept(&mut state);
        drop(state);
        drop(discarded);
        self.gone.notify_waiters();
    }

    /// Sees to it that somebody looks after idle shells, where there is a runtime for it.
    fn keep_swept(self: &Arc<Self>, state: &mut State<S>) {
        let swept = state.sweeper.as_ref().is_some_and(|sweeper| !sweeper.is_finished());
        if !swept
            && state.pool.next_timeout().is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.sweeper = Some(runtime.spawn(sweep(Arc::downgrade(self))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Drop for Pool<S> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(sweeper) = &state.sweeper {
            sweeper.abort();
        }
    }
}

/// Hands in the time when it is due, for as long as it is.
async fn sweep<S: Send + 'static>(pool: Weak<Pool<S>>) {
    loop {
        let due = {
            let Some(pool) = pool.upgrade() else { return };
            let mut state = pool.lock();
            let due = state.pool.next_timeout().and_then(|due| pool.epoch.checked_add(due));
            let Some(due) = due else {
                state.sweeper = None;
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

/// A place in the queue. Who gives it up leaves it to the others.
struct Turn<'a, S: Send + 'static> {
    pool: &'a Arc<Pool<S>>,
    answer: oneshot::Receiver<Answer<S>>,
}

impl<S: Send + 'static> Turn<'_, S> {
    /// Waits for it to come. The sweeper's next look may be later than the end of its patience.
    async fn come(mut self, until: Option<Duration>) -> Answer<S> {
        let until = until.and_then(|until| self.pool.epoch.checked_add(until));
        let Some(due) = until else { return self.answered().await };
        if let Ok(answer) = tokio::time::timeout_at(due, self.answered()).await {
            return answer;
        }
        let now = self.pool.epoch.elapsed();
        self.pool.change(|pool| pool.handle_timeout(now));
        self.answered().await
    }

    async fn answered(&mut self) -> Answer<S> {
        (&mut self.answer).await.unwrap_or(Err(Rejected::Closed))
    }
}

impl<S: Send + 'static> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        self.answer.close();
        match self.answer.try_recv() {
            Ok(Ok(Grant::Use(shell))) => self.pool.put_back(shell),
            Ok(Ok(Grant::Make)) => self.pool.change(core::Pool::lost),
            Ok(Err(_)) => {}
            Err(_) => self.pool.change(|pool| pool.forget_waiting(oneshot::Sender::is_closed)),
        }
    }
}

impl<S: Send + 'static> Lease<S> {
    /// The shell is fit for the next execution.
    pub(crate) fn put_back(mut self, shell: S) {
        self.over = true;
        self.pool.put_back(shell);
    }
}

impl<S: Send + 'static> Drop for Lease<S> {
    fn drop(&mut self) {
        if !self.over {
            self.pool.change(core::Pool::lost);
        }
    }
}
