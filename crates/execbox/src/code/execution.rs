//! A run's handle (code-execution specification §2.2).

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

/// A run under way: await it for its result, as often as you like. Dropping it terminates the run.
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
/// // A budget of the caller's: there is no other.
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
    /// It has settled, or never began. The handle can be awaited again, with the same result.
    Over(Box<CodeExecutionResult>),
}

/// Terminates a run and looks at it, from anywhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CodeControl(Arc<Control>);

#[derive(Debug)]
struct Control {
    running: AtomicBool,
    stop: Mutex<Option<Stop>>,
    stopped: CancellationToken,
    reports: Mutex<Vec<Arc<Graph>>>,
}

impl CodeExecution {
    /// Stops the run: it settles as `terminated`, with the reason in its error's message. Only the first call counts. No
    /// function of the host is called any more once this has returned.
    pub fn terminate(&self, reason: Option<&str>) {
        self.control.terminate(reason);
    }

    /// Whether it has not settled yet.
    pub fn running(&self) -> bool {
        self.control.running()
    }

    /// What was reported so far, in order.
    pub fn reports(&self) -> Vec<Arc<Graph>> {
        self.control.reports()
    }

    /// The same, to be used elsewhere while the run is awaited.
    pub fn control(&self) -> CodeControl {
        self.control.clone()
    }
}

impl CodeControl {
    /// As [`CodeExecution::terminate`].
    pub fn terminate(&self, reason: Option<&str>) {
        self.0.stop_with(Stop::Cancelled(reason.map(str::to_owned)));
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
    fn stop_with(&self, stop: Stop) {
        let mut first = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if self.running.load(Ordering::Acquire) {
            first.get_or_insert(stop);
            self.stopped.cancel();
        }
    }

    /// The run settles now: with the stop, if there was one, whatever the guest went on to do after it.
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
            self.control.0.settle(); // for a run that its runtime has dropped
            let result = result.unwrap_or_else(|_| failed(Failure::internal("the run was dropped by its runtime")));
            self.task = Task::Over(Box::new(result));
        }
        match &self.task {
            Task::Over(result) => Poll::Ready((**result).clone()),
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

/// The host's side of a run, while a driver drives it.
pub(crate) struct Run {
    pub(crate) calls: HostCalls,
    pub(crate) limits: Limits,
    began: Instant,
    record: Record,
    sinks: Sinks,
    control: Arc<Control>,
}

impl Run {
    /// Begins a run, which `drive` drives to its end.
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
        let over = |failure| {
            control.running.store(false, Ordering::Release);
            CodeExecution { control: CodeControl(Arc::clone(&control)), task: Task::Over(Box::new(failed(failure))) }
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return over(Failure::internal("a run needs a tokio runtime with time enabled"));
        };
        let (request, calls, sinks) = match options.lower(source.to_owned()) {
            Ok(lowered) => lowered,
            Err(failure) => return over(failure),
        };
        let limits = request.limits;
        let run = Self { calls, limits, began, record: Record::default(), sinks, control: Arc::clone(&control) };
        let task = Task::Running(runtime.spawn(drive(request, run)));
        CodeExecution { control: CodeControl(control), task }
    }

    /// Fires when the run is to stop.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.control.stopped.clone()
    }

    /// When the safety cap is due; `None` for one too long to be a time.
    pub(crate) fn capped_at(&self) -> Option<Instant> {
        self.began.checked_add(self.limits.timeout)
    }

    /// Whether the run was stopped, or its time is up; which is noted then.
    pub(crate) fn is_to_stop(&self) -> bool {
        if self.capped_at().is_some_and(|due| Instant::now() >= due) {
            self.cap();
        }
        self.control.stopped.is_cancelled()
    }

    /// The safety cap is due.
    pub(crate) fn cap(&self) {
        self.control.stop_with(Stop::TimedOut { stuck: false });
    }

    /// How many bytes one value may take here.
    pub(crate) fn budget(&self) -> usize {
        // A graph takes more room than the memory that it was copied from.
        self.limits.memory_len().saturating_mul(4)
    }

    /// Begins a call, as [`HostCalls::begin`] does. None begins once [`terminate`](CodeExecution::terminate) has returned.
    pub(crate) fn call(&mut self, call: &Call, cx: &mut Context<'_>) -> Option<Settled> {
        let budget = self.budget();
        if self.stop().is_some() { None } else { self.calls.begin(call.id, call.function, &call.input, budget, cx) }
    }

    /// The next call or promise that has come to something. None goes on in a run that is to stop.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        if self.stop().is_some() { None } else { self.calls.poll_settled(cx) }
    }

    /// The guest has said something.
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

    /// Why it is to stop, if it is.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.control.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The result of a run that was stopped.
    pub(crate) fn stopped_result(self, memory_used_bytes: Option<u64>) -> CodeExecutionResult {
        let failure = self.stop().unwrap_or(Stop::Cancelled(None)).failure(&self.limits);
        self.finish(Err(failure), memory_used_bytes)
    }

    /// The result of a run that ended so.
    pub(crate) fn finish(self, ending: RunOutcome, memory_used_bytes: Option<u64>) -> CodeExecutionResult {
        let ending = self.control.settle().map_or(ending, |stop| Err(stop.failure(&self.limits)));
        let budget = self.budget();
        self.record.finish(ending, self.began.elapsed(), memory_used_bytes, budget)
    }
}

/// A panic is a bug of the sink, as one in a function is the function's. The run goes on.
fn show<T>(sink: Option<&Sink<T>>, what: &T) {
    if let Some(sink) = sink {
        let _ = catch_unwind(AssertUnwindSafe(|| sink(what)));
    }
}
