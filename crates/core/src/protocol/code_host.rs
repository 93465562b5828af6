//! The host's half of a run of the module contract: what [`host`](super::host) is for an execution.
//!
//! ```text
//!   Greeting ── hello ──► Running ── terminate() · cap + backstop ──► Cancelling ── code_done · close · grace ──► Finished
//!      │ ► hello             │ ► run_code, Call …, Note …                ► cancel         ► (Terminate) Finished     ▲
//!      └── patience ─────────┴──────────── code_done · close · misbehaviour ────────────────────────────────────────┘
//! ```
//!
//! One value is one run. It calls no function and carries no bytes, and believes a runner nothing that it can check
//! itself: the calls, the time, and how much the run may say.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::host::{CloseReason, HostOptions, Misbehaviour, can_be_in, most_calls, too_early};
use super::line::TooLong;
use super::message::{HostMessage, RunnerMessage};
use super::module::{CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
use super::script::Cancel;
use crate::contract::module::{Failure, Request, RunOutcome, Status};
use crate::contract::stop::Stop;
use crate::engine::{Call, CallId, Notification, Pending};
use crate::language::Position;
use crate::mailbox::CALL_COST;
use crate::program::Limits;
use crate::value::{Graph, Value};

/// How long a runner may take to answer a greeting. One that does not is one that does not know runs.
pub const GREETING: Duration = Duration::from_secs(5);

/// What a driver of a [`CodeHostSession`] has to do, in the order in which it is told.
#[derive(Debug)]
pub enum Output {
    /// Send this to the runner.
    Send(HostMessage),
    /// Call this function, and hand what it comes to to [`CodeHostSession::settle`].
    Call(Call),
    /// Take note of this.
    Note(Notification),
    /// Let go of the calls that are under way, at once. May come twice.
    CancelCalls,
    /// Close the transport, or kill what is behind it: the runner is not to be used again.
    Terminate,
    /// The run is over. The last output, and the only one of its kind.
    Finished {
        /// How it ended.
        ending: RunOutcome,
        /// The most memory that it had in use.
        memory_used_bytes: Option<u64>,
    },
}

/// The host's half of one run. Its methods come in the families of [`HostSession`](super::HostSession).
#[derive(Debug)]
pub struct CodeHostSession {
    id: String,
    limits: Limits,
    /// Of the longest source, in bytes.
    code_len: usize,
    options: HostOptions,
    state: State,
    /// The number of the last call: the next one's is greater.
    last_call: u64,
    /// Calls that are not answered, with the length of their arguments.
    pending: HashMap<u64, usize>,
    /// How many bytes the arguments of further calls may take.
    call_room: usize,
    /// How many bytes of notifications the run may still say.
    room: usize,
    reusable: bool,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
enum State {
    Greeting {
        run: RunCode,
        patience_ends: Duration,
    },
    Running {
        began: Duration,
        /// The safety cap and the backstop; `None` for one too long to be a time.
        patience_ends: Option<Duration>,
    },
    Cancelling {
        why: Stop,
        grace_ends: Duration,
    },
    Finished,
}

impl CodeHostSession {
    /// Begins a run: [`Output::Send`] of `hello` is due first.
    pub fn new(id: String, request: Request, options: HostOptions, now: Duration) -> Self {
        let limits = request.limits;
        let code_len = request.modules.values().chain([&request.source]).map(String::len).max().unwrap_or_default();
        let run = RunCode { id: id.clone(), request: Box::new(request) };
        Self {
            id,
            limits,
            code_len,
            options,
            state: State::Greeting { run, patience_ends: now.saturating_add(GREETING) },
            last_call: 0,
            pending: HashMap::new(),
            call_room: most_arguments(&limits),
            room: limits.memory_len(),
            reusable: false,
            outputs: VecDeque::from([Output::Send(HostMessage::Hello(Hello { attachments: false }))]),
        }
    }

    /// Whether it is over.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// Whether the runner may be given another program: it was done by itself.
    pub fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        match self.state {
            State::Greeting { patience_ends, .. } => Some(patience_ends),
            State::Running { patience_ends, .. } => patience_ends,
            State::Cancelling { grace_ends, .. } => Some(grace_ends),
            State::Finished => None,
        }
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes in what the runner says. Messages of another run are ignored.
    pub fn handle_message(&mut self, message: RunnerMessage, now: Duration) {
        match message {
            RunnerMessage::Hello(_) => self.greeted(now),
            RunnerMessage::CodeCall(CodeCall { id, call }) if id == self.id => self.call(call),
            RunnerMessage::CodeNotify(CodeNotify { id, notification }) if id == self.id => self.note(notification),
            RunnerMessage::CodeDone(CodeDone { id, ending, memory_used_bytes, .. }) if id == self.id => {
                self.done(ending, memory_used_bytes, now);
            }
            _ => {}
        }
    }

    /// Takes in what a runner must not do. A malformed message with the id of another run is ignored.
    pub fn handle_misbehaviour(&mut self, misbehaviour: impl Into<Misbehaviour>) {
        let misbehaviour = misbehaviour.into();
        if !misbehaviour.is_of_another(&self.id) {
            self.terminate_with(&misbehaviour.to_string());
        }
    }

    /// Loses patience, if it is time to.
    pub fn handle_timeout(&mut self, now: Duration) {
        match self.state {
            State::Greeting { patience_ends, .. } if now >= patience_ends => {
                self.terminate_with("the runner does not know run_code: it did not answer `hello`");
            }
            State::Running { patience_ends: Some(end), .. } if now >= end => {
                self.begin_cancelling(Stop::TimedOut { stuck: false }, now);
            }
            State::Cancelling { grace_ends, .. } if now >= grace_ends => {
                self.terminate_with("the runner was not done in time");
            }
            _ => {}
        }
    }

    /// A message was too long to be sent.
    pub fn handle_too_long(&mut self, message: &HostMessage, error: TooLong) {
        match message {
            HostMessage::RunCode(_) => self.fail(&format!("the run cannot be sent to the runner: {error}")),
            HostMessage::Settle(Settle { pending, .. }) => {
                let mut graph = Graph::default();
                let root = graph.error("SerializationError", format!("a value cannot cross: {error}"));
                graph.set_root(root);
                if let Ok(value) = graph.to_value("error") {
                    self.send_settled(*pending, Err(value));
                }
            }
            _ => {}
        }
    }

    /// The transport ended.
    pub fn handle_close(&mut self, reason: &CloseReason) {
        self.fail(&reason.to_string());
    }

    /// A function or a promise of the host has come to something.
    pub fn settle(&mut self, pending: Pending, result: Result<Value, Value>) {
        if let Pending::Call(CallId(number)) = pending {
            let Some(bytes) = self.pending.remove(&number) else { return };
            self.call_room += bytes;
        }
        self.send_settled(pending, result);
    }

    /// The caller wants it stopped.
    pub fn terminate(&mut self, stop: Stop, now: Duration) {
        match self.state {
            State::Running { .. } => self.begin_cancelling(stop, now),
            // Nothing of it runs yet.
            State::Greeting { .. } => {
                let failure = stop.failure(&self.limits);
                self.finish(Err(failure), None);
                self.outputs.insert(1, Output::Terminate);
            }
            State::Cancelling { .. } | State::Finished => {}
        }
    }

    fn greeted(&mut self, now: Duration) {
        if !matches!(self.state, State::Greeting { .. }) {
            return;
        }
        let patience = self.limits.timeout.checked_add(self.options.backstop);
        let patience_ends = patience.and_then(|patience| now.checked_add(patience));
        let greeting = std::mem::replace(&mut self.state, State::Running { began: now, patience_ends });
        if let State::Greeting { run, .. } = greeting {
            self.outputs.push_back(Output::Send(HostMessage::RunCode(run)));
        }
    }

    /// The guest calls a function. While cancelling, no call begins any more.
    fn call(&mut self, call: Call) {
        let State::Running { .. } = self.state else { return };
        if call.id.0 <= self.last_call {
            return self.handle_misbehaviour(Misbehaviour::DuplicateCall(call.id.to_string()));
        }
        let most = most_calls(&self.limits);
        if self.pending.len() >= most {
            return self.handle_misbehaviour(Misbehaviour::TooManyCalls(most));
        }
        let bytes = call.input.as_bytes().len();
        let Some(room) = self.call_room.checked_sub(bytes) else {
            return self.handle_misbehaviour(Misbehaviour::TooMuchInput(most_arguments(&self.limits)));
        };
        self.call_room = room;
        self.last_call = call.id.0;
        self.pending.insert(call.id.0, bytes);
        self.outputs.push_back(Output::Call(call));
    }

    fn note(&mut self, notification: Notification) {
        let State::Running { .. } = self.state else { return };
        let cost = CALL_COST.saturating_add(notification.args.as_bytes().len());
        match self.room.checked_sub(cost) {
            Some(room) => {
                self.room = room;
                self.outputs.push_back(Output::Note(notification));
            }
            None => self.handle_misbehaviour(Misbehaviour::TooMuchSaid),
        }
    }

    fn send_settled(&mut self, pending: Pending, result: Result<Value, Value>) {
        if self.is_running() {
            let id = self.id.clone();
            self.outputs.push_back(Output::Send(HostMessage::Settle(Settle { id, pending, result })));
        }
    }

    /// Whether the run was sent and goes on: what is settled at other times is lost.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    fn begin_cancelling(&mut self, why: Stop, now: Duration) {
        self.state = State::Cancelling { why, grace_ends: now.saturating_add(self.options.cancel_grace) };
        self.outputs.push_back(Output::CancelCalls);
        self.outputs.push_back(Output::Send(HostMessage::Cancel(Cancel { id: self.id.clone() })));
    }

    /// The runner is done. What cancelling had begun for decides, whatever the runner says; and it cannot have come to the
    /// safety cap by itself before there was time for it.
    fn done(&mut self, ending: RunOutcome, memory_used_bytes: Option<u64>, now: Duration) {
        let ending = match &self.state {
            State::Running { began, .. } => {
                let early = too_early(self.limits.timeout, now.saturating_sub(*began));
                ending.map_err(|failure| match early {
                    Some(early) if failure.status == Status::Terminated => {
                        Failure::internal(format!("{early}: {}", failure.error.message))
                    }
                    _ => self.believe(failure),
                })
            }
            State::Cancelling { why, .. } => Err(why.failure(&self.limits)),
            State::Greeting { .. } | State::Finished => return,
        };
        let doubtful = |failure: &Failure| failure.status == Status::Terminated || failure.error.is_internal;
        self.reusable = !ending.as_ref().is_err_and(doubtful);
        self.finish(ending, memory_used_bytes);
    }

    /// An error comes from a place in the sources, if from any.
    fn believe(&self, mut failure: Failure) -> Failure {
        let error = &mut failure.error;
        let at = error.line.zip(error.column).map(|(line, column)| Position { line, column });
        if !at.is_some_and(|at| can_be_in(self.code_len, at)) {
            (error.line, error.column) = (None, None);
        }
        error.stack.retain(|frame| can_be_in(self.code_len, frame.position()));
        failure
    }

    /// The end without a `code_done`, by a runner that still has to be stopped.
    fn terminate_with(&mut self, text: &str) {
        if !self.is_finished() {
            self.fail(text);
            self.outputs.insert(1, Output::Terminate); // Behind CancelCalls, before Finished.
        }
    }

    /// The end without a `code_done`.
    fn fail(&mut self, text: &str) {
        let failure = match &self.state {
            State::Greeting { .. } | State::Running { .. } => Failure::internal(text),
            State::Cancelling { why, .. } => why.failure(&self.limits),
            State::Finished => return,
        };
        self.finish(Err(failure), None);
    }

    fn finish(&mut self, ending: RunOutcome, memory_used_bytes: Option<u64>) {
        self.state = State::Finished;
        // What was noted until now was said; what was to be called or sent is nobody's business any more.
        self.outputs.retain(|output| matches!(output, Output::Note(_)));
        self.outputs.push_front(Output::CancelCalls);
        self.outputs.push_back(Output::Finished { ending, memory_used_bytes });
    }
}

/// How many bytes the arguments of the calls under way may take. The guest's own count stays within its memory limit;
/// another runner may write values at greater length.
fn most_arguments(limits: &Limits) -> usize {
    limits.memory_len().max(1 << 20).saturating_mul(2)
}
