//! The script contract, from the runner's side.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::program::Wire;
use crate::budget::Charge;
use crate::contract::script::{Request, Script, ToolCall};
use crate::engine::{CallId, LogLine, Pending, Settlement};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult};
use crate::manifest::ProviderManifest;
use crate::program::Limits;
use crate::protocol::line::TooLong;
use crate::protocol::message::{HostMessage, RunnerMessage};
use crate::protocol::script::{
    Done, Execute, MAX_REPEATED_LOG_BYTES, ToolResult, WireCall, WireLog, cut_line, shortened,
};

/// The messages of one execution.
pub(super) struct ScriptWire {
    providers: Vec<Arc<ProviderManifest>>,
    /// Calls that the host has not answered, by `callId`.
    pending: HashMap<String, (CallId, Charge)>,
    /// How many calls scripts have made on the connection. A `callId` is never used twice, so that a late answer cannot settle
    /// a call of a later execution.
    calls: Arc<AtomicU64>,
    /// The host asked for `log` messages.
    streams_logs: bool,
    /// How many bytes of lines were sent in `log` messages.
    streamed_bytes: usize,
}

impl ScriptWire {
    /// The parts of an `execute` message. `calls` counts the calls of all scripts on the connection.
    pub(super) fn new(execute: Execute, calls: &Arc<AtomicU64>) -> (String, Self, Request) {
        let Execute { id, code, functions, limits, providers, stream_logs: streams_logs, wait_for_calls, globals } =
            execute;
        let (calls, pending) = (Arc::clone(calls), HashMap::new());
        let wire = Self { providers: providers.clone(), pending, calls, streams_logs, streamed_bytes: 0 };
        (id, wire, Request { code, functions, providers, waits_for_calls: wait_for_calls, globals, limits })
    }
}

impl Wire for ScriptWire {
    type Request = Request;

    fn limits_mut(request: &mut Request) -> &mut Limits {
        &mut request.limits
    }

    fn longest_source(request: &Request) -> usize {
        request.functions.iter().map(|function| function.code.len()).fold(request.code.len(), usize::max)
    }

    fn has_functions(request: &Request) -> bool {
        !request.functions.is_empty()
    }

    fn call(&mut self, _: &str, call: ToolCall) -> RunnerMessage {
        let call_id = CallId(self.calls.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        self.pending.insert(call_id.clone(), (call.id, call.charge));
        let provider = &self.providers[call.provider];
        RunnerMessage::ToolCall(WireCall {
            call_id,
            provider_name: provider.name.clone(),
            safe_tool_name: provider.tools[call.tool].safe_name.clone(),
            input: call.input,
        })
    }

    fn notice(&mut self, id: &str, script: &mut Script, line: LogLine) -> Option<RunnerMessage> {
        if !self.streams_logs {
            return None;
        }
        self.streamed_bytes += line.text.len();
        if self.streamed_bytes > MAX_REPEATED_LOG_BYTES {
            script.forget_log();
        }
        Some(RunnerMessage::Log(WireLog { id: id.to_owned(), line }))
    }

    fn settlement(&mut self, _: &str, script: &mut Script, answer: HostMessage) -> Option<(Pending, Settlement)> {
        let HostMessage::ToolResult(ToolResult { call_id, result }) = answer else { return None };
        let (call, _charge) = self.pending.remove(&call_id)?;
        Some(script.settle(call, result))
    }

    fn done(id: String, result: ExecuteResult, _: Duration) -> RunnerMessage {
        RunnerMessage::Done(Done { id, result, exits: false })
    }

    fn limit_error(result: &mut ExecuteResult) -> Option<&mut ExecuteError> {
        let is_limit =
            |code| matches!(code, ErrorCode::Timeout | ErrorCode::MemoryLimit | ErrorCode::SerializationError);
        result.outcome.as_mut().err().filter(|error| is_limit(error.code))
    }

    fn message(error: &mut ExecuteError) -> &mut String {
        &mut error.message
    }
}

/// What to send instead of a `log` that is too long: a shorter line; `None` if there is none.
pub(super) fn shorter_log(mut log: WireLog, too_long: TooLong) -> Option<RunnerMessage> {
    cut_line(&mut log.line, too_long).then_some(RunnerMessage::Log(log))
}

/// What to send instead of a `done` that is too long: the next part of the result is left out. `None` if nothing is left.
pub(super) fn shorter_done(mut done: Done, too_long: TooLong) -> Option<RunnerMessage> {
    let result = &mut done.result;
    if result.outcome.is_err() && !result.logs.is_empty() {
        result.logs.clear();
    } else {
        result.outcome = Err(shortened(&result.outcome, "result", too_long)?);
    }
    Some(RunnerMessage::Done(done))
}
