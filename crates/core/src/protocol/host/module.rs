//! The module contract, from the host's side.

use std::time::Duration;

use super::checks::{PendingCalls, can_contain, checked_calls, session_budget, too_early};
use super::{End, HostContract, HostOptions, HostSession, Misbehavior, Output, Received};
use crate::budget::Budget;
use crate::cause::Cause;
use crate::contract::Request as _;
use crate::contract::module::{Failure, FunctionNames, Request, RunEnd, RunOutcome, Status};
use crate::contract::stop::Stop;
use crate::engine::{Call, FunctionId, Notification, Pending};
use crate::language::Position;
use crate::mailbox::CALL_COST;
use crate::program::Limits;
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::module::{CodeCall, CodeDone, CodeNotify, RunCode, Settle};
use crate::unawaited::{CallPlace, UnawaitedCalls};
use crate::usage::{LimitError, Usage, UsageLimiter};
use crate::value::{Graph, Value};

/// The module contract, from the host's side.
#[derive(Debug)]
pub struct ModuleHost {
    id: String,
    limits: Limits,
    /// The length of the longest source in bytes.
    code_len: usize,
    /// The number of the last call. The next one must be greater.
    last_call: u64,
    pending: PendingCalls<FunctionId>,
    /// The number of calls.
    calls: u64,
    names: FunctionNames,
    budget: Budget,
    usage: UsageLimiter,
}

impl HostSession<ModuleHost> {
    /// Starts a run.
    pub fn module(id: String, request: Request, options: HostOptions, now: Duration) -> Self {
        let limits = request.limits;
        let budget = session_budget(&limits);
        let contract = ModuleHost {
            names: request.function_names(),
            calls: 0,
            id: id.clone(),
            limits,
            code_len: request.longest_source(),
            usage: UsageLimiter::new(&limits, request.source_bytes()),
            last_call: 0,
            pending: PendingCalls::new(&limits, budget.clone()),
            budget,
        };
        Self::start(contract, HostMessage::RunCode(RunCode { id, request: Box::new(request) }), options, now)
    }
}

impl HostContract for ModuleHost {
    type Call = Call;
    type Notice = Notification;
    type Pending = Pending;
    type Answer = Result<Value, Value>;
    type Done = RunEnd;
    type Outcome = RunEnd;

    const NEEDS_HELLO: bool = true;

    fn id(&self) -> &str {
        &self.id
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn receive(&mut self, message: RunnerMessage, is_running: bool) -> Result<Received<Self>, Misbehavior> {
        Ok(match message {
            RunnerMessage::CodeCall(CodeCall { id, call }) if id == self.id && is_running => self.call(call)?,
            RunnerMessage::CodeNotify(CodeNotify { id, notification }) if id == self.id && is_running => {
                self.notify(notification)?
            }
            RunnerMessage::CodeDone(CodeDone { id, outcome, dropped_logs, unawaited, usage, .. }) if id == self.id => {
                Received::Done(RunEnd { outcome, dropped_logs, unawaited, usage })
            }
            _ => Received::Nothing,
        })
    }

    /// Promises are always pending: the guest ignores those that it does not know.
    fn settle(&mut self, pending: Pending, result: Self::Answer) -> Result<Option<HostMessage>, LimitError> {
        if let Pending::Call(call) = pending
            && self.pending.remove(call).is_none()
        {
            return Ok(None);
        }
        let (Ok(value) | Err(value)) = &result;
        self.usage.answer(value.as_bytes().len())?;
        Ok(Some(HostMessage::Settle(Settle { id: self.id.clone(), pending, result })))
    }

    fn shortened(&mut self, message: HostMessage, error: TooLong) -> Option<HostMessage> {
        let HostMessage::Settle(Settle { id, pending, .. }) = message else { return None };
        let mut graph = Graph::default();
        let root = graph.error("SerializationError", format!("a value cannot cross: {error}"));
        graph.set_root(root);
        let error = graph.to_value("error").ok()?;
        Some(HostMessage::Settle(Settle { id, pending, result: Err(error) }))
    }

    fn finish(&mut self, end: End<Self>, elapsed: Duration) -> (Vec<Notification>, RunEnd) {
        let RunEnd { outcome, dropped_logs, unawaited, usage: reported } = match end {
            End::Done(end) => RunEnd { outcome: self.checked(end.outcome, elapsed), ..end },
            End::Stopped(stop, Some(end)) => RunEnd { outcome: Err(stop.failure(&self.limits)), ..end },
            End::Stopped(stop, None) => stop.failure(&self.limits).into(),
            End::OutOfMemory => Stop::OutOfMemory.failure(&self.limits).into(),
            End::Failed(failure) => Failure::internal(failure).into(),
        };
        let unawaited = unawaited.and_then(|calls| self.checked_calls(calls)).or_else(|| self.unanswered());
        let peak_host_memory_bytes = Some(self.budget.peak() as u64);
        let usage = Usage { peak_host_memory_bytes, ..self.usage.usage() };
        let usage = usage.with_reported(&reported, &self.limits, elapsed);
        (Vec::new(), RunEnd { outcome, dropped_logs, unawaited, usage })
    }

    fn makes_runner_untrusted(end: &RunEnd) -> bool {
        let is_doubtful = |failure: &Failure| failure.status == Status::Terminated || failure.error.is_internal;
        end.outcome.as_ref().is_err_and(is_doubtful)
    }
}

impl ModuleHost {
    fn call(&mut self, call: Call) -> Result<Received<Self>, Misbehavior> {
        if call.id.0 <= self.last_call {
            return Err(Misbehavior::DuplicateCall(call.id.to_string()));
        }
        if let Err(error) = self.usage.call(call.input.as_bytes().len()) {
            return Ok(Received::Limit(error));
        }
        self.pending.insert(call.id, call.function, call.input.as_bytes().len())?;
        self.calls += 1;
        self.last_call = call.id.0;
        Ok(Received::Output(Output::Call(call)))
    }

    /// What a runner reports of unawaited calls; `None` if it cannot be.
    fn checked_calls(&self, calls: UnawaitedCalls) -> Option<UnawaitedCalls> {
        let has_function = |call: &CallPlace| self.names.has(call);
        checked_calls(calls, self.calls, has_function, |at| can_contain(self.code_len, at.position()))
    }

    /// The calls that this host has not answered.
    fn unanswered(&self) -> Option<UnawaitedCalls> {
        let places = self.pending.kept().map(|&function| self.names.call(function, None));
        UnawaitedCalls::new(0, self.pending.len() as u64, places)
    }

    fn notify(&mut self, notification: Notification) -> Result<Received<Self>, Misbehavior> {
        if let Err(error) = self.usage.output(notification.report_bytes()) {
            return Ok(Received::Limit(error));
        }
        let charge = self.budget.charge(CALL_COST + notification.args.as_bytes().len());
        Ok(Received::Notice(notification, charge.map_err(|_| Misbehavior::TooManyNotifications)?))
    }

    /// An outcome of the runner with its claims checked. A result counts towards the limit on what is sent.
    fn checked(&mut self, outcome: RunOutcome, elapsed: Duration) -> RunOutcome {
        let value = outcome.map_err(|failure| self.checked_failure(failure, elapsed))?;
        let sent = self.usage.output(value.as_bytes().len());
        sent.map(|()| value).map_err(|error| Stop::Limit(error).failure(&self.limits))
    }

    /// Only a limit can end a run as `terminated`, positions must be in the sources, and the cause must be possible.
    fn checked_failure(&self, mut failure: Failure, elapsed: Duration) -> Failure {
        if failure.status == Status::Terminated
            && let Some(early) = too_early(&self.limits, &self.usage.usage(), elapsed)
        {
            return Failure::internal(format!("{early}: {}", failure.error.message));
        }
        let error = &mut failure.error;
        error.cause = error.cause.take().filter(|cause| is_possible(cause, failure.status));
        let at = error.line.zip(error.column).map(|(line, column)| Position { line, column });
        if !at.is_some_and(|at| can_contain(self.code_len, at)) {
            (error.line, error.column) = (None, None);
        }
        error.stack.retain(|frame| can_contain(self.code_len, frame.position()));
        failure
    }
}

/// Whether a run can have ended with this status for this cause. Host functions throw; they do not fail calls.
fn is_possible(cause: &Cause, status: Status) -> bool {
    match cause {
        Cause::Limit(_) => matches!(status, Status::Terminated | Status::Memory),
        Cause::Cancelled { .. } => status == Status::Terminated,
        Cause::Stuck | Cause::NotDefined { .. } | Cause::NotAFunction { .. } | Cause::PropertyOfNothing { .. } => {
            status == Status::Error
        }
        Cause::FailedCall { .. } => false,
    }
}
