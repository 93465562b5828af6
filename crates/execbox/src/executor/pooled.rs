//! Executors that keep shells: what the worker and the process executor have in common.
//!
//! ```text
//!   acquire (may wait) ─► make, if there is none ─► converse ─► put back, or lose
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::contract::module::{CodeExecutionResult, Failure, Request};
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::pool::PoolOptions;
use execbox_core::protocol::host::HostOptions;
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use futures_util::future::{BoxFuture, try_join_all};
use tokio_util::sync::CancellationToken;

use crate::code;
use crate::executor::ExecuteRequest;
use crate::executor::pool::{Lease, Pool};
use crate::session::channel::MessageChannel;
use crate::session::host::{Conversation, cancelled, converse};

/// A kind of shell.
pub(crate) trait Shells: Send + Sync + 'static {
    /// One that serves nobody. Dropping it ends it.
    type Shell: Send + 'static;
    /// One that serves an execution. Dropping it ends it.
    type Link: MessageChannel<HostMessage, RunnerMessage>;

    /// What it is, for errors: `runner process`.
    const NAME: &'static str;

    /// Starts one, to serve an execution.
    fn make(&self) -> BoxFuture<'_, io::Result<Self::Link>>;

    /// To serve another execution; an error where it has ended since the last one.
    fn reopen(&self, shell: Self::Shell) -> io::Result<Self::Link>;

    /// To wait for the next execution, where nothing of the last one is left in it.
    fn close(&self, link: Self::Link) -> Option<Self::Shell>;
}

/// An executor over shells of a kind.
pub(crate) struct Pooled<S: Shells> {
    pub(crate) shells: S,
    pub(crate) options: HostOptions,
    /// Every shell serves one execution and ends.
    pub(crate) ephemeral: bool,
    pool: Arc<Pool<S::Shell>>,
}

impl<S: Shells> Pooled<S> {
    pub(crate) fn new(shells: S, options: HostOptions, pool: PoolOptions, ephemeral: bool) -> Self {
        Self { shells, options, ephemeral, pool: Pool::new(pool) }
    }

    pub(crate) async fn execute(&self, mut execution: ExecuteRequest) -> ExecuteResult {
        let cancellation = execution.cancellation.take().unwrap_or_default();
        let (lease, mut link) = match cancellation.run_until_cancelled(self.acquire()).await {
            None => return cancelled(&execution.limits),
            Some(Err(error)) => return ExecuteResult::failed(error, Duration::ZERO),
            Some(Ok(acquired)) => acquired,
        };
        let Conversation { result, reusable } = converse(&mut link, &execution, self.options, &cancellation).await;
        if reusable && !self.ephemeral {
            self.give_back(lease, link);
        }
        result
    }

    /// Waiting for a shell is no part of the run, and can be terminated as it can.
    pub(crate) async fn run_code(&self, request: Request, run: code::Run) -> CodeExecutionResult {
        let stopped = run.stopped();
        let (lease, mut link) = match stopped.run_until_cancelled(self.acquire()).await {
            None => return run.stopped_result(None),
            Some(Err(error)) => return run.finish(Err(Failure::refused(error)), None),
            Some(Ok(acquired)) => acquired,
        };
        let (result, reusable) = code::converse(&mut link, request, run, self.options).await;
        if reusable && !self.ephemeral {
            self.give_back(lease, link);
        }
        result
    }

    /// Starts shells until there are `count`, as far as there may be, and lets each new one execute.
    pub(crate) async fn prewarm(&self, count: usize) -> Result<(), ExecuteError> {
        let leases = self.pool.grow_to(if self.ephemeral { 0 } else { count })?;
        try_join_all(leases.into_iter().map(|lease| self.warm(lease))).await.map(drop)
    }

    async fn warm(&self, lease: Lease<S::Shell>) -> Result<(), ExecuteError> {
        let mut link = self.make().await?;
        let nothing = ExecuteRequest::new("");
        let conversation = converse(&mut link, &nothing, self.options, &CancellationToken::new()).await;
        conversation.result.outcome?;
        if conversation.reusable {
            self.give_back(lease, link);
        }
        Ok(())
    }

    /// Ends the shells, and waits for those that are in use.
    pub(crate) async fn dispose(&self) {
        self.pool.close().await;
    }

    /// The right to a shell, and a shell.
    async fn acquire(&self) -> Result<(Lease<S::Shell>, S::Link), ExecuteError> {
        let (lease, shell) = self.pool.acquire().await?;
        // One that has ended while it was idle is nobody's failure.
        let link = match shell.map(|shell| self.shells.reopen(shell)) {
            Some(Ok(link)) => link,
            Some(Err(_)) | None => self.make().await?,
        };
        Ok((lease, link))
    }

    async fn make(&self) -> Result<S::Link, ExecuteError> {
        // The kind alone: an error's words may name paths of the host.
        self.shells
            .make()
            .await
            .map_err(|error| ExecuteError::internal(format!("cannot start a {}: {}", S::NAME, error.kind())))
    }

    fn give_back(&self, lease: Lease<S::Shell>, link: S::Link) {
        if let Some(shell) = self.shells.close(link) {
            lease.put_back(shell);
        }
    }
}
