//! The script contract, from the host's side.
//!
//! An execution has one log. Lines are added when a `log` message arrives, if the host asked for that; `done` adds the rest,
//! so none is added twice. Each line is cut to the limits as it is added.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use super::checks::{PendingCalls, can_contain, checked_calls, session_budget, too_early};
use super::{End, HostContract, HostOptions, HostSession, Misbehavior, Output, Received};
use crate::budget::{Budget, Charge};
use crate::cause::Cause;
use crate::contract::script::{ToolCall, source_bytes, tool_result};
use crate::contract::stop::Stop;
use crate::engine::{CallId, LogLevel, LogLine};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, SCRIPT_NAME};
use crate::language::Position;
use crate::logs::LogLimiter;
use crate::manifest::ProviderManifest;
use crate::program::Limits;
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::script::{self, Done, Execute, Started, ToolResult, WireCall, WireLog};
use crate::unawaited::{CallPlace, UnawaitedCalls};
use crate::usage::{LimitError, Usage, UsageLimiter};
use crate::value::{Value, json_cost, json_size};

/// The script contract, from the host's side.
#[derive(Debug)]
pub struct ScriptHost {
    id: String,
    limits: Limits,
    providers: Vec<Arc<ProviderManifest>>,
    /// The lengths of the sources, by file.
    sources: HashMap<String, usize>,
    /// The script has functions, and the runner has not confirmed yet that it supports them.
    lacks_functions: bool,
    /// How many tools were called.
    calls: u64,
    /// The calls that are not answered, by the number that the driver knows them by.
    pending: PendingCalls<PendingCall>,
    call_ids: CallIds,
    budget: Budget,
    usage: UsageLimiter,
    /// The codes of errors that this host answered calls with: an uncaught one may end the guest.
    failures: HashSet<ErrorCode>,
    log: Log,
}

/// A call that is not answered.
#[derive(Debug)]
struct PendingCall {
    call_id: String,
    /// The index of the provider in the request, and of the tool in the provider.
    tool: (usize, usize),
}

impl HostSession<ScriptHost> {
    /// Starts an execution.
    pub fn script(execute: Execute, options: HostOptions, now: Duration) -> Self {
        let budget = session_budget(&execute.limits);
        let script = (SCRIPT_NAME.to_owned(), execute.code.len());
        let functions = execute.functions.iter();
        let contract = ScriptHost {
            id: execute.id.clone(),
            limits: execute.limits,
            providers: execute.providers.clone(),
            sources: functions.map(|function| (function.file(), function.code.len())).chain([script]).collect(),
            lacks_functions: !execute.functions.is_empty(),
            calls: 0,
            pending: PendingCalls::new(&execute.limits, budget.clone()),
            budget,
            usage: UsageLimiter::new(&execute.limits, source_bytes(&execute.code, &execute.functions)),
            call_ids: CallIds::default(),
            failures: HashSet::new(),
            log: Log {
                is_streamed: execute.stream_logs,
                limiter: LogLimiter::new(&execute.limits),
                streamed: 0,
                lines: Vec::new(),
            },
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

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn receive(&mut self, message: RunnerMessage, is_running: bool) -> Result<Received<Self>, Misbehavior> {
        let output = match message {
            RunnerMessage::Started(Started { id, functions: true }) if id == self.id => {
                self.lacks_functions = false;
                None
            }
            message if self.lacks_functions && self.is_of_script(&message) => return Err(Misbehavior::NoFunctions),
            RunnerMessage::ToolCall(call) if is_running => return self.call(call),
            RunnerMessage::Log(WireLog { id, line }) if id == self.id && self.log.is_streamed => {
                self.log.streamed += 1;
                self.log.add(&line).map(Output::Notify)
            }
            RunnerMessage::Done(Done { id, result, .. }) if id == self.id => return Ok(Received::Done(result)),
            _ => None,
        };
        Ok(output.map_or(Received::Nothing, Received::Output))
    }

    fn settle(&mut self, call: CallId, answer: Self::Answer) -> Result<Option<HostMessage>, LimitError> {
        let Some(PendingCall { call_id, .. }) = self.pending.remove(call) else { return Ok(None) };
        self.call_ids.settle(call_id.clone());
        let result = answer.and_then(|result| tool_result(result.as_ref()));
        self.usage.answer(result.as_ref().map_or_else(|error| error.message.len(), |value| value.as_bytes().len()))?;
        Ok(Some(self.answer(call_id, result)))
    }

    /// A `callId` that fills a line by itself is not answered.
    fn shortened(&mut self, message: HostMessage, error: TooLong) -> Option<HostMessage> {
        let HostMessage::ToolResult(ToolResult { call_id, result }) = message else { return None };
        let shortened = script::shortened(&result, "tool result", error)?;
        Some(self.answer(call_id, Err(shortened)))
    }

    fn finish(&mut self, end: End<Self>, elapsed: Duration) -> (Vec<LogLine>, ExecuteResult) {
        let failed = |error| ExecuteResult::failed(error, elapsed);
        let ExecuteResult { outcome, logs, dropped_logs, unawaited, duration, usage: reported } = match end {
            End::Done(result) => ExecuteResult {
                outcome: self.checked(result.outcome, elapsed),
                duration: result.duration.min(elapsed),
                ..result
            },
            // The runner may have begun late, so its time can be shorter than the timeout.
            End::Stopped(stop, Some(result)) => {
                ExecuteResult { outcome: Err(stop.execute_error(&self.limits)), duration: elapsed, ..result }
            }
            End::Stopped(stop, None) => failed(stop.execute_error(&self.limits)),
            End::OutOfMemory => failed(Stop::OutOfMemory.execute_error(&self.limits)),
            End::Failed(failure) => failed(ExecuteError::internal(failure)),
        };
        let unawaited = unawaited.and_then(|calls| self.checked_calls(calls)).or_else(|| self.unanswered());
        let peak_host_memory_bytes = Some(self.budget.peak() as u64);
        let usage = Usage { peak_host_memory_bytes, ..self.usage.usage() };
        let usage = usage.with_reported(&reported, &self.limits, elapsed);
        let mut notices = Vec::new();
        for text in logs.into_iter().skip(self.log.streamed) {
            let line = self.log.add(&LogLine { level: LogLevel::Log, text });
            notices.extend(line.filter(|_| self.log.is_streamed));
        }
        let dropped_logs = dropped_logs.saturating_add(self.log.limiter.dropped());
        let logs = std::mem::take(&mut self.log.lines);
        (notices, ExecuteResult { outcome, logs, dropped_logs, unawaited, duration, usage })
    }

    fn makes_runner_untrusted(result: &ExecuteResult) -> bool {
        result.error().is_some_and(|error| matches!(error.code, ErrorCode::Timeout | ErrorCode::InternalError))
    }
}

impl ScriptHost {
    fn call(&mut self, call: WireCall) -> Result<Received<Self>, Misbehavior> {
        if !self.call_ids.insert(call.call_id.clone()) {
            return Err(Misbehavior::DuplicateCall(call.call_id));
        }
        let Some((provider, tool)) = self.index_of(&call.provider_name, &call.safe_tool_name) else {
            let WireCall { call_id, provider_name, safe_tool_name, .. } = call;
            let error = ExecuteError::internal(format!("unknown tool {provider_name}.{safe_tool_name}"));
            self.call_ids.settle(call_id.clone());
            return Ok(Received::Output(Output::Send(self.answer(call_id, Err(error)))));
        };
        if let Err(error) = self.usage.call(call.input.as_ref().map_or(0, json_size)) {
            return Ok(Received::Limit(error));
        }
        let id = CallId(self.calls + 1);
        let pending = PendingCall { call_id: call.call_id, tool: (provider, tool) };
        self.pending.insert(id, pending, call.input.as_ref().map_or(0, json_cost))?;
        self.calls += 1;
        Ok(Received::Output(Output::Call(ToolCall { id, provider, tool, input: call.input, charge: Charge::none() })))
    }

    /// Whether a message shows that the script runs, or ran.
    fn is_of_script(&self, message: &RunnerMessage) -> bool {
        match message {
            RunnerMessage::Started(Started { id, .. }) => *id == self.id,
            RunnerMessage::Done(Done { id, result, .. }) => *id == self.id && result.is_ok(),
            RunnerMessage::ToolCall(_) => true,
            _ => false,
        }
    }

    /// The index of the provider of that name, and of its tool.
    fn index_of(&self, provider: &str, tool: &str) -> Option<(usize, usize)> {
        let provider = self.providers.iter().position(|known| known.name == provider)?;
        let tools = &self.providers[provider].tools;
        Some((provider, tools.iter().position(|known| known.safe_name == tool)?))
    }

    fn answer(&mut self, call_id: String, result: Result<Value, ExecuteError>) -> HostMessage {
        self.failures.extend(result.as_ref().err().map(|error| error.code));
        HostMessage::ToolResult(ToolResult { call_id, result })
    }

    /// An outcome of the runner with its claims checked. A result counts towards the limit on what is sent.
    fn checked(
        &mut self,
        outcome: Result<Option<Json>, ExecuteError>,
        elapsed: Duration,
    ) -> Result<Option<Json>, ExecuteError> {
        let result = outcome.map_err(|error| self.checked_error(error, elapsed))?;
        let sent = self.usage.output(result.as_ref().map_or(0, json_size));
        sent.map(|()| result).map_err(|error| Stop::Limit(error).execute_error(&self.limits))
    }

    /// What a runner reports of unawaited calls; `None` if it cannot be.
    fn checked_calls(&self, calls: UnawaitedCalls) -> Option<UnawaitedCalls> {
        let has_tool = |call: &CallPlace| self.index_of(&call.provider, &call.tool).is_some();
        checked_calls(calls, self.calls, has_tool, |at| self.contains(&at.file, at.position()))
    }

    /// The calls that this host has not answered.
    fn unanswered(&self) -> Option<UnawaitedCalls> {
        let places = self.pending.kept().map(|call| {
            let manifest = &self.providers[call.tool.0];
            let (provider, tool) = (manifest.name.clone(), manifest.tools[call.tool.1].safe_name.clone());
            CallPlace { provider, tool, at: None, calls: 1 }
        });
        UnawaitedCalls::new(0, self.pending.len() as u64, places)
    }

    /// Whether a file of the script has that position.
    fn contains(&self, file: &str, at: Position) -> bool {
        self.sources.get(file).is_some_and(|&len| can_contain(len, at))
    }

    /// Only a call that this host failed can end a guest with the code of a failed tool, only a limit can end it with
    /// `timeout`, positions must be in the code, and the cause must be possible.
    fn checked_error(&self, mut error: ExecuteError, elapsed: Duration) -> ExecuteError {
        error.cause = error.cause.take().filter(|cause| self.is_possible(cause, error.code));
        error.position = error.position.filter(|at| self.contains(SCRIPT_NAME, *at));
        error.stack.retain(|frame| self.contains(&frame.file, frame.position()));
        match error.code {
            ErrorCode::ToolError | ErrorCode::ValidationError if !self.failures.contains(&error.code) => {
                ExecuteError { code: ErrorCode::RuntimeError, ..error }
            }
            ErrorCode::Timeout => match too_early(&self.limits, &self.usage.usage(), elapsed) {
                Some(early) => ExecuteError::internal(format!("{early}: {}", error.message)),
                None => error,
            },
            _ => error,
        }
    }
}

impl ScriptHost {
    /// Whether a program can have ended with this code for this cause.
    fn is_possible(&self, cause: &Cause, code: ErrorCode) -> bool {
        match cause {
            Cause::FailedCall { call, provider, tool } => {
                let has_tool = |manifest: &ProviderManifest| manifest.tools.iter().any(|it| it.safe_name == *tool);
                let mut named = self.providers.iter().filter(|manifest| manifest.name == *provider);
                self.failures.contains(&code)
                    && (1..=self.calls).contains(&call.0)
                    && named.any(|manifest| has_tool(manifest))
            }
            Cause::Limit(_) => matches!(code, ErrorCode::Timeout | ErrorCode::MemoryLimit),
            Cause::Cancelled { .. } => code == ErrorCode::Timeout,
            Cause::Stuck | Cause::NotDefined { .. } | Cause::NotAFunction { .. } | Cause::PropertyOfNothing { .. } => {
                code == ErrorCode::RuntimeError
            }
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
    /// Adds an id. Returns false if it must not be used again.
    fn insert(&mut self, call_id: String) -> bool {
        self.known.insert(call_id)
    }

    /// Moves the id of a call that is no longer pending to `settled`.
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
    /// How many lines have arrived in `log` messages. The lines of `done` begin with them.
    streamed: usize,
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
