//! The script contract, from the runner's side.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Accepted, RunnerContract, Source};
use crate::budget::Charge;
use crate::contract::script::{Request, Script, ToolCall};
use crate::contract::stop::Stop;
use crate::contract::{Action, Contract, Request as _};
use crate::engine::{CallId, Event, Outcome, Pending, Settlement};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult};
use crate::execution::{self, CompileFailure, CompileTimer, Execution};
use crate::language::Language;
use crate::manifest::ProviderManifest;
use crate::program::{Limits, Program};
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::script::{
    Done, Execute, MAX_REPEATED_LOG_BYTES, ToolResult, WireCall, WireLog, cut_line, shortened,
};
use crate::usage::UsageLimiter;

/// The code of an `execute` message.
pub(super) struct ScriptSource {
    request: Request,
    streams_logs: bool,
    calls: Arc<AtomicU64>,
}

impl ScriptSource {
    /// The id of the execution, and its code. `calls` counts the calls of all scripts on a connection.
    pub(super) fn new(execute: Execute, calls: &Arc<AtomicU64>) -> (String, Self) {
        let Execute { id, code, limits, providers, stream_logs: streams_logs } = execute;
        let request = Request { code, providers, limits };
        (id, Self { request, streams_logs, calls: Arc::clone(calls) })
    }
}

impl Source for ScriptSource {
    fn limits_mut(&mut self) -> &mut Limits {
        &mut self.request.limits
    }

    fn source_bytes(&self) -> usize {
        self.request.source_bytes()
    }

    fn longest_source(&self) -> usize {
        self.request.code.len()
    }

    fn start(
        self: Box<Self>,
        accepted: Accepted,
        language: &dyn Language,
        timer: &CompileTimer<'_>,
    ) -> Result<(Program, Execution<RunnerContract>), Box<RunnerMessage>> {
        let Self { request, streams_logs, calls } = *self;
        let (providers, limits, clock) = (request.providers.clone(), request.limits, accepted.clock.clone());
        match execution::compile(request, language, &clock, timer) {
            Ok((program, script)) => {
                let (pending, streamed_bytes) = (HashMap::new(), 0);
                let runner = ScriptRunner { accepted, script, providers, pending, calls, streams_logs, streamed_bytes };
                Ok((program, Execution::new(Box::new(runner), clock)))
            }
            Err(CompileFailure::Stopped(stop)) => Err(Box::new(stopped(&accepted, &stop, &limits, (timer.now)()))),
            Err(CompileFailure::Invalid(mut error)) => {
                error.message += accepted.note_about_sources();
                Err(Box::new(done(&accepted, ExecuteResult::failed(error, clock.elapsed((timer.now)())))))
            }
        }
    }

    fn stopped(&self, accepted: &Accepted, stop: &Stop, now: Duration) -> RunnerMessage {
        stopped(accepted, stop, &self.request.limits, now)
    }
}

/// A running script, whose calls and log lines are messages.
struct ScriptRunner {
    accepted: Accepted,
    script: Script,
    providers: Vec<Arc<ProviderManifest>>,
    /// Calls that the host has not answered, by `callId`.
    pending: HashMap<String, (CallId, Charge)>,
    /// How many calls scripts have made on the connection. A `callId` is never used twice, so that a late answer cannot settle
    /// a call of a later execution.
    calls: Arc<AtomicU64>,
    /// The host asked for `log` messages.
    streams_logs: bool,
    /// How many bytes of lines were sent in them.
    streamed_bytes: usize,
}

impl Contract for ScriptRunner {
    type Call = RunnerMessage;
    type Notice = RunnerMessage;
    type Pending = ();
    type Answer = HostMessage;
    type End = RunnerMessage;

    fn limits(&self) -> &Limits {
        self.script.limits()
    }

    fn usage(&self) -> &UsageLimiter {
        self.script.usage()
    }

    fn usage_mut(&mut self) -> &mut UsageLimiter {
        self.script.usage_mut()
    }

    fn event(
        &mut self,
        event: Event,
        elapsed: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Action<RunnerMessage, RunnerMessage>, Stop> {
        Ok(match self.script.event(event, elapsed, should_stop)? {
            Action::Notify(line) if self.streams_logs => {
                self.streamed_bytes += line.text.len();
                if self.streamed_bytes > MAX_REPEATED_LOG_BYTES {
                    self.script.forget_log();
                }
                Action::Notify(RunnerMessage::Log(WireLog { id: self.accepted.id.clone(), line }))
            }
            Action::Notify(_) | Action::Ignore => Action::Ignore,
            Action::Settle(call, settlement) => Action::Settle(call, settlement),
            Action::Call(call) => Action::Call(RunnerMessage::ToolCall(self.name(call))),
        })
    }

    fn settlement(&mut self, (): (), answer: HostMessage) -> Option<(Pending, Settlement)> {
        let HostMessage::ToolResult(ToolResult { call_id, result }) = answer else { return None };
        let (call, _charge) = self.pending.remove(&call_id)?;
        Some(self.script.settle(call, result))
    }

    fn stuck(&self) -> Option<Stop> {
        self.script.stuck()
    }

    fn finish(&mut self, end: Result<Outcome, Stop>, duration: Duration) -> RunnerMessage {
        let is_cancelled = matches!(end, Err(Stop::Cancelled(_)));
        let mut result = self.script.finish(end, duration);
        if let Err(error) = &mut result.outcome
            && matches!(error.code, ErrorCode::Timeout | ErrorCode::MemoryLimit | ErrorCode::SerializationError)
            && !is_cancelled
        {
            error.message += &self.accepted.note;
        }
        done(&self.accepted, result)
    }
}

impl ScriptRunner {
    /// Names a call for the host.
    fn name(&mut self, call: ToolCall) -> WireCall {
        let call_id = CallId(self.calls.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        self.pending.insert(call_id.clone(), (call.id, call.charge));
        let provider = &self.providers[call.provider];
        WireCall {
            call_id,
            provider_name: provider.name.clone(),
            safe_tool_name: provider.tools[call.tool].safe_name.clone(),
            input: call.input,
        }
    }
}

/// The last message of an execution.
fn done(accepted: &Accepted, result: ExecuteResult) -> RunnerMessage {
    RunnerMessage::Done(Done { id: accepted.id.clone(), result })
}

/// That of one that was stopped before it was started.
fn stopped(accepted: &Accepted, stop: &Stop, limits: &Limits, now: Duration) -> RunnerMessage {
    let mut error = stop.execute_error(limits);
    error.message += accepted.note_about(stop);
    done(accepted, ExecuteResult::failed(error, accepted.clock.elapsed(now)))
}

/// Rejects an `execute` message.
pub(super) fn rejected(id: String, why: &str) -> RunnerMessage {
    RunnerMessage::Done(Done { id, result: ExecuteResult::failed(ExecuteError::internal(why), Duration::ZERO) })
}

/// What to send instead of a `log` that is too long: a shorter line; `None` if there is none.
pub(super) fn shorter_log(mut log: WireLog, too_long: TooLong) -> Option<RunnerMessage> {
    cut_line(&mut log.line, too_long).then_some(RunnerMessage::Log(log))
}

/// What to send instead of a `done` that is too long: the next part of the result is left out. `None` if nothing is left.
pub(super) fn shorter_done(mut done: Done, too_long: TooLong) -> Option<RunnerMessage> {
    let result = &mut done.result;
    if result.outcome.is_err() && !result.logs.is_empty() {
        result.logs.clear();
    } else {
        result.outcome = Err(shortened(&result.outcome, "result", too_long)?);
    }
    Some(RunnerMessage::Done(done))
}
