//! The inline executor: the guest runs in this process, on the task that awaits it.
//!
//! A driver of the machine in `execbox_core::engine`: poll the guest, carry its events out, answers
//! in, look at the clock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use execbox_core::contract::script::{Action, Script};
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Engine, Event, Guest, Outcome, Pending, Turn};
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::language::Language;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::code::{self, CodeExecution, CodeExecutionOptions};
use crate::executor::{ExecuteRequest, Executor};
use crate::session::parts::Parts;
use crate::session::turns::Turns;
use crate::tools::dispatch::ToolCalls;

/// Runs guests in this process, each on the task that awaits it.
///
/// A guest that computes gives its thread back every two milliseconds, and other tasks, timers and sockets have their turn
/// before it or another guest goes on. Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct InlineExecutor {
    parts: Parts,
}

impl InlineExecutor {
    /// Creates an executor with QuickJS, which accepts TypeScript. All of them in a process share one engine.
    ///
    /// # Errors
    /// The engine does not load.
    #[cfg(feature = "standard")]
    pub fn new() -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self { parts: Parts::standard()? })
    }

    /// Creates an executor with another engine and language.
    pub fn with_engine(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Self {
        Self { parts: Parts { engine, language } }
    }

    async fn run(&self, execution: ExecuteRequest) -> ExecuteResult {
        let accepted = Instant::now();
        if tokio::runtime::Handle::try_current().is_err() {
            let error = ExecuteError::internal("the inline executor needs a tokio runtime with time enabled");
            return ExecuteResult::failed(error, accepted.elapsed());
        }
        let stopped = || stop_reason(&execution, accepted);
        let (parts, limits) = (&self.parts, execution.limits);
        let should_stop = || stopped().is_some();
        let started = Script::start(&*parts.language, &execution.code, &execution.providers, limits, &should_stop);
        let (program, script) = match started {
            Ok(started) => started,
            Err(error) => {
                let error = stopped().map_or(error, |stop| stop.execute_error(&limits));
                return ExecuteResult::failed(error, accepted.elapsed());
            }
        };
        let guest = match self.parts.engine.start(program) {
            Ok(guest) => guest,
            Err(error) => return ExecuteResult::failed(ExecuteError::internal(error.to_string()), accepted.elapsed()),
        };
        Run::new(guest, script, execution, accepted).drive().await
    }
}

/// Why an execution that is not started yet has to end, if it has to.
fn stop_reason(execution: &ExecuteRequest, accepted: Instant) -> Option<Stop> {
    if execution.cancellation.as_ref().is_some_and(CancellationToken::is_cancelled) {
        return Some(Stop::Cancelled(None));
    }
    (accepted.elapsed() >= execution.limits.timeout).then_some(Stop::TimedOut { stuck: false })
}

impl Executor for InlineExecutor {
    fn execute(&self, execution: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(self.run(execution))
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let parts = self.parts.clone();
        code::Run::begin(source, options, |request, run| code::drive(parts, request, run))
    }

    /// Executes an empty script once, whatever the `count`: there is one engine.
    fn prewarm(&self, _count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(async { self.run(ExecuteRequest::new("")).await.outcome.map(drop) })
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl std::fmt::Debug for InlineExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineExecutor").field("engine", &self.parts.engine.name()).finish_non_exhaustive()
    }
}

/// One execution under way.
struct Run {
    guest: Box<dyn Guest>,
    turns: Turns,
    script: Script,
    execution: ExecuteRequest,
    accepted: Instant,
    /// Cancelled when the run is over, however it ends; also when it is dropped.
    calls: ToolCalls,
    events: Vec<Event>,
    /// The guest stands and waits for answers.
    waiting: bool,
}

/// How a run ends: by itself, or stopped.
enum End {
    Done(Outcome),
    Stopped(Stop),
}

impl Run {
    fn new(guest: Box<dyn Guest>, script: Script, execution: ExecuteRequest, accepted: Instant) -> Self {
        let calls = ToolCalls::new(execution.on_call.clone(), execution.cancellation.as_ref());
        let turns = Turns::new();
        Self { guest, turns, script, execution, accepted, calls, events: Vec::new(), waiting: false }
    }

    async fn drive(mut self) -> ExecuteResult {
        let cancellation = self.execution.cancellation.take();
        let mut cancelled = pin!(OptionFuture::from(cancellation.as_ref().map(CancellationToken::cancelled)));
        // A timeout too long to be a time is none.
        let deadline = self.accepted.checked_add(self.execution.limits.timeout);
        let mut time_up = pin!(OptionFuture::from(deadline.map(tokio::time::sleep_until)));
        let end = poll_fn(|cx| {
            if let Poll::Ready(Some(())) = cancelled.as_mut().poll(cx) {
                return Poll::Ready(End::Stopped(Stop::Cancelled(None)));
            }
            // Timers count whole milliseconds; no time at all must not depend on theirs.
            let no_time = self.execution.limits.timeout.is_zero();
            if no_time || matches!(time_up.as_mut().poll(cx), Poll::Ready(Some(()))) {
                let stuck = self.waiting && self.calls.is_empty();
                return Poll::Ready(End::Stopped(Stop::TimedOut { stuck }));
            }
            self.poll_outcome(cx).map(End::Done)
        })
        .await;
        let duration = self.accepted.elapsed();
        match end {
            End::Done(outcome) => self.script.finish(outcome, duration),
            End::Stopped(stop) => self.script.stopped(&stop, duration),
        }
    }

    /// Lets the guest and its tools go on until neither can.
    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            while let Some((call, result)) = self.calls.poll_finished(cx) {
                self.guest.settle(Pending::Call(call), Script::settlement(result));
            }
            let turn = self.turns.poll(&mut *self.guest, cx);
            self.waiting = matches!(turn, Poll::Ready(Turn::Waiting));
            let moved = self.carry_events_out(cx);
            match turn {
                Poll::Ready(Turn::Done(outcome)) => return Poll::Ready(outcome),
                // It answered calls, or has new ones under way that are yet to be watched.
                Poll::Ready(Turn::Waiting) if moved => {}
                Poll::Ready(Turn::Waiting) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Shows log lines and begins calls. Whether there was a call.
    fn carry_events_out(&mut self, cx: &mut Context<'_>) -> bool {
        let mut events = std::mem::take(&mut self.events);
        self.guest.take_events(&mut events);
        let mut called = false;
        for event in events.drain(..) {
            match self.script.event(event) {
                Action::Show(line) => {
                    if let Some(show) = &self.execution.on_log {
                        show(&line);
                    }
                }
                Action::Settle(call, settlement) => {
                    called = true;
                    self.guest.settle(Pending::Call(call), settlement);
                }
                Action::Ignore => {}
                Action::CallTool(call) => {
                    called = true;
                    if let Some((call, result)) = self.calls.begin(&self.execution.providers, call, cx) {
                        self.guest.settle(Pending::Call(call), Script::settlement(result));
                    }
                }
            }
        }
        self.events = events;
        called
    }
}
