//! The script contract: `execute(code, providers)` as functions over programs and outcomes (runner specification).
//!
//! [`Script::start`] makes a [`Program`] of a request. While the guest runs, its driver passes every [`Event`] to
//! [`Script::event`], which keeps the log and turns calls into tool calls. At the end, [`Script::finish`] makes the
//! [`ExecuteResult`]. Nothing here runs or waits, or knows what a tool does.
//!
//! Where the error codes of a result come from:
//! - `timeout`: from the driver that stopped the guest, never from the guest;
//! - `memory_limit`: from the engine's allocator;
//! - `tool_error` and `validation_error`: from a call that the host failed, if *that very error* ended the program
//!   ([`Outcome::Failed`]);
//! - `serialization_error`: from the conversion of values in this module;
//! - `runtime_error`: from everything that guest code throws, whatever its text is.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use crate::contract::explain::Given;
use crate::contract::stack::{Uncaught, stack_frame, uncaught};
use crate::contract::stop::Stop;
use crate::contract::{Action, Contract};
use crate::engine::{Call, CallId, Event, LogLine, Outcome, Pending, Settlement, Thrown};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, SCRIPT_NAME, bounded_stack};
use crate::language::{Language, Reading, SyntaxError};
use crate::manifest::ProviderManifest;
use crate::names;
use crate::program::{Limits, Namespace, Program, Source};
use crate::text::bytes_text;
use crate::value::Value;

/// One execution under the script contract.
pub struct Script {
    code: String,
    limits: Limits,
    namespaces: Vec<Arc<Namespace>>,
    /// For every function of the program: the index of its provider, and that of the tool in the provider.
    targets: Vec<(usize, usize)>,
    logs: Vec<String>,
}

/// A call of a tool by the guest, with its input as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The call's id, by which it is settled.
    pub id: CallId,
    /// The index of the provider in the request.
    pub provider: usize,
    /// The index of the tool in the provider.
    pub tool: usize,
    /// The call's first argument; `None` is `undefined`.
    pub input: Option<Json>,
}

impl Script {
    /// Makes a program of a request. Stops reading the code when `should_stop` returns true, and fails with any error.
    ///
    /// # Errors
    /// `runtime_error` for a syntax error, with its position; `internal_error` for invalid or duplicate provider names.
    pub fn start(
        language: &dyn Language,
        code: &str,
        providers: &[impl AsRef<ProviderManifest>],
        limits: Limits,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<(Program, Self), ExecuteError> {
        let providers = || providers.iter().map(AsRef::as_ref);
        names::check_provider_names(providers().map(|provider| provider.name.as_str()))
            .map_err(|error| ExecuteError::internal(error.to_string()))?;
        let reading = Reading { max_source_bytes: limits.max_source_bytes, should_stop };
        let body = language.script(code, &reading).map_err(|error| syntax_error(&error))?;
        let namespaces: Vec<_> = providers().map(ProviderManifest::namespace).collect();
        let source = Source::Script { name: SCRIPT_NAME.to_owned(), code: body };
        let program = Program { source, namespaces: namespaces.clone(), limits };
        let targets = providers()
            .enumerate()
            .flat_map(|(number, provider)| (0..provider.tools.len()).map(move |tool| (number, tool)))
            .collect();
        Ok((program, Self { code: code.to_owned(), limits, namespaces, targets, logs: Vec::new() }))
    }

    /// "Non-serializable tool inputs must not be surfaced to the host": such a call fails here.
    fn call(&self, call: &Call) -> Action<ToolCall, LogLine> {
        let Some(&(provider, tool)) = self.targets.get(call.function.0 as usize) else {
            let error = ExecuteError::internal("the guest called a function that it was not given");
            return Action::Settle(call.id, Settlement::Failed(error));
        };
        match call.input.to_json("input", self.limits.memory_len()) {
            Ok(input) => Action::Call(ToolCall { id: call.id, provider, tool, input }),
            Err(refusal) => {
                let error = ExecuteError::new(ErrorCode::SerializationError, format!("tool {refusal}"));
                Action::Settle(call.id, Settlement::Failed(error))
            }
        }
    }

    /// The result of a program that ended by itself, `duration` after it was accepted.
    pub fn finish(self, outcome: Outcome, duration: Duration) -> ExecuteResult {
        let outcome = match outcome {
            Outcome::Returned(value) => value
                .to_json("result", self.limits.memory_len())
                .map_err(|refusal| ExecuteError::new(ErrorCode::SerializationError, refusal.to_string())),
            Outcome::Threw(thrown) => Err(self.uncaught(&thrown)),
            Outcome::Unlinked(error) => Err(ExecuteError::internal(error.to_string())), // Scripts have no modules.
            Outcome::Failed { error, frames } => {
                let stack = bounded_stack(frames.iter().map(|frame| stack_frame(frame, SCRIPT_NAME)));
                Err(error.with_stack(stack))
            }
            Outcome::OutOfMemory => Err(self.out_of_memory()),
            Outcome::HostMemory(what) => Err(ExecuteError::new(ErrorCode::MemoryLimit, what.message(&self.limits))),
            Outcome::StackOverflow => Err(runtime_error("Maximum call stack size exceeded").with_name("RangeError")),
            Outcome::Interrupted => Err(Stop::Cancelled(None).execute_error(&self.limits)),
            Outcome::Fault(fault) => Err(ExecuteError::internal(fault)),
        };
        ExecuteResult { outcome, logs: self.logs, duration }
    }

    /// The result of a program that was stopped.
    pub fn stopped(self, stop: &Stop, duration: Duration) -> ExecuteResult {
        ExecuteResult { outcome: Err(stop.execute_error(&self.limits)), logs: self.logs, duration }
    }

    fn out_of_memory(&self) -> ExecuteError {
        let limit = bytes_text(self.limits.memory_bytes);
        ExecuteError::new(ErrorCode::MemoryLimit, format!("Execution exceeded its memory limit of {limit}"))
    }

    fn uncaught(&self, thrown: &Thrown) -> ExecuteError {
        let place = |frame: &_| stack_frame(frame, SCRIPT_NAME);
        let Uncaught { message, stack } = uncaught(thrown, place, |_| Some((&self.code, self.given())));
        runtime_error(message).with_name(&thrown.name).with_stack(stack)
    }

    fn given(&self) -> Given<'_> {
        let namespaces = self.namespaces.iter().map(|namespace| {
            let functions = namespace.functions.iter().map(String::as_str);
            (namespace.name.as_str(), functions.collect())
        });
        Given { namespaces: namespaces.collect(), names: vec!["console"] }
    }
}

impl Contract for Script {
    type Call = ToolCall;
    type Notice = LogLine;
    type Pending = CallId;
    type Answer = Result<Option<Json>, ExecuteError>;

    /// Log lines are added to the result.
    fn event(&mut self, event: Event) -> Action<ToolCall, LogLine> {
        match event {
            Event::Log(line) => {
                self.logs.push(line.text.clone());
                Action::Notify(line)
            }
            Event::Call(call) => self.call(&call),
            Event::Notify(_) => Action::Ignore, // Scripts have no such functions.
        }
    }

    fn settlement(call: CallId, answer: Self::Answer) -> (Pending, Settlement) {
        let value = answer.and_then(|result| tool_result(result.as_ref()));
        (Pending::Call(call), value.map_or_else(Settlement::Failed, Settlement::Fulfilled))
    }
}

/// The result of a tool as a value. A result that is not serializable is a `serialization_error`.
pub(crate) fn tool_result(result: Option<&Json>) -> Result<Value, ExecuteError> {
    Value::from_json(result, "tool result")
        .map_err(|error| ExecuteError::new(ErrorCode::SerializationError, error.to_string()))
}

fn syntax_error(error: &SyntaxError) -> ExecuteError {
    ExecuteError { position: error.position, ..runtime_error(error.message.as_str()).with_name("SyntaxError") }
}

fn runtime_error(message: impl Into<String>) -> ExecuteError {
    ExecuteError::new(ErrorCode::RuntimeError, message)
}
