//! The runner's half of a session (runner specification, "Session Model" to "Execution Id And Message
//! Correlation").
//!
//! ```text
//!      execute · run_code                 the guest is done · cancel · deadline
//!   Idle ──────────────► Active ─────────────────────────────────────────────► Idle
//!          ► started       │ ► Compile ► Start ► tool_call … ► log …   ► done   │
//!                          └──────────────── the transport closes ──────────────┴──► Closed
//! ```
//!
//! A runner that shuts down [drains](RunnerSession::drain) in any state: it accepts no program, and a running one ends when
//! the grace period is over.
//!
//! The session decides what is due, names the calls and keeps the deadlines. It compiles nothing, runs no guest and
//! transfers no bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::fields::{Fault, MessageError};
use super::line::TooLong;
use super::message::{HostMessage, RunnerMessage};
use super::module::{CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
use super::script::{
    self, Cancel, Clock, Done, Execute, MAX_REPEATED_LOG_BYTES, Started, ToolResult, WireCall, WireLog,
};
use crate::budget::Charge;
use crate::contract::module::{CodeExecutionError, Failure, ModuleRun, Request, RunOutcome, Status};
use crate::contract::script::{Script, ToolCall};
use crate::contract::stop::Stop;
use crate::contract::{Action, Contract as _};
use crate::engine::{CallId, Event, NoRoom, Outcome, Pending, Settlement, StartError, Turn};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult};
use crate::language::Language;
use crate::manifest::ProviderManifest;
use crate::program::{CappedLimits, Limits, Program};
use crate::usage::{LimitError, Usage, UsageLimiter};
use crate::value::{Graph, Value};

/// What the driver of a [`RunnerSession`] has to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// Send this to the host.
    Send(RunnerMessage),
    /// Compile this, and pass the result to [`RunnerSession::handle_compiled`]. The time counts.
    Compile(Job),
    /// Start this program as the guest.
    Start(Program),
    /// Settle this in the guest.
    Settle(Pending, Settlement),
    /// Interrupt the guest and drop it, with all its events that were not handled.
    StopGuest,
}

/// The source of an execution or a run, accepted and not compiled yet.
#[derive(Debug)]
pub struct Job {
    /// The number of the program: see [`RunnerSession::programs`].
    number: u64,
    source: JobSource,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // each is moved once
enum JobSource {
    Script { code: String, providers: Vec<Arc<ProviderManifest>>, limits: Limits, streams_logs: bool },
    Code(Box<Request>),
}

/// The contract of a program that is not compiled yet.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Script,
    Code,
}

impl JobSource {
    fn kind(&self) -> Kind {
        match self {
            Self::Script { .. } => Kind::Script,
            Self::Code(_) => Kind::Code,
        }
    }

    fn limits_mut(&mut self) -> &mut Limits {
        match self {
            Self::Script { limits, .. } => limits,
            Self::Code(request) => &mut request.limits,
        }
    }

    /// The length of the longest source text.
    fn longest_source(&self) -> usize {
        match self {
            Self::Script { code, .. } => code.len(),
            Self::Code(request) => {
                request.modules.values().chain([&request.source]).map(String::len).max().unwrap_or_default()
            }
        }
    }
}

/// The result of compiling a [`Job`].
pub struct Compiled {
    number: u64,
    result: Result<(Program, Contract), Invalid>,
}

/// Why source is not a program, by contract.
enum Invalid {
    Script(ExecuteError),
    Code(Failure),
}

impl Job {
    /// The limits of the program.
    pub fn limits(&self) -> Limits {
        match &self.source {
            JobSource::Script { limits, .. } => *limits,
            JobSource::Code(request) => request.limits,
        }
    }

    /// The length of all sources.
    pub fn source_bytes(&self) -> usize {
        match &self.source {
            JobSource::Script { code, .. } => code.len(),
            JobSource::Code(request) => request.source_bytes(),
        }
    }

    /// Compiles the source. Stops early when `should_stop` returns true; the result is ignored then.
    pub fn compile(self, language: &dyn Language, should_stop: &dyn Fn() -> bool) -> Compiled {
        let result = match self.source {
            JobSource::Script { code, providers, limits, streams_logs } => {
                Script::start(language, &code, &providers, limits, should_stop).map_err(Invalid::Script).map(
                    |(program, script)| {
                        let run =
                            ScriptRun { script, providers, pending: HashMap::new(), streams_logs, streamed_bytes: 0 };
                        (program, Contract::Script(Box::new(run)))
                    },
                )
            }
            JobSource::Code(request) => {
                let limits = request.limits;
                ModuleRun::start(language, *request, should_stop)
                    .map_err(Invalid::Code)
                    .map(|(program, run)| (program, Contract::Code { run: Box::new(run), limits }))
            }
        };
        Compiled { number: self.number, result }
    }
}

/// The runner's half: one program (execution or run) at a time, any number in sequence.
///
/// The methods come in families:
/// - getters: [`is_active`](Self::is_active), [`is_drained`](Self::is_drained),
///   [`next_timeout`](Self::next_timeout);
/// - `handle_*` handle what happened, with the time when it happened;
/// - commands: [`drain`](Self::drain);
/// - [`poll_output`](Self::poll_output) returns what to do next.
///
/// After every `handle_*` and command, poll outputs until there are none. Then wait for bytes, for the guest, or for
/// [`next_timeout`](Self::next_timeout), and handle
/// - a message with [`handle_message`](Self::handle_message), a malformed one with
///   [`handle_malformed`](Self::handle_malformed); a line that is not an object contains no id to answer, and is ignored;
/// - the result of [`Output::Compile`] with [`handle_compiled`](Self::handle_compiled);
/// - the guest's events with [`handle_event`](Self::handle_event), and *then* its turn with
///   [`handle_turn`](Self::handle_turn);
/// - the time with [`handle_timeout`](Self::handle_timeout);
/// - the end of the transport with [`handle_close`](Self::handle_close).
///
/// Anything that is not due is ignored.
#[derive(Default)]
pub struct RunnerSession {
    state: State,
    /// How many programs were accepted.
    programs: u64,
    /// How many calls scripts have made. A `callId` is never used twice on a connection, so that a late answer cannot settle
    /// a call of a later execution.
    calls: u64,
    /// When the grace period of a draining runner is over.
    drained_by: Option<Duration>,
    /// Caps the limits that hosts ask for.
    max_limits: Option<Limits>,
    outputs: VecDeque<Output>,
}

#[derive(Default)]
enum State {
    /// A program may start.
    #[default]
    Idle,
    /// A guest runs.
    Active(Box<Active>),
    /// The transport is closed.
    Closed,
}

/// A program, from `started` to `done` or `code_done`.
struct Active {
    id: String,
    number: u64,
    contract: Contract,
    limits: Limits,
    accepted: Duration,
    /// `None` if the timeout is beyond the range of time.
    deadline: Option<Duration>,
    /// The limits that are lower than the host asked for.
    capped: CappedLimits,
    /// A source is longer than the limit.
    has_long_source: bool,
    /// Since when the guest only waits for calls.
    waits_since: Option<Duration>,
    /// The host has stopped the clock: it stands still while the guest only waits.
    is_clock_stopped: bool,
    /// How long the clock has stood still. The deadline is later by that.
    stood_still: Duration,
}

/// How long the clock of a program may stand still: a host cannot occupy a runner without end.
pub const MAX_STILL: Duration = Duration::from_hours(1);

impl Active {
    /// When the guest has waited for as long as it may.
    fn waits_until(&self) -> Option<Duration> {
        let since = self.waits_since.filter(|_| !self.is_clock_stopped)?;
        since.checked_add(self.contract.usage()?.wait_left()?)
    }

    /// When the program has used its timeout. While the clock stands still, that is if it goes on for as long as it may.
    fn ends_at(&self) -> Option<Duration> {
        let stands_still = self.is_clock_stopped && self.waits_since.is_some();
        let left = if stands_still { MAX_STILL.saturating_sub(self.stood_still) } else { Duration::ZERO };
        self.deadline?.checked_add(left)
    }

    /// The guest has waited until now.
    fn end_wait(&mut self, now: Duration) -> Result<(), LimitError> {
        let Some(since) = self.waits_since.take() else { return Ok(()) };
        let waited = now.saturating_sub(since);
        let still =
            if self.is_clock_stopped { waited.min(MAX_STILL.saturating_sub(self.stood_still)) } else { Duration::ZERO };
        self.stood_still += still;
        self.deadline = self.deadline.and_then(|deadline| deadline.checked_add(still));
        self.contract.usage_mut().map_or(Ok(()), |usage| usage.wait(waited.saturating_sub(still)))
    }
}

/// The state of a program that depends on its contract.
enum Contract {
    /// The program is not compiled yet.
    Compiling {
        kind: Kind,
        limits: Limits,
    },
    Script(Box<ScriptRun>),
    Code {
        run: Box<ModuleRun>,
        limits: Limits,
    },
}

impl Contract {
    /// What the program uses; `None` if it is not compiled yet.
    fn usage(&self) -> Option<&UsageLimiter> {
        match self {
            Self::Compiling { .. } => None,
            Self::Script(run) => Some(run.script.usage()),
            Self::Code { run, .. } => Some(run.usage()),
        }
    }

    fn usage_mut(&mut self) -> Option<&mut UsageLimiter> {
        match self {
            Self::Compiling { .. } => None,
            Self::Script(run) => Some(run.script.usage_mut()),
            Self::Code { run, .. } => Some(run.usage_mut()),
        }
    }

    fn stuck(&self) -> Option<Stop> {
        match self {
            Self::Compiling { .. } => None,
            Self::Script(run) => run.script.stuck(),
            Self::Code { run, .. } => run.stuck(),
        }
    }
}

/// A running script.
struct ScriptRun {
    script: Script,
    providers: Vec<Arc<ProviderManifest>>,
    /// Calls that the host has not answered, by `callId`.
    pending: HashMap<String, (CallId, Charge)>,
    /// The host asked for `log` messages.
    streams_logs: bool,
    /// How many bytes of lines were sent in them.
    streamed_bytes: usize,
}

impl RunnerSession {
    /// An idle session.
    pub fn new() -> Self {
        Self::default()
    }

    /// Caps the limits that hosts ask for. The error of a program that meets such a limit says so.
    #[must_use]
    pub fn with_max_limits(self, max_limits: Limits) -> Self {
        Self { max_limits: Some(max_limits), ..self }
    }

    /// Whether a guest runs.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Active(_))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        let State::Active(active) = &self.state else { return None };
        [active.ends_at(), self.drained_by, active.waits_until()].into_iter().flatten().min()
    }

    /// Whether the session is draining and no guest runs: the transport can be closed.
    pub fn is_drained(&self) -> bool {
        self.drained_by.is_some() && !self.is_active()
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Handles a message of the host.
    pub fn handle_message(&mut self, message: HostMessage, now: Duration) {
        match message {
            HostMessage::Execute(Execute { id, code, limits, providers, stream_logs: streams_logs }) => {
                self.start(id, JobSource::Script { code, providers, limits, streams_logs }, now);
            }
            HostMessage::Cancel(Cancel { id }) => self.cancel(&id, now),
            HostMessage::Clock(Clock { id, stopped }) => self.set_clock_stopped(&id, stopped, now),
            HostMessage::ToolResult(ToolResult { call_id, result }) => self.answer(&call_id, result, now),
            HostMessage::Hello(_) => self.send(RunnerMessage::Hello(Hello { attachments: false })),
            HostMessage::RunCode(RunCode { id, request }) => self.start(id, JobSource::Code(request), now),
            HostMessage::Settle(settle) => self.settle(settle, now),
        }
    }

    /// Handles a malformed message, and answers it if it names an id: an `execute` or `run_code` is rejected, a
    /// `tool_result` fails its call with `internal_error`, or with `serialization_error` if it nests too deep. A malformed
    /// `settle` ends its run, as it is not known what was settled.
    pub fn handle_malformed(&mut self, error: &MessageError, now: Duration) {
        let message = error.to_string();
        match (error.kind.as_str(), &error.id) {
            ("execute", Some(id)) => self.reject(Kind::Script, id, &message),
            ("run_code", Some(id)) => self.reject(Kind::Code, id, &message),
            ("tool_result", Some(call_id)) => {
                let failure = match &error.fault {
                    Fault::Unreadable(why) => script::cannot_cross("tool result", why),
                    _ => ExecuteError::internal(message),
                };
                self.answer(call_id, Err(failure), now);
            }
            ("settle", Some(id)) if self.is_active_run(id) => self.stop(Halt::Broken(message), now),
            _ => {}
        }
    }

    /// Handles a compiled program, or the error of one that does not compile: it was accepted, so it is `started` and `done`.
    /// Compiling took `cpu_time`.
    pub fn handle_compiled(&mut self, mut compiled: Compiled, cpu_time: Duration, now: Duration) {
        self.handle_timeout(now);
        let State::Active(active) = &mut self.state else { return };
        if active.number != compiled.number {
            return;
        }
        let mut failed = UsageLimiter::new(&active.limits, 0);
        let usage = compiled.result.as_mut().ok().and_then(|(_, contract)| contract.usage_mut()).unwrap_or(&mut failed);
        if let Err(error) = usage.compute(cpu_time) {
            return self.stop(Halt::Stop(Stop::Limit(error)), now);
        }
        match compiled.result {
            Ok((program, contract)) => {
                active.contract = contract;
                self.outputs.push_back(Output::Start(program));
            }
            Err(invalid) => {
                let (id, duration) = (std::mem::take(&mut active.id), now.saturating_sub(active.accepted));
                let note = if active.has_long_source { limits_note(&active.capped) } else { String::new() };
                self.state = State::Idle;
                match invalid {
                    Invalid::Script(mut error) => {
                        error.message += &note;
                        self.done(id, ExecuteResult::failed(error, duration));
                    }
                    Invalid::Code(mut failure) => {
                        failure.error.message += &note;
                        self.code_done(id, Err(failure), duration, Usage::default());
                    }
                }
            }
        }
    }

    /// Handles an event of the guest. `clock` is asked for the time while a large value is converted.
    pub fn handle_event(&mut self, event: Event, clock: &dyn Fn() -> Duration) {
        let State::Active(active) = &mut self.state else { return };
        let id = || active.id.clone();
        let end = active.ends_at();
        let is_late = || end.is_some_and(|end| clock() >= end);
        let elapsed = clock().saturating_sub(active.accepted);
        let output = match &mut active.contract {
            Contract::Compiling { .. } => return,
            Contract::Script(run) => match run.script.event(event, elapsed, &is_late) {
                Action::Notify(line) if run.streams_logs => {
                    run.streamed_bytes += line.text.len();
                    if run.streamed_bytes > MAX_REPEATED_LOG_BYTES {
                        run.script.forget_log();
                    }
                    Output::Send(RunnerMessage::Log(WireLog { id: id(), line }))
                }
                Action::Notify(_) | Action::Ignore => return,
                Action::Settle(call, settlement) => Output::Settle(Pending::Call(call), settlement),
                Action::Stop(stop) => return self.stop(Halt::Stop(stop), clock()),
                Action::Call(call) => {
                    self.calls += 1;
                    Output::Send(RunnerMessage::ToolCall(run.call(call, CallId(self.calls))))
                }
            },
            Contract::Code { run, .. } => match run.event(event, elapsed, &is_late) {
                Action::Call(call) => Output::Send(RunnerMessage::CodeCall(CodeCall { id: id(), call })),
                Action::Notify(notification) => {
                    Output::Send(RunnerMessage::CodeNotify(CodeNotify { id: id(), notification }))
                }
                Action::Settle(call, settlement) => Output::Settle(Pending::Call(call), settlement),
                Action::Stop(stop) => return self.stop(Halt::Stop(stop), clock()),
                Action::Ignore => return,
            },
        };
        self.outputs.push_back(output);
    }

    /// Handles the most memory that the guest has used. Call it after each poll of the guest, before
    /// [`handle_turn`](Self::handle_turn): a program that is stopped reports the last value.
    pub fn handle_peak_memory(&mut self, bytes: Option<u64>) {
        if let Some(usage) = self.usage_mut() {
            usage.set_peak_memory(bytes);
        }
    }

    /// Handles the CPU time of the guest's last turn. Call it before the turn's events and its result: beyond the limit, they
    /// are too late.
    pub fn handle_cpu_time(&mut self, time: Duration, now: Duration) {
        let limited = self.usage_mut().map_or(Ok(()), |usage| usage.compute(time));
        self.stop_if_limited(limited, now);
    }

    /// Handles how many bytes of settlements a guest has not taken in because it is blocked in a synchronous call. Beyond its
    /// memory limit, it is stopped.
    pub fn handle_unread(&mut self, bytes: usize, now: Duration) {
        let State::Active(active) = &self.state else { return };
        if bytes > active.limits.memory_len() {
            self.stop(Halt::Stop(Stop::HostMemory(NoRoom::Answers)), now);
        }
    }

    /// Handles the result of polling the guest, after its events. An outcome after the deadline is too late. `turn` is
    /// [`Turn::Waiting`] only if nothing was settled since: a script without a pending call ends then.
    pub fn handle_turn(&mut self, turn: Poll<Turn>, now: Duration) {
        self.handle_timeout(now);
        let State::Active(active) = &mut self.state else { return };
        match turn {
            Poll::Ready(Turn::Waiting) => {
                let will_be_settled = || self.outputs.iter().any(|output| matches!(output, Output::Settle(..)));
                match active.contract.stuck() {
                    Some(stuck) if !will_be_settled() => self.stop(Halt::Stop(stuck), now),
                    _ => _ = active.waits_since.get_or_insert(now),
                }
            }
            Poll::Pending => self.resume(now),
            Poll::Ready(Turn::Done(outcome)) => {
                self.resume(now);
                self.finish(End::Outcome(outcome), now);
            }
        }
    }

    /// Handles an error of the engine that did not start the program.
    pub fn handle_start_error(&mut self, error: &StartError, now: Duration) {
        self.finish(End::Outcome(Outcome::Fault(error.to_string())), now);
    }

    /// Stops the program if its deadline has passed, or the grace period of a draining runner.
    pub fn handle_timeout(&mut self, now: Duration) {
        let State::Active(active) = &self.state else { return };
        if active.ends_at().is_some_and(|end| now >= end) {
            self.stop(Halt::Stop(Stop::TimedOut), now);
        } else if self.drained_by.is_some_and(|end| now >= end) {
            self.stop(Halt::Broken(SHUTTING_DOWN.to_owned()), now);
        } else if active.waits_until().is_some_and(|end| now >= end) {
            self.resume(now);
        }
    }

    /// Handles a message that is too long to be sent. A call fails in the guest with a serialization error. A `log` is cut.
    /// A `code_notify` ends its run, as nothing could report the loss. A `done` or `code_done` is sent again with that error
    /// instead of the result, then without logs, then without the error's message.
    ///
    /// Call it before the next output is polled.
    pub fn handle_too_long(&mut self, message: RunnerMessage, error: TooLong) {
        match message {
            RunnerMessage::Started(_) | RunnerMessage::Hello(_) => {}
            RunnerMessage::Log(WireLog { id, mut line }) => {
                if script::cut_line(&mut line, error) {
                    self.outputs.push_front(Output::Send(RunnerMessage::Log(WireLog { id, line })));
                }
            }
            RunnerMessage::ToolCall(call) => {
                self.refuse(&call.call_id, script::cannot_cross("tool input", error));
            }
            RunnerMessage::CodeCall(CodeCall { call, .. }) => {
                let error = code_error(&script::cannot_cross("the arguments of a call", error).message);
                self.outputs.push_front(Output::Settle(Pending::Call(call.id), Settlement::Rejected(error)));
            }
            RunnerMessage::CodeNotify(CodeNotify { id, .. }) => self.end_unreported(&id, error),
            RunnerMessage::CodeDone(CodeDone { id, outcome: Ok(_), duration, usage }) => {
                let outcome = Err(cannot_cross("the result", error));
                let done = CodeDone { id, outcome, duration, usage };
                self.outputs.push_front(Output::Send(RunnerMessage::CodeDone(done)));
            }
            RunnerMessage::CodeDone(CodeDone { id, outcome: Err(Failure { status, .. }), duration, usage }) => {
                let outcome = Err(Failure::new(status, CodeExecutionError::new("Error", error.to_string())));
                if error.len > LONGEST_PLAIN_DONE {
                    let done = CodeDone { id, outcome, duration, usage };
                    self.outputs.push_front(Output::Send(RunnerMessage::CodeDone(done)));
                }
            }
            RunnerMessage::Done(Done { id, mut result }) => {
                if shorten(&mut result, error) {
                    self.outputs.push_front(Output::Send(RunnerMessage::Done(Done { id, result })));
                }
            }
        }
    }

    /// Accepts no program from here on, and stops a running one when `grace` is over. Draining again can only shorten the
    /// grace period.
    pub fn drain(&mut self, grace: Duration, now: Duration) {
        let end = now.saturating_add(grace);
        self.drained_by = Some(self.drained_by.map_or(end, |earlier| earlier.min(end)));
        self.handle_timeout(now);
    }

    /// Handles the end of the transport: the guest is stopped, and nothing is sent.
    pub fn handle_close(&mut self) {
        self.outputs.clear();
        self.stop_guest();
        self.state = State::Closed;
    }

    /// Starts a program, unless another one is active or the runner is shutting down.
    fn start(&mut self, id: String, mut source: JobSource, now: Duration) {
        let kind = source.kind();
        let (limits, capped) = source.limits_mut().capped_by(&self.max_limits.unwrap_or_else(Limits::unlimited));
        *source.limits_mut() = limits;
        let has_long_source = source.longest_source() > limits.max_source_bytes;
        if !matches!(self.state, State::Idle) {
            return self.reject(kind, &id, BUSY);
        }
        if self.drained_by.is_some() {
            return self.reject(kind, &id, SHUTTING_DOWN);
        }
        self.send(RunnerMessage::Started(Started { id: id.clone() }));
        self.programs += 1;
        let number = self.programs;
        let contract = Contract::Compiling { kind, limits };
        let deadline = now.checked_add(limits.timeout);
        let active = Active {
            id,
            number,
            contract,
            limits,
            accepted: now,
            deadline,
            capped,
            has_long_source,
            waits_since: None,
            is_clock_stopped: false,
            stood_still: Duration::ZERO,
        };
        self.state = State::Active(Box::new(active));
        self.handle_timeout(now); // The timeout may be zero.
        if self.is_active() {
            self.outputs.push_back(Output::Compile(Job { number, source }));
        }
    }

    /// Answers an `execute` or `run_code` that is not accepted. One with the active id is ignored: its answer would end the
    /// active program for the host.
    fn reject(&mut self, kind: Kind, id: &str, why: &str) {
        let can_reject = match &self.state {
            State::Idle => true,
            State::Active(active) => active.id != id,
            State::Closed => false,
        };
        let (id, no_time) = (id.to_owned(), Duration::ZERO);
        match kind {
            _ if !can_reject => {}
            Kind::Script => self.done(id, ExecuteResult::failed(ExecuteError::internal(why), no_time)),
            Kind::Code => self.code_done(id, Err(Failure::internal(why)), no_time, Usage::default()),
        }
    }

    fn cancel(&mut self, id: &str, now: Duration) {
        if matches!(&self.state, State::Active(active) if active.id == id) {
            self.stop(Halt::Stop(Stop::Cancelled(None)), now);
        }
    }

    fn set_clock_stopped(&mut self, id: &str, stopped: bool, now: Duration) {
        self.handle_timeout(now);
        let is_active = matches!(&self.state, State::Active(active) if active.id == id);
        let State::Active(active) = &mut self.state else { return };
        if is_active && active.is_clock_stopped != stopped {
            let was_waiting = active.waits_since.is_some();
            let waited = active.end_wait(now);
            active.is_clock_stopped = stopped;
            active.waits_since = Some(now).filter(|_| was_waiting);
            self.stop_if_limited(waited, now);
        }
    }

    /// Answers a call of the guest with the result of the host. Ignored if it is not pending.
    fn answer(&mut self, call_id: &str, result: Result<Value, ExecuteError>, now: Duration) {
        if let State::Active(active) = &mut self.state
            && let Contract::Script(run) = &mut active.contract
            && let Some((call, _charge)) = run.pending.remove(call_id)
        {
            run.script.answered(call);
            let settlement = result.map_or_else(Settlement::Failed, Settlement::Fulfilled);
            self.receive(Pending::Call(call), settlement, now);
        }
    }

    /// Fails a call that was not sent. Ignored if it is not pending.
    fn refuse(&mut self, call_id: &str, error: ExecuteError) {
        if let State::Active(active) = &mut self.state
            && let Contract::Script(run) = &mut active.contract
            && let Some((call, _charge)) = run.pending.remove(call_id)
        {
            run.script.answered(call);
            self.outputs.push_back(Output::Settle(Pending::Call(call), Settlement::Failed(error)));
        }
    }

    /// Settles a call or a promise of a run. The guest ignores what is not pending.
    fn settle(&mut self, settle: Settle, now: Duration) {
        if matches!(&self.state, State::Active(active) if active.id == settle.id) {
            self.receive(settle.pending, settle.result.into(), now);
        }
    }

    /// Passes what the host sent to the guest, which waits no more, unless a limit ends it.
    fn receive(&mut self, pending: Pending, settlement: Settlement, now: Duration) {
        self.resume(now);
        let received = self.usage_mut().map_or(Ok(()), |usage| usage.answer(settlement.bytes()));
        self.stop_if_limited(received, now);
        if self.is_active() {
            self.outputs.push_back(Output::Settle(pending, settlement));
        }
    }

    /// The guest has waited until now.
    fn resume(&mut self, now: Duration) {
        let State::Active(active) = &mut self.state else { return };
        let waited = active.end_wait(now);
        self.stop_if_limited(waited, now);
    }

    fn stop_if_limited(&mut self, used: Result<(), LimitError>, now: Duration) {
        if let Err(error) = used {
            self.stop(Halt::Stop(Stop::Limit(error)), now);
        }
    }

    fn usage_mut(&mut self) -> Option<&mut UsageLimiter> {
        if let State::Active(active) = &mut self.state { active.contract.usage_mut() } else { None }
    }

    fn is_active_run(&self, id: &str) -> bool {
        matches!(&self.state, State::Active(active) if active.id == id && matches!(active.contract, Contract::Code { .. }))
    }

    fn stop(&mut self, halt: Halt, now: Duration) {
        self.stop_guest();
        self.finish(End::Halted(halt), now);
    }

    /// Stops the guest if it was started.
    fn stop_guest(&mut self) {
        if let State::Active(active) = &self.state
            && !matches!(active.contract, Contract::Compiling { .. })
        {
            self.outputs.push_back(Output::StopGuest);
        }
    }

    /// Ends a run that made a notification that cannot be sent.
    fn end_unreported(&mut self, id: &str, error: TooLong) {
        if let State::Active(active) = &self.state
            && active.id == id
        {
            self.stop_guest();
            self.state = State::Idle;
            self.code_done(id.to_owned(), Err(cannot_cross("a report", error)), Duration::ZERO, Usage::default());
        }
    }

    /// Ends the active program, if there is one, with its last message.
    fn finish(&mut self, end: End, now: Duration) {
        let active = match std::mem::replace(&mut self.state, State::Idle) {
            State::Active(active) => *active,
            other => return self.state = other,
        };
        let Active { id, contract, accepted, capped, .. } = active;
        let duration = now.saturating_sub(accepted);
        let is_limit = !matches!(end, End::Halted(Halt::Broken(_) | Halt::Stop(Stop::Cancelled(_))));
        let note = if is_limit { limits_note(&capped) } else { String::new() };
        match (contract, end) {
            (Contract::Compiling { kind, limits }, end) => {
                let halt = match end {
                    End::Halted(halt) => halt,
                    End::Outcome(_) => Halt::Broken("a program ended that was not started".to_owned()),
                };
                match kind {
                    Kind::Script => {
                        let result = ExecuteResult::failed(halt.error(&limits), duration);
                        self.done(id, with_note(result, &note));
                    }
                    Kind::Code => {
                        let failure = with_note_of_run(halt.failure(&limits), &note);
                        self.code_done(id, Err(failure), duration, Usage::default());
                    }
                }
            }
            (Contract::Script(run), end) => {
                let result = match end {
                    End::Outcome(outcome) => run.script.finish(outcome, duration),
                    End::Halted(halt) => run.halted(halt, duration),
                };
                self.done(id, with_note(result, &note));
            }
            (Contract::Code { mut run, limits }, end) => {
                let outcome = match end {
                    End::Outcome(outcome) => run.finish(outcome),
                    End::Halted(halt) => Err(halt.failure(&limits)),
                };
                let outcome = outcome.map_err(|failure| with_note_of_run(failure, &note));
                self.code_done(id, outcome, duration, run.total_usage());
            }
        }
    }

    fn code_done(&mut self, id: String, outcome: RunOutcome, duration: Duration, usage: Usage) {
        self.send(RunnerMessage::CodeDone(CodeDone { id, outcome, duration, usage }));
    }

    fn done(&mut self, id: String, result: ExecuteResult) {
        self.send(RunnerMessage::Done(Done { id, result }));
    }

    fn send(&mut self, message: RunnerMessage) {
        self.outputs.push_back(Output::Send(message));
    }
}

/// What the error of a program that met a limit says about limits that are lower than its host asked for.
fn limits_note(capped: &CappedLimits) -> String {
    if capped.is_empty() { String::new() } else { format!("; limits of the runner: {capped}") }
}

/// Adds `note` to the error of a script that met a limit.
fn with_note(mut result: ExecuteResult, note: &str) -> ExecuteResult {
    if let Err(error) = &mut result.outcome
        && matches!(error.code, ErrorCode::Timeout | ErrorCode::MemoryLimit | ErrorCode::SerializationError)
    {
        error.message += note;
    }
    result
}

/// Adds `note` to the failure of a run that met a limit.
fn with_note_of_run(mut failure: Failure, note: &str) -> Failure {
    if matches!(failure.status, Status::Memory | Status::Terminated) {
        failure.error.message += note;
    }
    failure
}

/// How a program ended.
enum End {
    Outcome(Outcome),
    Halted(Halt),
}

/// Why a program was ended.
enum Halt {
    Stop(Stop),
    /// The host or the runner failed.
    Broken(String),
}

const BUSY: &str = "the runner is busy: it executes one program at a time";

const SHUTTING_DOWN: &str = "the runner is shutting down";

impl Halt {
    fn error(&self, limits: &Limits) -> ExecuteError {
        match self {
            Self::Stop(stop) => stop.execute_error(limits),
            Self::Broken(why) => ExecuteError::internal(why),
        }
    }

    fn failure(&self, limits: &Limits) -> Failure {
        match self {
            Self::Stop(stop) => stop.failure(limits),
            Self::Broken(why) => Failure::internal(why),
        }
    }
}

/// No `code_done` with a short error is longer than this, in bytes.
const LONGEST_PLAIN_DONE: usize = 4096;

fn cannot_cross(what: &str, error: TooLong) -> Failure {
    let message = script::cannot_cross(what, error).message;
    Failure::new(Status::Error, CodeExecutionError::new("SerializationError", message))
}

/// An error for the guest of a run.
fn code_error(message: &str) -> Value {
    let mut graph = Graph::default();
    let error = graph.error("SerializationError", message);
    graph.set_root(error);
    graph.to_value("error").unwrap_or_else(|_| Value::undefined())
}

impl ScriptRun {
    fn halted(self, halt: Halt, duration: Duration) -> ExecuteResult {
        match halt {
            Halt::Stop(stop) => self.script.stopped(&stop, duration),
            Halt::Broken(why) => ExecuteResult {
                outcome: Err(ExecuteError::internal(why)),
                ..self.script.stopped(&Stop::Cancelled(None), duration)
            },
        }
    }

    /// Names a call for the host.
    fn call(&mut self, call: ToolCall, name: CallId) -> WireCall {
        let call_id = name.to_string();
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

/// Removes the next part of a result that is too long. Whether there was one.
fn shorten(result: &mut ExecuteResult, too_long: TooLong) -> bool {
    if result.outcome.is_err() && !result.logs.is_empty() {
        result.logs.clear();
        return true;
    }
    let shorter = script::shortened(&result.outcome, "result", too_long);
    shorter.map(|error| result.outcome = Err(error)).is_some()
}

impl std::fmt::Debug for RunnerSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.state {
            State::Idle => "idle",
            State::Active(_) => "active",
            State::Closed => "closed",
        };
        f.debug_struct("RunnerSession").field("state", &state).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}
