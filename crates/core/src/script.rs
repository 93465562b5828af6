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

use crate::engine::{Answer, Call, CallId, Event, Frame, LogLine, Outcome, Thrown};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult};
use crate::language::{Language, Position, SyntaxError};
use crate::manifest::ProviderManifest;
use crate::names;
use crate::program::{Limits, Namespace, Program, Source};
use crate::value::Value;

/// What stands for the source in stack frames: `at <script>:3:7`.
const SCRIPT_NAME: &str = "<script>";

/// How many frames of a stack a message shows.
const MAX_FRAMES: usize = 8;

/// How many tools of a namespace a message names.
const MOST_NAMES: usize = 20;

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
    /// Answer the call at once.
    Answer(CallId, Answer),
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
    /// Makes a program of a request.
    ///
    /// # Errors
    /// `runtime_error` for code that is not a program, with the place; `internal_error` for providers
    /// whose names cannot stand.
    pub fn start(
        language: &dyn Language,
        code: &str,
        providers: &[impl AsRef<ProviderManifest>],
        limits: Limits,
    ) -> Result<(Program, Self), ExecuteError> {
        let providers = || providers.iter().map(AsRef::as_ref);
        names::check_provider_names(providers().map(|provider| provider.name.as_str()))
            .map_err(|error| ExecuteError::internal(error.to_string()))?;
        let body = language.script(code).map_err(|error| syntax_error(&error))?;
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
            // A script is given no such function, and nobody waits for the answer: no call has the number 0.
            Event::Notify(_) => Action::Answer(CallId(0), Err(unknown_function())),
        }
    }

    /// "Non-serializable tool inputs must not be surfaced to the host": such a call fails here.
    fn call(&self, call: &Call) -> Action {
        let Some(&(provider, tool)) = self.targets.get(call.function) else {
            return Action::Answer(call.id, Err(unknown_function()));
        };
        match call.input.to_json("input", self.limits.memory_len()) {
            Ok(input) => Action::CallTool(ToolCall { id: call.id, provider, tool, input }),
            Err(refusal) => {
                let refused = ExecuteError::new(ErrorCode::SerializationError, format!("tool {refusal}"));
                Action::Answer(call.id, Err(refused))
            }
        }
    }

    /// The answer that a tool's result makes. A result that cannot cross becomes `serialization_error`.
    pub fn answer(result: Result<Option<Json>, ExecuteError>) -> Answer {
        let result = result?;
        Value::from_json(result.as_ref(), "tool result")
            .map_err(|refusal| ExecuteError::new(ErrorCode::SerializationError, refusal.to_string()))
    }

    /// The result of a program that came to its own end, `duration` after it was accepted.
    pub fn finish(self, outcome: Outcome, duration: Duration) -> ExecuteResult {
        let outcome = match outcome {
            Outcome::Returned(value) => value
                .to_json("result", self.limits.memory_len())
                .map_err(|refusal| ExecuteError::new(ErrorCode::SerializationError, refusal.to_string())),
            Outcome::Threw(thrown) => Err(self.uncaught(&thrown)),
            Outcome::Unlinked(error) => Err(ExecuteError::internal(error.to_string())), // a script has no modules
            Outcome::Failed { error, frames } => {
                let position = frames.first().map(|frame| frame.position);
                Err(ExecuteError { position, ..error })
            }
            Outcome::OutOfMemory => Err(self.out_of_memory()),
            Outcome::StackOverflow => Err(runtime_error("RangeError: Maximum call stack size exceeded")),
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

    /// An uncaught error: name and message, then the stack in terms of the source as it was given.
    fn uncaught(&self, thrown: &Thrown) -> ExecuteError {
        let position = thrown.frames.first().map(|frame| frame.position);
        let message = self.name_the_callee(thrown, position);
        let mut text = match (thrown.name.as_str(), message.as_str()) {
            ("", message) => message.to_owned(),
            (name, "") => name.to_owned(),
            (name, message) => format!("{name}: {message}"),
        };
        for Frame { function, position: at, .. } in thrown.frames.iter().take(MAX_FRAMES) {
            text += &match function {
                Some(function) => format!("\n    at {function} ({SCRIPT_NAME}:{at})"),
                None => format!("\n    at {SCRIPT_NAME}:{at}"),
            };
        }
        ExecuteError { position, ..runtime_error(text) }
    }

    /// The message of an uncaught error. Engines say `not a function` without saying what is not: the
    /// source at that place does, and a mistyped tool is best answered with the tools that there are.
    fn name_the_callee(&self, thrown: &Thrown, position: Option<Position>) -> String {
        let callee = position.and_then(|at| callee_at(&self.code, at));
        let (Some(callee), "TypeError", "not a function") = (callee, thrown.name.as_str(), thrown.message.as_str())
        else {
            return thrown.message.clone();
        };
        let namespace = callee.split_once('.').and_then(|(name, tool)| {
            let namespace = self.namespaces.iter().find(|namespace| namespace.name == name)?;
            (!namespace.functions.iter().any(|function| function == tool)).then_some(namespace)
        });
        let Some(namespace) = namespace else { return format!("{callee} is not a function") };
        let some: Vec<&str> = namespace.functions.iter().take(MOST_NAMES).map(String::as_str).collect();
        let more = if namespace.functions.len() > MOST_NAMES { ", …" } else { "" };
        format!("{callee} is not a function; {} has {}{more}", namespace.name, some.join(", "))
    }
}

/// The names and dots that are called at a place in source text: `tools.nope` for a place inside
/// `await tools.nope({})` at `nope` or just behind its parenthesis.
pub(crate) fn callee_at(source: &str, at: Position) -> Option<&str> {
    let line = source.lines().nth(at.line.checked_sub(1)? as usize)?;
    let mut units = at.column.checked_sub(1)? as usize;
    let place = line.char_indices().find_map(|(byte, c)| match units.checked_sub(c.len_utf16()) {
        Some(rest) => {
            units = rest;
            None
        }
        None => Some(byte),
    });
    let (before, after) = line.split_at(place.unwrap_or(line.len()));
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let end = match before.strip_suffix('(') {
        Some(callee) => callee.len(),
        None => before.len() + after.find(|c| !is_name(c)).unwrap_or(after.len()),
    };
    let start = line[..end]
        .rfind(|c| !(is_name(c) || c == '.'))
        .map_or(0, |i| i + line[i..].chars().next().map_or(1, char::len_utf8));
    let callee = line[start..end].trim_start_matches('.');
    (callee.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$')) && callee.len() <= 200).then_some(callee)
}

/// The place in the source that an error came from: as it is known, or else as its message names it
/// (the error may have come from afar). For showing the line to people; nothing else may rest on it.
pub fn error_position(error: &ExecuteError) -> Option<Position> {
    error.position.or_else(|| stack_position(&error.message))
}

fn stack_position(message: &str) -> Option<Position> {
    message.lines().skip(1).find_map(|line| {
        let (_, place) = line.trim_start().strip_prefix("at ")?.rsplit_once(SCRIPT_NAME)?;
        let (line, column) = place.strip_prefix(':')?.trim_end_matches(')').split_once(':')?;
        Some(Position { line: line.parse().ok()?, column: column.parse().ok()? })
    })
}

fn syntax_error(error: &SyntaxError) -> ExecuteError {
    let place = error.position.map(|at| format!("\n    at {SCRIPT_NAME}:{at}")).unwrap_or_default();
    let message = format!("SyntaxError: {}{place}", error.message);
    ExecuteError { position: error.position, ..runtime_error(message) }
}

fn unknown_function() -> ExecuteError {
    ExecuteError::internal("the guest called a function that it was not given")
}

fn runtime_error(message: impl Into<String>) -> ExecuteError {
    ExecuteError::new(ErrorCode::RuntimeError, message)
}

fn cancelled() -> ExecuteError {
    ExecuteError::new(ErrorCode::Timeout, "Execution was cancelled")
}

/// `64 MiB`, `1.5 KiB`, `100 bytes`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{} {unit}", (bytes as f64 / size as f64 * 100.0).round() / 100.0),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callee_is_found_at_its_name_or_behind_its_parenthesis() {
        let found = |source, column| callee_at(source, Position { line: 1, column });
        let source = "const r = await tools.nope({ é: f('x') });";
        assert_eq!(found(source, 23), Some("tools.nope"));
        assert_eq!(found(source, 28), Some("tools.nope"));
        assert_eq!(found(source, 35), Some("f"));
        assert_eq!(found("(() => 1)()()", 12), None);
        assert_eq!(found("", 1), None);
        assert_eq!(callee_at("x", Position { line: 9, column: 9 }), None);
        assert_eq!(callee_at("x", Position { line: 0, column: 0 }), None);
    }

    #[test]
    fn the_place_of_an_error_is_read_from_its_stack_and_not_from_its_words() {
        let place = |message: &str| error_position(&runtime_error(message));
        let at = |line, column| Some(Position { line, column });
        assert_eq!(place("Error: x\n    at f (<script>:3:12)\n    at <script>:7:1"), at(3, 12));
        assert_eq!(place("SyntaxError: x\n    at <script>:7:1"), at(7, 1));
        assert_eq!(place("Error: at <script>:1:1"), None);
        assert_eq!(place("Error: x\n    at <script>:a:b"), None);
    }

    #[test]
    fn limits_are_told_in_their_own_units() {
        for (bytes, text) in [(0, "0 bytes"), (1 << 10, "1 KiB"), (64 << 20, "64 MiB"), (3 << 29, "1.5 GiB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
