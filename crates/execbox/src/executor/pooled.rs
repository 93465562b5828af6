//! Executors with a pool of runners: what the worker and the process executor share.
//!
//! ```text
//!   acquire (may wait) ─► start, if none is idle ─► drive the session ─► release or discard
//! ```

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::contract::module::{CodeExecutionResult, Failure, Request};
use execbox_core::contract::stop::Stop;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::pool::PoolOptions;
use execbox_core::protocol::host::HostOptions;
use execbox_core::protocol::{HostMessage, RunnerMessage};
use futures_util::future::{BoxFuture, try_join_all};
use tokio_util::sync::CancellationToken;

use crate::code;
use crate::events::Observation;
use crate::executor::pool::{Lease, Pool};
use crate::executor::self_test::SelfTestCheck;
use crate::request::ExecuteRequest;
use crate::runtime::{self, MissingRuntime};
use crate::session::channel::MessageChannel;
use crate::session::script::{cancelled, execute};
use crate::session::spin::Execution;

/// Starts runners of one kind and moves them between idle and busy.
pub(crate) trait RunnerFactory: Send + Sync + 'static {
    /// A runner that executes nothing. Dropping it stops it.
    type Idle: Send + 'static;
    /// The channel to a runner that executes a request. Dropping it stops the runner.
    type Busy: MessageChannel<HostMessage, RunnerMessage>;

    /// Whether the channel to a runner needs the I/O of the caller's runtime. It needs timers in any case.
    const NEEDS_IO: bool;

    /// The kind of runner, for errors: `runner process "execbox"`.
    fn describe(&self) -> String;

    /// Starts a runner.
    fn start(&self) -> BoxFuture<'_, io::Result<Self::Busy>>;

    /// Prepares an idle runner for a request. Fails if it has ended.
    fn activate(&self, runner: Self::Idle) -> io::Result<Self::Busy>;

    /// Makes a runner idle; `None` if something of the last request is left in its channel.
    fn deactivate(&self, runner: Self::Busy) -> Option<Self::Idle>;

    /// Reports how the runners are locked, and tries what the jail must refuse.
    fn check_jail(&self) -> BoxFuture<'_, (Option<execbox_jail::Report>, Vec<SelfTestCheck>)>;
}

/// Builds an executor with a pool of runners: a [`WorkerExecutor`](crate::WorkerExecutor) or a
/// [`ProcessExecutor`](crate::ProcessExecutor).
#[must_use = "call build"]
pub struct PooledBuilder<E> {
    settings: Settings,
    build: Box<dyn FnOnce(Settings) -> E + Send>,
}

/// The options of a pooled executor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    options: HostOptions,
    pool: PoolOptions,
    ephemeral: bool,
}

impl<E> PooledBuilder<E> {
    pub(crate) fn new(build: impl FnOnce(Settings) -> E + Send + 'static) -> Self {
        let (options, pool) = (HostOptions::default(), PoolOptions::default());
        Self { settings: Settings { options, pool, ephemeral: false }, build: Box::new(build) }
    }

    /// Sets the size of the pool and of its queue. Default: [`PoolOptions::default`].
    pub fn pool(mut self, pool: PoolOptions) -> Self {
        self.settings.pool = pool;
        self
    }

    /// Sets the grace periods of the sessions with runners.
    pub fn options(mut self, options: HostOptions) -> Self {
        self.settings.options = options;
        self
    }

    /// Starts a new runner for every request. At most [`PoolOptions::max_size`] exist at once.
    pub fn ephemeral(mut self) -> Self {
        self.settings.ephemeral = true;
        self
    }

    /// Builds the executor. Its runners start when they are needed, or with [`prewarm`](crate::Executor::prewarm).
    pub fn build(self) -> E {
        (self.build)(self.settings)
    }
}

impl<E> fmt::Debug for PooledBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A pool of the runners of one factory, and the sessions with them.
pub(crate) struct Pooled<F: RunnerFactory> {
    pub(crate) factory: F,
    settings: Settings,
    pool: Arc<Pool<F::Idle>>,
}

impl<F: RunnerFactory> Pooled<F> {
    pub(crate) fn new(factory: F, settings: Settings) -> Arc<Self> {
        Arc::new(Self { factory, settings, pool: Pool::new(settings.pool) })
    }

    pub(crate) async fn execute(&self, mut request: ExecuteRequest, observation: Observation) -> ExecuteResult {
        let _execution = Execution::new();
        let cancellation = request.cancellation.take().unwrap_or_default();
        let (lease, mut channel) = match cancellation.run_until_cancelled(self.acquire()).await {
            None => return cancelled(&request.effective_limits()),
            Some(Err(error)) => return ExecuteResult::failed(error, Duration::ZERO),
            Some(Ok(acquired)) => acquired,
        };
        let (result, reusable) =
            execute(&mut channel, &request, &observation, self.settings.options, &cancellation).await;
        self.end(lease, channel, reusable);
        result
    }

    /// Waiting for a runner is not part of the run, but can be terminated like it.
    pub(crate) async fn run_code(&self, request: Request, run: code::Run) -> CodeExecutionResult {
        let _execution = Execution::new();
        let stopped = run.stopped();
        let (lease, mut channel) = match stopped.run_until_cancelled(self.acquire()).await {
            None => return run.finish_unstarted(&Stop::Cancelled(None)),
            Some(Err(error)) => return run.finish(Failure::rejected(error).into()),
            Some(Ok(acquired)) => acquired,
        };
        let (result, reusable) = code::run_remote(&mut channel, request, run, self.settings.options).await;
        self.end(lease, channel, reusable);
        result
    }

    /// Starts runners until there are `count`, at most [`PoolOptions::max_size`], and has each execute an empty script.
    pub(crate) async fn prewarm(&self, count: usize) -> Result<(), ExecuteError> {
        check_runtime::<F>()?;
        let leases = self.pool.grow_to(if self.settings.ephemeral { 0 } else { count })?;
        try_join_all(leases.into_iter().map(|lease| self.warm(lease))).await.map(drop)
    }

    async fn warm(&self, lease: Lease<F::Idle>) -> Result<(), ExecuteError> {
        let mut channel = self.start().await?;
        let (empty, cancellation) = (ExecuteRequest::new(""), CancellationToken::new());
        let observation = Observation::default();
        let (result, reusable) =
            execute(&mut channel, &empty, &observation, self.settings.options, &cancellation).await;
        result.outcome?;
        self.end(lease, channel, reusable);
        Ok(())
    }

    /// Rejects waiters, stops the idle runners and waits for the busy ones.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    async fn acquire(&self) -> Result<(Lease<F::Idle>, F::Busy), ExecuteError> {
        check_runtime::<F>()?;
        let (lease, idle) = self.pool.acquire().await?;
        // A runner that ended while it was idle is replaced.
        let channel = match idle.map(|runner| self.factory.activate(runner)) {
            Some(Ok(channel)) => channel,
            Some(Err(_)) | None => self.start().await?,
        };
        Ok((lease, channel))
    }

    async fn start(&self) -> Result<F::Busy, ExecuteError> {
        // Only the kind of the error: its message may name paths of the host.
        self.factory.start().await.map_err(|error| {
            ExecuteError::internal(format!("cannot start a {}: {}", self.factory.describe(), error.kind()))
        })
    }

    /// Releases a runner that can be reused, and discards any other.
    fn end(&self, lease: Lease<F::Idle>, channel: F::Busy, reusable: bool) {
        if reusable
            && !self.settings.ephemeral
            && let Some(idle) = self.factory.deactivate(channel)
        {
            lease.release(idle);
        }
    }
}

fn check_runtime<F: RunnerFactory>() -> Result<(), MissingRuntime> {
    if F::NEEDS_IO { runtime::check_io() } else { runtime::with_timers().map(drop) }
}

/// Implements [`Executor`](crate::Executor) for a newtype of `Arc<Pooled<_>>`.
macro_rules! impl_executor {
    ($executor:ty) => {
        impl $crate::Executor for $executor {
            fn execute(&self, request: $crate::ExecuteRequest) -> BoxFuture<'_, $crate::ExecuteResult> {
                Box::pin(request.observed(async |request, observation| self.0.execute(request, observation).await))
            }

            fn run_code(
                &self,
                source: &str,
                options: $crate::code::CodeExecutionOptions,
            ) -> $crate::code::CodeExecution {
                let pooled = Arc::clone(&self.0);
                let drive = |request, run| async move { pooled.run_code(request, run).await };
                $crate::code::Run::begin(source, options, drive)
            }

            fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), $crate::ExecuteError>> {
                Box::pin(self.0.prewarm(count))
            }

            fn close(&self) -> BoxFuture<'_, ()> {
                Box::pin(self.0.close())
            }

            fn self_test(&self) -> BoxFuture<'_, $crate::SelfTestReport> {
                Box::pin(async {
                    let limits = $crate::executor::self_test::check_limits(self).await;
                    let (jail, checks) = self.0.factory.check_jail().await;
                    $crate::SelfTestReport { checks: [limits, checks].concat(), jail }
                })
            }
        }
    };
}
pub(crate) use impl_executor;
