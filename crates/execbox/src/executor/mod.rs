//! What is executed, and by what.

pub(crate) mod inline;
mod pool;
pub(crate) mod pooled;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod worker;

use std::fmt;
use std::sync::Arc;

use execbox_core::contract::module::Failure;
use execbox_core::engine::LogLine;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::code::{CodeExecution, CodeExecutionOptions, Run};
use crate::tools::provider::Provider;
use crate::tools::tool::ToolContext;

/// Runs code: behind which wall, is for the executor to say.
pub trait Executor: Send + Sync {
    /// Runs `execution` to its end. Every way in which it can end is an [`ExecuteResult`].
    ///
    /// Dropping the future stops the guest and cancels its tool calls.
    fn execute(&self, execution: ExecuteRequest) -> BoxFuture<'_, ExecuteResult>;

    /// Runs `source` as an ES module (code-execution specification). The run begins at once, on the current tokio runtime.
    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        Run::begin(source, options, |_, run| async {
            run.finish(Err(Failure::internal("this executor runs scripts only")), None)
        })
    }

    /// Gets ready for `count` executions at once, as far as it may, so that the first ones need not wait:
    /// starts workers or children, and has each execute a program that does nothing. An executor that
    /// keeps nothing ready has nothing to do.
    ///
    /// # Errors
    /// That program failed, as every other would; or the executor was [disposed of](Self::dispose).
    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        let _ = count;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Lets go what it keeps ready, and waits for the executions under way. Those that wait for their turn
    /// are woken, and all from here on refused, with an error whose [`refusal`](ExecuteError::refusal) is
    /// [`Rejected::Closed`](crate::Rejected::Closed). An executor that keeps nothing ready goes on.
    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Code with what is granted to it: the request of the script contract.
#[derive(Clone)]
#[must_use = "an execution does nothing until an executor is given it"]
pub struct ExecuteRequest {
    pub(crate) code: Arc<str>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) limits: Limits,
    pub(crate) cancellation: Option<CancellationToken>,
    pub(crate) on_log: Option<LogSink>,
    pub(crate) on_call: Option<CallSink>,
}

pub(crate) type LogSink = Arc<dyn Fn(&LogLine) + Send + Sync>;
pub(crate) type CallSink = Arc<dyn Fn(&ToolContext) + Send + Sync>;

impl ExecuteRequest {
    /// Code, with no tools, under the default limits.
    pub fn new(code: impl Into<Arc<str>>) -> Self {
        Self {
            code: code.into(),
            providers: Vec::new(),
            limits: Limits::default(),
            cancellation: None,
            on_log: None,
            on_call: None,
        }
    }

    /// Grants a provider's tools.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.push(provider);
        self
    }

    /// Grants several providers' tools.
    pub fn providers(mut self, providers: impl IntoIterator<Item = Provider>) -> Self {
        self.providers.extend(providers);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A token that cancels the execution: it ends as `timeout`, and its tool calls are cancelled.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// Called with every console line as it comes, and before the calls that the guest makes after it; the result
    /// carries them all the same. It runs on the executing task: it should be quick and not block.
    pub fn on_log(mut self, sink: impl Fn(&LogLine) + Send + Sync + 'static) -> Self {
        self.on_log = Some(Arc::new(sink));
        self
    }

    /// Called with every tool call as it begins, before its input is checked. Like `on_log`, it should be quick.
    pub fn on_call(mut self, sink: impl Fn(&ToolContext) + Send + Sync + 'static) -> Self {
        self.on_call = Some(Arc::new(sink));
        self
    }
}

impl fmt::Debug for ExecuteRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecuteRequest")
            .field("code", &self.code)
            .field("providers", &self.providers)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
