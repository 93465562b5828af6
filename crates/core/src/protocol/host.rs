//! The host's half of a session (protocol reference, "Session Lifecycle" and "Cancellation And Failure
//! Semantics"; runner specification, "Cancellation And Transport Failure").
//!
//! ```text
//!               cancel() · timeout + backstop               done · close · grace is over
//!   Running ─────────────────────────────────► Cancelling ──────────────────────────────► Finished
//!      │ ► CallTool … ► Show …   ► cancel, CancelTools         ► (Terminate) Finished        ▲
//!      └───────────────────── done · close · misbehaviour ────────────────────────────────────┘
//! ```
//!
//! One value is one execution. It knows which calls are whose, when to lose patience, and what an
//! execution comes to. It calls no tool, carries no bytes, and believes a runner nothing that it can
//! check itself: the calls, the time, the logs' limits, and whether a tool ever failed.
//!
//! There is one log. Lines come into it by `log`, if the host asked for that, as the guest logs them, and what is left of
//! them comes with `done`, so none comes twice. Each is cut as it comes in: lines beyond the limits are never kept.
//!
//! `started` says nothing that the result depends on, and the specification only recommends it: a runner
//! may leave it out or repeat it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use super::fields::MessageError;
use super::line::{LineError, TooLong};
use super::message::{HostMessage, RunnerMessage};
use super::script::{self, Cancel, Done, Execute, ToolResult, WireCall, WireLog};
use crate::contract::script::{Script, ToolCall};
use crate::contract::stop::Stop;
use crate::engine::{CallId, LogLevel, LogLine, Settlement};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, SCRIPT_NAME};
use crate::language::Position;
use crate::logs::LogLimiter;
use crate::mailbox::CALL_COST;
use crate::manifest::ProviderManifest;
use crate::program::Limits;
use crate::value::MAX_JSON_DEPTH;

/// How patient a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostOptions {
    /// How long beyond the execution's timeout the runner may take to say so itself. Default 100 ms.
    pub backstop: Duration,
    /// How long after `cancel` the runner may take to be done. Default 25 ms.
    pub cancel_grace: Duration,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { backstop: Duration::from_millis(100), cancel_grace: Duration::from_millis(25) }
    }
}

/// What a driver of a [`HostSession`] has to do, in the order in which it is told.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Send this to the runner.
    Send(HostMessage),
    /// Call this tool, and hand its result to [`HostSession::handle_tool_result`].
    CallTool(ToolCall),
    /// Show this line of the log; told only of executions that [ask](Execute::stream_logs) for it, once for each line.
    Show(LogLine),
    /// Cancel the tools that are under way, at once. May come twice.
    CancelTools,
    /// Close the transport, or kill what is behind it: the runner is not to be used again.
    Terminate,
    /// The execution is over, and this is what it came to. The last output, and the only one of its kind.
    Finished(ExecuteResult),
}

/// How a transport ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Cleanly, between two messages.
    #[error("the runner closed the connection before it was done")]
    Closed,
    /// In the middle of a message.
    #[error("the connection to the runner was cut off in the middle of a message")]
    CutOff,
    /// It broke, and this is what is known about it.
    #[error("the connection to the runner failed: {0}")]
    Failed(String),
}

/// What a runner must not do. Each ends the session with `internal_error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misbehaviour {
    /// A line that is no JSON object.
    #[error("the runner sent what is no message: {0}")]
    Line(#[from] LineError),
    /// A message that is not as specified.
    #[error("the runner sent {0}")]
    Message(#[from] MessageError),
    /// "The runner must not emit a second `tool_call` with the same `callId`": an answer could be for either.
    #[error("the runner sent a second tool_call with callId {0:?}")]
    DuplicateCall(String),
    /// More calls wait for their tools than a guest of these limits can have under way.
    #[error("the runner has more than {0} tool calls under way")]
    TooManyCalls(usize),
    /// The inputs of the calls that wait for their tools take more memory than a guest of these limits has.
    #[error("the inputs of the runner's tool calls under way exceed {0} bytes")]
    TooMuchInput(usize),
    /// A run has said more than its guest could by its memory limit.
    #[error("the runner has said more than a guest of this memory limit can say")]
    TooMuchSaid,
}

impl Misbehaviour {
    /// Whether it is about another execution or run than this.
    pub(super) fn is_of_another(&self, id: &str) -> bool {
        matches!(self, Self::Message(error) if error.session().is_some_and(|other| other != id))
    }
}

/// The host's half: one execution.
///
/// The methods come in families:
/// - getters: [`is_finished`](Self::is_finished), [`is_reusable`](Self::is_reusable),
///   [`next_timeout`](Self::next_timeout), [`close_reason`](Self::close_reason),
///   [`misbehaviour`](Self::misbehaviour);
/// - `handle_*` take in what happened, with the time at which it did;
/// - commands of the caller: [`cancel`](Self::cancel);
/// - [`poll_output`](Self::poll_output) says what to do.
///
/// Poll outputs until there are none, at the beginning and after every `handle_*` and command; then wait
/// for bytes, for a tool, for the caller, or for [`next_timeout`](Self::next_timeout), and hand in which
/// came. What comes after [`Output::Finished`] changes nothing.
#[derive(Debug)]
pub struct HostSession {
    id: String,
    limits: Limits,
    providers: Vec<Arc<ProviderManifest>>,
    options: HostOptions,
    began: Duration,
    state: State,
    calls: Calls,
    /// Codes that this host failed calls with: what a runner may say that a tool ended the guest with.
    failures: HashSet<ErrorCode>,
    code_len: usize,
    log: Log,
    close_reason: Option<CloseReason>,
    misbehaviour: Option<Misbehaviour>,
    reusable: bool,
    outputs: VecDeque<Output>,
}

#[derive(Debug, Clone)]
enum State {
    Running {
        /// The timeout and the backstop; `None` for a timeout too long to be a time.
        patience_ends: Option<Duration>,
    },
    Cancelling {
        why: Stop,
        grace_ends: Duration,
    },
    Finished,
}

/// The calls of one execution. What is kept of them is bounded, however many there are.
#[derive(Debug, Default)]
struct Calls {
    /// How many there were.
    count: u64,
    /// Calls that are not answered, by the host's own count.
    pending: HashMap<CallId, PendingCall>,
    /// What their inputs weigh.
    input_bytes: usize,
    /// The ids of those, and of the calls that were answered last.
    known: HashSet<String>,
    /// The calls that were answered last, the earliest first.
    answered: VecDeque<String>,
}

#[derive(Debug)]
struct PendingCall {
    call_id: String,
    input_bytes: usize,
}

/// How many answered calls are remembered, to tell a `callId` that is used again.
const REMEMBERED_CALLS: usize = 1024;

impl Calls {
    /// Takes out a call that is answered.
    fn answer(&mut self, call: CallId) -> Option<String> {
        let PendingCall { call_id, input_bytes } = self.pending.remove(&call)?;
        self.input_bytes -= input_bytes;
        self.forget_later(call_id.clone());
        Some(call_id)
    }

    /// The call is over: its id is forgotten after so many others.
    fn forget_later(&mut self, call_id: String) {
        self.answered.push_back(call_id);
        if self.answered.len() > REMEMBERED_CALLS
            && let Some(earliest) = self.answered.pop_front()
        {
            self.known.remove(&earliest);
        }
    }
}

/// The log of one execution, as far as it came.
#[derive(Debug)]
struct Log {
    /// The caller wants to see lines as they come.
    shows: bool,
    /// Cuts lines to the limits, by the rule that the runner should have cut them by.
    limiter: LogLimiter,
    lines: Vec<String>,
}

impl Log {
    fn new(execute: &Execute) -> Self {
        Self { shows: execute.stream_logs, limiter: LogLimiter::new(&execute.limits), lines: Vec::new() }
    }

    /// Takes a line in, and tells what there is to show.
    fn take(&mut self, line: &LogLine) -> Option<Output> {
        let line = self.limiter.line(line.level, line.text.as_bytes())?;
        self.lines.push(line.text.clone());
        self.shows.then_some(Output::Show(line))
    }
}

impl HostSession {
    /// Begins an execution: [`Output::Send`] of `execute` is due first.
    pub fn new(execute: Execute, options: HostOptions, now: Duration) -> Self {
        let patience_ends =
            execute.limits.timeout.checked_add(options.backstop).and_then(|patience| now.checked_add(patience));
        Self {
            id: execute.id.clone(),
            limits: execute.limits,
            providers: execute.providers.clone(),
            options,
            began: now,
            state: State::Running { patience_ends },
            calls: Calls::default(),
            failures: HashSet::new(),
            code_len: execute.code.len(),
            log: Log::new(&execute),
            close_reason: None,
            misbehaviour: None,
            reusable: false,
            outputs: VecDeque::from([Output::Send(HostMessage::Execute(execute))]),
        }
    }

    /// Whether it is over.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        match self.state {
            State::Running { patience_ends } => patience_ends,
            State::Cancelling { grace_ends, .. } => Some(grace_ends),
            State::Finished => None,
        }
    }

    /// Whether the runner may be given another execution: it was done by itself, and with no result that
    /// leaves a doubt about it (`timeout`, `internal_error`).
    pub fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// How the transport ended: the first reason that was handed in, also after the execution was over.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.close_reason.as_ref()
    }

    /// What the runner did that it must not, if it did.
    pub fn misbehaviour(&self) -> Option<&Misbehaviour> {
        self.misbehaviour.as_ref()
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes in what the runner says. Messages with the id of another execution are ignored.
    pub fn handle_message(&mut self, message: RunnerMessage, now: Duration) {
        match message {
            RunnerMessage::ToolCall(call) => self.call(call, now),
            RunnerMessage::Log(WireLog { id, line }) if id == self.id => self.log(&line),
            RunnerMessage::Done(Done { id, result }) if id == self.id => self.done(result, now),
            // What belongs to another execution, or to a run.
            RunnerMessage::Started(_)
            | RunnerMessage::Log(_)
            | RunnerMessage::Done(_)
            | RunnerMessage::Hello(_)
            | RunnerMessage::CodeCall(_)
            | RunnerMessage::CodeNotify(_)
            | RunnerMessage::CodeDone(_) => {}
        }
    }

    /// Takes in what a runner must not do: whatever the codec or the reading of a message refused. A malformed message
    /// with the id of another execution is ignored, as a well-formed one is.
    pub fn handle_misbehaviour(&mut self, misbehaviour: impl Into<Misbehaviour>, now: Duration) {
        let misbehaviour = misbehaviour.into();
        if self.is_finished() || misbehaviour.is_of_another(&self.id) {
            return;
        }
        let text = misbehaviour.to_string();
        self.misbehaviour = Some(misbehaviour);
        self.terminate(&text, now);
    }

    /// Takes in what a tool came to. A result that cannot cross is the call's `serialization_error`.
    pub fn handle_tool_result(&mut self, call: CallId, result: Result<Option<Json>, ExecuteError>) {
        let State::Running { .. } = self.state else { return };
        if let Some(call_id) = self.calls.answer(call) {
            self.answer(call_id, transportable(result));
        }
    }

    /// Loses patience, if it is time to: with an execution that should have timed out, by cancelling it;
    /// with one that was cancelled, by terminating it.
    pub fn handle_timeout(&mut self, now: Duration) {
        match self.state {
            State::Running { patience_ends: Some(end) } if now >= end => {
                self.begin_cancelling(Stop::TimedOut { stuck: false }, now);
            }
            State::Cancelling { grace_ends, .. } if now >= grace_ends => {
                self.terminate("the runner was not done in time", now);
            }
            _ => {}
        }
    }

    /// A message was too long to be sent. For a `tool_result`, the guest gets a `serialization_error` in
    /// its place, or its error without the words; without its `execute`, the execution is over.
    pub fn handle_too_long(&mut self, message: HostMessage, error: TooLong, now: Duration) {
        match message {
            HostMessage::Execute(_) => self.fail(&format!("the execution cannot be sent to the runner: {error}"), now),
            // The grace ends it; the others are none of this session's.
            HostMessage::Cancel(_) | HostMessage::Hello(_) | HostMessage::RunCode(_) | HostMessage::Settle(_) => {}
            HostMessage::ToolResult(ToolResult { call_id, result }) => {
                // A `callId` that fills a line by itself is not answered.
                if let Some(shorter) = script::shortened(&result, "tool result", error) {
                    self.answer(call_id, Err(shorter));
                }
            }
        }
    }

    /// The transport ended. Before `done`, that is `internal_error`, or `timeout` where cancelling had begun.
    pub fn handle_close(&mut self, reason: CloseReason, now: Duration) {
        let reason = self.close_reason.get_or_insert(reason).to_string();
        self.fail(&reason, now);
    }

    /// The caller wants it stopped.
    pub fn cancel(&mut self, now: Duration) {
        if let State::Running { .. } = self.state {
            self.begin_cancelling(Stop::Cancelled(None), now);
        }
    }

    /// The guest calls a tool. While cancelling, no call begins any more.
    fn call(&mut self, call: WireCall, now: Duration) {
        let State::Running { .. } = self.state else { return };
        if !self.calls.known.insert(call.call_id.clone()) {
            return self.handle_misbehaviour(Misbehaviour::DuplicateCall(call.call_id), now);
        }
        let most = most_calls(&self.limits);
        if self.calls.pending.len() >= most {
            return self.handle_misbehaviour(Misbehaviour::TooManyCalls(most), now);
        }
        let Some((provider, tool)) = self.find(&call) else {
            let WireCall { provider_name, safe_tool_name, .. } = &call;
            let text = format!("there is no tool {provider_name}.{safe_tool_name} in this execution");
            self.calls.forget_later(call.call_id.clone());
            return self.answer(call.call_id, Err(ExecuteError::internal(text)));
        };
        let input_bytes = call.input.as_ref().map_or(0, weight);
        let room = most_input(&self.limits);
        if self.calls.input_bytes.saturating_add(input_bytes) > room {
            return self.handle_misbehaviour(Misbehaviour::TooMuchInput(room), now);
        }
        self.calls.input_bytes += input_bytes;
        self.calls.count += 1;
        let id = CallId(self.calls.count);
        self.calls.pending.insert(id, PendingCall { call_id: call.call_id, input_bytes });
        self.outputs.push_back(Output::CallTool(ToolCall { id, provider, tool, input: call.input }));
    }

    /// The guest has logged a line. Nobody asked a runner that says so of its own accord: it all comes with `done`.
    fn log(&mut self, line: &LogLine) {
        if self.log.shows && !self.is_finished() {
            self.outputs.extend(self.log.take(line));
        }
    }

    /// Which provider a call is for, and which of its tools.
    fn find(&self, call: &WireCall) -> Option<(usize, usize)> {
        let provider = self.providers.iter().position(|provider| provider.name == call.provider_name)?;
        let tools = &self.providers[provider].tools;
        Some((provider, tools.iter().position(|tool| tool.safe_name == call.safe_tool_name)?))
    }

    fn answer(&mut self, call_id: String, result: Result<Option<Json>, ExecuteError>) {
        let State::Running { .. } = self.state else { return };
        self.failures.extend(result.as_ref().err().map(|error| error.code));
        self.outputs.push_back(Output::Send(HostMessage::ToolResult(ToolResult { call_id, result })));
    }

    fn begin_cancelling(&mut self, why: Stop, now: Duration) {
        self.state = State::Cancelling { why, grace_ends: now.saturating_add(self.options.cancel_grace) };
        self.outputs.push_back(Output::CancelTools);
        self.outputs.push_back(Output::Send(HostMessage::Cancel(Cancel { id: self.id.clone() })));
    }

    /// The runner is done. What cancelling had begun for decides, whatever the runner says.
    fn done(&mut self, result: ExecuteResult, now: Duration) {
        let outcome = match &self.state {
            State::Running { .. } => result.outcome.map_err(|error| self.believe(error, now)),
            State::Cancelling { why, .. } => Err(why.execute_error(&self.limits)),
            State::Finished => return,
        };
        let doubtful = |error: &ExecuteError| matches!(error.code, ErrorCode::Timeout | ErrorCode::InternalError);
        self.reusable = self.close_reason.is_none() && !outcome.as_ref().is_err_and(doubtful);
        // How many lines of its log the runner has told already: it tells them in order.
        let told = self.log.lines.len();
        for text in result.logs.into_iter().skip(told).take(self.limits.max_log_lines) {
            self.outputs.extend(self.log.take(&LogLine { level: LogLevel::Log, text }));
        }
        self.finish(outcome, result.duration.min(now.saturating_sub(self.began)));
    }

    /// Only a call that this host failed can end a guest with the code of a failed tool, and only time can end it with
    /// `timeout`; and an error comes from a place in the code, if from any.
    fn believe(&self, mut error: ExecuteError, now: Duration) -> ExecuteError {
        error.position = error.position.filter(|at| can_be_in(self.code_len, *at));
        error.stack.retain(|frame| frame.file == SCRIPT_NAME && can_be_in(self.code_len, frame.position()));
        match error.code {
            ErrorCode::ToolError | ErrorCode::ValidationError if !self.failures.contains(&error.code) => {
                ExecuteError { code: ErrorCode::RuntimeError, ..error }
            }
            ErrorCode::Timeout => match too_early(self.limits.timeout, now.saturating_sub(self.began)) {
                Some(early) => ExecuteError::internal(format!("{early}: {}", error.message)),
                None => error,
            },
            _ => error,
        }
    }

    /// The end without a `done`, by a runner that still has to be stopped.
    fn terminate(&mut self, text: &str, now: Duration) {
        self.fail(text, now);
        self.outputs.insert(1, Output::Terminate); // Behind CancelTools, before Finished.
    }

    /// The end without a `done`.
    fn fail(&mut self, text: &str, now: Duration) {
        let error = match &self.state {
            State::Running { .. } => ExecuteError::internal(text),
            State::Cancelling { why, .. } => why.execute_error(&self.limits),
            State::Finished => return,
        };
        self.finish(Err(error), now.saturating_sub(self.began));
    }

    /// What was to be said or called until now is nobody's business any more; what was logged was logged.
    fn finish(&mut self, outcome: Result<Option<Json>, ExecuteError>, duration: Duration) {
        self.state = State::Finished;
        self.calls = Calls::default();
        self.outputs.retain(|output| matches!(output, Output::Show(_)));
        self.outputs.push_front(Output::CancelTools);
        let logs = std::mem::take(&mut self.log.lines);
        self.outputs.push_back(Output::Finished(ExecuteResult { outcome, logs, duration }));
    }
}

/// Whether a source of so many bytes can have that place.
pub(super) fn can_be_in(len: usize, at: Position) -> bool {
    [at.line, at.column].into_iter().all(|number| (1..=len + 1).contains(&(number as usize)))
}

/// What is wrong with a runner that reports the end of `timeout` after `elapsed`, by the clock here. It may be early by a
/// hundredth: no two clocks run alike.
pub(super) fn too_early(timeout: Duration, elapsed: Duration) -> Option<String> {
    let [timeout_ms, elapsed_ms] = [timeout, elapsed].map(|time| time.as_millis());
    let is_early = elapsed < timeout.saturating_sub(timeout / 100);
    is_early.then(|| format!("the runner reported a timeout after {elapsed_ms} of {timeout_ms} ms"))
}

/// How many calls may be under way at once: as many as have room in the guest's memory by the count of
/// [`mailbox`](crate::mailbox), and some, for runners that count in another way.
pub(super) fn most_calls(limits: &Limits) -> usize {
    (limits.memory_len() / CALL_COST).max(1024)
}

/// How much the inputs of the calls under way may weigh. A guest keeps no more than its memory limit of them; as JSON,
/// what it shares among them is there several times.
fn most_input(limits: &Limits) -> usize {
    limits.memory_len().max(1 << 20).saturating_mul(4)
}

/// About how many bytes a value has as text. It comes from a line, which bounds its depth.
fn weight(json: &Json) -> usize {
    const EACH: usize = 8;
    match json {
        Json::String(text) => EACH + text.len(),
        Json::Array(items) => items.iter().map(weight).sum::<usize>() + EACH,
        Json::Object(members) => members.iter().map(|(key, member)| key.len() + weight(member)).sum::<usize>() + EACH,
        _ => EACH,
    }
}

/// "Non-serializable host values are rejected before they are sent": what nests too deep would not even be
/// read as a line. Its error is the one that a guest in this process would get.
fn transportable(result: Result<Option<Json>, ExecuteError>) -> Result<Option<Json>, ExecuteError> {
    match &result {
        Ok(Some(json)) if nests_deeper(json, MAX_JSON_DEPTH) => match Script::settlement(result) {
            Settlement::Failed(error) => Err(error),
            _ => Ok(None),
        },
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
