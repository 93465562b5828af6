//! The host's side of a run: what it reported and logged, and its result.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value as Json;

use crate::budget::{Budget, Meter};
use crate::cause::Cause;
use crate::contract::module::request::{CONSOLE, REPORT};
use crate::contract::module::run::RunEnd;
use crate::engine::{LogLevel, NoRoom, Notification};
use crate::error::{ExecuteError, StackFrame, ValueError, render};
use crate::language::Position;
use crate::limits::Limits;
use crate::mailbox::CALL_COST;
use crate::pool::Rejected;
use crate::unawaited::UnawaitedCalls;
use crate::usage::Usage;
use crate::value::{
    AttachedBytes, Datum, Graph, Reason, SerializationError, Tagged, ToTagged, Value, With, Work, from_json, to_tree,
};

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

    /// The failure of a run that the executor rejected or could not start.
    pub fn rejected(error: ExecuteError) -> Self {
        let mut failure = Self::internal(error.message);
        failure.error.rejected = error.rejected;
        failure
    }

    /// The failure of a run with a value that is not serializable.
    pub fn serialization(error: &SerializationError) -> Self {
        Self::new(Status::Error, CodeExecutionError::new("SerializationError", error.to_string()))
    }
}

/// A guest's value as a graph for the host. Errors lose their stacks, whose positions are in the compiled code.
///
/// # Errors
/// The value is nested too deeply, or the meter refuses.
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
    /// A report.
    Report(Arc<Graph>),
    /// A call of the console, the last of [`logs`](Record::logs).
    Log,
    /// Nothing: the notification is invalid.
    Nothing,
}

impl Record {
    /// Adds a notification, which is charged to `budget` for the lifetime of the budget. `timestamp` is in milliseconds since
    /// 1970. `finish` completes its values for the host.
    ///
    /// # Errors
    /// The budget does not cover the arguments.
    pub fn add(
        &mut self,
        notification: &Notification,
        timestamp: f64,
        budget: &Budget,
        finish: impl FnOnce(&mut Graph),
    ) -> Result<Recorded, NoRoom> {
        let mut meter = Meter::new(budget, usize::MAX, &|| false);
        let mut args = match to_graph(&notification.args, "args", &mut meter) {
            Ok(args) => args,
            Err(SerializationError { reason: Reason::Exhausted(_), .. }) => return Err(NoRoom::Reports),
            Err(_) => return Ok(Recorded::Nothing),
        };
        meter.spend(CALL_COST).map_err(|_| NoRoom::Reports)?;
        meter.finish().keep();
        finish(&mut args);
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

    /// Makes the result of a run. `budget` is the most bytes that the value may take, and the result as JSON. `finish` completes
    /// the value for the host.
    pub fn finish(
        self,
        end: RunEnd,
        duration: Duration,
        budget: usize,
        finish: impl FnOnce(&mut Graph),
    ) -> CodeExecutionResult {
        let RunEnd { outcome, dropped_logs, unawaited, usage } = end;
        let outcome = outcome.and_then(|value| {
            to_graph(&value, "result", &mut Meter::alone(budget))
                .map(|mut graph| {
                    finish(&mut graph);
                    Arc::new(graph)
                })
                .map_err(|refusal| Failure::serialization(&refusal))
        });
        let (status, result, error) = match outcome {
            Ok(value) => (Status::Success, Some(value), None),
            Err(Failure { status, error }) => (status, None, Some(*error)),
        };
        let Self { reports, logs } = self;
        CodeExecutionResult {
            status,
            result,
            reports,
            logs,
            dropped_logs,
            error,
            unawaited,
            duration,
            usage,
            json_budget: budget,
        }
    }
}

/// The result of a run (§4).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CodeExecutionResult {
    /// How the run ended.
    pub status: Status,
    /// The value of the selected export; `Some` if and only if the run succeeded.
    pub result: Option<Arc<Graph>>,
    /// The reports, in order.
    pub reports: Vec<Arc<Graph>>,
    /// The calls of the captured console, in order.
    pub logs: Vec<CodeExecutionLog>,
    /// How many calls of the captured console the log limits dropped. In JSON `droppedLogs`, if there are any.
    pub dropped_logs: u64,
    /// `Some` if and only if the run did not succeed.
    pub error: Option<CodeExecutionError>,
    /// The calls that the program did not await, which were cancelled. In JSON beside the fields of the specification.
    pub unawaited: Option<UnawaitedCalls>,
    /// Wall time from the call of `run_code` to the end of the run.
    pub duration: Duration,
    /// What the run used. In JSON `memoryUsedBytes` (§4), and `usage`.
    pub usage: Usage,
    /// The most bytes that the values may take as a tree of JSON.
    json_budget: usize,
}

/// How a run ended (§4.1). The specification fixes the statuses, so that no more are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The selected export was resolved.
    Success,
    /// The guest threw a value and did not catch it, or the executor failed.
    Error,
    /// The memory limit was exceeded.
    Memory,
    /// The caller or the safety cap terminated the run.
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
#[non_exhaustive]
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
    /// What happened, as data, if it is known. In JSON `cause`, beside the fields of the specification.
    pub cause: Option<Box<Cause>>,
    /// The failure is a fault between host and guest. Never set by guest code. Not serialized.
    pub is_internal: bool,
    /// Why an executor rejected the run before anything of it was executed. Not serialized.
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

    /// The error as JSON: as §4.2 requires, with `frames` and `cause`.
    pub fn to_json(&self) -> Json {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Serialize for CodeExecutionError {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut json = to.serialize_map(None)?;
        json.serialize_entry("name", &self.name)?;
        json.serialize_entry("message", &self.message)?;
        if !self.stack.is_empty() {
            json.serialize_entry("stack", &self.render())?;
        }
        for (key, text) in [("specifier", &self.specifier), ("filename", &self.filename)] {
            if let Some(text) = text {
                json.serialize_entry(key, text)?;
            }
        }
        for (key, number) in [("line", self.line), ("column", self.column)] {
            if let Some(number) = number {
                json.serialize_entry(key, &number)?;
            }
        }
        if !self.stack.is_empty() {
            json.serialize_entry("frames", &self.stack)?;
        }
        if let Some(cause) = &self.cause {
            json.serialize_entry("cause", cause)?;
        }
        json.end()
    }
}

/// A captured `console` call (§4.3).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CodeExecutionLog {
    /// The console function that was called.
    pub level: LogLevel,
    /// The arguments: an array.
    pub args: Graph,
    /// Milliseconds since 1970.
    pub timestamp: f64,
}

impl CodeExecutionResult {
    /// A result with this outcome, and without reports, logs and usage. With an error, its status is [`Status::Error`].
    pub fn new(outcome: Result<Graph, CodeExecutionError>, duration: Duration) -> Self {
        let end = Record::default().finish(
            Failure::new(Status::Error, CodeExecutionError::default()).into(),
            duration,
            0,
            |_| (),
        );
        let json_budget = Limits::default().memory_len().saturating_mul(2);
        match outcome {
            Ok(value) => {
                Self { status: Status::Success, result: Some(Arc::new(value)), error: None, json_budget, ..end }
            }
            Err(error) => Self { error: Some(error), json_budget, ..end },
        }
    }

    /// The value as a Rust type. It must be JSON: a `Map` or a `bigint` is not. `undefined` is read as `null`: as
    /// `None`, `()` or [`Json::Null`].
    ///
    /// # Errors
    /// The run did not succeed, or the value is not JSON, takes more memory than twice the memory limit of the run, or
    /// does not fit the type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ValueError<CodeExecutionError>> {
        if let Some(error) = &self.error {
            return Err(ValueError::Failed(Box::new(error.clone())));
        }
        let json = self.result.as_ref().map(|graph| graph.to_json("result", self.json_budget));
        let json = json.transpose().map_err(ValueError::NotJson)?.flatten();
        from_json(json.as_ref().unwrap_or(&Json::Null), "result").map_err(ValueError::Mismatch)
    }

    /// The result as JSON: as §4 requires, with values as [tagged JSON](crate::value#tagged-json).
    /// [`as_json`](Self::as_json) needs no tree.
    ///
    /// # Errors
    /// A value is nested too deeply for JSON, or the tree takes more memory than twice the memory limit of the run.
    pub fn to_json(&self) -> Result<Json, SerializationError> {
        to_tree(self, &mut Meter::alone(self.json_budget))
    }

    /// A sentence for the author of the program about the calls that it did not await, with the remedy if it returned. `None`
    /// if there are none, or if the error describes them.
    pub fn unawaited_text(&self) -> Option<String> {
        let cause = self.error.as_ref().and_then(|error| error.cause.as_deref());
        self.unawaited.as_ref()?.text(self.status == Status::Success, cause)
    }

    /// The result for a serializer of JSON, as [`to_json`](Self::to_json) makes it, but without a tree.
    pub fn as_json(&self) -> ResultJson<'_> {
        ResultJson { result: self, refusal: RefCell::default(), attached: None }
    }
}

/// A result that serializes as [`CodeExecutionResult::to_json`] makes it.
#[derive(Debug)]
pub struct ResultJson<'a> {
    result: &'a CodeExecutionResult,
    refusal: RefCell<Option<SerializationError>>,
    attached: Option<&'a RefCell<AttachedBytes>>,
}

impl<'a> ResultJson<'a> {
    /// Adds long byte strings to `attached`, in place of base64 in the text.
    #[must_use]
    pub fn attaching(self, attached: &'a RefCell<AttachedBytes>) -> Self {
        Self { attached: Some(attached), ..self }
    }

    /// Why serializing failed: a value is nested too deeply for JSON. `None` if the serializer itself failed.
    pub fn refusal(self) -> Option<SerializationError> {
        self.refusal.into_inner()
    }
}

impl Serialize for ResultJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.result.write(&Work::of_text(&self.refusal).attaching(self.attached), to)
    }
}

impl ToTagged for CodeExecutionResult {
    fn write<S: Serializer>(&self, work: &Work<'_>, to: S) -> Result<S::Ok, S::Error> {
        let mut json = to.serialize_map(None)?;
        json.serialize_entry("status", self.status.as_str())?;
        if let Some(graph) = self.result.as_ref().filter(|result| !result.root().is_undefined()) {
            json.serialize_entry("result", &With(&Tagged { graph, what: format_args!("result") }, work))?;
        }
        json.serialize_entry("reports", &With(&Reports(&self.reports), work))?;
        json.serialize_entry("logs", &With(&Logs(&self.logs), work))?;
        if self.dropped_logs > 0 {
            json.serialize_entry("droppedLogs", &self.dropped_logs)?;
        }
        if let Some(error) = &self.error {
            json.serialize_entry("error", error)?;
        }
        json.serialize_entry("durationMs", &(self.duration.as_micros() as f64 / 1000.0))?;
        if let Some(bytes) = self.usage.peak_memory_bytes {
            json.serialize_entry("memoryUsedBytes", &bytes)?;
        }
        if let Some(calls) = &self.unawaited {
            json.serialize_entry("unawaited", calls)?;
        }
        if let Some(usage) = self.usage.known() {
            json.serialize_entry("usage", usage)?;
        }
        json.end()
    }
}

struct Reports<'a>(&'a [Arc<Graph>]);

impl ToTagged for Reports<'_> {
    fn write<S: Serializer>(&self, work: &Work<'_>, to: S) -> Result<S::Ok, S::Error> {
        let mut reports = to.serialize_seq(None)?;
        for (number, graph) in self.0.iter().enumerate() {
            reports.serialize_element(&With(&Tagged { graph, what: format_args!("reports[{number}]") }, work))?;
        }
        reports.end()
    }
}

struct Logs<'a>(&'a [CodeExecutionLog]);

impl ToTagged for Logs<'_> {
    fn write<S: Serializer>(&self, work: &Work<'_>, to: S) -> Result<S::Ok, S::Error> {
        let mut logs = to.serialize_seq(None)?;
        for (number, log) in self.0.iter().enumerate() {
            logs.serialize_element(&With(&NumberedLog { number, log }, work))?;
        }
        logs.end()
    }
}

struct NumberedLog<'a> {
    number: usize,
    log: &'a CodeExecutionLog,
}

impl ToTagged for NumberedLog<'_> {
    fn write<S: Serializer>(&self, work: &Work<'_>, to: S) -> Result<S::Ok, S::Error> {
        let Self { number, log } = self;
        work.object(&format_args!("logs[{number}]"))?;
        let mut json = to.serialize_map(None)?;
        json.serialize_entry("level", log.level.as_str())?;
        json.serialize_entry(
            "args",
            &With(&Tagged { graph: &log.args, what: format_args!("logs[{number}].args") }, work),
        )?;
        json.serialize_entry("timestamp", &log.timestamp)?;
        json.end()
    }
}
