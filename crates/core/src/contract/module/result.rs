//! The host's side of a run: what it reported and logged, and its result.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use crate::budget::{Budget, Meter};
use crate::contract::module::request::{CONSOLE, REPORT};
use crate::engine::{LogLevel, NoRoom, Notification};
use crate::error::{ExecuteError, StackFrame, render};
use crate::language::Position;
use crate::mailbox::CALL_COST;
use crate::pool::Rejected;
use crate::program::Limits;
use crate::text::bytes_text;
use crate::usage::Usage;
use crate::value::{Datum, Graph, Reason, SerializationError, Value};

/// How a run ended: with the value of the selected export, or without a result.
pub type RunOutcome = Result<Value, Failure>;

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status of the result; never [`Status::Success`].
    pub status: Status,
    /// The error of the result.
    pub error: Box<CodeExecutionError>,
}

impl Failure {
    /// A failure with this status and error.
    pub fn new(status: Status, error: CodeExecutionError) -> Self {
        Self { status, error: Box::new(error) }
    }

    /// A fault between host and guest: an `InternalError`.
    pub fn internal(message: impl Into<String>) -> Self {
        let error = CodeExecutionError { is_internal: true, ..CodeExecutionError::new("InternalError", message) };
        Self::new(Status::Error, error)
    }

    /// The run exceeded its memory limit.
    pub(crate) fn out_of_memory(limits: &Limits) -> Self {
        let message = format!("The run exceeded its memory limit of {}", bytes_text(limits.memory_bytes));
        Self::new(Status::Memory, CodeExecutionError::new("MemoryLimitError", message))
    }

    /// The executor rejected the run, or could not start it.
    pub fn rejected(error: ExecuteError) -> Self {
        let mut failure = Self::internal(error.message);
        failure.error.rejected = error.rejected;
        failure
    }

    /// A value is not serializable.
    pub fn serialization(error: &SerializationError) -> Self {
        Self::new(Status::Error, CodeExecutionError::new("SerializationError", error.to_string()))
    }
}

/// A guest's value as a graph for the host. Errors lose their stacks, whose positions are in the compiled code.
///
/// # Errors
/// As [`Value::to_graph_metered`].
pub fn to_graph(value: &Value, what: &str, meter: &mut Meter<'_>) -> Result<Graph, SerializationError> {
    let mut graph = value.to_graph_metered(what, meter)?;
    graph.forget_stacks();
    Ok(graph)
}

/// The reports and the captured log of a run, in order.
#[derive(Debug, Default)]
pub struct Record {
    /// The reports (§5.2).
    pub reports: Vec<Arc<Graph>>,
    /// The calls of the captured console (§4.3).
    pub logs: Vec<CodeExecutionLog>,
}

/// What [`Record::add`] added.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// This report.
    Report(Arc<Graph>),
    /// A call of the console, the last of [`logs`](Record::logs).
    Log,
    /// Nothing: the notification is invalid.
    Nothing,
}

impl Record {
    /// Adds a notification, which is charged to `budget` for good. `timestamp` is in milliseconds since 1970.
    ///
    /// # Errors
    /// The budget does not cover the arguments.
    pub fn add(&mut self, notification: &Notification, timestamp: f64, budget: &Budget) -> Result<Recorded, NoRoom> {
        let mut meter = Meter::new(budget, usize::MAX, &|| false);
        let args = match to_graph(&notification.args, "args", &mut meter) {
            Ok(args) => args,
            Err(SerializationError { reason: Reason::Exhausted(_), .. }) => return Err(NoRoom::Reports),
            Err(_) => return Ok(Recorded::Nothing),
        };
        meter.spend(CALL_COST).map_err(|_| NoRoom::Reports)?;
        meter.finish().keep();
        Ok(match notification.function.0 {
            REPORT => {
                let mut report = args;
                let first = report.items(report.root()).and_then(<[Datum]>::first).cloned().unwrap_or_default();
                report.set_root(first);
                let report = Arc::new(report);
                self.reports.push(Arc::clone(&report));
                Recorded::Report(report)
            }
            number => match CONSOLE.get(number as usize - 1) {
                Some((_, level)) => {
                    self.logs.push(CodeExecutionLog { level: *level, args, timestamp });
                    Recorded::Log
                }
                None => Recorded::Nothing,
            },
        })
    }

    /// Makes the result of a run. `budget` is the most bytes that the value may take.
    pub fn finish(self, outcome: RunOutcome, duration: Duration, usage: Usage, budget: usize) -> CodeExecutionResult {
        let outcome = outcome.and_then(|value| {
            to_graph(&value, "result", &mut Meter::alone(budget))
                .map(Arc::new)
                .map_err(|refusal| Failure::serialization(&refusal))
        });
        let (status, result, error) = match outcome {
            Ok(value) => (Status::Success, Some(value), None),
            Err(Failure { status, error }) => (status, None, Some(*error)),
        };
        CodeExecutionResult { status, result, reports: self.reports, logs: self.logs, error, duration, usage }
    }
}

/// The result of a run (§4).
#[derive(Debug, Clone)]
pub struct CodeExecutionResult {
    /// How the run ended.
    pub status: Status,
    /// The value of the selected export; `Some` if and only if the run succeeded.
    pub result: Option<Arc<Graph>>,
    /// The reports, in order.
    pub reports: Vec<Arc<Graph>>,
    /// The calls of the captured console, in order.
    pub logs: Vec<CodeExecutionLog>,
    /// `Some` if and only if the run did not succeed.
    pub error: Option<CodeExecutionError>,
    /// Wall time from the call of `run_code` to the end of the run.
    pub duration: Duration,
    /// What the run used. In JSON `memoryUsedBytes` (§4), and `usage`.
    pub usage: Usage,
}

/// How a run ended (§4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The selected export was resolved.
    Success,
    /// The guest threw a value and did not catch it, or the executor failed.
    Error,
    /// The memory limit was exceeded.
    Memory,
    /// The caller terminated it, or the safety cap did.
    Terminated,
    /// The modules do not link, or the selected export is missing.
    LinkError,
}

impl Status {
    const ALL: [Self; 5] = [Self::Success, Self::Error, Self::Memory, Self::Terminated, Self::LinkError];

    /// The status as in results, for example `link_error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Memory => "memory",
            Self::Terminated => "terminated",
            Self::LinkError => "link_error",
        }
    }

    /// The status with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// Why a run did not succeed (§4.2). [`Display`](std::fmt::Display) writes it with [`render`].
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct CodeExecutionError {
    /// The error's name, for example `TypeError`; `Error` for a thrown value that is not an error.
    pub name: String,
    /// The error's message, or the thrown value as text.
    pub message: String,
    /// The innermost frames, at most [`MAX_FRAMES`](crate::error::MAX_FRAMES). Empty for modules that do not link. In JSON,
    /// both the text `stack` of the specification and, as data, `frames`.
    pub stack: Vec<StackFrame>,
    /// The specifier that failed to link.
    pub specifier: Option<String>,
    /// The source that line and column are in.
    pub filename: Option<String>,
    /// 1-based line, in the source as given.
    pub line: Option<u32>,
    /// 1-based column, in UTF-16 code units.
    pub column: Option<u32>,
    /// The failure is a fault between host and guest. Never set by guest code. Not serialised.
    pub is_internal: bool,
    /// Why an executor rejected the run before anything of it was executed. Not serialised.
    pub rejected: Option<Rejected>,
}

impl CodeExecutionError {
    /// An error with this name and message, and nothing else.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), ..Self::default() }
    }

    pub(super) fn at(self, filename: &str, at: Position) -> Self {
        Self { filename: Some(filename.to_owned()), line: Some(at.line), column: Some(at.column), ..self }
    }

    /// The error as text for people and models: see [`render`].
    pub fn render(&self) -> String {
        let place = || {
            let (file, line, column) = (self.filename.clone()?, self.line?, self.column?);
            Some(StackFrame { function: None, file, line, column })
        };
        let place = if self.stack.is_empty() { place() } else { None };
        render(Some(&self.name), &self.message, place.as_slice().iter().chain(&self.stack))
    }

    /// The error as JSON: as §4.2 requires, and `frames`.
    pub fn to_json(&self) -> Json {
        let mut json = Map::new();
        json.insert("name".to_owned(), json!(self.name));
        json.insert("message".to_owned(), json!(self.message));
        if !self.stack.is_empty() {
            json.insert("stack".to_owned(), json!(self.render()));
        }
        let texts = [("specifier", &self.specifier), ("filename", &self.filename)];
        json.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))));
        let numbers = [("line", self.line), ("column", self.column)];
        json.extend(numbers.into_iter().filter_map(|(key, number)| Some((key.to_owned(), json!(number?)))));
        if !self.stack.is_empty() {
            json.insert("frames".to_owned(), json!(self.stack));
        }
        Json::Object(json)
    }
}

/// A captured `console` call (§4.3).
#[derive(Debug, Clone)]
pub struct CodeExecutionLog {
    /// The console function that was called.
    pub level: LogLevel,
    /// The arguments: an array.
    pub args: Graph,
    /// Milliseconds since 1970.
    pub timestamp: f64,
}

impl CodeExecutionResult {
    /// The result as JSON: as §4 requires, with values as [tagged JSON](crate::value#tagged-json).
    ///
    /// # Errors
    /// A value is nested too deeply for JSON.
    pub fn to_json(&self) -> Result<Json, SerializationError> {
        let mut json = Map::new();
        json.insert("status".to_owned(), json!(self.status.as_str()));
        if let Some(result) = self.result.as_ref().filter(|result| !result.root().is_undefined()) {
            json.insert("result".to_owned(), result.to_tagged_json("result")?);
        }
        let reports = self.reports.iter().enumerate();
        let reports = reports.map(|(number, report)| report.to_tagged_json(&format!("reports[{number}]")));
        json.insert("reports".to_owned(), reports.collect::<Result<_, _>>()?);
        let logs = self.logs.iter().enumerate().map(|(number, log)| {
            let args = log.args.to_tagged_json(&format!("logs[{number}].args"))?;
            Ok(json!({ "level": log.level.as_str(), "args": args, "timestamp": log.timestamp }))
        });
        json.insert("logs".to_owned(), logs.collect::<Result<_, _>>()?);
        if let Some(error) = &self.error {
            json.insert("error".to_owned(), error.to_json());
        }
        json.insert("durationMs".to_owned(), json!(self.duration.as_micros() as f64 / 1000.0));
        if let Some(bytes) = self.usage.peak_memory_bytes {
            json.insert("memoryUsedBytes".to_owned(), json!(bytes));
        }
        if let Some(usage) = self.usage.known() {
            json.insert("usage".to_owned(), json!(usage));
        }
        Ok(Json::Object(json))
    }
}
