//! The runner's half of a session (runner specification, "Session Model" to "Execution Id And Message
//! Correlation").
//!
//! ```text
//!            execute                    the guest is done · cancel · deadline
//!   Idle ──────────────► Active ─────────────────────────────────────────────► Idle
//!          ► started       │ ► tool_call …      ► done                          │
//!                          └──────────────── the transport closes ──────────────┴──► Closed
//! ```
//!
//! A runner that is to stop [drains](RunnerSession::drain) in any state: no execution begins any more, and
//! one that runs has until the grace is over.
//!
//! It knows what is due now, what each call is named, and when time is up. It runs no guest, carries no
//! bytes, and never learns what a tool does.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::line::TooLong;
use super::message::{self, Done, Execute, HostMessage, MessageError, RunnerMessage, ToolResult, WireCall};
use crate::engine::{Answer, CallId, Event, Outcome, StartError, Turn};
use crate::error::{ExecuteError, ExecuteResult};
use crate::language::Language;
use crate::manifest::ProviderManifest;
use crate::program::Program;
use crate::script::{Action, Script, Stop, ToolCall};

/// What a driver of a [`RunnerSession`] has to do, in the order in which it is told.
#[derive(Debug)]
pub enum Output {
    /// Send this to the host.
    Send(RunnerMessage),
    /// Start this program: it is the guest from here on.
    Start(Program),
    /// Hand this answer to the guest.
    Answer(CallId, Answer),
    /// Interrupt the guest and drop it, with everything that it said and that was not handed in yet.
    StopGuest,
}

/// The runner's half: one execution at a time, any number one after another.
///
/// The methods come in families:
/// - getters: [`is_active`](Self::is_active), [`is_drained`](Self::is_drained),
///   [`next_timeout`](Self::next_timeout);
/// - `handle_*` take in what happened, with the time at which it did;
/// - commands of whoever runs it: [`drain`](Self::drain);
/// - [`poll_output`](Self::poll_output) says what to do about it.
///
/// After every `handle_*`, poll outputs until there are none; then wait for bytes, for the guest, or for
/// [`next_timeout`](Self::next_timeout), whichever comes first, and hand it in:
/// - a message, to [`handle_message`](Self::handle_message); a malformed one, to
///   [`handle_malformed`](Self::handle_malformed); a line that is no object names nothing that could be
///   answered and may be dropped;
/// - what the guest said, to [`handle_event`](Self::handle_event), *before* its turn, to
///   [`handle_turn`](Self::handle_turn);
/// - the time, to [`handle_timeout`](Self::handle_timeout);
/// - the end of the transport, to [`handle_close`](Self::handle_close).
///
/// What comes when it is not due changes nothing.
pub struct RunnerSession {
    language: Arc<dyn Language>,
    state: State,
    /// When the grace of a draining runner is over.
    drained_by: Option<Duration>,
    outputs: VecDeque<Output>,
}

enum State {
    /// Only `execute` is due.
    Idle,
    /// A guest runs.
    Active(Box<Active>),
    /// Nobody listens any more; nothing is due.
    Closed,
}

/// One execution, from its `started` to its `done`.
struct Active {
    id: String,
    script: Script,
    providers: Vec<Arc<ProviderManifest>>,
    accepted: Duration,
    /// `None` for a timeout too long to be a time.
    deadline: Option<Duration>,
    /// Calls that the host has not answered, by the ids that it knows them by.
    pending: HashMap<String, CallId>,
    /// The guest stood and waited for answers when it was last polled.
    waiting: bool,
}

impl RunnerSession {
    /// An idle one, for code in `language`.
    pub fn new(language: Arc<dyn Language>) -> Self {
        Self { language, state: State::Idle, drained_by: None, outputs: VecDeque::new() }
    }

    /// Whether a guest runs.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Active(_))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        let State::Active(active) = &self.state else { return None };
        active.deadline.into_iter().chain(self.drained_by).min()
    }

    /// Whether it was told to drain, and has nothing more to do. The transport may be closed then.
    pub fn is_drained(&self) -> bool {
        self.drained_by.is_some() && !self.is_active()
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes in what the host says.
    pub fn handle_message(&mut self, message: HostMessage, now: Duration) {
        match message {
            HostMessage::Execute(execute) => self.execute(execute, now),
            HostMessage::Cancel { id } => self.cancel(&id, now),
            HostMessage::ToolResult(ToolResult { call_id, result }) => self.settle(&call_id, result),
        }
    }

    /// Takes in a message that is not as specified, and answers it where it can be: a malformed `execute`
    /// by a `done`, a malformed `tool_result` by the call's failure, both `internal_error`.
    pub fn handle_malformed(&mut self, error: &MessageError) {
        let failure = ExecuteError::internal(error.to_string());
        match (error.kind.as_str(), &error.id) {
            ("execute", Some(id)) => self.refuse(id, failure),
            ("tool_result", Some(call_id)) => self.settle(call_id, Err(failure)),
            _ => {}
        }
    }

    /// Takes in something that the guest said.
    pub fn handle_event(&mut self, event: Event) {
        let State::Active(active) = &mut self.state else { return };
        match active.script.event(event) {
            Action::Show(_) => {}
            Action::Answer(call, answer) => self.outputs.push_back(Output::Answer(call, answer)),
            Action::CallTool(call) => {
                let call = active.call(call);
                self.outputs.push_back(Output::Send(RunnerMessage::ToolCall(call)));
            }
        }
    }

    /// Takes in how the guest stands, as its poll said. An outcome behind the deadline comes too late.
    pub fn handle_turn(&mut self, turn: Poll<Turn>, now: Duration) {
        self.handle_timeout(now);
        if let State::Active(active) = &mut self.state {
            active.waiting = matches!(turn, Poll::Ready(Turn::Waiting));
        }
        if let Poll::Ready(Turn::Done(outcome)) = turn {
            self.finish(now, |script, duration| script.finish(outcome, duration));
        }
    }

    /// The engine did not start the program: `internal_error`.
    pub fn handle_start_error(&mut self, error: &StartError, now: Duration) {
        let outcome = Outcome::Fault(error.to_string());
        self.finish(now, |script, duration| script.finish(outcome, duration));
    }

    /// Ends the execution with `timeout` if its deadline has come, or the end of a draining runner's grace.
    pub fn handle_timeout(&mut self, now: Duration) {
        let State::Active(active) = &self.state else { return };
        if active.deadline.is_some_and(|deadline| now >= deadline) {
            let stuck = active.waiting && active.pending.is_empty();
            self.stop(Stop::TimedOut { stuck }, now);
        } else if self.drained_by.is_some_and(|end| now >= end) {
            self.stop(Stop::Cancelled, now);
        }
    }

    /// A message was too long to be sent. A `tool_call` fails in the guest with `serialization_error`; a
    /// `done` is sent again with that error in the place of its result, then without its logs, then
    /// without its error's message.
    ///
    /// Call it where the message was polled, before the next poll.
    pub fn handle_too_long(&mut self, message: RunnerMessage, error: TooLong) {
        match message {
            RunnerMessage::Started { .. } => {}
            RunnerMessage::ToolCall(call) => {
                self.settle(&call.call_id, Err(message::cannot_cross("tool input", error)));
            }
            RunnerMessage::Done(Done { id, mut result }) => {
                if shorten(&mut result, error) {
                    self.outputs.push_front(Output::Send(RunnerMessage::Done(Done { id, result })));
                }
            }
        }
    }

    /// Begins no execution from here on, and cancels one that still runs when `grace` is over. Draining
    /// again may only shorten the grace.
    pub fn drain(&mut self, grace: Duration, now: Duration) {
        let end = now.saturating_add(grace);
        self.drained_by = Some(self.drained_by.map_or(end, |earlier| earlier.min(end)));
        self.handle_timeout(now);
    }

    /// The transport closed or broke: the guest is stopped, and nobody is told.
    pub fn handle_close(&mut self) {
        self.outputs.clear();
        if self.is_active() {
            self.outputs.push_back(Output::StopGuest);
        }
        self.state = State::Closed;
    }

    /// Accepts an execution. Code that is not a program was accepted too, and is `started` and `done`.
    fn execute(&mut self, execute: Execute, now: Duration) {
        if !matches!(self.state, State::Idle) {
            let failure = ExecuteError::internal("the runner runs another execution, and one at a time");
            return self.refuse(&execute.id, failure);
        }
        if self.drained_by.is_some() {
            return self.refuse(&execute.id, ExecuteError::internal("the runner is shutting down"));
        }
        let Execute { id, code, limits, providers } = execute;
        self.send(RunnerMessage::Started { id: id.clone() });
        match Script::start(Arc::clone(&self.language), &code, &providers, limits) {
            Err(error) => self.done(id, ExecuteResult::failed(error, Duration::ZERO)),
            Ok((program, script)) => {
                let deadline = now.checked_add(limits.timeout);
                let (pending, waiting) = (HashMap::new(), false);
                let active = Active { id, script, providers, accepted: now, deadline, pending, waiting };
                self.state = State::Active(Box::new(active));
                self.outputs.push_back(Output::Start(program));
                self.handle_timeout(now); // The timeout may be zero.
            }
        }
    }

    /// Answers an `execute` that is not accepted. One that repeats the active id is ignored: a `done`
    /// with that id would end the execution that it belongs to.
    fn refuse(&mut self, id: &str, failure: ExecuteError) {
        let refused = match &self.state {
            State::Idle => true,
            State::Active(active) => active.id != id,
            State::Closed => false,
        };
        if refused {
            self.done(id.to_owned(), ExecuteResult::failed(failure, Duration::ZERO));
        }
    }

    fn cancel(&mut self, id: &str, now: Duration) {
        if matches!(&self.state, State::Active(active) if active.id == id) {
            self.stop(Stop::Cancelled, now);
        }
    }

    /// Answers a call of the guest; one that is not pending any more, or never was, is nobody's.
    fn settle(&mut self, call_id: &str, result: Result<Option<serde_json::Value>, ExecuteError>) {
        let State::Active(active) = &mut self.state else { return };
        if let Some(call) = active.pending.remove(call_id) {
            self.outputs.push_back(Output::Answer(call, Script::answer(result)));
        }
    }

    fn stop(&mut self, stop: Stop, now: Duration) {
        self.outputs.push_back(Output::StopGuest);
        self.finish(now, |script, duration| script.stopped(stop, duration));
    }

    /// Ends the execution, if there is one: `done`, once and last.
    fn finish(&mut self, now: Duration, result: impl FnOnce(Script, Duration) -> ExecuteResult) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Active(active) => {
                let duration = now.saturating_sub(active.accepted);
                self.done(active.id, result(active.script, duration));
            }
            other => self.state = other,
        }
    }

    fn done(&mut self, id: String, result: ExecuteResult) {
        self.send(RunnerMessage::Done(Done { id, result }));
    }

    fn send(&mut self, message: RunnerMessage) {
        self.outputs.push_back(Output::Send(message));
    }
}

impl Active {
    /// Names a call for the host. Guests count their calls, so no two of an execution have one id.
    fn call(&mut self, call: ToolCall) -> WireCall {
        let call_id = call.id.to_string();
        self.pending.insert(call_id.clone(), call.id);
        let provider = &self.providers[call.provider];
        WireCall {
            call_id,
            provider_name: provider.name.clone(),
            safe_tool_name: provider.tools[call.tool].safe_name.clone(),
            input: call.input,
        }
    }
}

/// Takes away the next part of a result that was too long; whether there was one.
fn shorten(result: &mut ExecuteResult, too_long: TooLong) -> bool {
    if result.outcome.is_err() && !result.logs.is_empty() {
        result.logs.clear();
        return true;
    }
    let shorter = message::shorter(&result.outcome, "result", too_long);
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
