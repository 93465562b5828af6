//! A run: its handle (code-execution specification §2.2), and the host's side for its driver.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use execbox_core::contract::module::{CodeExecutionResult, Failure, Record, Recorded, Request, RunOutcome};
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Call, Notification};
use execbox_core::program::Limits;
use execbox_core::value::Graph;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{HostCalls, Settled};
use super::options::{CodeExecutionOptions, Sink, Sinks};
use crate::session::local::StopCondition;

/// A started run. Awaiting it returns the result, also repeatedly. Dropping it terminates the run.
///
/// ```
/// use execbox::code::CodeExecutionOptions;
/// use execbox::{Executor, InlineExecutor};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = InlineExecutor::new()?;
/// let mut run = executor.run_code("for (;;);", CodeExecutionOptions::new());
/// // A run has no timeout: its caller ends it.
/// if tokio::time::timeout(Duration::from_millis(50), &mut run).await.is_err() {
///     run.terminate(Some("50 ms budget"));
/// }
/// let result = run.await;
/// assert_eq!(result.error.unwrap().message, "The run was terminated: 50 ms budget");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a run terminates it"]
pub struct CodeExecution {
    control: CodeControl,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Running(JoinHandle<CodeExecutionResult>),
    /// The run has settled or failed to start. Awaiting the handle again returns the same result.
    Settled(Box<CodeExecutionResult>),
}

/// Terminates and observes a run while it is awaited elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CodeControl(Arc<Control>);

#[derive(Debug)]
struct Control {
    running: AtomicBool,
    /// How the caller terminated the run.
    stop: Mutex<Option<Stop>>,
    stopped: CancellationToken,
    reports: Mutex<Vec<Arc<Graph>>>,
}

impl CodeExecution {
    /// Stops the run: it settles with status `terminated`, and with the reason in the error's message. Only the first call
    /// has an effect. No host function is called after this has returned.
    pub fn terminate(&self, reason: Option<&str>) {
        self.control.terminate(reason);
    }

    /// Whether the run has not settled yet.
    pub fn running(&self) -> bool {
        self.control.running()
    }

    /// The reports so far, in order.
    pub fn reports(&self) -> Vec<Arc<Graph>> {
        self.control.reports()
    }

    /// A handle to terminate and observe the run while this one is awaited.
    pub fn control(&self) -> CodeControl {
        self.control.clone()
    }
}

impl CodeControl {
    /// As [`CodeExecution::terminate`].
    pub fn terminate(&self, reason: Option<&str>) {
        self.0.terminate(reason);
    }

    /// As [`CodeExecution::running`].
    pub fn running(&self) -> bool {
        self.0.running.load(Ordering::Acquire)
    }

    /// As [`CodeExecution::reports`].
    pub fn reports(&self) -> Vec<Arc<Graph>> {
        self.0.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Control {
    fn terminate(&self, reason: Option<&str>) {
        let mut first = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if self.running.load(Ordering::Acquire) {
            first.get_or_insert_with(|| Stop::Cancelled(reason.map(str::to_owned)));
            self.stopped.cancel();
        }
    }

    /// Settles the run. Returns the termination, which replaces every other outcome.
    fn settle(&self) -> Option<Stop> {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        self.running.store(false, Ordering::Release);
        stop.clone()
    }
}

impl Future for CodeExecution {
    type Output = CodeExecutionResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CodeExecutionResult> {
        if let Task::Running(task) = &mut self.task {
            let result = ready!(Pin::new(task).poll(cx));
            self.control.0.settle(); // Its runtime may have dropped the run.
            let result = result.unwrap_or_else(|_| failed(Failure::internal("the run was dropped by its runtime")));
            self.task = Task::Settled(Box::new(result));
        }
        match &self.task {
            Task::Settled(result) => Poll::Ready((**result).clone()),
            Task::Running(_) => Poll::Pending,
        }
    }
}

impl Drop for CodeExecution {
    fn drop(&mut self) {
        self.control.terminate(None);
    }
}

fn failed(failure: Failure) -> CodeExecutionResult {
    Record::default().finish(Err(failure), Duration::ZERO, None, 0)
}

/// The host's side of a run, for its driver.
pub(crate) struct Run {
    pub(crate) calls: HostCalls,
    pub(crate) limits: Limits,
    began: Instant,
    record: Record,
    sinks: Sinks,
    control: Arc<Control>,
}

impl Run {
    /// Starts a run, which `drive` drives to its end.
    pub(crate) fn begin<F, Fut>(source: &str, options: CodeExecutionOptions, drive: F) -> CodeExecution
    where
        F: FnOnce(Request, Self) -> Fut,
        Fut: Future<Output = CodeExecutionResult> + Send + 'static,
    {
        let began = Instant::now();
        let control = Arc::new(Control {
            running: AtomicBool::new(true),
            stop: Mutex::new(None),
            stopped: CancellationToken::new(),
            reports: Mutex::new(Vec::new()),
        });
        let settled = |failure| {
            control.running.store(false, Ordering::Release);
            CodeExecution { control: CodeControl(Arc::clone(&control)), task: Task::Settled(Box::new(failed(failure))) }
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return settled(Failure::internal("a run needs a tokio runtime with time enabled"));
        };
        let (request, calls, sinks) = match options.lower(source.to_owned()) {
            Ok(lowered) => lowered,
            Err(failure) => return settled(failure),
        };
        let limits = request.limits;
        let run = Self { calls, limits, began, record: Record::default(), sinks, control: Arc::clone(&control) };
        let task = Task::Running(runtime.spawn(drive(request, run)));
        CodeExecution { control: CodeControl(control), task }
    }

    /// Fires when the run is terminated.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.control.stopped.clone()
    }

    /// Termination by the caller, and the safety cap.
    pub(crate) fn stop_condition(&self) -> StopCondition {
        StopCondition { cancellation: self.stopped(), deadline: self.began.checked_add(self.limits.timeout) }
    }

    /// The most bytes that one value may take on the host.
    pub(crate) fn budget(&self) -> usize {
        // A graph takes more memory than the value in the guest.
        self.limits.memory_len().saturating_mul(4)
    }

    /// Begins a call, as [`HostCalls::begin`]. No call begins after [`terminate`](CodeExecution::terminate) has returned.
    pub(crate) fn call(&mut self, call: &Call, cx: &mut Context<'_>) -> Option<Settled> {
        let budget = self.budget();
        if self.stop().is_some() { None } else { self.calls.begin(call.id, call.function, &call.input, budget, cx) }
    }

    /// The next call or promise that is settled. None is polled after [`terminate`](CodeExecution::terminate) has returned.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        if self.stop().is_some() { None } else { self.calls.poll_settled(cx) }
    }

    /// Records a report or a call of the console, and passes it to its sink.
    pub(crate) fn note(&mut self, notification: &Notification) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = (now.as_secs_f64() * 1000.0).floor();
        match self.record.add(notification, timestamp, self.budget()) {
            Recorded::Report(report) => {
                show(self.sinks.report.as_ref(), &report);
                self.control.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
            }
            Recorded::Log => {
                if let Some(log) = self.record.logs.last() {
                    show(self.sinks.log.as_ref(), log);
                }
            }
            Recorded::Nothing => {}
        }
    }

    /// The termination, if the run was terminated.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.control.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The result of a run that was stopped: by the caller if it was terminated, else by `stop`.
    pub(crate) fn finish_stopped(self, stop: &Stop, memory_used_bytes: Option<u64>) -> CodeExecutionResult {
        let failure = stop.failure(&self.limits);
        self.finish(Err(failure), memory_used_bytes)
    }

    /// The result of a run that ended with `outcome`, unless it was terminated before.
    pub(crate) fn finish(self, outcome: RunOutcome, memory_used_bytes: Option<u64>) -> CodeExecutionResult {
        let outcome = self.control.settle().map_or(outcome, |stop| Err(stop.failure(&self.limits)));
        let budget = self.budget();
        self.record.finish(outcome, self.began.elapsed(), memory_used_bytes, budget)
    }
}

/// A panic of a sink is a bug of the host; the run continues.
fn show<T>(sink: Option<&Sink<T>>, what: &T) {
    if let Some(sink) = sink {
        let _ = catch_unwind(AssertUnwindSafe(|| sink(what)));
    }
}
