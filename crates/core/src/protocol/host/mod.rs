//! The host's half of a session (protocol reference, "Session Lifecycle" and "Cancellation And Failure Semantics"; runner
//! specification, "Cancellation And Transport Failure").
//!
//! ```text
//!                                cancel() · timeout + backstop              done · close · grace period is over
//!  (Greeting ── hello ──►) Running ───────────────────────────► Cancelling ─────────────────────► Finished
//!     │ ► hello               │ ► program, Call …, Notify …         ► cancel, CancelCalls            ▲
//!     └── hello timeout ──────┴──────────────── done · close · misbehavior ─────────────────────────┘
//! ```
//!
//! One [`HostSession`] is one execution or run. It calls no function and transfers no bytes, and it trusts nothing of a
//! runner that it can check itself: the calls, the time, the limits of logs and notifications, and whether a tool failed.
//! `script` and `module` contain what differs between the contracts. Only the module contract begins with `hello`: see
//! [`RunCode`](super::RunCode).
//!
//! `started` is ignored: no result depends on it, and the specification only recommends it, so a runner may omit or repeat
//! it.

mod checks;
mod module;
mod script;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::iter;
use std::mem;
use std::time::Duration;

use super::fields::MessageError;
use super::line::{LineError, TooLong};
use super::message::{HostMessage, RunnerMessage};
use super::module::Hello;
use super::script::{Cancel, Clock as SetClock};
use crate::budget::{Budget, Charge, Exhausted};
use crate::contract::stop::Stop;
use crate::execution::Clock;
use crate::program::Limits;
use crate::usage::LimitError;

pub use module::ModuleHost;
pub use script::ScriptHost;

/// How long a host waits for a runner beyond what the program itself may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostOptions {
    /// How long after the program's timeout the runner may take to report it. Default: 100 ms.
    pub backstop: Duration,
    /// The grace period: how long after `cancel` the runner may take to finish. Default: 25 ms.
    pub cancel_grace: Duration,
}

impl HostOptions {
    crate::setters! {
        backstop: Duration,
        cancel_grace: Duration,
    }
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { backstop: Duration::from_millis(100), cancel_grace: Duration::from_millis(25) }
    }
}

/// How long a runner may take to answer `hello`. One that does not answer does not support the module contract.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// What the driver of a [`HostSession`] has to do, in this order.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // each is moved once
pub enum Output<C: HostContract> {
    /// Send this to the runner.
    Send(HostMessage),
    /// Make this call, and pass its result to [`HostSession::settle`].
    Call(C::Call),
    /// Show or record this.
    Notify(C::Notice),
    /// Cancel the calls in flight at once. May occur twice.
    CancelCalls,
    /// Close the transport or kill the runner: it cannot be used again.
    Terminate,
    /// The program is over, with this outcome. The last output, exactly once.
    Finished(C::Outcome),
}

/// How the process of a runner ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProcessEnd {
    /// The process exited with this code.
    #[error("exit code {0}")]
    Code(i32),
    /// This signal ended the process.
    #[error("signal {0}")]
    Signal(i32),
}

/// How a transport ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Cleanly, between two messages.
    #[error("the runner closed the connection before it was done")]
    Closed,
    /// The process of the runner has ended.
    #[error("the runner ended with {0} before it was done")]
    Ended(ProcessEnd),
    /// In the middle of a message.
    #[error("the connection to the runner was cut off in the middle of a message")]
    CutOff,
    /// With an error.
    #[error("the connection to the runner failed: {0}")]
    Failed(String),
    /// The runner rejected the host, for this reason.
    #[error("{0}")]
    Rejected(String),
    /// The process of the runner has ended because its guest exhausted its memory: see
    /// [`MEMORY_LIMIT_EXIT_CODE`](crate::engine::MEMORY_LIMIT_EXIT_CODE).
    #[error("the process of the runner ended, as its program exhausted its memory")]
    OutOfMemory,
}

/// A violation of the protocol by the runner. Each ends the session with an internal error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misbehavior {
    /// A line or frame that is not a JSON object.
    #[error("the runner sent an invalid message: {0}")]
    Frame(#[from] LineError),
    /// A message with a missing or wrong field.
    #[error("the runner sent {0}")]
    Message(#[from] MessageError),
    /// A call with the id of an earlier one: an answer could be for either.
    #[error("the runner sent a second call with the id {0:?}")]
    DuplicateCall(String),
    /// More calls are in flight than a guest with these limits can make.
    #[error("the runner has more than {0} calls in flight")]
    TooManyCalls(usize),
    /// The inputs of the calls in flight take more memory than a guest with these limits has.
    #[error("the inputs of the runner's calls in flight exceed their budget: {0}")]
    TooMuchInput(Exhausted),
    /// The program has functions, and the runner did not confirm that it supports them.
    #[error("the runner does not support functions of scripts")]
    NoFunctions,
    /// More notifications than its guest could make within its memory limit wait for the driver.
    #[error("notifications exceed the memory limit")]
    TooManyNotifications,
}

/// What differs between the contracts, from the host's side: the calls and answers, what the guest reports, and the shape
/// of the outcome. Implemented by [`ScriptHost`] and [`ModuleHost`]; the methods are for [`HostSession`].
pub trait HostContract: Debug + Sized {
    /// A call for the driver to make.
    type Call: Debug;
    /// Something that the guest reports without waiting for an answer.
    type Notice: Debug;
    /// Identifies what the driver settles.
    type Pending;
    /// The answer that the driver settles a call or promise with.
    type Answer;
    /// The runner's last message of a program.
    type Done;
    /// How a program ended.
    type Outcome: Debug;

    /// The runner must answer `hello` before the program is sent.
    const NEEDS_HELLO: bool;

    /// The id of the execution or run.
    fn id(&self) -> &str;

    /// The limits of the program.
    fn limits(&self) -> &Limits;

    /// What the runner may make this host keep.
    fn budget(&self) -> &Budget;

    /// Handles a message while the program runs or (with `is_running` false) is being cancelled. Messages with another id
    /// are ignored.
    ///
    /// # Errors
    /// The runner must not send it.
    fn receive(&mut self, message: RunnerMessage, is_running: bool) -> Result<Received<Self>, Misbehavior>;

    /// The message that settles a call or promise; `None` if it is not pending.
    ///
    /// # Errors
    /// The guest may not receive it.
    fn settle(&mut self, pending: Self::Pending, answer: Self::Answer) -> Result<Option<HostMessage>, LimitError>;

    /// What to send instead of a message that is too long; `None` if there is nothing shorter.
    fn shortened(&mut self, message: HostMessage, error: TooLong) -> Option<HostMessage>;

    /// The outcome, and the notices before it that have not been reported yet. `elapsed` is the time since the program was
    /// sent.
    fn finish(&mut self, end: End<Self>, elapsed: Duration) -> (Vec<Self::Notice>, Self::Outcome);

    /// Whether a runner that reported this outcome may still be busy or broken, and must not be used again.
    fn makes_runner_untrusted(outcome: &Self::Outcome) -> bool;
}

/// What follows from a message of the runner.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // each is moved once
pub enum Received<C: HostContract> {
    /// An instruction to the driver.
    Output(Output<C>),
    /// A notice of the guest, with its charge until the driver has polled it.
    Notice(C::Notice, Charge),
    /// The program is over.
    Done(C::Done),
    /// The program has reached a limit.
    Limit(LimitError),
    /// Nothing to do.
    Nothing,
}

/// What ended a program.
#[derive(Debug)]
pub enum End<C: HostContract> {
    /// The runner reported its end.
    Done(C::Done),
    /// The host stopped the program. The runner may have reported the end in time.
    Stopped(Stop, Option<C::Done>),
    /// The process of the runner ended because the program exceeded its memory limit.
    OutOfMemory,
    /// The runner or the transport failed.
    Failed(String),
}

/// A failure of the runner or the transport.
enum Failure {
    OutOfMemory,
    Other(String),
}

/// The host's half of one execution or run.
///
/// The methods come in families:
/// - getters: [`is_running`](Self::is_running), [`is_finished`](Self::is_finished), [`is_reusable`](Self::is_reusable),
///   [`next_timeout`](Self::next_timeout), [`close_reason`](Self::close_reason), [`misbehavior`](Self::misbehavior);
/// - `handle_*` handle what happened, with the time when it happened;
/// - commands: [`settle`](Self::settle), [`set_paused`](Self::set_paused), [`cancel`](Self::cancel);
/// - [`poll_output`](Self::poll_output) returns what to do next.
///
/// Poll outputs until there are none, at the beginning and after every `handle_*` and command. Then wait for a message, a
/// call that finishes, the caller, or [`next_timeout`](Self::next_timeout). Everything after [`Output::Finished`] is ignored.
#[derive(Debug)]
pub struct HostSession<C: HostContract> {
    contract: C,
    options: HostOptions,
    /// When the program was sent.
    began: Duration,
    state: State,
    close_reason: Option<CloseReason>,
    misbehavior: Option<Misbehavior>,
    /// The runner reported the end by itself, with an outcome that does not make it
    /// [untrusted](HostContract::makes_runner_untrusted).
    ended_cleanly: bool,
    /// The runner reported that it ends.
    runner_exits: bool,
    outputs: VecDeque<Output<C>>,
    /// The charges of the notices in `outputs`, in their order. Log lines of scripts have none: their limits bound them.
    notices: VecDeque<Charge>,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there is one of a session
enum State {
    /// The program is sent when the runner answers `hello`.
    Greeting {
        program: HostMessage,
        deadline: Duration,
    },
    /// The clock of the program, with the backstop.
    Running(Clock),
    Cancelling {
        stop: Stop,
        deadline: Duration,
    },
    Finished,
}

impl<C: HostContract> HostSession<C> {
    /// Starts a session that sends `program`.
    fn start(contract: C, program: HostMessage, options: HostOptions, now: Duration) -> Self {
        let mut session = Self {
            contract,
            options,
            began: now,
            state: State::Greeting { program, deadline: now.saturating_add(HELLO_TIMEOUT) },
            close_reason: None,
            misbehavior: None,
            ended_cleanly: false,
            runner_exits: false,
            outputs: VecDeque::new(),
            notices: VecDeque::new(),
        };
        if C::NEEDS_HELLO {
            session.outputs.push_back(Output::Send(HostMessage::Hello(Hello { attachments: false })));
        } else {
            session.send_program(now);
        }
        session
    }

    /// Whether the program was sent, and is not being cancelled or finished.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether the clock of the program is [paused](Self::set_paused).
    pub fn is_paused(&self) -> bool {
        matches!(&self.state, State::Running(clock) if clock.is_paused())
    }

    /// What the runner may make this host keep. A driver charges it for messages while they are read.
    pub fn budget(&self) -> &Budget {
        self.contract.budget()
    }

    /// Whether [`Output::Finished`] is due or was polled.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        match &self.state {
            State::Running(clock) => clock.deadline(),
            State::Greeting { deadline, .. } | State::Cancelling { deadline, .. } => Some(*deadline),
            State::Finished => None,
        }
    }

    /// Whether the runner can be used for another program: it reported the end by itself, with an outcome that does not make
    /// it [untrusted](HostContract::makes_runner_untrusted), and neither ends nor has closed the transport.
    pub fn is_reusable(&self) -> bool {
        self.ended_cleanly && !self.runner_exits && self.close_reason.is_none()
    }

    /// How the transport ended: the first reason that was reported, even after the program was over.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.close_reason.as_ref()
    }

    /// The violation that ended the session, if one did.
    pub fn misbehavior(&self) -> Option<&Misbehavior> {
        self.misbehavior.as_ref()
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output<C>> {
        let output = self.outputs.pop_front();
        if let Some(Output::Notify(_)) = &output {
            self.notices.pop_front();
        }
        output
    }

    /// Handles a message of the runner. Messages with another id are ignored.
    pub fn handle_message(&mut self, message: RunnerMessage, now: Duration) {
        match (&self.state, message) {
            (State::Greeting { .. }, RunnerMessage::Hello(_)) => self.send_program(now),
            (State::Greeting { .. } | State::Finished, _) => {}
            (State::Running(_) | State::Cancelling { .. }, message) => {
                self.runner_exits |= message.exits();
                match self.contract.receive(message, self.is_running()) {
                    Ok(Received::Output(output)) => self.outputs.push_back(output),
                    Ok(Received::Notice(notice, charge)) => {
                        self.outputs.push_back(Output::Notify(notice));
                        self.notices.push_back(charge);
                    }
                    Ok(Received::Done(done)) => self.finish(Ok(done), None, now),
                    Ok(Received::Limit(error)) => self.cancel(Stop::Limit(error), now),
                    Ok(Received::Nothing) => {}
                    Err(misbehavior) => self.handle_misbehavior(misbehavior, now),
                }
            }
        }
    }

    /// Handles a violation of the protocol: anything that the codec or the reading of a message rejected. A malformed
    /// message with another id is ignored, as a well-formed one is.
    pub fn handle_misbehavior(&mut self, misbehavior: impl Into<Misbehavior>, now: Duration) {
        let misbehavior = misbehavior.into();
        let names_another = |error: &MessageError| error.session().is_some_and(|id| id != self.contract.id());
        if self.is_finished() || matches!(&misbehavior, Misbehavior::Message(error) if names_another(error)) {
            return;
        }
        let text = misbehavior.to_string();
        self.misbehavior = Some(misbehavior);
        self.terminate(text, now);
    }

    /// Cancels a program that should have timed out, and terminates a runner that did not answer in time.
    pub fn handle_timeout(&mut self, now: Duration) {
        match &self.state {
            State::Greeting { deadline, .. } if now >= *deadline => {
                self.terminate("the runner does not support run_code: it did not answer `hello`".to_owned(), now);
            }
            State::Running(clock) if clock.is_late(now) => self.cancel(Stop::TimedOut, now),
            State::Cancelling { deadline, .. } if now >= *deadline => {
                self.terminate("the runner did not finish within the grace period".to_owned(), now);
            }
            _ => {}
        }
    }

    /// Handles a message that is too long to be sent. Instead of the result of a call, the guest gets a shorter error;
    /// without its program, the session is over.
    pub fn handle_too_long(&mut self, message: HostMessage, error: TooLong, now: Duration) {
        if matches!(message, HostMessage::Execute(_) | HostMessage::RunCode(_)) {
            let failure = Failure::Other(format!(
                "the program cannot be sent to the runner: {error}; pass shorter sources, or fewer tools"
            ));
            self.finish(Err(failure), None, now);
        } else if self.is_running() {
            let shortened = self.contract.shortened(message, error);
            self.outputs.extend(shortened.map(Output::Send));
        }
    }

    /// Handles the end of the transport. Before the program is over, that is an internal error, or a stop if the program
    /// was being cancelled; or the memory limit, if that ended the process of the runner.
    pub fn handle_close(&mut self, reason: CloseReason, now: Duration) {
        let failure = match self.close_reason.get_or_insert(reason) {
            CloseReason::OutOfMemory => Failure::OutOfMemory,
            reason => Failure::Other(reason.to_string()),
        };
        self.finish(Err(failure), None, now);
    }

    /// Settles a call or a promise. Ignored if it is not pending or the program is not [running](Self::is_running).
    pub fn settle(&mut self, pending: C::Pending, answer: C::Answer, now: Duration) {
        if self.is_running() {
            match self.contract.settle(pending, answer) {
                Ok(message) => self.outputs.extend(message.map(Output::Send)),
                Err(error) => self.cancel(Stop::Limit(error), now),
            }
        }
    }

    /// Pauses the clock of the program while all its calls in flight wait for a person, or resumes it: see
    /// [`MAX_PAUSE`](crate::execution::MAX_PAUSE). The runner still counts the time in which the guest computes.
    pub fn set_paused(&mut self, is_paused: bool, now: Duration) {
        let State::Running(clock) = &mut self.state else { return };
        if clock.is_paused() == is_paused {
            return;
        }
        // For a host, the guest waits as long as the pause takes.
        clock.begin_wait(now);
        clock.set_paused(is_paused, now);
        let id = self.contract.id().to_owned();
        self.outputs.push_back(Output::Send(HostMessage::Clock(SetClock { id, stopped: is_paused })));
    }

    /// Stops the program. No call begins after this.
    pub fn cancel(&mut self, stop: Stop, now: Duration) {
        match self.state {
            State::Running(_) => {
                self.state = State::Cancelling { stop, deadline: now.saturating_add(self.options.cancel_grace) };
                self.outputs.push_back(Output::CancelCalls);
                let id = self.contract.id().to_owned();
                self.outputs.push_back(Output::Send(HostMessage::Cancel(Cancel { id })));
            }
            State::Greeting { .. } => {
                self.state = State::Cancelling { stop, deadline: now };
                self.terminate("the program was cancelled before it was sent".to_owned(), now);
            }
            State::Cancelling { .. } | State::Finished => {}
        }
    }

    /// Sends the program. Its time counts from here.
    fn send_program(&mut self, now: Duration) {
        let time = self.contract.limits().timeout.saturating_add(self.options.backstop);
        let running = State::Running(Clock::new(now, time));
        if let State::Greeting { program, .. } = mem::replace(&mut self.state, running) {
            self.began = now;
            self.outputs.push_back(Output::Send(program));
        }
    }

    /// Ends the session, and the runner with it.
    fn terminate(&mut self, failure: String, now: Duration) {
        self.finish(Err(Failure::Other(failure)), Some(Output::Terminate), now);
    }

    /// Ends the session, once: the only way to [`State::Finished`]. If the program was being cancelled, that decides the
    /// outcome, whatever the runner reported.
    fn finish(&mut self, done: Result<C::Done, Failure>, terminate: Option<Output<C>>, now: Duration) {
        let end = match (mem::replace(&mut self.state, State::Finished), done) {
            (State::Finished, _) => return,
            (State::Cancelling { stop, .. }, done) => End::Stopped(stop, done.ok()),
            (State::Greeting { .. } | State::Running(_), Ok(done)) => End::Done(done),
            (State::Running(_), Err(Failure::OutOfMemory)) => End::OutOfMemory,
            (State::Greeting { .. }, Err(Failure::OutOfMemory)) => End::Failed(CloseReason::OutOfMemory.to_string()),
            (State::Greeting { .. } | State::Running(_), Err(Failure::Other(failure))) => End::Failed(failure),
        };
        let is_own_end = matches!(end, End::Done(_));
        let (notices, outcome) = self.contract.finish(end, now.saturating_sub(self.began));
        self.ended_cleanly = is_own_end && !C::makes_runner_untrusted(&outcome);
        // Earlier notices are kept. Messages and calls are obsolete.
        let earlier = mem::take(&mut self.outputs).into_iter().filter(|output| matches!(output, Output::Notify(_)));
        self.outputs = iter::once(Output::CancelCalls)
            .chain(terminate)
            .chain(earlier)
            .chain(notices.into_iter().map(Output::Notify))
            .chain([Output::Finished(outcome)])
            .collect();
    }
}
