//! A run: its handle (code-execution specification §2.2), and the host's side for its driver.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use execbox_core::budget::Budget;
use execbox_core::contract::module::{CodeExecutionResult, Failure, Record, Recorded, Request, RunEnd, Status};
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Call, NoRoom, Notification};
use execbox_core::program::Limits;
use execbox_core::value::Graph;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{HostCalls, Settled};
use super::options::CodeExecutionOptions;
use crate::events::{EventKind, ExecutionEnd, LogEntry, Observation, Span};
use crate::runtime;

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
    /// How the caller terminated the run through its handle.
    stop: Mutex<Option<Stop>>,
    /// Fires when the run is terminated: a child of the token of the caller.
    stopped: CancellationToken,
    reports: Mutex<Vec<Arc<Graph>>>,
    /// The run to which this one is [relayed](CodeExecution::relay).
    relayed: Mutex<Option<CodeControl>>,
}

impl Control {
    /// `cancellation` terminates the run.
    fn new(cancellation: &CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            running: AtomicBool::new(true),
            stop: Mutex::new(None),
            stopped: cancellation.child_token(),
            reports: Mutex::new(Vec::new()),
            relayed: Mutex::new(None),
        })
    }
}

/// The runs to which a run is relayed, one after another.
pub(crate) struct Relay {
    control: Arc<Control>,
    limits: Limits,
}

impl Relay {
    /// Starts a run and awaits it, unless the handle was terminated. From then on, the handle terminates and observes that run.
    pub(crate) async fn run(&self, start: impl FnOnce() -> CodeExecution) -> CodeExecutionResult {
        let run = {
            // `terminate` locks this after it has recorded the termination: either the termination is seen here, or the run is
            // seen there.
            let mut relayed = self.control.relayed.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(stop) = self.control.termination() {
                return failed(stop.failure(&self.limits));
            }
            let run = start();
            *relayed = Some(run.control());
            run
        };
        run.await
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.control.termination().is_some()
    }
}

impl CodeExecution {
    /// A run that `drive` drives as other runs, one after another. `limits`, `cancellation` and `span` are those of the
    /// whole.
    pub(crate) fn relay<F, Fut>(limits: Limits, cancellation: &CancellationToken, span: Span, drive: F) -> Self
    where
        F: FnOnce(Relay) -> Fut,
        Fut: Future<Output = CodeExecutionResult> + Send + 'static,
    {
        let control = Control::new(cancellation);
        let runtime = match runtime::with_timers() {
            Ok(runtime) => runtime,
            Err(missing) => return Self::unstarted(control, Failure::internal(missing.to_string()), span),
        };
        let (driven, settles) = (drive(Relay { control: Arc::clone(&control), limits }), Arc::clone(&control));
        let task = runtime.spawn(async move {
            let mut result = driven.await;
            // The handle may have been terminated between two runs, or after the last one.
            if let Some(stop) = settles.settle().filter(|_| result.status != Status::Terminated) {
                let Failure { status, error } = stop.failure(&limits);
                (result.status, result.error, result.result) = (status, Some(*error), None);
            }
            span.end(ExecutionEnd::Run(&result));
            result
        });
        Self { control: CodeControl(control), task: Task::Running(task) }
    }

    /// A run that has settled with this result, for an [`Executor`](crate::Executor) of your own that has no other to run code
    /// on, such as one for tests. [`CodeExecutionResult::new`] makes a result.
    pub fn ready(result: CodeExecutionResult) -> Self {
        let control = Control::new(&CancellationToken::new());
        control.running.store(false, Ordering::Release);
        control.reports.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&result.reports);
        Self { control: CodeControl(control), task: Task::Settled(Box::new(result)) }
    }

    /// A run that has failed before it started.
    fn unstarted(control: Arc<Control>, failure: Failure, span: Span) -> Self {
        control.running.store(false, Ordering::Release);
        let result = failed(failure);
        span.end(ExecutionEnd::Run(&result));
        Self { control: CodeControl(control), task: Task::Settled(Box::new(result)) }
    }

    /// Stops the run: it settles with status `terminated`, and with the reason in the error's message. Only the first call
    /// has an effect. No host function is called after this has returned.
    pub fn terminate(&self, reason: Option<&str>) {
        self.control.terminate(reason);
    }

    /// Whether the run has not settled yet.
    pub fn is_running(&self) -> bool {
        self.control.is_running()
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

    /// As [`CodeExecution::is_running`].
    pub fn is_running(&self) -> bool {
        self.0.running.load(Ordering::Acquire)
    }

    /// As [`CodeExecution::reports`].
    pub fn reports(&self) -> Vec<Arc<Graph>> {
        match &*self.0.relayed.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(run) => run.reports(),
            None => self.0.reports.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Control {
    fn terminate(&self, reason: Option<&str>) {
        let mut first = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if self.running.load(Ordering::Acquire) {
            first.get_or_insert_with(|| Stop::Cancelled(reason.map(str::to_owned)));
            self.stopped.cancel();
            drop(first);
            if let Some(run) = &*self.relayed.lock().unwrap_or_else(PoisonError::into_inner) {
                run.terminate(reason);
            }
        }
    }

    /// How the caller terminated the run; `None` if it was not terminated.
    fn termination(&self) -> Option<Stop> {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.or_cancelled(stop)
    }

    fn or_cancelled(&self, stop: Option<Stop>) -> Option<Stop> {
        stop.or_else(|| self.stopped.is_cancelled().then_some(Stop::Cancelled(None)))
    }

    /// Settles the run. Returns the termination, which replaces every other outcome.
    fn settle(&self) -> Option<Stop> {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        self.running.store(false, Ordering::Release);
        self.or_cancelled(stop.clone())
    }
}

impl Future for CodeExecution {
    type Output = CodeExecutionResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CodeExecutionResult> {
        if let Task::Running(task) = &mut self.task {
            let result = ready!(Pin::new(task).poll(cx));
            self.control.0.settle(); // The runtime may have dropped the run.
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
    Record::default().finish(failure.into(), Duration::ZERO, 0, |_| ())
}

/// The host's side of a run, for its driver.
pub(crate) struct Run {
    pub(crate) calls: HostCalls,
    pub(crate) limits: Limits,
    /// What is kept for the guest: arguments of calls in flight, reports and the log.
    pub(crate) budget: Budget,
    pub(crate) began: Instant,
    record: Record,
    control: Arc<Control>,
    /// Dropped after the calls.
    span: Span,
}

impl Run {
    /// Starts a run, which `drive` drives to its end.
    pub(crate) fn begin<F, Fut>(source: &str, options: CodeExecutionOptions, drive: F) -> CodeExecution
    where
        F: FnOnce(Request, Self) -> Fut,
        Fut: Future<Output = CodeExecutionResult> + Send + 'static,
    {
        let began = Instant::now();
        let (control, span) = (Control::new(options.cancellation_ref()), options.observers().begin());
        let runtime = match runtime::with_timers() {
            Ok(runtime) => runtime,
            Err(missing) => return CodeExecution::unstarted(control, Failure::internal(missing.to_string()), span),
        };
        let (request, calls) = match options.lower(source.to_owned(), span.observation()) {
            Ok(lowered) => lowered,
            Err(failure) => return CodeExecution::unstarted(control, failure, span),
        };
        let limits = request.limits;
        let (budget, record) = (Budget::new(limits.host_memory_len()), Record::default());
        let run = Self { calls, limits, budget, began, record, control: Arc::clone(&control), span };
        let task = Task::Running(runtime.spawn(drive(request, run)));
        CodeExecution { control: CodeControl(control), task }
    }

    /// Fires when the run is terminated.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.control.stopped.clone()
    }

    /// Begins a call, as [`HostCalls::begin`]. No call begins after [`terminate`](CodeExecution::terminate) has returned.
    pub(crate) fn call(&mut self, call: &Call, cx: &mut Context<'_>) -> Option<Settled> {
        if self.stop().is_some() {
            return None;
        }
        self.calls.begin(call, &self.budget, cx)
    }

    /// The run as its observers see it.
    pub(crate) fn observation(&self) -> &Observation {
        self.span.observation()
    }

    /// The next call or promise that is settled. None is polled after [`terminate`](CodeExecution::terminate) has returned.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        if self.stop().is_some() { None } else { self.calls.poll_settled(cx) }
    }

    /// Records a report or a call of the console.
    ///
    /// # Errors
    /// The budget does not cover it.
    pub(crate) fn note(&mut self, notification: &Notification) -> Result<(), NoRoom> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = (now.as_secs_f64() * 1000.0).floor();
        match self.record.add(notification, timestamp, &self.budget, |value| self.calls.restore_numbers(value))? {
            Recorded::Report(report) => {
                self.observation().emit(EventKind::Reported(&report));
                self.control.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
            }
            Recorded::Log => {
                if let Some(entry) = self.record.logs.last() {
                    self.observation().emit(EventKind::Log(LogEntry::ConsoleCall(entry)));
                }
            }
            Recorded::Nothing => {}
        }
        Ok(())
    }

    /// The termination, if the run was terminated.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.control.termination()
    }

    /// The result of a run that had no runner: it was terminated, or else stopped for `stop`.
    pub(crate) fn finish_unstarted(self, stop: &Stop) -> CodeExecutionResult {
        let failure = stop.failure(&self.limits);
        self.finish(failure.into())
    }

    /// The result of a run that ended so, unless it was terminated before.
    pub(crate) fn finish(mut self, mut end: RunEnd) -> CodeExecutionResult {
        if let Some(stop) = self.control.settle() {
            end.outcome = Err(stop.failure(&self.limits));
        }
        // A graph takes more memory than the value in the guest, which is gone.
        let budget = self.limits.memory_len().saturating_mul(2);
        end.usage.peak_calls_in_flight = self.calls.peak() as u64;
        self.calls.cancel();
        let calls = self.calls;
        let result = self.record.finish(end, self.began.elapsed(), budget, |value| calls.restore_numbers(value));
        self.span.end(ExecutionEnd::Run(&result));
        result
    }
}
