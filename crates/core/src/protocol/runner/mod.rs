//! The runner's half of a session (runner specification, "Session Model" to "Execution Id And Message
//! Correlation").
//!
//! ```text
//!      execute · run_code       compile()            the guest is done · cancel · deadline
//!   Idle ──────────────► Compiling ────► Running ────────────────────────────────────────► Idle
//!          ► started        │ ► Compile    │ ► Start · tool_call … · log …        ► done    │
//!                           └──────────────┴── the transport closes ──────────────────────┴──► Closed
//! ```
//!
//! A runner that shuts down [drains](RunnerSession::drain) in any state: it accepts no program, and a running one ends when
//! the grace period is over.
//!
//! The session decides what happens next, names the calls and keeps the deadlines. It runs no guest and transfers no bytes.
//! The rules of a running program are those of [`Execution`]; `program` makes messages of what it does, with `script` and
//! `module` for its contract.

mod module;
mod program;
mod script;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::Duration;

use super::fields::{Fault, MessageError};
use super::line::TooLong;
use super::message::{HostMessage, RunnerMessage};
use super::module::{CodeCall, CodeNotify, Hello, RunCode};
use super::script::{Cancel, Clock, Started, ToolResult, cannot_cross};
use crate::contract::stop::Stop;
use crate::contract::{Action, Request as _};
use crate::engine::{Event, Outcome, Pending, Settlement, StartError, Turn};
use crate::error::ExecuteError;
use crate::execution::{CompileTimer, Execution};
use crate::language::Language;
use crate::program::{Limits, Program};

use module::ModuleWire;
use program::{MessageProgram, RunnerContract, Source, Wire};
use script::ScriptWire;

/// What the driver of a [`RunnerSession`] has to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// Send this to the host.
    Send(RunnerMessage),
    /// Compile the program with [`RunnerSession::compile`]. The time counts.
    Compile {
        /// The length of all sources.
        source_bytes: usize,
    },
    /// Start this program as the guest.
    Start(Program),
    /// Settle this in the guest.
    Settle(Pending, Settlement),
    /// [Wake](crate::engine::Guest::wake) the guest.
    WakeGuest,
    /// Interrupt the guest and drop it, with all its events that were not handled.
    StopGuest,
}

/// The runner's half: one program (execution or run) at a time, any number in sequence.
///
/// The methods come in families:
/// - getters: [`is_active`](Self::is_active), [`is_drained`](Self::is_drained),
///   [`next_timeout`](Self::next_timeout);
/// - `handle_*` handle what happened, with the time when it happened;
/// - commands: [`compile`](Self::compile), [`drain`](Self::drain);
/// - [`poll_output`](Self::poll_output) returns what to do next.
///
/// After every `handle_*` and command, poll outputs until there are none. Then wait for bytes, for the guest, or for
/// [`next_timeout`](Self::next_timeout), and handle
/// - a message with [`handle_message`](Self::handle_message), a malformed one with
///   [`handle_malformed`](Self::handle_malformed); a line that is not an object contains no id to answer, and is ignored;
/// - what the guest computed with [`handle_computed`](Self::handle_computed), *then* its events with
///   [`handle_event`](Self::handle_event), and *then* its turn with [`handle_turn`](Self::handle_turn);
/// - the time with [`handle_timeout`](Self::handle_timeout);
/// - the end of the transport with [`handle_close`](Self::handle_close).
///
/// Inputs that the current state does not expect are ignored.
#[derive(Default)]
pub struct RunnerSession {
    state: State,
    /// How many calls scripts have made on this connection.
    calls: Arc<AtomicU64>,
    /// When the grace period of a draining runner is over.
    drained_by: Option<Duration>,
    /// Caps the limits that hosts ask for.
    max_limits: Option<Limits>,
    /// The process ends with its guest.
    exits: bool,
    outputs: VecDeque<Output>,
}

#[derive(Default)]
enum State {
    /// A program may start.
    #[default]
    Idle,
    /// A program was accepted.
    Compiling(Box<dyn Source>),
    /// A guest runs the program with this id.
    Running(String, Execution<RunnerContract>),
    /// The transport is closed.
    Closed,
}

const BUSY: &str = "the runner is busy: it executes one program at a time";

const SHUTTING_DOWN: &str = "the runner is shutting down";

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

    /// Whether there is a program that has not ended.
    pub fn is_active(&self) -> bool {
        self.active_id().is_some()
    }

    fn active_id(&self) -> Option<&str> {
        match &self.state {
            State::Compiling(source) => Some(&source.accepted().id),
            State::Running(id, _) => Some(id),
            State::Idle | State::Closed => None,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        let due = match &self.state {
            State::Compiling(source) => source.accepted().clock.deadline(),
            State::Running(_, execution) => execution.next_timeout(),
            State::Idle | State::Closed => return None,
        };
        due.into_iter().chain(self.drained_by).min()
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
            HostMessage::Execute(execute) => {
                let (id, wire, request) = ScriptWire::new(execute, &self.calls);
                self.accept(id, wire, request, now);
            }
            HostMessage::RunCode(RunCode { id, request }) => self.accept(id, ModuleWire, *request, now),
            HostMessage::Hello(_) => self.send(RunnerMessage::Hello(Hello { attachments: false })),
            HostMessage::Cancel(Cancel { id }) => {
                if self.active_id() == Some(&id) {
                    self.handle_timeout(now); // A host cancels at the timeout, too.
                    self.finish(Err(Stop::Cancelled(None)), now);
                }
            }
            HostMessage::Clock(Clock { id, stopped }) => {
                if self.active_id() == Some(&id) {
                    self.with_execution(now, |execution| execution.set_paused(stopped, now));
                }
            }
            answer @ (HostMessage::ToolResult(_) | HostMessage::Settle(_)) => self.settle(answer, now),
        }
    }

    /// Handles a malformed message, and answers it if it names an id: an `execute` or `run_code` is rejected, a
    /// `tool_result` fails its call with `internal_error`, or with `serialization_error` if it nests too deep. A malformed
    /// `settle` ends its run, as it is not known what was settled.
    pub fn handle_malformed(&mut self, error: &MessageError, now: Duration) {
        let message = error.to_string();
        match (error.kind.as_str(), &error.id) {
            ("execute", Some(id)) => self.reject::<ScriptWire>(id, &message),
            ("run_code", Some(id)) => self.reject::<ModuleWire>(id, &message),
            ("tool_result", Some(call_id)) => {
                let failure = match &error.fault {
                    Fault::Unreadable(why) => cannot_cross("tool result", why),
                    _ => ExecuteError::internal(message),
                };
                let answer = ToolResult { call_id: call_id.clone(), result: Err(failure) };
                self.settle(HostMessage::ToolResult(answer), now);
            }
            ("settle", Some(id)) if self.active_id() == Some(id) => self.finish(Err(Stop::Failed(message)), now),
            _ => {}
        }
    }

    /// Compiles the accepted program, after [`Output::Compile`]. `now` returns the time, `cpu_time` the CPU time since
    /// compiling began. A program that does not compile is over.
    pub fn compile(&mut self, language: &dyn Language, now: &dyn Fn() -> Duration, cpu_time: &dyn Fn() -> Duration) {
        self.handle_timeout(now());
        let source = match std::mem::take(&mut self.state) {
            State::Compiling(source) => source,
            other => return self.state = other,
        };
        let drained_by = self.drained_by;
        let stopped = || drained_by.filter(|end| now() >= *end).map(|_| Stop::Failed(SHUTTING_DOWN.to_owned()));
        let id = source.accepted().id.clone();
        match source.start(language, &CompileTimer { now, cpu_time, stopped: &stopped }) {
            Ok((program, mut execution)) => {
                let now = now();
                let computed = stopped().map_or_else(|| execution.handle_computed(now, cpu_time()), Err);
                match computed.and_then(|()| execution.handle_timeout(now)) {
                    Ok(()) => {
                        self.state = State::Running(id, execution);
                        self.outputs.push_back(Output::Start(program));
                    }
                    Err(stop) => self.send(execution.finish(Err(stop), now)),
                }
            }
            Err(message) => self.send(*message),
        }
    }

    /// Handles the CPU time of the guest's last turn, which began at `began` and has ended now. To be called before the turn's
    /// events and its result: beyond the limit, they are too late.
    pub fn handle_computed(&mut self, began: Duration, cpu_time: Duration, now: Duration) {
        self.with_execution(now, |execution| execution.handle_computed(began, cpu_time));
    }

    /// Handles the most memory that the guest has used. To be called after each poll of the guest, before
    /// [`handle_turn`](Self::handle_turn): a program that is stopped reports the last value.
    pub fn handle_peak_memory(&mut self, bytes: Option<u64>) {
        if let State::Running(_, execution) = &mut self.state {
            execution.handle_peak_memory(bytes);
        }
    }

    /// Handles an event of the guest. `clock` returns the time, and is also called while a large value is converted.
    pub fn handle_event(&mut self, event: Event, clock: &dyn Fn() -> Duration) {
        let State::Running(_, execution) = &mut self.state else { return };
        match execution.handle_event(event, clock) {
            Ok(Action::Call(message) | Action::Notify(message)) => self.send(message),
            Ok(Action::Settle(call, settlement)) => {
                self.outputs.push_back(Output::Settle(Pending::Call(call), settlement));
            }
            Ok(Action::Ignore) => {}
            Err(stop) => self.finish(Err(stop), clock()),
        }
    }

    /// Handles how many bytes of settlements a guest has not taken in because it is blocked in a synchronous call. Beyond its
    /// memory limit, it is stopped.
    pub fn handle_unread(&mut self, bytes: usize, now: Duration) {
        self.with_execution(now, |execution| execution.handle_unread(bytes));
    }

    /// Handles that the process [ends](crate::engine::Guest::ends_process) with the guest, of which the last message informs the
    /// host. To be called before [`handle_turn`](Self::handle_turn).
    pub fn handle_process_end(&mut self) {
        self.exits = true;
    }

    /// Handles the result of polling the guest, after its events. An outcome after the deadline is too late. `turn` is
    /// [`Turn::Waiting`] only if nothing was settled since: a script without a pending call ends then.
    pub fn handle_turn(&mut self, turn: Poll<Turn>, now: Duration) {
        self.handle_timeout(now);
        match turn {
            Poll::Ready(Turn::Waiting) => {
                if !self.outputs.iter().any(|output| matches!(output, Output::Settle(..) | Output::WakeGuest)) {
                    self.with_execution(now, |execution| execution.handle_waiting(now));
                }
            }
            Poll::Ready(Turn::Done(outcome)) if matches!(self.state, State::Running(..)) => {
                self.finish(Ok(outcome), now);
            }
            Poll::Ready(Turn::Done(_)) | Poll::Pending => {}
        }
    }

    /// Handles an error of the engine that did not start the program.
    pub fn handle_start_error(&mut self, error: &StartError, now: Duration) {
        self.finish(Ok(Outcome::Fault(error.to_string())), now);
    }

    /// Stops the program if its deadline has passed, or the grace period of a draining runner. Wakes a guest whose timer is due.
    pub fn handle_timeout(&mut self, now: Duration) {
        let timeout = match &mut self.state {
            State::Compiling(source) if source.accepted().clock.is_late(now) => Err(Stop::TimedOut),
            State::Running(_, execution) => execution.handle_timeout(now),
            State::Compiling(_) | State::Idle | State::Closed => Ok(()),
        };
        let drained = self.drained_by.filter(|end| now >= *end).map(|_| Stop::Failed(SHUTTING_DOWN.to_owned()));
        if let Some(stop) = timeout.err().or(drained) {
            self.finish(Err(stop), now);
        } else if let State::Running(_, execution) = &mut self.state
            && execution.take_timer(now)
        {
            self.outputs.push_back(Output::WakeGuest);
        }
    }

    /// Handles a message that is too long to be sent. A call fails in the guest with a serialization error. A `log` is cut.
    /// A `code_notify` ends its run, as nothing could report the loss. A `done` or `code_done` is sent again with that error
    /// instead of the result, then without logs, then without the error's message.
    ///
    /// Call it before the next output is polled.
    pub fn handle_too_long(&mut self, message: RunnerMessage, error: TooLong) {
        let shorter = match message {
            RunnerMessage::Started(_) | RunnerMessage::Hello(_) => None,
            RunnerMessage::Log(log) => script::shorter_log(log, error),
            RunnerMessage::Done(done) => script::shorter_done(done, error),
            RunnerMessage::CodeDone(done) => module::shorter_done(done, error),
            RunnerMessage::ToolCall(call) => {
                let refusal = ToolResult { call_id: call.call_id, result: Err(cannot_cross("tool input", error)) };
                return self.refuse(HostMessage::ToolResult(refusal));
            }
            RunnerMessage::CodeCall(CodeCall { call, .. }) => {
                let (pending, settlement) = module::refused(&call, error);
                return self.outputs.push_front(Output::Settle(pending, settlement));
            }
            RunnerMessage::CodeNotify(CodeNotify { id, .. }) => {
                if self.active_id() == Some(&id) {
                    self.stop_guest();
                    self.state = State::Idle;
                    self.send(module::unreported(id, error));
                }
                return;
            }
        };
        if let Some(message) = shorter {
            self.outputs.push_front(Output::Send(message));
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

    /// Accepts a program, unless another one is active or the runner is shutting down.
    fn accept<W: Wire>(&mut self, id: String, wire: W, request: W::Request, now: Duration) {
        if !matches!(self.state, State::Idle) {
            return self.reject::<W>(&id, BUSY);
        }
        if self.drained_by.is_some() {
            return self.reject::<W>(&id, SHUTTING_DOWN);
        }
        self.send(RunnerMessage::Started(Started { id: id.clone(), functions: W::has_functions(&request) }));
        let source_bytes = request.source_bytes();
        let max_limits = self.max_limits.unwrap_or_else(Limits::unlimited);
        let source = MessageProgram::accept(id, wire, request, &max_limits, now);
        self.state = State::Compiling(Box::new(source));
        self.handle_timeout(now); // The timeout may be zero.
        if self.is_active() {
            self.outputs.push_back(Output::Compile { source_bytes });
        }
    }

    /// Answers an `execute` or `run_code` that is not accepted. One with the active id is ignored: its answer would end the
    /// active program for the host.
    fn reject<W: Wire>(&mut self, id: &str, why: &str) {
        if !matches!(self.state, State::Closed) && self.active_id() != Some(id) {
            self.send(W::rejected(id.to_owned(), why));
        }
    }

    /// Passes an answer of the host to the guest. An answer to a call or promise that is not pending is ignored.
    fn settle(&mut self, answer: HostMessage, now: Duration) {
        let State::Running(_, execution) = &mut self.state else { return };
        match execution.handle_answer((), answer, now) {
            Ok(settled) => {
                self.outputs.extend(settled.map(|(pending, settlement)| Output::Settle(pending, settlement)));
            }
            Err(stop) => self.finish(Err(stop), now),
        }
    }

    /// Fails a call that was not sent.
    fn refuse(&mut self, answer: HostMessage) {
        let State::Running(_, execution) = &mut self.state else { return };
        let settled = execution.contract_mut().settlement((), answer);
        self.outputs.extend(settled.map(|(pending, settlement)| Output::Settle(pending, settlement)));
    }

    fn with_execution(
        &mut self,
        now: Duration,
        handle: impl FnOnce(&mut Execution<RunnerContract>) -> Result<(), Stop>,
    ) {
        let State::Running(_, execution) = &mut self.state else { return };
        if let Err(stop) = handle(execution) {
            self.finish(Err(stop), now);
        }
    }

    /// Ends the active program, if there is one, with its last message.
    fn finish(&mut self, end: Result<Outcome, Stop>, now: Duration) {
        let is_stopped = end.is_err();
        let mut message = match std::mem::take(&mut self.state) {
            State::Running(_, execution) => {
                if is_stopped {
                    self.outputs.push_back(Output::StopGuest);
                }
                execution.finish(end, now)
            }
            State::Compiling(source) => {
                let stop = end.err().unwrap_or_else(|| Stop::Failed("a program ended that was not started".to_owned()));
                source.stopped(&stop, now)
            }
            other => return self.state = other,
        };
        if self.exits {
            message.set_exits();
        }
        self.send(message);
    }

    /// Stops the guest if it was started.
    fn stop_guest(&mut self) {
        if matches!(self.state, State::Running(..)) {
            self.outputs.push_back(Output::StopGuest);
        }
    }

    fn send(&mut self, message: RunnerMessage) {
        self.outputs.push_back(Output::Send(message));
    }
}

impl std::fmt::Debug for RunnerSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.state {
            State::Idle => "idle",
            State::Compiling(_) => "compiling",
            State::Running(..) => "running",
            State::Closed => "closed",
        };
        f.debug_struct("RunnerSession").field("state", &state).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}
