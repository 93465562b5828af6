//! The script contract: `execute(code, providers)` as functions over programs and outcomes (runner specification).
//!
//! A [`Request`] becomes a [`Program`] and a [`Script`]. While the guest runs, every [`Event`] passes through
//! [`event`](Contract::event), which keeps the log and turns calls into tool calls. At the end,
//! [`finish`](Contract::finish) makes the [`ExecuteResult`]. Nothing here runs or waits, or knows what a tool does.
//!
//! Where the error codes of a result come from:
//! - `timeout`: from the driver that stopped the guest, never from the guest. A runner that reports one too early has failed:
//!   `internal_error`;
//! - `memory_limit`: from the engine's allocator, or from the budget of the [`mailbox`](crate::mailbox);
//! - `tool_error` and `validation_error`: from a call that the host failed, if *that very error* ended the program
//!   ([`Outcome::Failed`]). A copy of the error, or an error around it, is a `runtime_error`;
//! - `serialization_error`: from the conversion of values in this module, or from a call that the host failed;
//! - `internal_error`: from the host, if an engine, a runner or a name of the host failed;
//! - `runtime_error`: from everything that guest code throws, whatever its text is, and for code that would wait forever.
//!
//! An engine whose native code was taken over can report any outcome of its own program. It cannot outlast the clock of the
//! driver, use more than the memory around it, call a tool that it was not given, or skip a schema.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use crate::budget::{Budget, Charge, Meter};
use crate::cause::{Cause, ReachedLimit};
use crate::contract::calls::Calls;
use crate::contract::explain::{AvailableNames, Explained};
use crate::contract::functions;
use crate::contract::stack::{Uncaught, stack_frame, uncaught};
use crate::contract::stop::Stop;
use crate::contract::{self, Action, Contract};
use crate::engine::{Call, CallId, Event, LogLine, NoRoom, Outcome, Pending, Settlement, Thrown, UnawaitedCall};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, SCRIPT_NAME, bounded_stack};
use crate::language::{CompileError, CompileLimits, Language, SyntaxError};
use crate::libraries::Globals;
use crate::mailbox::CALL_COST;
use crate::manifest::ProviderManifest;
use crate::program::{Limits, Program, Source};
use crate::usage::{Usage, UsageLimiter};
use crate::value::{Reason, Value, json_size};

pub use crate::contract::functions::ScriptFunction;
pub(crate) use crate::contract::functions::source_bytes;

/// One execution under the script contract.
pub struct Script {
    code: String,
    functions: Vec<ScriptFunction>,
    limits: Limits,
    /// For every host function of the program: the index of its provider, and that of the tool in the provider.
    targets: Vec<(usize, usize)>,
    logs: Vec<String>,
    dropped_logs: u64,
    keeps_log: bool,
    waits_for_calls: bool,
    budget: Budget,
    usage: UsageLimiter,
    calls: Calls,
}

/// A call of a tool by the guest, with its input as JSON.
#[derive(Debug)]
pub struct ToolCall {
    /// The call's id, by which it is settled.
    pub id: CallId,
    /// The index of the provider in the request.
    pub provider: usize,
    /// The index of the tool in the provider.
    pub tool: usize,
    /// The call's first argument; `None` is `undefined`.
    pub input: Option<Json>,
    /// The charge for the input, to be kept until the call is settled.
    pub charge: Charge,
}

/// The request for an execution.
#[derive(Debug, Clone)]
pub struct Request {
    /// The code of the script.
    pub code: String,
    /// Functions that the script may call.
    pub functions: Vec<ScriptFunction>,
    /// The tools that the script may call: their names and descriptions only.
    pub providers: Vec<Arc<ProviderManifest>>,
    /// Whether a script that returns ends only when its calls are answered: see [`Program::waits_for_calls`].
    pub waits_for_calls: bool,
    /// The globals of the script that are not ECMAScript's.
    pub globals: Globals,
    /// What the script may use.
    pub limits: Limits,
}

impl contract::Request for Request {
    type Contract = Script;
    type Error = ExecuteError;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn source_bytes(&self) -> usize {
        source_bytes(&self.code, &self.functions)
    }

    /// # Errors
    /// `runtime_error` for a syntax error of the script, with its position; `memory_limit` if compiling takes too much;
    /// `internal_error` for invalid or duplicate names of providers and functions.
    fn start(self, language: &dyn Language, should_stop: &dyn Fn() -> bool) -> Result<(Program, Script), ExecuteError> {
        let usage = UsageLimiter::new(&self.limits, self.source_bytes());
        let Self { code, functions, providers, waits_for_calls, globals, limits } = self;
        let namespaces: Vec<_> = providers.iter().map(|provider| provider.namespace()).collect();
        functions::check_names(&namespaces, &functions)?;
        let reading = CompileLimits::new(&limits, should_stop);
        let body = language.script(&code, &reading).map_err(compile_error)?;
        let source = Source::Script { name: SCRIPT_NAME.to_owned(), code: body };
        let own = functions::by_namespace(&functions);
        let targets = functions::targets(&namespaces, &own);
        let with_functions = functions::with_functions(&namespaces, own, language, &reading).map_err(compile_error)?;
        let program = Program { waits_for_calls, globals, ..Program::new(source, with_functions, limits) };
        let script = Script {
            usage,
            code,
            functions,
            limits,
            targets,
            logs: Vec::new(),
            dropped_logs: 0,
            keeps_log: true,
            waits_for_calls,
            budget: program.budget.clone(),
            calls: Calls::new(namespaces),
        };
        Ok((program, script))
    }

    fn stopped(stop: &Stop, limits: &Limits) -> ExecuteError {
        stop.execute_error(limits)
    }

    fn failed(error: ExecuteError, duration: Duration) -> ExecuteResult {
        ExecuteResult::failed(error, duration)
    }
}

impl Script {
    /// "Non-serializable tool inputs must not be surfaced to the host": such a call fails here. As JSON, what an input
    /// refers to twice is there twice, and is charged to the budget.
    fn call(
        &mut self,
        call: &Call,
        made: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Action<ToolCall, LogLine>, Stop> {
        let Some(&(provider, tool)) = self.targets.get(call.function.0 as usize) else {
            let error = ExecuteError::internal("the guest called a function that it was not given");
            return Ok(Action::Settle(call.id, Settlement::Failed(error)));
        };
        let limit = self.limits.host_memory_len();
        let is_only = self.budget.used() <= CALL_COST + call.input.as_bytes().len();
        let mut meter = Meter::new(&self.budget, limit, should_stop);
        let mut refusal = match call.input.to_json_metered("input", &mut meter) {
            Ok(input) => {
                let charge = meter.finish();
                self.usage.call(input.as_ref().map_or(0, json_size)).map_err(Stop::Limit)?;
                self.calls.begin(call.id, provider, tool, made);
                self.usage.in_flight(self.calls.in_flight());
                return Ok(Action::Call(ToolCall { id: call.id, provider, tool, input, charge }));
            }
            Err(refusal) => refusal,
        };
        match refusal.reason {
            Reason::Stopped => {
                self.calls.begin(call.id, provider, tool, made); // The driver is about to stop the program.
                return Ok(Action::Ignore);
            }
            Reason::Exhausted(_) if is_only => refusal.reason = Reason::TooLarge(limit),
            Reason::Exhausted(_) => return Err(Stop::HostMemory(NoRoom::Calls)),
            _ => {}
        }
        let error = ExecuteError::new(ErrorCode::SerializationError, format!("tool {refusal}"));
        Ok(Action::Settle(call.id, Settlement::Failed(error)))
    }

    /// The result of a program that ended by itself.
    fn ended(&mut self, outcome: Outcome) -> Result<Option<Json>, ExecuteError> {
        match outcome {
            Outcome::Returned(value) => self.returned(&value),
            Outcome::Threw(thrown) => Err(self.uncaught(&thrown)),
            Outcome::Unlinked(error) => Err(ExecuteError::internal(error.to_string())), // Scripts have no modules.
            Outcome::Failed { mut error, frames } => {
                error.cause = error.cause.take().filter(|cause| self.has_tool_of(cause));
                let stack = bounded_stack(frames.iter().map(stack_frame));
                Err(error.with_stack(stack))
            }
            Outcome::OutOfMemory => Err(Stop::OutOfMemory.execute_error(&self.limits)),
            Outcome::HostMemory(what) => Err(Stop::HostMemory(what).execute_error(&self.limits)),
            Outcome::StackOverflow => Err(runtime_error("Maximum call stack size exceeded").with_name("RangeError")),
            Outcome::Interrupted => Err(Stop::Cancelled(None).execute_error(&self.limits)),
            Outcome::Fault(fault) => Err(ExecuteError::internal(fault)),
        }
    }

    /// Whether a cause, which the guest has kept, is the failed call of a tool of this program.
    fn has_tool_of(&self, cause: &Cause) -> bool {
        let Cause::FailedCall { provider, tool, .. } = cause else { return false };
        let mut named = self.calls.namespaces().iter().filter(|namespace| namespace.name == *provider);
        named.any(|namespace| namespace.functions.contains(tool))
    }

    fn returned(&mut self, value: &Value) -> Result<Option<Json>, ExecuteError> {
        let result = value
            .to_json("result", self.limits.memory_len())
            .map_err(|refusal| ExecuteError::new(ErrorCode::SerializationError, refusal.to_string()))?;
        let sent = self.usage.output(result.as_ref().map_or(0, json_size));
        sent.map(|()| result).map_err(|error| Stop::Limit(error).execute_error(&self.limits))
    }

    /// Drops the log and keeps no further lines: they are sent to the host as they are logged.
    pub(crate) fn forget_log(&mut self) {
        (self.logs, self.keeps_log) = (Vec::new(), false);
    }

    /// The error of a program that was stopped.
    fn stopped(&self, stop: &Stop, duration: Duration) -> ExecuteError {
        match stop {
            Stop::TimedOut => {
                let calls = Some(self.calls.so_far(duration));
                timed_out(ReachedLimit { calls, ..ReachedLimit::timeout(self.limits.timeout, Some(duration)) })
            }
            stop => stop.execute_error(&self.limits),
        }
    }

    /// How the result of a tool settles its call.
    pub(crate) fn settle(&mut self, call: CallId, result: Result<Value, ExecuteError>) -> (Pending, Settlement) {
        self.calls.answer(call, result.as_ref().ok());
        (Pending::Call(call), result.map_or_else(Settlement::Failed, Settlement::Fulfilled))
    }

    fn uncaught(&self, thrown: &Thrown) -> ExecuteError {
        let Uncaught { explained, stack } = uncaught(thrown, stack_frame, |file| self.source(file));
        let Explained { mut message, cause } = explained;
        // As of `shop.list().map(…)`.
        if thrown.name == "TypeError"
            && let Some(call) = self.calls.first_unanswered()
        {
            message += &format!("; {call} has not answered: is an `await` missing?");
        }
        runtime_error(message).with_name(&thrown.name).with_stack(stack).with_cause(cause)
    }

    /// The text of a file, and the names that its code can use.
    fn source(&self, file: &str) -> Option<(&str, AvailableNames<'_>)> {
        if file == SCRIPT_NAME {
            return Some((&self.code, self.available(vec!["console"])));
        }
        let function = self.functions.iter().find(|function| function.file() == file)?;
        Some((&function.code, self.available(vec!["console", "input"])))
    }

    fn available<'a>(&'a self, names: Vec<&'a str>) -> AvailableNames<'a> {
        let mut functions = functions::by_namespace(&self.functions);
        let providers = self.calls.namespaces().iter().map(|provider| {
            let own = functions.remove(provider.name.as_str()).unwrap_or_default();
            let tools = provider.functions.iter().map(String::as_str).filter(|name| !own.contains_key(name));
            (provider.name.as_str(), tools.chain(own.keys().copied()).collect())
        });
        let mut namespaces: Vec<_> = providers.collect();
        namespaces.extend(functions.into_iter().map(|(name, own)| (name, own.into_keys().collect())));
        AvailableNames { namespaces, names, answers: self.calls.answers(), imports: false }
    }
}

impl Contract for Script {
    type Call = ToolCall;
    type Notice = LogLine;
    type Pending = CallId;
    type Answer = Result<Option<Json>, ExecuteError>;
    type End = ExecuteResult;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn usage(&self) -> &UsageLimiter {
        &self.usage
    }

    fn usage_mut(&mut self) -> &mut UsageLimiter {
        &mut self.usage
    }

    /// Log lines are added to the result.
    fn event(
        &mut self,
        event: Event,
        elapsed: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Action<ToolCall, LogLine>, Stop> {
        match event {
            Event::Log(line) => {
                if self.keeps_log {
                    self.logs.push(line.text.clone());
                }
                Ok(Action::Notify(line))
            }
            Event::Call(call) => self.call(&call, elapsed, should_stop),
            Event::Unawaited(UnawaitedCall { count, function, frame }) => {
                if let Some(&(provider, tool)) = self.targets.get(function.0 as usize) {
                    let at = bounded_stack(frame.iter().map(stack_frame)).pop();
                    self.calls.leave(count, provider, tool, at);
                }
                Ok(Action::Ignore)
            }
            Event::DroppedLogs(count) => {
                self.dropped_logs = count;
                Ok(Action::Ignore)
            }
            Event::Notify(_) | Event::Timer(_) => Ok(Action::Ignore), // Scripts have no such functions; the execution has the timer.
        }
    }

    fn settlement(&mut self, call: CallId, answer: Self::Answer) -> Option<(Pending, Settlement)> {
        Some(self.settle(call, answer.and_then(|result| tool_result(result.as_ref()))))
    }

    fn stuck(&self) -> Option<Stop> {
        (self.calls.in_flight() == 0).then_some(Stop::Stuck)
    }

    fn finish(&mut self, end: Result<Outcome, Stop>, duration: Duration) -> ExecuteResult {
        let unawaited = self.calls.unawaited(&end, self.waits_for_calls);
        let outcome = match end {
            Ok(outcome) => self.ended(outcome),
            Err(stop) => Err(self.stopped(&stop, duration)),
        };
        let usage = Usage { peak_host_memory_bytes: Some(self.budget.peak() as u64), ..self.usage.usage() };
        let (logs, dropped_logs) = (std::mem::take(&mut self.logs), self.dropped_logs);
        ExecuteResult { outcome, logs, dropped_logs, unawaited, duration, usage }
    }
}

/// The result of a tool as a value. A result that is not serializable is a `serialization_error`.
pub(crate) fn tool_result(result: Option<&Json>) -> Result<Value, ExecuteError> {
    Value::from_json(result, "tool result")
        .map_err(|error| ExecuteError::new(ErrorCode::SerializationError, error.to_string()))
}

fn compile_error(error: CompileError) -> ExecuteError {
    match error {
        CompileError::Syntax(SyntaxError { message, position }) => {
            ExecuteError { position, ..runtime_error(message).with_name("SyntaxError") }
        }
        CompileError::Memory(_) => ExecuteError::new(ErrorCode::MemoryLimit, error.to_string()),
        CompileError::Stopped => ExecuteError::new(ErrorCode::Timeout, error.to_string()),
    }
}

/// The error of an execution that its timeout stopped.
pub fn timed_out(limit: ReachedLimit) -> ExecuteError {
    let timeout = limit.as_timeout().unwrap_or_default();
    let mut message = format!("Execution timed out after {} ms", timeout.as_secs_f64() * 1000.0);
    message.extend(limit.calls.as_ref().map(ToString::to_string));
    ExecuteError::new(ErrorCode::Timeout, message).with_cause(Cause::Limit(limit))
}

fn runtime_error(message: impl Into<String>) -> ExecuteError {
    ExecuteError::new(ErrorCode::RuntimeError, message)
}
