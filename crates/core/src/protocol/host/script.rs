//! The script contract, from the host's side.
//!
//! An execution has one log. Lines are added when a `log` message arrives, if the host asked for that; `done` adds the rest,
//! so none is added twice. Each line is cut to the limits as it is added.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use super::checks::{PendingCalls, can_contain, too_early};
use super::{End, HostContract, HostOptions, HostSession, Misbehaviour, Output, Received};
use crate::contract::script::{ToolCall, tool_result};
use crate::engine::{CallId, LogLevel, LogLine};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, SCRIPT_NAME};
use crate::logs::LogLimiter;
use crate::manifest::ProviderManifest;
use crate::program::Limits;
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::script::{self, Done, Execute, ToolResult, WireCall, WireLog};
use crate::value::MAX_JSON_DEPTH;

/// See the [module](self).
#[derive(Debug)]
pub struct ScriptHost {
    id: String,
    limits: Limits,
    providers: Vec<Arc<ProviderManifest>>,
    code_len: usize,
    /// How many tools were called.
    calls: u64,
    /// The `callId`s of calls that are not answered, by the number that the driver knows them by.
    pending: PendingCalls<String>,
    call_ids: CallIds,
    /// The codes of errors that this host answered calls with: an uncaught one may end the guest.
    failures: HashSet<ErrorCode>,
    log: Log,
}

impl HostSession<ScriptHost> {
    /// Starts an execution.
    pub fn script(execute: Execute, options: HostOptions, now: Duration) -> Self {
        let contract = ScriptHost {
            id: execute.id.clone(),
            limits: execute.limits,
            providers: execute.providers.clone(),
            code_len: execute.code.len(),
            calls: 0,
            // As JSON, what values share is repeated.
            pending: PendingCalls::new(&execute.limits, 4),
            call_ids: CallIds::default(),
            failures: HashSet::new(),
            log: Log { is_streamed: execute.stream_logs, limiter: LogLimiter::new(&execute.limits), lines: Vec::new() },
        };
        Self::start(contract, HostMessage::Execute(execute), options, now)
    }
}

impl HostContract for ScriptHost {
    type Call = ToolCall;
    type Notice = LogLine;
    type Pending = CallId;
    type Answer = Result<Option<Json>, ExecuteError>;
    type Done = ExecuteResult;
    type Outcome = ExecuteResult;

    const NEEDS_HELLO: bool = false;

    fn id(&self) -> &str {
        &self.id
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn receive(&mut self, message: RunnerMessage, is_running: bool) -> Result<Received<Self>, Misbehaviour> {
        let output = match message {
            RunnerMessage::ToolCall(call) if is_running => Some(self.call(call)?),
            RunnerMessage::Log(WireLog { id, line }) if id == self.id && self.log.is_streamed => {
                self.log.add(&line).map(Output::Notify)
            }
            RunnerMessage::Done(Done { id, result }) if id == self.id => return Ok(Received::Done(result)),
            _ => None,
        };
        Ok(output.map_or(Received::Nothing, Received::Output))
    }

    fn settle(&mut self, call: CallId, result: Result<Option<Json>, ExecuteError>) -> Option<HostMessage> {
        let call_id = self.pending.remove(call)?;
        self.call_ids.settle(call_id.clone());
        Some(self.answer(call_id, transportable(result)))
    }

    /// A `callId` that fills a line by itself is not answered.
    fn shortened(&mut self, message: HostMessage, error: TooLong) -> Option<HostMessage> {
        let HostMessage::ToolResult(ToolResult { call_id, result }) = message else { return None };
        let shortened = script::shortened(&result, "tool result", error)?;
        Some(self.answer(call_id, Err(shortened)))
    }

    fn finish(&mut self, end: End<Self>, elapsed: Duration) -> (Vec<LogLine>, ExecuteResult) {
        let (outcome, logs, duration) = match end {
            End::Done(ExecuteResult { outcome, logs, duration }) => {
                (outcome.map_err(|error| self.checked(error, elapsed)), logs, duration.min(elapsed))
            }
            End::Stopped(stop, Some(ExecuteResult { logs, duration, .. })) => {
                (Err(stop.execute_error(&self.limits)), logs, duration.min(elapsed))
            }
            End::Stopped(stop, None) => (Err(stop.execute_error(&self.limits)), Vec::new(), elapsed),
            End::Failed(failure) => (Err(ExecuteError::internal(failure)), Vec::new(), elapsed),
        };
        let streamed = self.log.lines.len();
        let rest = logs.into_iter().skip(streamed).take(self.limits.max_log_lines);
        let rest = rest.filter_map(|text| self.log.add(&LogLine { level: LogLevel::Log, text }));
        let rest = rest.collect::<Vec<_>>();
        let notices = if self.log.is_streamed { rest } else { Vec::new() };
        (notices, ExecuteResult { outcome, logs: std::mem::take(&mut self.log.lines), duration })
    }

    fn leaves_doubt(result: &ExecuteResult) -> bool {
        result.error().is_some_and(|error| matches!(error.code, ErrorCode::Timeout | ErrorCode::InternalError))
    }
}

impl ScriptHost {
    fn call(&mut self, call: WireCall) -> Result<Output<Self>, Misbehaviour> {
        if !self.call_ids.insert(call.call_id.clone()) {
            return Err(Misbehaviour::DuplicateCall(call.call_id));
        }
        let Some((provider, tool)) = self.find(&call) else {
            let WireCall { call_id, provider_name, safe_tool_name, .. } = call;
            let error = ExecuteError::internal(format!("unknown tool {provider_name}.{safe_tool_name}"));
            self.call_ids.settle(call_id.clone());
            return Ok(Output::Send(self.answer(call_id, Err(error))));
        };
        let id = CallId(self.calls + 1);
        self.pending.insert(id, call.call_id, call.input.as_ref().map_or(0, weight))?;
        self.calls += 1;
        Ok(Output::Call(ToolCall { id, provider, tool, input: call.input }))
    }

    /// The index of the provider that a call names, and of its tool.
    fn find(&self, call: &WireCall) -> Option<(usize, usize)> {
        let provider = self.providers.iter().position(|provider| provider.name == call.provider_name)?;
        let tools = &self.providers[provider].tools;
        Some((provider, tools.iter().position(|tool| tool.safe_name == call.safe_tool_name)?))
    }

    fn answer(&mut self, call_id: String, result: Result<Option<Json>, ExecuteError>) -> HostMessage {
        self.failures.extend(result.as_ref().err().map(|error| error.code));
        HostMessage::ToolResult(ToolResult { call_id, result })
    }

    /// An error of the runner with its claims checked: only a call that this host failed can end a guest with the code of
    /// a failed tool, only time can end it with `timeout`, and positions must be in the code.
    fn checked(&self, mut error: ExecuteError, elapsed: Duration) -> ExecuteError {
        error.position = error.position.filter(|at| can_contain(self.code_len, *at));
        error.stack.retain(|frame| frame.file == SCRIPT_NAME && can_contain(self.code_len, frame.position()));
        match error.code {
            ErrorCode::ToolError | ErrorCode::ValidationError if !self.failures.contains(&error.code) => {
                ExecuteError { code: ErrorCode::RuntimeError, ..error }
            }
            ErrorCode::Timeout => match too_early(self.limits.timeout, elapsed) {
                Some(early) => ExecuteError::internal(format!("{early}: {}", error.message)),
                None => error,
            },
            _ => error,
        }
    }
}

/// The `callId`s that must not be used again: those of pending calls, and of the last [`MAX_SETTLED_IDS`] others.
#[derive(Debug, Default)]
struct CallIds {
    known: HashSet<String>,
    /// Ids of calls that are not pending, the oldest first.
    settled: VecDeque<String>,
}

const MAX_SETTLED_IDS: usize = 1024;

impl CallIds {
    /// Whether the id is new.
    fn insert(&mut self, call_id: String) -> bool {
        self.known.insert(call_id)
    }

    /// The call is not pending any more.
    fn settle(&mut self, call_id: String) {
        self.settled.push_back(call_id);
        if self.settled.len() > MAX_SETTLED_IDS
            && let Some(oldest) = self.settled.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// The log of one execution so far.
#[derive(Debug)]
struct Log {
    /// The host asked for `log` messages.
    is_streamed: bool,
    limiter: LogLimiter,
    lines: Vec<String>,
}

impl Log {
    /// Adds a line; returns it as far as it is kept.
    fn add(&mut self, line: &LogLine) -> Option<LogLine> {
        let line = self.limiter.line(line.level, line.text.as_bytes())?;
        self.lines.push(line.text.clone());
        Some(line)
    }
}

/// About how many bytes a JSON value takes as text. The values come from lines, which bounds their depth.
fn weight(json: &Json) -> usize {
    const EACH: usize = 8;
    match json {
        Json::String(text) => EACH + text.len(),
        Json::Array(items) => items.iter().map(weight).sum::<usize>() + EACH,
        Json::Object(members) => members.iter().map(|(key, member)| key.len() + weight(member)).sum::<usize>() + EACH,
        _ => EACH,
    }
}

/// "Non-serializable host values are rejected before they are sent": a runner could not read a value that nests too deep.
/// The error is the same as in the inline executor.
fn transportable(result: Result<Option<Json>, ExecuteError>) -> Result<Option<Json>, ExecuteError> {
    match &result {
        Ok(Some(json)) if nests_deeper(json, MAX_JSON_DEPTH) => tool_result(Some(json)).map(|_| None),
        _ => result,
    }
}

fn nests_deeper(json: &Json, levels: usize) -> bool {
    match json {
        Json::Array(_) | Json::Object(_) if levels == 0 => true,
        Json::Array(items) => items.iter().any(|item| nests_deeper(item, levels - 1)),
        Json::Object(members) => members.values().any(|member| nests_deeper(member, levels - 1)),
        _ => false,
    }
}
