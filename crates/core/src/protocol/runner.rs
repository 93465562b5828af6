//! The runner's half of a session (runner specification, "Session Model" to "Execution Id And Message
//! Correlation").
//!
//! ```text
//!            execute                    the guest is done · cancel · deadline
//!   Idle ──────────────► Active ─────────────────────────────────────────────► Idle
//!          ► started       │ ► Compile ► Start ► tool_call … ► log …   ► done   │
//!                          └──────────────── the transport closes ──────────────┴──► Closed
//! ```
//!
//! A runner that is to stop [drains](RunnerSession::drain) in any state: no execution begins any more, and
//! one that runs has until the grace is over.
//!
//! It knows what is due now, what each call is named, and when time is up. It compiles nothing, runs no guest, carries
//! no bytes, and never learns what a tool does.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::fields::{Fault, MessageError};
use super::line::TooLong;
use super::message::{HostMessage, RunnerMessage};
use super::module::{CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
use super::script::{self, Cancel, Done, Execute, Started, ToolResult, WireCall, WireLog};
use crate::contract::Action;
use crate::contract::module::{CodeExecutionError, Failure, ModuleRun, Request, RunOutcome, Status};
use crate::contract::script::{Script, ToolCall};
use crate::contract::stop::Stop;
use crate::engine::{CallId, Event, Outcome, Pending, Settlement, StartError, Turn};
use crate::error::{ExecuteError, ExecuteResult};
use crate::language::Language;
use crate::manifest::ProviderManifest;
use crate::program::{Limits, Program};
use crate::value::{Graph, Value};

/// What a driver of a [`RunnerSession`] has to do, in the order in which it is told.
#[derive(Debug)]
pub enum Output {
    /// Send this to the host.
    Send(RunnerMessage),
    /// Compile this, and hand the result to [`RunnerSession::handle_compiled`]. It takes time, which counts.
    Compile(Job),
    /// Start this program: it is the guest from here on.
    Start(Program),
    /// Settle this in the guest.
    Settle(Pending, Settlement),
    /// Interrupt the guest and drop it, with everything that it said and that was not handed in yet.
    StopGuest,
}

/// The source of an execution or a run, accepted and not compiled yet.
#[derive(Debug)]
pub struct Job {
    /// Of which execution: see [`RunnerSession::executions`].
    number: u64,
    source: JobSource,
}

#[derive(Debug)]
enum JobSource {
    Script { code: String, providers: Vec<Arc<ProviderManifest>>, limits: Limits, streams_logs: bool },
    Code(Box<Request>),
}

/// What compiling a [`Job`] came to.
pub struct Compiled {
    number: u64,
    result: Result<(Program, Contract), Refused>,
}

/// Source that is not a program, by its contract.
enum Refused {
    Script(ExecuteError),
    Code(Failure),
}

impl Job {
    /// Compiles it; gives up when `should_stop` says so. What comes of it then is not due any more.
    pub fn compile(self, language: &dyn Language, should_stop: &dyn Fn() -> bool) -> Compiled {
        let result = match self.source {
            JobSource::Script { code, providers, limits, streams_logs } => {
                Script::start(language, &code, &providers, limits, should_stop).map_err(Refused::Script).map(
                    |(program, script)| {
                        let run =
                            ScriptRun { script, providers, pending: HashMap::new(), waiting: false, streams_logs };
                        (program, Contract::Script(Box::new(run)))
                    },
                )
            }
            JobSource::Code(request) => {
                let limits = request.limits;
                ModuleRun::start(language, *request, should_stop).map_err(Refused::Code).map(|(program, run)| {
                    (program, Contract::Code { run: Box::new(run), limits, memory_used_bytes: None })
                })
            }
        };
        Compiled { number: self.number, result }
    }
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
/// - what [`Output::Compile`] came to, to [`handle_compiled`](Self::handle_compiled);
/// - what the guest said, to [`handle_event`](Self::handle_event), *before* its turn, to
///   [`handle_turn`](Self::handle_turn);
/// - the time, to [`handle_timeout`](Self::handle_timeout);
/// - the end of the transport, to [`handle_close`](Self::handle_close).
///
/// What comes when it is not due changes nothing.
#[derive(Default)]
pub struct RunnerSession {
    state: State,
    /// How many executions and runs were accepted.
    executions: u64,
    /// How many calls scripts made: no two calls of a connection have one `callId`, so that a late answer to a call of one
    /// execution settles none of another.
    calls: u64,
    /// When the grace of a draining runner is over.
    drained_by: Option<Duration>,
    outputs: VecDeque<Output>,
}

#[derive(Default)]
enum State {
    /// Only `execute` is due.
    #[default]
    Idle,
    /// A guest runs.
    Active(Box<Active>),
    /// Nobody listens any more; nothing is due.
    Closed,
}

/// One execution or run, from its `started` to its `done`.
struct Active {
    id: String,
    number: u64,
    contract: Contract,
    accepted: Duration,
    /// `None` for a timeout too long to be a time.
    deadline: Option<Duration>,
}

/// By which contract it runs.
enum Contract {
    /// Either, not compiled yet.
    Compiling {
        is_code: bool,
        limits: Limits,
    },
    Script(Box<ScriptRun>),
    Code {
        run: Box<ModuleRun>,
        limits: Limits,
        memory_used_bytes: Option<u64>,
    },
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
    /// An idle one.
    pub fn new() -> Self {
        Self::default()
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
            HostMessage::Cancel(Cancel { id }) => self.cancel(&id, now),
            HostMessage::ToolResult(ToolResult { call_id, result }) => self.answer(&call_id, result),
            HostMessage::Hello(_) => self.send(RunnerMessage::Hello(Hello { attachments: false })),
            HostMessage::RunCode(run) => self.run_code(run, now),
            HostMessage::Settle(settle) => self.settle(settle),
        }
    }

    /// Takes in a message that is not as specified, and answers it where it can be: a malformed `execute` by a `done` and
    /// a malformed `tool_result` by the call's failure, both `internal_error`; a `tool_result` that nests too deep by
    /// `serialization_error`. Behind a malformed `settle` nobody knows what was settled: the run ends.
    pub fn handle_malformed(&mut self, error: &MessageError, now: Duration) {
        let failure = ExecuteError::internal(error.to_string());
        match (error.kind.as_str(), &error.id) {
            ("execute", Some(id)) => self.refuse(id, failure),
            ("tool_result", Some(call_id)) => {
                let failure = match &error.fault {
                    Fault::Unreadable(why) => script::cannot_cross("tool result", why),
                    _ => failure,
                };
                self.answer(call_id, Err(failure));
            }
            ("run_code", Some(id)) => self.refuse_code(id, Failure::internal(failure.message)),
            ("settle", Some(id)) if self.is_active_run(id) => {
                self.stop(Halt::Broken(failure.message), now);
            }
            _ => {}
        }
    }

    /// Takes in a program, or why there is none: code that is not a program was accepted too, and is `started` and `done`.
    pub fn handle_compiled(&mut self, compiled: Compiled, now: Duration) {
        self.handle_timeout(now);
        let State::Active(active) = &mut self.state else { return };
        if active.number != compiled.number {
            return;
        }
        match compiled.result {
            Ok((program, contract)) => {
                active.contract = contract;
                self.outputs.push_back(Output::Start(program));
            }
            Err(refused) => {
                let (id, duration) = (std::mem::take(&mut active.id), now.saturating_sub(active.accepted));
                self.state = State::Idle;
                match refused {
                    Refused::Script(error) => self.done(id, ExecuteResult::failed(error, duration)),
                    Refused::Code(failure) => self.code_done(id, Err(failure), duration, None),
                }
            }
        }
    }

    /// Takes in something that the guest said.
    pub fn handle_event(&mut self, event: Event) {
        let State::Active(active) = &mut self.state else { return };
        let output = match &mut active.contract {
            Contract::Script(run) => match run.script.event(event) {
                Action::Notify(line) if run.streams_logs => {
                    Output::Send(RunnerMessage::Log(WireLog { id: active.id.clone(), line }))
                }
                Action::Notify(_) | Action::Ignore => return,
                Action::Settle(call, settlement) => Output::Settle(Pending::Call(call), settlement),
                Action::Call(call) => {
                    self.calls += 1;
                    Output::Send(RunnerMessage::ToolCall(run.call(call, CallId(self.calls))))
                }
            },
            Contract::Compiling { .. } => return,
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

    /// Ends the execution with `timeout` if its deadline has come, and with `internal_error` if the grace of a draining
    /// runner is over.
    pub fn handle_timeout(&mut self, now: Duration) {
        let State::Active(active) = &self.state else { return };
        if active.deadline.is_some_and(|deadline| now >= deadline) {
            let stuck = match &active.contract {
                Contract::Script(run) => run.waiting && run.pending.is_empty(),
                Contract::Compiling { .. } | Contract::Code { .. } => false,
            };
            self.stop(Halt::Stop(Stop::TimedOut { stuck }), now);
        } else if self.drained_by.is_some_and(|end| now >= end) {
            self.stop(Halt::Broken(SHUTTING_DOWN.to_owned()), now);
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
            RunnerMessage::Started(_) | RunnerMessage::Hello(_) => {}
            RunnerMessage::Log(_) => self.stop_streaming_logs(),
            RunnerMessage::ToolCall(call) => {
                self.answer(&call.call_id, Err(script::cannot_cross("tool input", error)));
            }
            RunnerMessage::CodeCall(CodeCall { call, .. }) => {
                let error = code_error(&script::cannot_cross("the arguments of a call", error).message);
                self.outputs.push_front(Output::Settle(Pending::Call(call.id), Settlement::Rejected(error)));
            }
            // Nobody waits for an answer: what cannot be told ends the run.
            RunnerMessage::CodeNotify(CodeNotify { id, .. }) => self.too_much_for(&id, "a report", error),
            RunnerMessage::CodeDone(CodeDone { id, outcome: Ok(_), duration, memory_used_bytes }) => {
                let outcome = Err(cannot_cross("the result", error));
                let done = CodeDone { id, outcome, duration, memory_used_bytes };
                self.outputs.push_front(Output::Send(RunnerMessage::CodeDone(done)));
            }
            RunnerMessage::CodeDone(CodeDone {
                id,
                outcome: Err(Failure { status, .. }),
                duration,
                memory_used_bytes,
            }) => {
                let outcome = Err(Failure::new(status, CodeExecutionError::new("Error", error.to_string())));
                if error.len > LONGEST_PLAIN_DONE {
                    let done = CodeDone { id, outcome, duration, memory_used_bytes };
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
        self.stop_guest();
        self.state = State::Closed;
    }

    /// Accepts an execution.
    fn execute(&mut self, execute: Execute, now: Duration) {
        if !matches!(self.state, State::Idle) {
            let failure = ExecuteError::internal("the runner runs another execution, and one at a time");
            return self.refuse(&execute.id, failure);
        }
        if self.drained_by.is_some() {
            return self.refuse(&execute.id, ExecuteError::internal(SHUTTING_DOWN));
        }
        let Execute { id, code, limits, providers, stream_logs: streams_logs } = execute;
        self.activate(id, JobSource::Script { code, providers, limits, streams_logs }, limits, now);
    }

    /// Accepts a run, as an execution.
    fn run_code(&mut self, run: RunCode, now: Duration) {
        let RunCode { id, request } = run;
        if !matches!(self.state, State::Idle) {
            return self.refuse_code(&id, Failure::internal("the runner runs another program, and one at a time"));
        }
        if self.drained_by.is_some() {
            return self.refuse_code(&id, Failure::internal(SHUTTING_DOWN));
        }
        let limits = request.limits;
        self.activate(id, JobSource::Code(request), limits, now);
    }

    fn activate(&mut self, id: String, source: JobSource, limits: Limits, now: Duration) {
        self.send(RunnerMessage::Started(Started { id: id.clone() }));
        self.executions += 1;
        let number = self.executions;
        let contract = Contract::Compiling { is_code: matches!(source, JobSource::Code(_)), limits };
        let deadline = now.checked_add(limits.timeout);
        self.state = State::Active(Box::new(Active { id, number, contract, accepted: now, deadline }));
        self.handle_timeout(now); // The timeout may be zero.
        if self.is_active() {
            self.outputs.push_back(Output::Compile(Job { number, source }));
        }
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
            self.stop(Halt::Stop(Stop::Cancelled(None)), now);
        }
    }

    /// Answers a call of the guest; one that is not pending any more, or never was, is nobody's.
    fn answer(&mut self, call_id: &str, result: Result<Option<serde_json::Value>, ExecuteError>) {
        if let State::Active(active) = &mut self.state
            && let Contract::Script(run) = &mut active.contract
            && let Some(call) = run.pending.remove(call_id)
        {
            self.outputs.push_back(Output::Settle(Pending::Call(call), Script::settlement(result)));
        }
    }

    /// Settles a call or a promise of a run. What is not pending is for the guest to ignore.
    fn settle(&mut self, settle: Settle) {
        if matches!(&self.state, State::Active(active) if active.id == settle.id) {
            self.outputs.push_back(Output::Settle(settle.pending, settle.result.into()));
        }
    }

    fn is_active_run(&self, id: &str) -> bool {
        matches!(&self.state, State::Active(active) if active.id == id && matches!(active.contract, Contract::Code { .. }))
    }

    fn stop(&mut self, halt: Halt, now: Duration) {
        self.stop_guest();
        self.finish(End::Halted(halt), now);
    }

    /// Stops the guest, if it was started.
    fn stop_guest(&mut self) {
        if let State::Active(active) = &self.state
            && !matches!(active.contract, Contract::Compiling { .. })
        {
            self.outputs.push_back(Output::StopGuest);
        }
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
            self.stop_guest();
            self.state = State::Idle;
            self.code_done(id.to_owned(), Err(cannot_cross(what, error)), Duration::ZERO, None);
        }
    }

    /// Ends the execution, if there is one: `done`, once and last.
    fn finish(&mut self, end: End, now: Duration) {
        let active = match std::mem::replace(&mut self.state, State::Idle) {
            State::Active(active) => *active,
            other => return self.state = other,
        };
        let Active { id, contract, accepted, .. } = active;
        let duration = now.saturating_sub(accepted);
        match (contract, end) {
            (Contract::Compiling { is_code, limits }, end) => {
                let halt = match end {
                    End::Halted(halt) => halt,
                    End::Outcome(_) => Halt::Broken("a program ended that was not started".to_owned()),
                };
                match is_code {
                    false => self.done(id, ExecuteResult::failed(halt.error(&limits), duration)),
                    true => self.code_done(id, Err(halt.failure(&limits)), duration, None),
                }
            }
            (Contract::Script(run), End::Outcome(outcome)) => self.done(id, run.script.finish(outcome, duration)),
            (Contract::Script(run), End::Halted(halt)) => self.done(id, run.halted(halt, duration)),
            (Contract::Code { run, memory_used_bytes, .. }, End::Outcome(outcome)) => {
                self.code_done(id, run.finish(outcome), duration, memory_used_bytes);
            }
            (Contract::Code { limits, memory_used_bytes, .. }, End::Halted(halt)) => {
                self.code_done(id, Err(halt.failure(&limits)), duration, memory_used_bytes);
            }
        }
    }

    fn code_done(&mut self, id: String, outcome: RunOutcome, duration: Duration, memory_used_bytes: Option<u64>) {
        self.send(RunnerMessage::CodeDone(CodeDone { id, outcome, duration, memory_used_bytes }));
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
    Halted(Halt),
}

/// Why a program did not come to an end of its own.
enum Halt {
    Stop(Stop),
    /// Something about host or runner.
    Broken(String),
}

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

/// A `code_done` without a result and with a short message is no longer than this, whatever its id.
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
