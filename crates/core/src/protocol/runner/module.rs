//! The module contract, from the runner's side.

use std::time::Duration;

use super::{Accepted, RunnerContract, Source};
use crate::contract::module::{CodeExecutionError, Failure, ModuleRun, Request, RunEnd, Status};
use crate::contract::stop::Stop;
use crate::contract::{Action, Contract, Request as _};
use crate::engine::{Call, Event, Outcome, Pending, Settlement};
use crate::execution::{self, CompileFailure, CompileTimer, Execution};
use crate::language::Language;
use crate::program::{Limits, Program};
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::module::{CodeCall, CodeDone, CodeNotify, Settle};
use crate::protocol::script::cannot_cross;
use crate::usage::{Usage, UsageLimiter};
use crate::value::{Graph, Value};

/// The sources of a `run_code` message.
pub(super) struct ModuleSource(pub(super) Box<Request>);

impl Source for ModuleSource {
    fn limits_mut(&mut self) -> &mut Limits {
        &mut self.0.limits
    }

    fn source_bytes(&self) -> usize {
        self.0.source_bytes()
    }

    fn longest_source(&self) -> usize {
        self.0.longest_source()
    }

    fn start(
        self: Box<Self>,
        accepted: Accepted,
        language: &dyn Language,
        timer: &CompileTimer<'_>,
    ) -> Result<(Program, Execution<RunnerContract>), Box<RunnerMessage>> {
        let (limits, clock) = (self.0.limits, accepted.clock.clone());
        match execution::compile(*self.0, language, &clock, timer) {
            Ok((program, run)) => Ok((program, Execution::new(Box::new(ModuleRunner { accepted, run }), clock))),
            Err(CompileFailure::Stopped(stop)) => Err(Box::new(stopped(&accepted, &stop, &limits, (timer.now)()))),
            Err(CompileFailure::Invalid(mut failure)) => {
                failure.error.message += accepted.note_about_sources();
                Err(Box::new(failed(&accepted, failure, (timer.now)())))
            }
        }
    }

    fn stopped(&self, accepted: &Accepted, stop: &Stop, now: Duration) -> RunnerMessage {
        stopped(accepted, stop, &self.0.limits, now)
    }
}

/// A run whose calls and notifications are messages.
struct ModuleRunner {
    accepted: Accepted,
    run: ModuleRun,
}

impl Contract for ModuleRunner {
    type Call = RunnerMessage;
    type Notice = RunnerMessage;
    type Pending = ();
    type Answer = HostMessage;
    type End = RunnerMessage;

    fn limits(&self) -> &Limits {
        self.run.limits()
    }

    fn usage(&self) -> &UsageLimiter {
        self.run.usage()
    }

    fn usage_mut(&mut self) -> &mut UsageLimiter {
        self.run.usage_mut()
    }

    fn event(
        &mut self,
        event: Event,
        elapsed: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Action<RunnerMessage, RunnerMessage>, Stop> {
        let id = || self.accepted.id.clone();
        Ok(match self.run.event(event, elapsed, should_stop)? {
            Action::Call(call) => Action::Call(RunnerMessage::CodeCall(CodeCall { id: id(), call })),
            Action::Notify(notification) => {
                Action::Notify(RunnerMessage::CodeNotify(CodeNotify { id: id(), notification }))
            }
            Action::Settle(call, settlement) => Action::Settle(call, settlement),
            Action::Ignore => Action::Ignore,
        })
    }

    fn settlement(&mut self, (): (), answer: HostMessage) -> Option<(Pending, Settlement)> {
        match answer {
            HostMessage::Settle(Settle { id, pending, result }) if id == self.accepted.id => {
                self.run.settlement(pending, result)
            }
            _ => None,
        }
    }

    fn stuck(&self) -> Option<Stop> {
        self.run.stuck()
    }

    fn finish(&mut self, end: Result<Outcome, Stop>, duration: Duration) -> RunnerMessage {
        let is_cancelled = matches!(end, Err(Stop::Cancelled(_)));
        let mut end = self.run.finish(end, duration);
        if let Err(failure) = &mut end.outcome
            && matches!(failure.status, Status::Memory | Status::Terminated)
            && !is_cancelled
        {
            failure.error.message += &self.accepted.note;
        }
        done(self.accepted.id.clone(), end, duration)
    }
}

/// The last message of a run.
fn done(id: String, end: RunEnd, duration: Duration) -> RunnerMessage {
    let RunEnd { outcome, usage } = end;
    RunnerMessage::CodeDone(CodeDone { id, outcome, duration, usage })
}

/// That of one that was not started.
fn failed(accepted: &Accepted, failure: Failure, now: Duration) -> RunnerMessage {
    let duration = accepted.clock.elapsed(now);
    done(accepted.id.clone(), Request::failed(failure, duration), duration)
}

/// That of one that was stopped before it was started.
fn stopped(accepted: &Accepted, stop: &Stop, limits: &Limits, now: Duration) -> RunnerMessage {
    let mut failure = stop.failure(limits);
    failure.error.message += accepted.note_about(stop);
    failed(accepted, failure, now)
}

/// Rejects a `run_code` message.
pub(super) fn rejected(id: String, why: &str) -> RunnerMessage {
    done(id, Request::failed(Failure::internal(why), Duration::ZERO), Duration::ZERO)
}

/// How a call that is too long to be sent fails in the guest.
pub(super) fn refused(call: &Call, too_long: TooLong) -> (Pending, Settlement) {
    let mut graph = Graph::default();
    let error = graph.error("SerializationError", cannot_cross("the arguments of a call", too_long).message);
    graph.set_root(error);
    let error = graph.to_value("error").unwrap_or_else(|_| Value::undefined());
    (Pending::Call(call.id), Settlement::Rejected(error))
}

/// The end of a run with a notification that is too long to be sent: nothing else could report the loss.
pub(super) fn unreported(id: String, too_long: TooLong) -> RunnerMessage {
    let usage = Usage::default();
    done(id, RunEnd { outcome: Err(cannot_be_sent("a report", too_long)), usage }, Duration::ZERO)
}

/// What to send instead of a `code_done` that is too long; `None` if it is as short as it can be.
pub(super) fn shorter_done(done: CodeDone, too_long: TooLong) -> Option<RunnerMessage> {
    let failure = match &done.outcome {
        Ok(_) => cannot_be_sent("the result", too_long),
        Err(_) if too_long.len <= LONGEST_PLAIN_DONE => return None,
        Err(long) => Failure::new(long.status, CodeExecutionError::new("Error", too_long.to_string())),
    };
    Some(RunnerMessage::CodeDone(CodeDone { outcome: Err(failure), ..done }))
}

/// No `code_done` with a short error is longer than this, in bytes.
const LONGEST_PLAIN_DONE: usize = 4096;

fn cannot_be_sent(what: &str, too_long: TooLong) -> Failure {
    let message = cannot_cross(what, too_long).message;
    Failure::new(Status::Error, CodeExecutionError::new("SerializationError", message))
}
