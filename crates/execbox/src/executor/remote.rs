//! The remote executor: guests run at the other end of a transport, which the application opens.

use std::future::{Future, poll_fn, ready};
use std::io;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use execbox_core::contract::module::{CodeExecutionResult, Failure, Request};
use execbox_core::contract::stop::Stop;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::protocol::host::HostOptions;
use execbox_core::protocol::{HostMessage, RunnerMessage};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::time::Instant;

use crate::code::{self, CodeExecution, CodeExecutionOptions};
use crate::events::Observation;
use crate::executor::Executor;
use crate::executor::self_test::{self, SelfTestReport};
use crate::request::ExecuteRequest;
use crate::runtime::MissingRuntime;
use crate::session::channel::{JsonChannel, MessageChannel};
use crate::session::script::{cancelled, execute};
use crate::transport::{Address, ConnectError, ConnectOptions, TokenRejection, Transport};

type Connect = dyn Fn() -> BoxFuture<'static, io::Result<Box<dyn Transport>>> + Send + Sync;

/// Runs guests on a remote runner, by the runner protocol, with a new transport for each request.
///
/// Tools run in this process; code, limits, names and descriptions are sent to the runner. Opening the transport counts
/// towards the timeout. Log lines arrive while the guest runs if the runner supports that, and otherwise with the result.
///
/// Cheap to clone. Needs a tokio runtime with time enabled.
///
/// ```
/// use execbox::transport::StreamTransport;
/// use execbox::{ExecuteRequest, Executor, RemoteExecutor, Runner};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runner = Runner::new()?;
/// // The runner is a task of this process, at the other end of a pipe in memory.
/// let executor = RemoteExecutor::new(move || {
///     let runner = runner.clone();
///     async move {
///         let (here, there) = tokio::io::duplex(4096);
///         let (reader, writer) = tokio::io::split(there);
///         tokio::spawn(async move { runner.serve(StreamTransport::new(reader, writer)).await });
///         let (reader, writer) = tokio::io::split(here);
///         Ok(StreamTransport::new(reader, writer))
///     }
/// });
/// let result = executor.execute(ExecuteRequest::new("6 * 7")).await;
/// assert_eq!(result.outcome, Ok(Some(json!(42))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RemoteExecutor {
    connect: Arc<Connect>,
    options: HostOptions,
}

impl RemoteExecutor {
    /// Creates an executor over the transports that `connect` opens.
    pub fn new<F, Fut, T>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<T>> + Send + 'static,
        T: Transport + 'static,
    {
        let connect = move || -> BoxFuture<'static, _> {
            let connecting = connect();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Transport>) })
        };
        Self { connect: Arc::new(connect), options: HostOptions::default() }
    }

    /// Creates an executor over connections to `address`, where a runner listens; `options` may be the token that it requires.
    pub fn with_address(address: Address, options: impl Into<ConnectOptions>) -> Self {
        let options = options.into();
        Self::new(move || {
            let (address, options) = (address.clone(), options.clone());
            async move { address.connect(&options).await }
        })
    }

    /// Sets the grace periods of the sessions with the runner.
    #[must_use]
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// Connecting counts as part of the run.
    async fn drive_code(self, request: Request, run: code::Run) -> CodeExecutionResult {
        let stopped = run.stopped();
        let connecting = tokio::time::timeout(run.limits.timeout, (self.connect)());
        match stopped.run_until_cancelled(connecting).await {
            None => run.finish_unstarted(&Stop::Cancelled(None)),
            Some(Err(_elapsed)) => run.finish_unstarted(&Stop::TimedOut),
            Some(Ok(Err(error))) => run.finish(Failure::internal(connect_failure(&error)).into()),
            Some(Ok(Ok(transport))) => {
                let mut link = JsonChannel::new(transport);
                let (result, _) = code::run_remote(&mut link, request, run, self.options).await;
                close_now(link);
                result
            }
        }
    }

    async fn run(&self, mut execution: ExecuteRequest, observation: Observation) -> ExecuteResult {
        let accepted = Instant::now();
        let cancellation = execution.cancellation.take().unwrap_or_default();
        let limits = execution.effective_limits();
        let connecting = tokio::time::timeout(limits.timeout, (self.connect)());
        let failed = |error| ExecuteResult::failed(error, Duration::ZERO);
        let mut result = match cancellation.run_until_cancelled(connecting).await {
            None => cancelled(&limits),
            Some(Err(_elapsed)) => {
                let mut error = Stop::TimedOut.execute_error(&limits);
                error.message += ": it was still connecting to the runner";
                failed(error)
            }
            Some(Ok(Err(error))) => failed(ExecuteError::internal(connect_failure(&error))),
            Some(Ok(Ok(transport))) => {
                let mut link = JsonChannel::new(transport);
                let (result, _) = execute(&mut link, &execution, &observation, self.options, &cancellation).await;
                close_now(link);
                result
            }
        };
        result.duration = accepted.elapsed();
        result
    }
}

/// Why no transport was opened. Of errors that this crate does not make, the kind alone: their messages may contain
/// secrets.
fn connect_failure(error: &io::Error) -> String {
    if let Some(rejection) = TokenRejection::of(error) {
        return rejection.to_string();
    }
    let Some(inner) = error.get_ref().filter(|inner| inner.is::<ConnectError>() || inner.is::<MissingRuntime>()) else {
        return format!("cannot connect to the runner: {}", error.kind());
    };
    inner.to_string()
}

/// Closes the channel as far as possible without waiting.
fn close_now(mut link: JsonChannel<Box<dyn Transport>>) {
    let close = |cx: &mut Context<'_>| MessageChannel::<HostMessage, RunnerMessage>::poll_close(&mut link, cx);
    let _ = poll_fn(close).now_or_never();
}

impl Executor for RemoteExecutor {
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(request.observed(async |request, observation| self.run(request, observation).await))
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let executor = self.clone();
        code::Run::begin(source, options, |request, run| executor.drive_code(request, run))
    }

    fn prewarm(&self, _count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(ready(Ok(())))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
        Box::pin(async {
            let (jail, checks) = self_test::no_jail("the runner is remote; run `execbox runner --self-test` there");
            SelfTestReport { checks: [self_test::check_limits(self).await, checks].concat(), jail }
        })
    }
}

impl std::fmt::Debug for RemoteExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteExecutor").field("options", &self.options).finish_non_exhaustive()
    }
}
