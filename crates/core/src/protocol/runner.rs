//! The runner's half of a session (runner specification, "Session Model" to "Execution Id And Message
//! Correlation").
//!
//! ```text
//!            execute                    the guest is done · cancel · deadline
//!   Idle ──────────────► Active ─────────────────────────────────────────────► Idle
//!          ► started       │ ► tool_call … ► log …    ► done                    │
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

use super::code::{CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
use super::line::TooLong;
use super::message::{self, Done, Execute, HostMessage, MessageError, RunnerMessage, ToolResult, WireCall, WireLog};
use crate::code::{Code, CodeExecutionError, Ending, Failure, Status, Stop as CodeStop};
use crate::engine::{Answer, CallId, Event, Outcome, Pending, StartError, Turn};
use crate::error::{ExecuteError, ExecuteResult};
use crate::language::Language;
use crate::manifest::ProviderManifest;
use crate::program::{Limits, Program};
use crate::script::{Action, Script, Stop, ToolCall};
use crate::value::{Graph, Value};

/// What a driver of a [`RunnerSession`] has to do, in the order in which it is told.
#[derive(Debug)]
pub enum Output {
    /// Send this to the host.
    Send(RunnerMessage),
    /// Start this program: it is the guest from here on.
    Start(Program),
    /// Hand this answer to the guest.
    Answer(CallId, Answer),
    /// Settle this in the guest.
    Settle(Pending, Result<Value, Value>),
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

/// One execution or run, from its `started` to its `done`.
struct Active {
    id: String,
    contract: Contract,
    accepted: Duration,
    /// `None` for a timeout too long to be a time.
    deadline: Option<Duration>,
}

/// By which contract it runs.
enum Contract {
    Script(Box<ScriptRun>),
    Code { code: Box<Code>, limits: Limits, memory_used_bytes: Option<u64> },
}

/// One script.
struct ScriptRun {
    script: Script,
    providers: Vec<Arc<ProviderManifest>>,
    /// Calls that the host has not answered, by the ids that it knows them by.
    pending: HashMap<String, CallId>,
    /// The guest stood and waited for answers when it was last polled.
    waiting: bool,
    /// The host asked for log lines as they come, and none was too long for that.
    streams_logs: bool,
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
            HostMessage::ToolResult(ToolResult { call_id, result }) => self.answer(&call_id, result),
            HostMessage::Hello(_) => self.send(RunnerMessage::Hello(Hello { attachments: false })),
            HostMessage::RunCode(run) => self.run_code(*run, now),
            HostMessage::Settle(settle) => self.settle(settle),
        }
    }

    /// Takes in a message that is not as specified, and answers it where it can be: a malformed `execute`
    /// by a `done`, a malformed `tool_result` by the call's failure, both `internal_error`.
    pub fn handle_malformed(&mut self, error: &MessageError) {
        let failure = ExecuteError::internal(error.to_string());
        match (error.kind.as_str(), &error.id) {
            ("execute", Some(id)) => self.refuse(id, failure),
            ("tool_result", Some(call_id)) => self.answer(call_id, Err(failure)),
            ("run_code", Some(id)) => self.refuse_code(id, Failure::internal(failure.message)),
            _ => {}
        }
    }

    /// Takes in something that the guest said.
    pub fn handle_event(&mut self, event: Event) {
        let State::Active(active) = &mut self.state else { return };
        let output = match &mut active.contract {
            Contract::Script(run) => match run.script.event(event) {
                Action::Show(line) if run.streams_logs => {
                    Output::Send(RunnerMessage::Log(WireLog { id: active.id.clone(), line }))
                }
                Action::Show(_) => return,
                Action::Answer(call, answer) => Output::Answer(call, answer),
                Action::CallTool(call) => Output::Send(RunnerMessage::ToolCall(run.call(call))),
            },
            Contract::Code { .. } => {
                let id = active.id.clone();
                Output::Send(match event {
                    Event::Call(call) => RunnerMessage::CodeCall(CodeCall { id, call }),
                    Event::Notify(notification) => RunnerMessage::CodeNotify(CodeNotify { id, notification }),
                    Event::Log(_) => return, // The console of runs notifies.
                })
            }
        };
        self.outputs.push_back(output);
    }

    /// Takes in the most memory that the guest had in use, for its `done`. Call it after each poll of the guest, before
    /// [`handle_turn`](Self::handle_turn): a run that is stopped reports the last.
    pub fn handle_peak_memory(&mut self, bytes: Option<u64>) {
        if let State::Active(active) = &mut self.state
            && let Contract::Code { memory_used_bytes, .. } = &mut active.contract
        {
            *memory_used_bytes = bytes;
        }
    }

    /// Takes in how the guest stands, as its poll said. An outcome behind the deadline comes too late.
    pub fn handle_turn(&mut self, turn: Poll<Turn>, now: Duration) {
        self.handle_timeout(now);
        if let State::Active(active) = &mut self.state
            && let Contract::Script(run) = &mut active.contract
        {
            run.waiting = matches!(turn, Poll::Ready(Turn::Waiting));
        }
        if let Poll::Ready(Turn::Done(outcome)) = turn {
            self.finish(End::Outcome(outcome), now);
        }
    }

    /// The engine did not start the program: `internal_error`.
    pub fn handle_start_error(&mut self, error: &StartError, now: Duration) {
        self.finish(End::Outcome(Outcome::Fault(error.to_string())), now);
    }

    /// Ends the execution with `timeout` if its deadline has come, or the end of a draining runner's grace.
    pub fn handle_timeout(&mut self, now: Duration) {
        let State::Active(active) = &self.state else { return };
        if active.deadline.is_some_and(|deadline| now >= deadline) {
            let stuck = match &active.contract {
                Contract::Script(run) => run.waiting && run.pending.is_empty(),
                Contract::Code { .. } => false,
            };
            self.stop(Stop::TimedOut { stuck }, now);
        } else if self.drained_by.is_some_and(|end| now >= end) {
            self.stop(Stop::Cancelled, now);
        }
    }

    /// A message was too long to be sent. A `tool_call` fails in the guest with `serialization_error`; a `log` is
    /// dropped, and with it all that come later, so that the host has the log's beginning without a gap; a
    /// `done` is sent again with that error in the place of its result, then without its logs, then
    /// without its error's message.
    ///
    /// Call it where the message was polled, before the next poll.
    pub fn handle_too_long(&mut self, message: RunnerMessage, error: TooLong) {
        match message {
            RunnerMessage::Started { .. } | RunnerMessage::Hello(_) => {}
            RunnerMessage::Log(_) => self.stop_streaming_logs(),
            RunnerMessage::ToolCall(call) => {
                self.answer(&call.call_id, Err(message::cannot_cross("tool input", error)));
            }
            RunnerMessage::CodeCall(CodeCall { call, .. }) => {
                let error = code_error(&message::cannot_cross("the arguments of a call", error).message);
                self.outputs.push_front(Output::Settle(Pending::Call(call.id), Err(error)));
            }
            // Nobody waits for an answer: what cannot be told ends the run.
            RunnerMessage::CodeNotify(CodeNotify { id, .. }) => self.too_much_for(&id, "a report", error),
            RunnerMessage::CodeDone(CodeDone { id, ending: Ok(_), duration, memory_used_bytes }) => {
                let ending = Err(cannot_cross("the result", error));
                let done = CodeDone { id, ending, duration, memory_used_bytes };
                self.outputs.push_front(Output::Send(RunnerMessage::CodeDone(done)));
            }
            RunnerMessage::CodeDone(CodeDone {
                id,
                ending: Err(Failure { status, .. }),
                duration,
                memory_used_bytes,
            }) => {
                let ending = Err(Failure::new(status, CodeExecutionError::new("Error", error.to_string())));
                if error.len > LONGEST_PLAIN_DONE {
                    let done = CodeDone { id, ending, duration, memory_used_bytes };
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
        let Execute { id, code, limits, providers, stream_logs: streams_logs } = execute;
        self.send(RunnerMessage::Started { id: id.clone() });
        match Script::start(&*self.language, &code, &providers, limits) {
            Err(error) => self.done(id, ExecuteResult::failed(error, Duration::ZERO)),
            Ok((program, script)) => {
                let run = ScriptRun { script, providers, pending: HashMap::new(), waiting: false, streams_logs };
                self.activate(id, Contract::Script(Box::new(run)), program, limits, now);
            }
        }
    }

    /// Accepts a run, as an execution.
    fn run_code(&mut self, run: RunCode, now: Duration) {
        let RunCode { id, request } = run;
        if !matches!(self.state, State::Idle) {
            return self.refuse_code(&id, Failure::internal("the runner runs another program, and one at a time"));
        }
        if self.drained_by.is_some() {
            return self.refuse_code(&id, Failure::internal("the runner is shutting down"));
        }
        self.send(RunnerMessage::Started { id: id.clone() });
        let limits = request.limits;
        match Code::start(&*self.language, request) {
            Err(failure) => self.code_done(id, Err(failure), Duration::ZERO, None),
            Ok((program, code)) => {
                let contract = Contract::Code { code: Box::new(code), limits, memory_used_bytes: None };
                self.activate(id, contract, program, limits, now);
            }
        }
    }

    fn activate(&mut self, id: String, contract: Contract, program: Program, limits: Limits, now: Duration) {
        let deadline = now.checked_add(limits.timeout);
        self.state = State::Active(Box::new(Active { id, contract, accepted: now, deadline }));
        self.outputs.push_back(Output::Start(program));
        self.handle_timeout(now); // The timeout may be zero.
    }

    /// Answers an `execute` that is not accepted. One that repeats the active id is ignored: a `done`
    /// with that id would end the execution that it belongs to.
    fn refuse(&mut self, id: &str, failure: ExecuteError) {
        if self.is_refusable(id) {
            self.done(id.to_owned(), ExecuteResult::failed(failure, Duration::ZERO));
        }
    }

    fn refuse_code(&mut self, id: &str, failure: Failure) {
        if self.is_refusable(id) {
            self.code_done(id.to_owned(), Err(failure), Duration::ZERO, None);
        }
    }

    fn is_refusable(&self, id: &str) -> bool {
        match &self.state {
            State::Idle => true,
            State::Active(active) => active.id != id,
            State::Closed => false,
        }
    }

    fn cancel(&mut self, id: &str, now: Duration) {
        if matches!(&self.state, State::Active(active) if active.id == id) {
            self.stop(Stop::Cancelled, now);
        }
    }

    /// Answers a call of the guest; one that is not pending any more, or never was, is nobody's.
    fn answer(&mut self, call_id: &str, result: Result<Option<serde_json::Value>, ExecuteError>) {
        if let State::Active(active) = &mut self.state
            && let Contract::Script(run) = &mut active.contract
            && let Some(call) = run.pending.remove(call_id)
        {
            self.outputs.push_back(Output::Answer(call, Script::answer(result)));
        }
    }

    /// Settles a call or a promise of a run. What is not pending is for the guest to ignore.
    fn settle(&mut self, settle: Settle) {
        if matches!(&self.state, State::Active(active) if active.id == settle.id) {
            self.outputs.push_back(Output::Settle(settle.pending, settle.result));
        }
    }

    fn stop(&mut self, stop: Stop, now: Duration) {
        self.outputs.push_back(Output::StopGuest);
        self.finish(End::Stopped(stop), now);
    }

    fn stop_streaming_logs(&mut self) {
        self.outputs.retain(|output| !matches!(output, Output::Send(RunnerMessage::Log(_))));
        if let State::Active(active) = &mut self.state
            && let Contract::Script(run) = &mut active.contract
        {
            run.streams_logs = false;
        }
    }

    /// Ends a run that said what cannot cross.
    fn too_much_for(&mut self, id: &str, what: &str, error: TooLong) {
        if let State::Active(active) = &self.state
            && active.id == id
        {
            self.state = State::Idle;
            self.outputs.push_back(Output::StopGuest);
            self.code_done(id.to_owned(), Err(cannot_cross(what, error)), Duration::ZERO, None);
        }
    }

    /// Ends the execution, if there is one: `done`, once and last.
    fn finish(&mut self, end: End, now: Duration) {
        let active = match std::mem::replace(&mut self.state, State::Idle) {
            State::Active(active) => *active,
            other => return self.state = other,
        };
        let duration = now.saturating_sub(active.accepted);
        match active.contract {
            Contract::Script(run) => {
                let result = match end {
                    End::Outcome(outcome) => run.script.finish(outcome, duration),
                    End::Stopped(stop) => run.script.stopped(stop, duration),
                };
                self.done(active.id, result);
            }
            Contract::Code { code, limits, memory_used_bytes } => {
                let ending = match end {
                    End::Outcome(outcome) => code.finish(outcome),
                    End::Stopped(Stop::Cancelled) => Err(CodeStop::Terminated(None).failure(&limits)),
                    End::Stopped(Stop::TimedOut { .. }) => Err(CodeStop::SafetyCap.failure(&limits)),
                };
                self.code_done(active.id, ending, duration, memory_used_bytes);
            }
        }
    }

    fn code_done(&mut self, id: String, ending: Ending, duration: Duration, memory_used_bytes: Option<u64>) {
        self.send(RunnerMessage::CodeDone(CodeDone { id, ending, duration, memory_used_bytes }));
    }

    fn done(&mut self, id: String, result: ExecuteResult) {
        self.send(RunnerMessage::Done(Done { id, result }));
    }

    fn send(&mut self, message: RunnerMessage) {
        self.outputs.push_back(Output::Send(message));
    }
}

/// How a program came to its end.
enum End {
    Outcome(Outcome),
    Stopped(Stop),
}

/// A `code_done` without a result and with a short message is no longer than this, whatever its id.
const LONGEST_PLAIN_DONE: usize = 4096;

fn cannot_cross(what: &str, error: TooLong) -> Failure {
    let message = message::cannot_cross(what, error).message;
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
