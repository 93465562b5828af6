//! The [`Executor`] trait, its request, and the executors.

pub(crate) mod fallback;
pub(crate) mod inline;
mod pool;
pub(crate) mod pooled;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod self_test;
pub(crate) mod worker;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::engine::LogLine;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::code::{CodeExecution, CodeExecutionOptions};
use crate::events::{EventKind, ExecutionEnd, LogEntry, Observation, Observer, Observers};
use crate::executor::self_test::SelfTestReport;
use crate::tools::attached::Attached;
use crate::tools::provider::Provider;

/// Runs guest code at one level of isolation: in this process, on worker threads, in child processes, or remotely.
///
/// All methods are required, so that an executor that wraps another one cannot forget to forward one.
pub trait Executor: Send + Sync {
    /// Executes a script. Every outcome, failures to start included, is an [`ExecuteResult`].
    ///
    /// Dropping the future stops the guest and cancels its tool calls.
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult>;

    /// Runs `source` as an ES module (code-execution specification). The run starts at once, on the current tokio runtime.
    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution;

    /// Starts runners until there are `count`, within the size of the pool, and has each execute an empty script, so that the
    /// first requests need not wait for that. An executor without a pool does nothing, or loads its engine.
    ///
    /// # Errors
    /// A runner did not start, or the executor was [disposed of](Self::dispose).
    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>>;

    /// Rejects the requests that wait for a runner and all later ones, waits for the busy runners, and stops all. The error of
    /// a rejected request has [`Rejected::Closed`](crate::Rejected::Closed) in [`rejected`](ExecuteError::rejected).
    ///
    /// An executor without a pool does nothing, and still accepts requests.
    fn dispose(&self) -> BoxFuture<'_, ()>;

    /// Tries what limits must prevent: an endless loop, an allocation without end, and in a jail, a file and a socket. Takes
    /// about a second. The language must accept JavaScript.
    fn self_test(&self) -> BoxFuture<'_, SelfTestReport>;
}

/// A script with everything that is granted to it.
///
/// ```
/// use std::time::Duration;
///
/// use execbox::ExecuteRequest;
///
/// let request = ExecuteRequest::new("console.log(6 * 7)")
///     .timeout(Duration::from_secs(1))
///     .on_log(|line| println!("{}", line.text));
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until it is passed to an executor"]
pub struct ExecuteRequest {
    pub(crate) code: Arc<str>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) limits: Limits,
    pub(crate) cancellation: Option<CancellationToken>,
    pub(crate) observers: Observers,
    pub(crate) attached: Attached,
}

impl ExecuteRequest {
    /// A script without tools, under the default limits.
    pub fn new(code: impl Into<Arc<str>>) -> Self {
        Self {
            code: code.into(),
            providers: Vec::new(),
            limits: Limits::default(),
            cancellation: None,
            observers: Observers::default(),
            attached: Attached::default(),
        }
    }

    /// Grants the tools of a provider, as a global object of its name.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.push(provider);
        self
    }

    /// Grants the tools of several providers.
    pub fn providers(mut self, providers: impl IntoIterator<Item = Provider>) -> Self {
        self.providers.extend(providers);
        self
    }

    /// Sets the limits. Default: [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the timeout of the limits.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// Sets a token that cancels the execution: it fails with `timeout`, and its tool calls are cancelled.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// Adds an observer of the [events](crate::events) of the execution, beside those that it has.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observers.add(observer);
        self
    }

    /// Adds an observer that receives each console line while the guest runs, before the tool calls that follow the line. The
    /// result contains the lines, too. It must not block.
    pub fn on_log(self, receive: impl Fn(&LogLine) + Send + Sync + 'static) -> Self {
        self.observer(Observer::new(move |event| {
            if let EventKind::Log(LogEntry::Line(line)) = event.kind {
                receive(line);
            }
        }))
    }

    /// Attaches a value for the tools of the caller, which read it with [`ToolContext::attached`](crate::ToolContext::attached): whom the program belongs to, for
    /// example. Guests do not see it. Replaces another one of the same type.
    pub fn attach<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.attached.add(value);
        self
    }

    /// Executes the request with `run`, between its acceptance and its end as observers see them.
    pub(crate) async fn observed(self, run: impl AsyncFnOnce(Self, Observation) -> ExecuteResult) -> ExecuteResult {
        let span = self.observers.begin();
        let result = run(self, span.observation().clone()).await;
        span.end(ExecutionEnd::Script(&result));
        result
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
