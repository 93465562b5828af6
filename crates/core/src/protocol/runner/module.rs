//! The module contract, from the runner's side.

use std::time::Duration;

use super::program::Wire;
use crate::contract::Contract as _;
use crate::contract::module::{CodeExecutionError, Failure, ModuleRun, Request, RunEnd, Status};
use crate::engine::{Call, Notification, Pending, Settlement};
use crate::program::Limits;
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::module::{CodeCall, CodeDone, CodeNotify};
use crate::protocol::script::cannot_cross;
use crate::value::{Graph, Value};

/// The messages of one run.
pub(super) struct ModuleWire;

impl Wire for ModuleWire {
    type Request = Request;

    fn limits_mut(request: &mut Request) -> &mut Limits {
        &mut request.limits
    }

    fn longest_source(request: &Request) -> usize {
        request.longest_source()
    }

    fn call(&mut self, id: &str, call: Call) -> RunnerMessage {
        RunnerMessage::CodeCall(CodeCall { id: id.to_owned(), call })
    }

    fn notice(&mut self, id: &str, _: &mut ModuleRun, notification: Notification) -> Option<RunnerMessage> {
        Some(RunnerMessage::CodeNotify(CodeNotify { id: id.to_owned(), notification }))
    }

    fn settlement(&mut self, id: &str, run: &mut ModuleRun, answer: HostMessage) -> Option<(Pending, Settlement)> {
        match answer {
            HostMessage::Settle(settle) if settle.id == id => run.settlement(settle.pending, settle.result),
            _ => None,
        }
    }

    fn done(id: String, end: RunEnd, duration: Duration) -> RunnerMessage {
        let RunEnd { outcome, dropped_logs, unawaited, usage } = end;
        RunnerMessage::CodeDone(CodeDone { id, outcome, dropped_logs, unawaited, duration, usage, exits: false })
    }

    fn limit_error(end: &mut RunEnd) -> Option<&mut Failure> {
        let is_limit = |status| matches!(status, Status::Memory | Status::Terminated);
        end.outcome.as_mut().err().filter(|failure| is_limit(failure.status))
    }

    fn message(failure: &mut Failure) -> &mut String {
        &mut failure.error.message
    }
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
    ModuleWire::done(id, cannot_be_sent("a report", too_long).into(), Duration::ZERO)
}

/// What to send instead of a `code_done` that is too long; `None` if it is as short as it can be.
pub(super) fn shorter_done(done: CodeDone, too_long: TooLong) -> Option<RunnerMessage> {
    let failure = match &done.outcome {
        Ok(_) => cannot_be_sent("the result", too_long),
        Err(_) if too_long.len <= LONGEST_PLAIN_DONE => return None,
        Err(long) => Failure::new(long.status, CodeExecutionError::new("Error", too_long.to_string())),
    };
    Some(RunnerMessage::CodeDone(CodeDone { outcome: Err(failure), unawaited: None, ..done }))
}

/// No `code_done` with a short error is longer than this, in bytes.
const LONGEST_PLAIN_DONE: usize = 4096;

fn cannot_be_sent(what: &str, too_long: TooLong) -> Failure {
    let message = cannot_cross(what, too_long).message;
    Failure::new(Status::Error, CodeExecutionError::new("SerializationError", message))
}
