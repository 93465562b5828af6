//! The fallback executor: a program that computes for long before its first call is started again on another executor.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use execbox_core::cause::{Cause, ReachedLimit};
use execbox_core::contract::module::CodeExecutionLog;
use execbox_core::contract::script::timed_out;
use execbox_core::contract::stop::Stop;
use execbox_core::engine::LogLine;
use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
use execbox_core::program::{Amount, Limits};
use execbox_core::usage::Usage;
use futures_util::future::{BoxFuture, try_join};

use crate::code::{CodeExecution, CodeExecutionOptions, Status};
use crate::events::{EventKind, ExecutionEnd, LogEntry, Observation, Observer};
use crate::executor::Executor;
use crate::executor::self_test::SelfTestReport;
use crate::request::ExecuteRequest;

/// Runs each program on a first executor, and on a second one if it turns out to compute for long.
///
/// A program that has computed for the [budget](Self::budget) before its first call is stopped and started again on the second
/// executor, in the time that is left. The stopped attempt has had no effect: no tool or host function was called, nothing was
/// reported, and its log lines are observed only when it makes a call or ends. A program that makes a call within the budget
/// stays on the first executor, however long it computes afterwards.
///
/// For workloads in which few programs compute for long: the first executor starts at once, such as one with QuickJS, and the
/// second one computes fast, such as a [`ProcessExecutor`](crate::ProcessExecutor) whose runner has V8. A program that is
/// started again sees another time and other random numbers.
///
/// Limits hold for both attempts together, and the usage is that of both. Runs ([`run_code`](Executor::run_code)) to which the
/// host has given promises are not started again. The first executor must support the limit
/// [`cpu_time_before_calls`](Limits::cpu_time_before_calls): on a runner that does not, programs stay there.
#[derive(Clone)]
pub struct FallbackExecutor {
    first: Arc<dyn Executor>,
    second: Arc<dyn Executor>,
    budget: Duration,
}

impl FallbackExecutor {
    /// Creates an executor with a budget of 250 ms.
    pub fn new(first: Arc<dyn Executor>, second: Arc<dyn Executor>) -> Self {
        Self { first, second, budget: Duration::from_millis(250) }
    }

    /// Sets how much CPU time a program has on the first executor before its first call.
    #[must_use]
    pub fn budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    async fn run(&self, mut request: ExecuteRequest) -> ExecuteResult {
        let Some(plan) = Plan::new(&request.effective_limits(), self.budget) else {
            return self.first.execute(request).await;
        };
        let span = request.observers.begin();
        let cancellation = request.cancellation.get_or_insert_default().clone();
        request.observers = request.observers.for_attempt(&span);
        let held = Held::new(span.observation());
        let observers = request.observers.clone().replaced_by(held.observer());
        let mut attempt = request.clone().with_exact_limits(plan.first);
        attempt.observers = observers;
        let first = self.first.execute(attempt).await;
        let is_timeout = first.error().is_some_and(|error| error.code == ErrorCode::Timeout);
        let limits = plan.second(&first.usage, first.duration);
        let Some(limits) = limits.filter(|_| is_timeout && !cancellation.is_cancelled()) else {
            held.release();
            span.end(ExecutionEnd::Script(&first));
            return first;
        };
        let mut second = self.second.execute(request.with_exact_limits(limits)).await;
        second.usage = together(&first.usage, second.usage);
        second.duration += first.duration;
        if let Err(error) = &mut second.outcome {
            let render = |limit: &ReachedLimit| match limit.as_cpu_time() {
                Some(error) => Stop::Limit(error).execute_error(&plan.limits).message,
                None => timed_out(limit.clone()).message,
            };
            let used = (&first.usage, first.duration);
            name_whole_limit((&mut error.message, &mut error.cause), &plan, used, render);
        }
        span.end(ExecutionEnd::Script(&second));
        second
    }
}

/// The limits of both attempts.
#[derive(Clone, Copy)]
struct Plan {
    /// The limits that the caller set.
    limits: Limits,
    /// The limits of the first attempt.
    first: Limits,
    budget: Duration,
}

impl Plan {
    /// `None` if the budget does not end a program earlier than its limits.
    fn new(limits: &Limits, budget: Duration) -> Option<Self> {
        let own = limits.cpu_time_at_first().into_iter().chain([limits.timeout]).min();
        let first = limits.cpu_time_before_calls(budget);
        own.is_some_and(|own| own > budget).then_some(Self { limits: *limits, first, budget })
    }

    /// The limits of the second attempt; `None` if the first one has not ended because of the budget, or nothing is left.
    fn second(&self, usage: &Usage, duration: Duration) -> Option<Limits> {
        let used = usage.cpu_time.filter(|used| *used > self.budget && !usage.has_effects())?;
        let left = |limit: Duration, used| limit.checked_sub(used).filter(|left| !left.is_zero());
        let option = |limit: Option<Duration>| limit.map_or(Some(None), |limit| left(limit, used).map(Some));
        Some(
            self.limits
                .timeout(left(self.limits.timeout, duration)?)
                .cpu_time(option(self.limits.cpu_time)?)
                .cpu_time_before_calls(option(self.limits.cpu_time_before_calls)?),
        )
    }
}

/// The usage of both attempts. Only the second one had effects.
fn together(first: &Usage, second: Usage) -> Usage {
    let sum = |first: Option<Duration>, second: Option<Duration>| {
        first.into_iter().chain(second).reduce(Duration::saturating_add)
    };
    second
        .cpu_time(sum(first.cpu_time, second.cpu_time))
        .host_wait(sum(first.host_wait, second.host_wait))
        .peak_memory_bytes(first.peak_memory_bytes.max(second.peak_memory_bytes))
        .peak_host_memory_bytes(first.peak_host_memory_bytes.max(second.peak_host_memory_bytes))
}

/// Changes the message of a limit on time that the second attempt has reached: instead of what was left for it, the message
/// names the limit that the caller set and what both attempts used. Keeps a message that says more than the cause, such as one
/// of a runner that has limits of its own.
fn name_whole_limit(
    (message, cause): (&mut String, &mut Option<Box<Cause>>),
    plan: &Plan,
    (usage, duration): (&Usage, Duration),
    render: impl Fn(&ReachedLimit) -> String,
) {
    let Some(Cause::Limit(limit)) = cause.as_deref_mut() else { return };
    let is_plain = *message == render(limit);
    let whole = match limit.limit {
        "timeoutMs" => Some(plan.limits.timeout).zip(Some(duration)),
        "cpuTimeMs" => plan.limits.cpu_time.zip(usage.cpu_time),
        "cpuTimeBeforeCallsMs" => plan.limits.cpu_time_before_calls.zip(usage.cpu_time),
        _ => None,
    };
    if let Some((allowed, before)) = whole.filter(|_| is_plain) {
        limit.allowed = Amount::Time(allowed);
        if let Some(Amount::Time(used)) = &mut limit.used {
            *used += before;
        }
        *message = render(limit);
    }
}

/// Passes the events of a first attempt on. Log lines are held back until it is certain that the attempt is the last one.
#[derive(Clone)]
struct Held {
    observation: Observation,
    /// `None` after the lines were released.
    logs: Arc<Mutex<Option<Vec<HeldLog>>>>,
}

enum HeldLog {
    Line(LogLine),
    Entry(CodeExecutionLog),
}

impl Held {
    fn new(observation: &Observation) -> Self {
        Self { observation: observation.clone(), logs: Arc::new(Mutex::new(Some(Vec::new()))) }
    }

    /// Receives the events of the attempt.
    fn observer(&self) -> Observer {
        let held = self.clone();
        Observer::new(move |event| {
            match event.kind {
                EventKind::Log(log) if held.hold(log) => return,
                EventKind::Log(_) | EventKind::Started => {}
                _ => held.release(), // The attempt has an effect.
            }
            held.observation.emit(event.kind);
        })
    }

    /// Whether the line is held back.
    fn hold(&self, log: LogEntry<'_>) -> bool {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(logs) = &mut *logs else { return false };
        logs.push(match log {
            LogEntry::Line(line) => HeldLog::Line(line.clone()),
            LogEntry::ConsoleCall(entry) => HeldLog::Entry(entry.clone()),
        });
        true
    }

    /// Passes on what was held back, and every later line at once.
    fn release(&self) {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner).take();
        for log in logs.iter().flatten() {
            self.observation.emit(EventKind::Log(match log {
                HeldLog::Line(line) => LogEntry::Line(line),
                HeldLog::Entry(entry) => LogEntry::ConsoleCall(entry),
            }));
        }
    }
}

impl Executor for FallbackExecutor {
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(self.run(request))
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let plan = Plan::new(&options.effective_limits(), self.budget);
        let (Some(plan), Some(attempt)) = (plan, options.try_clone()) else {
            return self.first.run_code(source, options);
        };
        let (executors, source, span) = (self.clone(), source.to_owned(), options.observers().begin());
        let observers = options.observers().for_attempt(&span);
        let held = Held::new(span.observation());
        let first =
            attempt.with_exact_limits(plan.first).with_observers(observers.clone().replaced_by(held.observer()));
        let options = options.with_observers(observers);
        let cancellation = options.cancellation_ref().clone();
        CodeExecution::relay(plan.limits, &cancellation, span, async move |relay| {
            let first = relay.run(|| executors.first.run_code(&source, first)).await;
            let is_stopped = first.status == Status::Terminated && !relay.is_terminated();
            let Some(limits) = plan.second(&first.usage, first.duration).filter(|_| is_stopped) else {
                held.release();
                return first;
            };
            let mut second = relay.run(|| executors.second.run_code(&source, options.with_exact_limits(limits))).await;
            second.usage = together(&first.usage, second.usage);
            second.duration += first.duration;
            if let Some(error) = &mut second.error {
                let render = |limit: &ReachedLimit| {
                    let timeout = limit.as_timeout().unwrap_or_default();
                    let stop = limit.as_cpu_time().map_or(Stop::TimedOut, Stop::Limit);
                    stop.failure(&plan.limits.timeout(timeout)).error.message
                };
                let used = (&first.usage, first.duration);
                name_whole_limit((&mut error.message, &mut error.cause), &plan, used, render);
            }
            second
        })
    }

    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(async move { try_join(self.first.prewarm(count), self.second.prewarm(count)).await.map(drop) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::join!(self.first.close(), self.second.close());
        })
    }

    /// Tests both executors. The jail is that of the second one.
    fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
        Box::pin(async {
            let (first, second) = (self.first.self_test().await, self.second.self_test().await);
            SelfTestReport { checks: [first.checks, second.checks].concat(), jail: second.jail }
        })
    }
}

impl fmt::Debug for FallbackExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackExecutor").field("budget", &self.budget).finish_non_exhaustive()
    }
}
