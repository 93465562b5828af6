//! A program of a runner, whatever its contract: a source until it is compiled, and then a contract whose calls, notices,
//! answers and end are messages.

use std::time::Duration;

use crate::contract::stop::Stop;
use crate::contract::{Action, Contract, Request};
use crate::engine::{Event, Outcome, Pending, Settlement};
use crate::execution::{Clock, CompileFailure, CompileTimer, Execution, compile};
use crate::language::Language;
use crate::program::{Limits, Program};
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::usage::UsageLimiter;

/// What differs between the contracts, from the runner's side: the messages of a program.
pub(super) trait Wire: Sized + Send + 'static {
    type Request: Request<Contract: Send, Error: Send> + Send;

    fn limits_mut(request: &mut Self::Request) -> &mut Limits;

    /// The length of the longest source in bytes.
    fn longest_source(request: &Self::Request) -> usize;

    /// Whether the program has functions apart from its code.
    fn has_functions(_: &Self::Request) -> bool {
        false
    }

    /// The message of a call.
    fn call(&mut self, id: &str, call: <ContractOf<Self> as Contract>::Call) -> RunnerMessage;

    /// The message of a notice; `None` if the host did not ask for it.
    fn notice(
        &mut self,
        id: &str,
        contract: &mut ContractOf<Self>,
        notice: <ContractOf<Self> as Contract>::Notice,
    ) -> Option<RunnerMessage>;

    /// How an answer of the host settles a call or promise; `None` if that is not pending.
    fn settlement(
        &mut self,
        id: &str,
        contract: &mut ContractOf<Self>,
        answer: HostMessage,
    ) -> Option<(Pending, Settlement)>;

    /// The last message of a program.
    fn done(id: String, end: EndOf<Self>, duration: Duration) -> RunnerMessage;

    /// The error of a program that has reached a limit, if it ended with one.
    fn limit_error(end: &mut EndOf<Self>) -> Option<&mut ErrorOf<Self>>;

    /// The message of an error, to which notes are added.
    fn message(error: &mut ErrorOf<Self>) -> &mut String;

    /// The answer to a program that is not accepted.
    fn rejected(id: String, why: &str) -> RunnerMessage {
        let error = Self::Request::stopped(&Stop::Failed(why.to_owned()), &Limits::default());
        Self::done(id, Self::Request::failed(error, Duration::ZERO), Duration::ZERO)
    }
}

type ContractOf<W> = <<W as Wire>::Request as Request>::Contract;
type ErrorOf<W> = <<W as Wire>::Request as Request>::Error;
type EndOf<W> = <ContractOf<W> as Contract>::End;

/// A contract whose calls, notices, answers and end are messages.
pub(super) type RunnerContract = dyn Contract<Call = RunnerMessage, Notice = RunnerMessage, Pending = (), Answer = HostMessage, End = RunnerMessage>
    + Send;

/// An accepted program that is not compiled yet.
pub(super) trait Source: Send {
    fn accepted(&self) -> &Accepted;

    /// Compiles the program. The error is its last message.
    fn start(
        self: Box<Self>,
        language: &dyn Language,
        timer: &CompileTimer<'_>,
    ) -> Result<(Program, Execution<RunnerContract>), Box<RunnerMessage>>;

    /// The last message of a program that is stopped before it is started.
    fn stopped(self: Box<Self>, stop: &Stop, now: Duration) -> RunnerMessage;
}

/// What is kept of an accepted program, whatever its contract.
pub(super) struct Accepted {
    pub(super) id: String,
    pub(super) clock: Clock,
    limits: Limits,
    /// The text that errors of limits add about limits that are lower than the host asked for. May be empty.
    note: String,
    /// A source is longer than the limit.
    has_long_source: bool,
}

/// A program under the contract of `W`, with its source or, when it runs, its contract.
pub(super) struct MessageProgram<W, P> {
    accepted: Accepted,
    wire: W,
    program: P,
}

impl<W: Wire> MessageProgram<W, W::Request> {
    /// A program that is accepted now. Its limits are capped.
    pub(super) fn accept(id: String, wire: W, mut program: W::Request, max_limits: &Limits, now: Duration) -> Self {
        let (limits, capped) = program.limits().capped_by(max_limits);
        *W::limits_mut(&mut program) = limits;
        let has_long_source = W::longest_source(&program) > limits.max_source_bytes;
        let note = if capped.is_empty() { String::new() } else { format!("; limits of the runner: {capped}") };
        let accepted = Accepted { id, clock: Clock::new(now, limits.timeout), limits, note, has_long_source };
        Self { accepted, wire, program }
    }
}

impl Accepted {
    /// The last message of a program that was stopped before it was started.
    fn stopped<W: Wire>(self, stop: &Stop, now: Duration) -> RunnerMessage {
        let mut error = W::Request::stopped(stop, &self.limits);
        if !matches!(stop, Stop::Cancelled(_) | Stop::Failed(_)) {
            *W::message(&mut error) += &self.note;
        }
        self.failed::<W>(error, now)
    }

    /// The last message of a program that failed before it was started.
    fn failed<W: Wire>(self, error: ErrorOf<W>, now: Duration) -> RunnerMessage {
        let duration = self.clock.elapsed(now);
        W::done(self.id, W::Request::failed(error, duration), duration)
    }
}

impl<W: Wire> Source for MessageProgram<W, W::Request> {
    fn accepted(&self) -> &Accepted {
        &self.accepted
    }

    fn start(
        self: Box<Self>,
        language: &dyn Language,
        timer: &CompileTimer<'_>,
    ) -> Result<(Program, Execution<RunnerContract>), Box<RunnerMessage>> {
        let Self { accepted, wire, program } = *self;
        let clock = accepted.clock.clone();
        match compile(program, language, &clock, timer) {
            Ok((program, contract)) => {
                let running = MessageProgram { accepted, wire, program: contract };
                Ok((program, Execution::new(Box::new(running), clock)))
            }
            Err(CompileFailure::Stopped(stop)) => Err(Box::new(accepted.stopped::<W>(&stop, (timer.now)()))),
            Err(CompileFailure::Invalid(mut error)) => {
                if accepted.has_long_source {
                    *W::message(&mut error) += &accepted.note;
                }
                Err(Box::new(accepted.failed::<W>(error, (timer.now)())))
            }
        }
    }

    fn stopped(self: Box<Self>, stop: &Stop, now: Duration) -> RunnerMessage {
        self.accepted.stopped::<W>(stop, now)
    }
}

impl<W: Wire> Contract for MessageProgram<W, ContractOf<W>> {
    type Call = RunnerMessage;
    type Notice = RunnerMessage;
    type Pending = ();
    type Answer = HostMessage;
    type End = RunnerMessage;

    fn limits(&self) -> &Limits {
        self.program.limits()
    }

    fn usage(&self) -> &UsageLimiter {
        self.program.usage()
    }

    fn usage_mut(&mut self) -> &mut UsageLimiter {
        self.program.usage_mut()
    }

    fn event(
        &mut self,
        event: Event,
        elapsed: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Action<RunnerMessage, RunnerMessage>, Stop> {
        let Self { accepted, wire, program } = self;
        Ok(match program.event(event, elapsed, should_stop)? {
            Action::Call(call) => Action::Call(wire.call(&accepted.id, call)),
            Action::Notify(notice) => wire.notice(&accepted.id, program, notice).map_or(Action::Ignore, Action::Notify),
            Action::Settle(call, settlement) => Action::Settle(call, settlement),
            Action::Ignore => Action::Ignore,
        })
    }

    fn settlement(&mut self, (): (), answer: HostMessage) -> Option<(Pending, Settlement)> {
        self.wire.settlement(&self.accepted.id, &mut self.program, answer)
    }

    fn stuck(&self) -> Option<Stop> {
        self.program.stuck()
    }

    fn finish(&mut self, end: Result<Outcome, Stop>, duration: Duration) -> RunnerMessage {
        let is_cancelled = matches!(end, Err(Stop::Cancelled(_)));
        let mut end = self.program.finish(end, duration);
        if let Some(error) = W::limit_error(&mut end).filter(|_| !is_cancelled) {
            *W::message(error) += &self.accepted.note;
        }
        W::done(self.accepted.id.clone(), end, duration)
    }
}
