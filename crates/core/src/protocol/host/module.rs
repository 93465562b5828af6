//! The module contract, from the host's side.

use std::time::Duration;

use super::checks::{PendingCalls, can_contain, too_early};
use super::{End, HostContract, HostOptions, HostSession, Misbehaviour, Output, Received};
use crate::contract::module::{Failure, Request, RunOutcome, Status};
use crate::engine::{Call, Notification, Pending};
use crate::language::Position;
use crate::mailbox::CALL_COST;
use crate::program::Limits;
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::module::{CodeCall, CodeDone, CodeNotify, RunCode, Settle};
use crate::value::{Graph, Value};

/// See the [module](self).
#[derive(Debug)]
pub struct ModuleHost {
    id: String,
    limits: Limits,
    /// The length of the longest source in bytes.
    code_len: usize,
    /// The number of the last call. The next one must be greater.
    last_call: u64,
    pending: PendingCalls<()>,
    /// How many more bytes of notifications the run may send.
    notification_room: usize,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// The value or the failure.
    pub outcome: RunOutcome,
    /// The most memory that the program used, if the runner reported it.
    pub memory_used_bytes: Option<u64>,
}

impl HostSession<ModuleHost> {
    /// Starts a run.
    pub fn module(id: String, request: Request, options: HostOptions, now: Duration) -> Self {
        let limits = request.limits;
        let contract = ModuleHost {
            id: id.clone(),
            limits,
            code_len: request.modules.values().chain([&request.source]).map(String::len).max().unwrap_or_default(),
            last_call: 0,
            // Other runners may encode values less compactly.
            pending: PendingCalls::new(&limits, 2),
            notification_room: limits.memory_len(),
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

    fn receive(&mut self, message: RunnerMessage, is_running: bool) -> Result<Received<Self>, Misbehaviour> {
        Ok(match message {
            RunnerMessage::CodeCall(CodeCall { id, call }) if id == self.id && is_running => {
                Received::Output(self.call(call)?)
            }
            RunnerMessage::CodeNotify(CodeNotify { id, notification }) if id == self.id && is_running => {
                Received::Output(self.notify(notification)?)
            }
            RunnerMessage::CodeDone(CodeDone { id, outcome, memory_used_bytes, .. }) if id == self.id => {
                Received::Done(RunEnd { outcome, memory_used_bytes })
            }
            _ => Received::Nothing,
        })
    }

    /// Promises are always pending: the guest ignores those that it does not know.
    fn settle(&mut self, pending: Pending, result: Result<Value, Value>) -> Option<HostMessage> {
        if let Pending::Call(call) = pending {
            self.pending.remove(call)?;
        }
        Some(HostMessage::Settle(Settle { id: self.id.clone(), pending, result }))
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
        let end = match end {
            End::Done(RunEnd { outcome, memory_used_bytes }) => {
                RunEnd { outcome: outcome.map_err(|failure| self.checked(failure, elapsed)), memory_used_bytes }
            }
            End::Stopped(stop, done) => RunEnd {
                outcome: Err(stop.failure(&self.limits)),
                memory_used_bytes: done.and_then(|done| done.memory_used_bytes),
            },
            End::Failed(failure) => RunEnd { outcome: Err(Failure::internal(failure)), memory_used_bytes: None },
        };
        (Vec::new(), end)
    }

    fn leaves_doubt(end: &RunEnd) -> bool {
        let is_doubtful = |failure: &Failure| failure.status == Status::Terminated || failure.error.is_internal;
        end.outcome.as_ref().is_err_and(is_doubtful)
    }
}

impl ModuleHost {
    fn call(&mut self, call: Call) -> Result<Output<Self>, Misbehaviour> {
        if call.id.0 <= self.last_call {
            return Err(Misbehaviour::DuplicateCall(call.id.to_string()));
        }
        self.pending.insert(call.id, (), call.input.as_bytes().len())?;
        self.last_call = call.id.0;
        Ok(Output::Call(call))
    }

    fn notify(&mut self, notification: Notification) -> Result<Output<Self>, Misbehaviour> {
        let cost = CALL_COST.saturating_add(notification.args.as_bytes().len());
        let room = self.notification_room.checked_sub(cost);
        self.notification_room = room.ok_or(Misbehaviour::TooManyNotifications)?;
        Ok(Output::Notify(notification))
    }

    /// A failure of the runner with its claims checked: only time can end a run by the safety cap, and positions must be
    /// in the sources.
    fn checked(&self, mut failure: Failure, elapsed: Duration) -> Failure {
        if failure.status == Status::Terminated
            && let Some(early) = too_early(self.limits.timeout, elapsed)
        {
            return Failure::internal(format!("{early}: {}", failure.error.message));
        }
        let error = &mut failure.error;
        let at = error.line.zip(error.column).map(|(line, column)| Position { line, column });
        if !at.is_some_and(|at| can_contain(self.code_len, at)) {
            (error.line, error.column) = (None, None);
        }
        error.stack.retain(|frame| can_contain(self.code_len, frame.position()));
        failure
    }
}
