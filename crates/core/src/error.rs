//! The public errors of an execution, and its result (runner specification, "Final Result Contract"
//! and "Stable Error Codes").

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

use crate::language::Position;
use crate::pool::Refusal;

/// The closed set of error codes (runner specification, "Stable Error Codes").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The execution ran out of time, or was cancelled.
    Timeout,
    /// The guest was refused memory.
    MemoryLimit,
    /// A tool's input or output does not match its schema.
    ValidationError,
    /// A tool failed, on the host.
    ToolError,
    /// Guest code threw, or is not a program.
    RuntimeError,
    /// A value cannot cross between guest and host.
    SerializationError,
    /// Something between host and guest broke.
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

    /// The code as it stands in messages and results, for example `tool_error`.
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

    /// The code of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an execution, or one tool call, failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ExecuteError {
    /// Which of the seven kinds.
    pub code: ErrorCode,
    /// For people and models. An uncaught guest error has its name and message on the first line,
    /// then its stack, one `    at …` line per frame of the guest's own source.
    pub message: String,
    /// Where in the guest's source it came from, if that is known: for showing the line to people. Not
    /// part of what the specification serialises; a runner of Execbox tells it beside that.
    #[serde(skip)]
    pub position: Option<Position>,
    /// Where an executor turned the execution away before anything of it ran: why. To try again later is
    /// safe then. Not part of what the specification serialises.
    #[serde(skip)]
    pub refusal: Option<Refusal>,
}

impl From<Refusal> for ExecuteError {
    fn from(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::internal(refusal.to_string()) }
    }
}

impl ExecuteError {
    /// An error of that code and message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), position: None, refusal: None }
    }

    /// [`ErrorCode::InternalError`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// [`ErrorCode::ToolError`].
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ToolError, message)
    }
}

/// What an execution came to. Serialises exactly as the runner specification's `ExecuteResult`:
/// `{ok: true, durationMs, logs, result?}` or `{ok: false, durationMs, logs, error}`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecuteResult {
    /// The value of the program, `None` for `undefined`; or why there is none.
    pub outcome: Result<Option<Json>, ExecuteError>,
    /// Console lines, in order, cut to the limits of the execution.
    pub logs: Vec<String>,
    /// Wall time from the acceptance of the execution; on the wire in milliseconds, to the microsecond.
    pub duration: Duration,
}

impl ExecuteResult {
    /// A failure before anything ran.
    pub fn failed(error: ExecuteError, duration: Duration) -> Self {
        Self { outcome: Err(error), logs: Vec::new(), duration }
    }

    /// Whether the execution succeeded.
    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The error, if it failed.
    pub fn error(&self) -> Option<&ExecuteError> {
        self.outcome.as_ref().err()
    }
}

/// The fields as they are spelled on the wire, to be written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenResult<'a> {
    ok: bool,
    duration_ms: f64,
    logs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ExecuteError>,
}

/// The same, as they are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadResult {
    ok: bool,
    duration_ms: f64,
    logs: Vec<String>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Json>,
    #[serde(default)]
    error: Option<ExecuteError>,
}

/// `"result": null` is a null; only a missing `result` is `undefined`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl Serialize for ExecuteResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = self.outcome.as_ref().ok().and_then(Option::as_ref);
        let duration_ms = self.duration.as_micros() as f64 / 1000.0;
        let (ok, logs, error) = (self.is_ok(), &self.logs, self.error());
        WrittenResult { ok, duration_ms, logs, result, error }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExecuteResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let wire = ReadResult::deserialize(deserializer)?;
        let outcome = match (wire.ok, wire.error) {
            (true, None) => Ok(wire.result),
            (false, Some(error)) => Err(error),
            (true, Some(_)) => return Err(D::Error::custom("`ok` is true, yet there is an `error`")),
            (false, None) => return Err(D::Error::custom("`ok` is false, yet there is no `error`")),
        };
        let duration = Duration::try_from_secs_f64(wire.duration_ms / 1000.0)
            .map_err(|_| D::Error::custom("`durationMs` is not a duration"))?;
        Ok(Self { outcome, logs: wire.logs, duration })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_serialise_as_the_specification_has_them() {
        let result =
            |outcome| ExecuteResult { outcome, logs: vec!["a".into()], duration: Duration::from_nanos(1_234_567_890) };
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
    fn a_result_that_contradicts_itself_is_refused() {
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
    fn codes_have_one_name() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
            assert_eq!(ErrorCode::from_name(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::from_name("made_up"), None);
    }
}
