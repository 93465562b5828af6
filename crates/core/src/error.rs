//! The result of an execution and its errors (runner specification, "Final Result Contract" and "Stable Error Codes").

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

use crate::cause::{Cause, MAX_BYTES};
use crate::language::Position;
use crate::link::MAX_NAME_BYTES;
use crate::pool::Rejected;
use crate::text::{OneLine, cut};
use crate::unawaited::UnawaitedCalls;
use crate::usage::Usage;
use crate::value::{SerializationError, TypeMismatch, from_json};

/// The error codes (runner specification, "Stable Error Codes"). The specification fixes them, so that no more are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The timeout passed, or the caller cancelled the execution.
    Timeout,
    /// The guest exceeded its memory limit.
    MemoryLimit,
    /// A tool's input or output does not match its schema.
    ValidationError,
    /// A tool failed on the host.
    ToolError,
    /// Guest code threw an error or has a syntax error.
    RuntimeError,
    /// A value between guest and host is not serializable.
    SerializationError,
    /// A fault between host and guest.
    InternalError,
}

impl ErrorCode {
    const ALL: [Self; 7] = [
        Self::Timeout,
        Self::MemoryLimit,
        Self::ValidationError,
        Self::ToolError,
        Self::RuntimeError,
        Self::SerializationError,
        Self::InternalError,
    ];

    /// The code as in messages and results, for example `tool_error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::MemoryLimit => "memory_limit",
            Self::ValidationError => "validation_error",
            Self::ToolError => "tool_error",
            Self::RuntimeError => "runtime_error",
            Self::SerializationError => "serialization_error",
            Self::InternalError => "internal_error",
        }
    }

    /// The code with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an execution or a tool call failed.
///
/// Serializes as in the runner specification, `{code, message}`, with `name`, `position`, `stack` and `cause` if they are
/// known.
/// [`Display`](fmt::Display) writes the code, then the error as [`render`] does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {}", self.render())]
#[non_exhaustive]
pub struct ExecuteError {
    /// The kind of error.
    pub code: ErrorCode,
    /// The message of the guest's error; a thrown value that is not an error as text; or the message of the host.
    pub message: String,
    /// The name of the guest's error, for example `TypeError`. `None` for a thrown value that is not an error, and for failed
    /// tools and exceeded limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The position in the script, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The innermost frames, at most [`MAX_FRAMES`]. Empty for syntax errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<StackFrame>,
    /// What happened, as data, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "cause")]
    pub cause: Option<Box<Cause>>,
    /// Why an executor rejected the request before anything of it was executed; it is safe to try again later. Not
    /// serialized.
    #[serde(skip)]
    pub rejected: Option<Rejected>,
}

impl From<Rejected> for ExecuteError {
    fn from(rejected: Rejected) -> Self {
        Self { rejected: Some(rejected), ..Self::internal(rejected.to_string()) }
    }
}

impl ExecuteError {
    /// An error with this code and message, and nothing else.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            name: None,
            position: None,
            stack: Vec::new(),
            cause: None,
            rejected: None,
        }
    }

    /// An error with the code [`ErrorCode::InternalError`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// An error with the code [`ErrorCode::ToolError`].
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ToolError, message)
    }

    /// The error without its code as text: see [`render`].
    pub fn render(&self) -> String {
        let place = self.position.filter(|_| self.stack.is_empty()).map(|at| StackFrame::new(None, SCRIPT_NAME, at));
        render(self.name.as_deref(), &self.message, place.as_slice().iter().chain(&self.stack))
    }

    /// Adds a stack, and the position of its innermost frame in the script.
    #[must_use]
    pub(crate) fn with_stack(self, stack: Vec<StackFrame>) -> Self {
        let in_script = stack.iter().find(|frame| frame.file == SCRIPT_NAME);
        Self { position: in_script.map(StackFrame::position), stack, ..self }
    }

    /// The error that a host failed a call with, from [what an engine keeps](Self::to_parts) of it.
    pub fn from_parts(code: &str, message: String, cause: &str) -> Self {
        let code = ErrorCode::from_name(code).unwrap_or(ErrorCode::ToolError);
        let cause = Some(cause).filter(|cause| cause.len() <= MAX_BYTES);
        let cause = cause.and_then(|cause| serde_json::from_str(cause).ok()).and_then(Cause::read);
        Self::new(code, message).with_cause(cause)
    }

    /// What an engine has to keep of the error that a host fails a call with, beside its message: its code, and its cause as
    /// text.
    pub fn to_parts(&self) -> (&'static str, String) {
        let cause = self.cause.as_ref().and_then(|cause| serde_json::to_string(cause).ok());
        (self.code.as_str(), cause.unwrap_or_default())
    }

    /// Adds what happened, as data.
    #[must_use]
    pub fn with_cause(self, cause: impl Into<Option<Cause>>) -> Self {
        Self { cause: cause.into().map(Box::new), ..self }
    }

    /// Adds the name of a guest's error; empty for a value that is not an error.
    #[must_use]
    pub(crate) fn with_name(self, name: &str) -> Self {
        Self { name: (!name.is_empty()).then(|| cut(name, MAX_NAME)), ..self }
    }
}

/// An invalid cause is ignored.
fn cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Cause>>, D::Error> {
    Ok(Cause::read(Json::deserialize(deserializer)?).map(Box::new))
}

// ---- Stacks -------------------------------------------------------------------------------------

/// The file of a script in [`StackFrame`]s.
pub const SCRIPT_NAME: &str = "<script>";

/// The most frames of an error.
pub const MAX_FRAMES: usize = 8;

/// The most characters of the name of an error or a function.
const MAX_NAME: usize = 256;

/// One frame of a stack, in the guest's source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StackFrame {
    /// The function's name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// [`SCRIPT_NAME`], or the name of a function of the script or of a module.
    pub file: String,
    /// 1-based line, in the source as given.
    pub line: u32,
    /// 1-based column, in UTF-16 code units.
    pub column: u32,
}

impl StackFrame {
    /// A frame of `function` at a position in `file`.
    pub fn new(function: Option<String>, file: impl Into<String>, at: Position) -> Self {
        Self { function, file: file.into(), line: at.line, column: at.column }
    }

    /// The position in the file.
    pub fn position(&self) -> Position {
        Position { line: self.line, column: self.column }
    }
}

/// The frame as after `at` in a stack: `total (./lib/math.ts:3:7)`, `<script>:5:1`. Always on one line: names are escaped.
impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(f, "{} ({}:{})", OneLine(function), OneLine(&self.file), self.position()),
            None => write!(f, "{}:{}", OneLine(&self.file), self.position()),
        }
    }
}

/// An error as text, in the format of JavaScript's `error.stack`: name and message, then a line for each frame.
///
/// ```text
/// TypeError: x is not a function
///     at f (<script>:3:7)
///     at <script>:5:1
/// ```
///
/// A message can have lines that look like frames: only the fields of an error are reliable.
pub fn render<'a>(name: Option<&str>, message: &str, stack: impl IntoIterator<Item = &'a StackFrame>) -> String {
    let mut text = match (name.unwrap_or_default(), message) {
        ("", message) => message.to_owned(),
        (name, "") => name.to_owned(),
        (name, message) => format!("{name}: {message}"),
    };
    for frame in stack {
        text += &format!("\n    at {frame}");
    }
    text
}

/// The innermost frames of a stack, with names cut to [`MAX_NAME`].
pub(crate) fn bounded_stack(frames: impl Iterator<Item = StackFrame>) -> Vec<StackFrame> {
    let frames = frames.filter(|frame| frame.file.len() <= MAX_NAME_BYTES).take(MAX_FRAMES);
    frames.map(|frame| StackFrame { function: frame.function.map(|name| cut(&name, MAX_NAME)), ..frame }).collect()
}

// ---- Results ------------------------------------------------------------------------------------

/// The result of an execution. Serializes as `ExecuteResult` of the runner specification:
/// `{ok: true, durationMs, logs, result?}` or `{ok: false, durationMs, logs, error}`, with `droppedLogs`, `unawaited` and
/// `usage`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExecuteResult {
    /// The value of the script, `None` for `undefined`; or the error.
    pub outcome: Result<Option<Json>, ExecuteError>,
    /// The console lines, in order, cut to the log limits.
    pub logs: Vec<String>,
    /// How many console lines the log limits dropped. Serialized if there are any.
    pub dropped_logs: u64,
    /// The calls that the script did not await, if there are any.
    pub unawaited: Option<UnawaitedCalls>,
    /// Wall time from acceptance to result. Serialized in milliseconds, to the microsecond.
    pub duration: Duration,
    /// What the execution used. Serialized if something of it is known.
    pub usage: Usage,
}

impl ExecuteResult {
    /// A result with this outcome, and without logs and usage.
    pub fn new(outcome: Result<Option<Json>, ExecuteError>, duration: Duration) -> Self {
        Self { outcome, logs: Vec::new(), dropped_logs: 0, unawaited: None, duration, usage: Usage::default() }
    }

    /// The result of an execution that failed before its script ran.
    pub fn failed(error: ExecuteError, duration: Duration) -> Self {
        Self::new(Err(error), duration)
    }

    /// Whether the execution succeeded.
    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    /// A sentence for the author of the script about the calls that it did not await, with the remedy if the script returned.
    /// `None` if there are none, or if the error describes them.
    pub fn unawaited_text(&self) -> Option<String> {
        self.unawaited.as_ref()?.text(self.is_ok(), self.error().and_then(|error| error.cause.as_deref()))
    }

    /// The value as a Rust type. `undefined` is read as `null`: as `None`, `()` or [`Json::Null`].
    ///
    /// ```
    /// # use execbox_core::error::ExecuteResult;
    /// # let result: ExecuteResult = serde_json::from_value(serde_json::json!(
    /// #     { "ok": true, "durationMs": 1, "logs": [], "result": { "total": "many" } })).unwrap();
    /// #[derive(Debug, serde::Deserialize)]
    /// struct Report { total: u32 }
    ///
    /// let error = result.value::<Report>().unwrap_err();
    /// assert_eq!(error.to_string(), "result.total does not fit: invalid type: string \"many\", expected u32");
    /// ```
    ///
    /// # Errors
    /// The execution failed, or the value does not fit the type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ValueError<ExecuteError>> {
        let value = self.outcome.as_ref().map_err(|error| ValueError::Failed(Box::new(error.clone())))?;
        from_json(value.as_ref().unwrap_or(&Json::Null), "result").map_err(ValueError::Mismatch)
    }

    /// The error of a failed execution.
    pub fn error(&self) -> Option<&ExecuteError> {
        self.outcome.as_ref().err()
    }
}

/// Why a result has no value of a Rust type: [`ExecuteResult::value`],
/// [`CodeExecutionResult::value`](crate::contract::module::CodeExecutionResult::value).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError<E> {
    /// The execution failed, with this error.
    #[error(transparent)]
    Failed(Box<E>),
    /// The value is not JSON.
    #[error(transparent)]
    NotJson(SerializationError),
    /// The value does not fit the type.
    #[error(transparent)]
    Mismatch(TypeMismatch),
}

/// The fields of a serialized result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenResult<'a> {
    ok: bool,
    duration_ms: f64,
    logs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_logs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ExecuteError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unawaited: Option<&'a UnawaitedCalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
}

/// The fields of a result to deserialize.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadResult {
    ok: bool,
    duration_ms: f64,
    logs: Vec<String>,
    #[serde(default)]
    dropped_logs: u64,
    #[serde(default, deserialize_with = "present")]
    result: Option<Json>,
    #[serde(default)]
    error: Option<ExecuteError>,
    #[serde(default)]
    unawaited: Option<UnawaitedCalls>,
    #[serde(default)]
    usage: Usage,
}

/// `"result": null` is `null`; a missing `result` is `undefined`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl Serialize for ExecuteResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = self.outcome.as_ref().ok().and_then(Option::as_ref);
        let duration_ms = self.duration.as_micros() as f64 / 1000.0;
        let (ok, logs, error) = (self.is_ok(), &self.logs, self.error());
        let (unawaited, usage) = (self.unawaited.as_ref(), self.usage.known());
        let dropped_logs = Some(self.dropped_logs).filter(|count| *count > 0);
        WrittenResult { ok, duration_ms, logs, dropped_logs, result, error, unawaited, usage }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExecuteResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let wire = ReadResult::deserialize(deserializer)?;
        let outcome = match (wire.ok, wire.error) {
            (true, None) => Ok(wire.result),
            (false, Some(error)) => Err(error),
            (true, Some(_)) => return Err(D::Error::custom("unexpected `error` in a result with `ok: true`")),
            (false, None) => return Err(D::Error::custom("missing `error` in a result with `ok: false`")),
        };
        let duration = Duration::try_from_secs_f64(wire.duration_ms / 1000.0)
            .map_err(|_| D::Error::custom("invalid `durationMs`: expected a number that is not negative"))?;
        let ReadResult { logs, dropped_logs, unawaited, usage, .. } = wire;
        Ok(Self { outcome, logs, dropped_logs, unawaited, duration, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_have_values_of_rust_types() {
        let result =
            |outcome| ExecuteResult { outcome, ..ExecuteResult::failed(ExecuteError::tool(""), Duration::ZERO) };
        let some = result(Ok(Some(json!([1, 2]))));
        assert_eq!(some.value(), Ok((1, 2)));
        assert_eq!(
            some.value::<()>().unwrap_err().to_string(),
            "result does not fit: invalid type: sequence, expected unit"
        );
        let undefined = result(Ok(None));
        assert_eq!((undefined.value(), undefined.value()), (Ok(None::<u8>), Ok(Json::Null)));
        let error = ExecuteError::tool("no");
        assert_eq!(result(Err(error.clone())).value::<u8>(), Err(ValueError::Failed(Box::new(error))));
    }

    #[test]
    fn results_serialize_as_specified() {
        let result = |outcome| ExecuteResult {
            outcome,
            logs: vec!["a".into()],
            ..ExecuteResult::failed(ExecuteError::internal(""), Duration::from_nanos(1_234_567_890))
        };
        let error = ExecuteError::new(ErrorCode::MemoryLimit, "too much");
        for (outcome, wire) in [
            (Ok(Some(json!(6))), json!({"ok": true, "durationMs": 1234.567, "logs": ["a"], "result": 6})),
            (Ok(Some(Json::Null)), json!({"ok": true, "durationMs": 1234.567, "logs": ["a"], "result": null})),
            (Ok(None), json!({"ok": true, "durationMs": 1234.567, "logs": ["a"]})),
            (
                Err(error),
                json!({"ok": false, "durationMs": 1234.567, "logs": ["a"],
                       "error": {"code": "memory_limit", "message": "too much"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(result(outcome.clone())).unwrap(), wire);
            assert_eq!(serde_json::from_value::<ExecuteResult>(wire).unwrap().outcome, outcome);
        }
    }

    #[test]
    fn errors_serialize_with_their_known_fields() {
        let at = Position { line: 3, column: 7 };
        let error = ExecuteError {
            position: Some(at),
            stack: vec![StackFrame::new(Some("f".into()), SCRIPT_NAME, at), StackFrame::new(None, SCRIPT_NAME, at)],
            cause: Some(Box::new(Cause::Stuck)),
            ..ExecuteError::new(ErrorCode::RuntimeError, "bad").with_name("TypeError")
        };
        let json = json!({
            "code": "runtime_error", "message": "bad", "name": "TypeError", "position": {"line": 3, "column": 7},
            "stack": [
                {"function": "f", "file": "<script>", "line": 3, "column": 7},
                {"file": "<script>", "line": 3, "column": 7},
            ],
            "cause": {"kind": "stuck"},
        });
        assert_eq!(serde_json::to_value(&error).unwrap(), json);
        assert_eq!(serde_json::from_value::<ExecuteError>(json).unwrap(), error);
        assert_eq!(error.render(), "TypeError: bad\n    at f (<script>:3:7)\n    at <script>:3:7");
        let syntax = ExecuteError { stack: Vec::new(), ..error };
        assert_eq!(syntax.to_string(), "runtime_error: TypeError: bad\n    at <script>:3:7");
        assert_eq!(render(Some("Error"), "", []), "Error");
        assert_eq!(render(None, "words", []), "words");
    }

    #[test]
    fn contradictory_results_are_rejected() {
        for wire in [
            json!({"ok": false, "durationMs": 1, "logs": []}),
            json!({"ok": true, "durationMs": 1, "logs": [], "error": {"code": "timeout", "message": ""}}),
            json!({"ok": false, "durationMs": 1, "logs": [], "error": {"code": "made_up", "message": ""}}),
            json!({"ok": true, "durationMs": -1, "logs": []}),
        ] {
            assert!(serde_json::from_value::<ExecuteResult>(wire.clone()).is_err(), "{wire}");
        }
    }

    #[test]
    fn code_names_are_unique() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
            assert_eq!(ErrorCode::from_name(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::from_name("made_up"), None);
    }
}
