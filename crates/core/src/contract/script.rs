//! The script contract: `execute(code, providers)` as functions over programs and outcomes (runner
//! specification).
//!
//! [`Script::start`] makes a [`Program`] of a request; while the guest runs, its driver hands every
//! [`Event`] to [`Script::event`], which keeps the log and turns calls into tool calls; at the end,
//! [`Script::finish`] makes the [`ExecuteResult`]. Nothing here runs, waits, or knows what a tool does.
//!
//! Who may claim what, in a result:
//! - `timeout` comes from the driver that stopped the guest, never from the guest;
//! - `memory_limit` comes from the engine's allocator;
//! - `tool_error` and `validation_error` come from a call that the host failed and that *that error*
//!   carried to the program's end ([`Outcome::Failed`]);
//! - `serialization_error` comes from the boundary in this module;
//! - everything else that a guest throws is a `runtime_error`, whatever it says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use crate::contract::explain::{Given, explain};
use crate::engine::{Call, CallId, Event, LogLine, Outcome, Settlement, Thrown};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, SCRIPT_NAME};
use crate::language::{Language, Reading, SyntaxError};
use crate::manifest::ProviderManifest;
use crate::names;
use crate::program::{Limits, Namespace, Program, Source};
use crate::text::bytes_text;
use crate::value::Value;

/// One execution under the script contract, from request to result.
pub struct Script {
    code: String,
    limits: Limits,
    namespaces: Vec<Arc<Namespace>>,
    /// For every function of the program: which provider, and which of its tools.
    targets: Vec<(usize, usize)>,
    logs: Vec<String>,
}

/// A call of a tool by the guest, narrowed to JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// To answer it by.
    pub id: CallId,
    /// Which of the request's providers.
    pub provider: usize,
    /// Which of that provider's tools.
    pub tool: usize,
    /// The call's first argument; `None` is `undefined`.
    pub input: Option<Json>,
}

/// What a driver has to do about an event.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Show the line, if anybody watches. It is in the result already.
    Show(LogLine),
    /// Have the tool called, and answer.
    CallTool(ToolCall),
    /// Settle the call at once.
    Settle(CallId, Settlement),
    /// Nothing.
    Ignore,
}

/// Why a driver stopped a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its time was up.
    TimedOut {
        /// It was waiting with no call pending: nothing could ever have moved it.
        stuck: bool,
    },
    /// The caller cancelled it.
    Cancelled,
}

impl Stop {
    /// What an execution comes to that was stopped.
    pub fn error(self, limits: &Limits) -> ExecuteError {
        match self {
            Self::Cancelled => cancelled(),
            Self::TimedOut { stuck } => {
                let limit = limits.timeout.as_secs_f64() * 1000.0;
                let why = if stuck { ": it waits for a promise that no pending tool call can settle" } else { "" };
                ExecuteError::new(ErrorCode::Timeout, format!("Execution timed out after {limit} ms{why}"))
            }
        }
    }
}

impl Script {
    /// Makes a program of a request. Reading the code takes time: it is given up when `should_stop` says so, with an error
    /// that means nothing then.
    ///
    /// # Errors
    /// `runtime_error` for code that is not a program, with the place; `internal_error` for providers
    /// whose names cannot stand.
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

    /// Takes in something that the guest said.
    pub fn event(&mut self, event: Event) -> Action {
        match event {
            Event::Log(line) => {
                self.logs.push(line.text.clone());
                Action::Show(line)
            }
            Event::Call(call) => self.call(&call),
            // Scripts have no functions of this kind: only a compromised engine sends this.
            Event::Notify(_) => Action::Ignore,
        }
    }

    /// "Non-serializable tool inputs must not be surfaced to the host": such a call fails here.
    fn call(&self, call: &Call) -> Action {
        let Some(&(provider, tool)) = self.targets.get(call.function.0 as usize) else {
            let error = ExecuteError::internal("the guest called a function that it was not given");
            return Action::Settle(call.id, Settlement::Failed(error));
        };
        match call.input.to_json("input", self.limits.memory_len()) {
            Ok(input) => Action::CallTool(ToolCall { id: call.id, provider, tool, input }),
            Err(refusal) => {
                let error = ExecuteError::new(ErrorCode::SerializationError, format!("tool {refusal}"));
                Action::Settle(call.id, Settlement::Failed(error))
            }
        }
    }

    /// How a call is settled with the result of its tool. A result that is not serializable is a `serialization_error`.
    pub fn settlement(result: Result<Option<Json>, ExecuteError>) -> Settlement {
        let value = result.and_then(|result| {
            Value::from_json(result.as_ref(), "tool result")
                .map_err(|refusal| ExecuteError::new(ErrorCode::SerializationError, refusal.to_string()))
        });
        value.map_or_else(Settlement::Failed, Settlement::Fulfilled)
    }

    /// The result of a program that came to its own end, `duration` after it was accepted.
    pub fn finish(self, outcome: Outcome, duration: Duration) -> ExecuteResult {
        let outcome = match outcome {
            Outcome::Returned(value) => value
                .to_json("result", self.limits.memory_len())
                .map_err(|refusal| ExecuteError::new(ErrorCode::SerializationError, refusal.to_string())),
            Outcome::Threw(thrown) => Err(self.uncaught(&thrown)),
            Outcome::Unlinked(error) => Err(ExecuteError::internal(error.to_string())), // a script has no modules
            Outcome::Failed { error, frames } => Err(error.on(&frames)),
            Outcome::OutOfMemory => Err(self.out_of_memory()),
            Outcome::HostMemory(what) => Err(ExecuteError::new(ErrorCode::MemoryLimit, what.message(&self.limits))),
            Outcome::StackOverflow => Err(runtime_error("Maximum call stack size exceeded").named("RangeError")),
            Outcome::Interrupted => Err(cancelled()),
            Outcome::Fault(fault) => Err(ExecuteError::internal(fault)),
        };
        ExecuteResult { outcome, logs: self.logs, duration }
    }

    /// The result of a program that was stopped.
    pub fn stopped(self, stop: Stop, duration: Duration) -> ExecuteResult {
        ExecuteResult { outcome: Err(stop.error(&self.limits)), logs: self.logs, duration }
    }

    fn out_of_memory(&self) -> ExecuteError {
        let limit = bytes_text(self.limits.memory_bytes);
        ExecuteError::new(ErrorCode::MemoryLimit, format!("Execution exceeded its memory limit of {limit}"))
    }

    fn uncaught(&self, thrown: &Thrown) -> ExecuteError {
        let message = match thrown.frames.first() {
            Some(frame) => explain(thrown, &self.code, frame.position, &self.given()),
            None => thrown.message.clone(),
        };
        runtime_error(message).named(&thrown.name).on(&thrown.frames)
    }

    /// What the program was given.
    fn given(&self) -> Given<'_> {
        let namespaces = self.namespaces.iter().map(|namespace| {
            let functions = namespace.functions.iter().map(String::as_str);
            (namespace.name.as_str(), functions.collect())
        });
        Given { namespaces: namespaces.collect(), names: vec!["console"] }
    }
}

fn syntax_error(error: &SyntaxError) -> ExecuteError {
    ExecuteError { position: error.position, ..runtime_error(error.message.as_str()).named("SyntaxError") }
}

fn runtime_error(message: impl Into<String>) -> ExecuteError {
    ExecuteError::new(ErrorCode::RuntimeError, message)
}

fn cancelled() -> ExecuteError {
    ExecuteError::new(ErrorCode::Timeout, "Execution was cancelled")
}
