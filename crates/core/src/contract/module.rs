//! The module contract (code-execution specification): a run's request → [`Program`], what the guest says, and how the
//! run ended → result.
//!
//! ```text
//!   host                                              runner (here, or behind a wall)
//!   Request ────────────────────────────────────────► Code::start: linked ─► Program
//!      ▲  functions and promises by number                 │
//!   Record ◄── calls, notifications (console, report) ── events of the guest
//!   CodeExecutionResult ◄── Ending ◄────────────────── Code::finish: Outcome; Code::stopped
//! ```
//!
//! Values cross whole (§3.5), see [`value`](crate::value). What a host function does is for the driver; a function is a
//! number here. The numbers below [`FIRST_FUNCTION`] are the contract's own: the captured console and `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use crate::contract::explain::{Given, explain};
use crate::engine::{Frame, LinkError as EngineError, LogLevel, Notification, Outcome, Thrown};
use crate::error::{ExecuteError, StackFrame, bounded_stack, render};
use crate::language::{Dialect, GLOBALS_MODULE, Language, Position, Reading};
use crate::link::{self, LinkError, Sources};
use crate::pool::Rejected;
use crate::program::{Limits, Module, Modules, Program, Source};
use crate::text::bytes_text;
use crate::value::{Datum, FunctionKind, Graph, Node, Refusal, Value};

/// The function behind the `report` global (§5.2).
pub const REPORT: u32 = 0;

/// The functions of the captured console, by level (§4.3).
const CONSOLE: [(&str, LogLevel); 5] = [
    ("log", LogLevel::Log),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
    ("debug", LogLevel::Debug),
];

/// The first number for functions of the host's own.
pub const FIRST_FUNCTION: u32 = 6;

// ---- The request ----------------------------------------------------------------------------------

/// A run that is asked for: the parts of `CodeExecutionOptions` (§3) as data.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The entry's source.
    pub source: String,
    /// The entry's name (`filename`).
    pub filename: Option<String>,
    /// What the sources are written in.
    pub language: Dialect,
    /// Further source modules, by relative specifier.
    pub modules: BTreeMap<String, String>,
    /// Bridged modules, by bare specifier.
    pub imports: BTreeMap<String, Bridge>,
    /// Bridged globals, the contract's own among them: see [`add_own_globals`].
    pub globals: Bridge,
    /// The export that is executed (`execute.fn`).
    pub function: String,
    /// Its arguments (`execute.args`): an array.
    pub args: Value,
    /// `memoryLimitBytes`; the safety cap as the timeout; how much of the console is captured.
    pub limits: Limits,
}

/// An object of values for the guest, and the names of its members.
#[derive(Debug, Clone, PartialEq)]
pub struct Bridge {
    /// The members' names.
    pub names: BTreeSet<String>,
    /// The object.
    pub value: Value,
}

impl Bridge {
    /// Of an object. `what` names it in the refusal.
    ///
    /// # Errors
    /// It is no plain object, or something in it cannot cross.
    pub fn new(object: &Graph, what: &str) -> Result<Self, Refusal> {
        let Some(Node::Object(members)) = object.node(object.root()) else {
            return Err(Refusal {
                path: what.to_owned(),
                reason: "is not a plain object of names and values".to_owned(),
            });
        };
        let names = members.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self { names, value: object.to_value(what)? })
    }

    /// Of an object that came over a wire.
    ///
    /// # Errors
    /// As [`new`](Self::new); or it is not a value, or larger than `budget`.
    pub fn from_value(value: Value, what: &str, budget: usize) -> Result<Self, Refusal> {
        let Self { names, .. } = Self::new(&value.to_graph(what, budget)?, what)?;
        Ok(Self { names, value })
    }
}

/// Adds to an object of globals what the contract itself puts there: a `console` that captures, unless the caller brings
/// one (§4.3), and `report`, if the caller wants reports (§5.2).
pub fn add_own_globals(globals: &mut Graph, report: bool) {
    let Datum::Node(root) = *globals.root() else { return };
    let mut own = Vec::new();
    if globals.member(globals.root(), "console").is_none() {
        let functions = CONSOLE.iter().zip(1..).map(|((name, _), number)| (*name, number));
        let functions: Vec<_> =
            functions.map(|(name, number)| (name, globals.function(number, FunctionKind::Log, name))).collect();
        own.push(("console".to_owned(), globals.object(functions)));
    }
    if report {
        own.push(("report".to_owned(), globals.function(REPORT, FunctionKind::Notify, "report")));
    }
    if let Some(Node::Object(members)) = globals.get_mut(root) {
        members.retain(|(name, _)| own.iter().all(|(mine, _)| mine != name));
        members.extend(own);
    }
}

// ---- The runner's side ------------------------------------------------------------------------------

/// One run, from its program to its ending.
pub struct Code {
    sources: Sources,
    graph: link::Graph,
    function: String,
    limits: Limits,
}

/// How a run ended: with the value of the selected export, or without.
pub type Ending = Result<Value, Failure>;

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which kind; never [`Status::Success`].
    pub status: Status,
    /// What is told about it.
    pub error: Box<CodeExecutionError>,
}

/// Why a driver stopped a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The caller terminated it, perhaps with a reason (§2.2).
    Terminated(Option<String>),
    /// The runtime's own safety cap (§6.4).
    SafetyCap,
}

impl Stop {
    /// What a run comes to that was stopped.
    pub fn failure(&self, limits: &Limits) -> Failure {
        let message = match self {
            Self::Terminated(None) => "The run was terminated".to_owned(),
            Self::Terminated(Some(reason)) => format!("The run was terminated: {reason}"),
            Self::SafetyCap => format!("The run was stopped by the safety cap of {} s", limits.timeout.as_secs_f64()),
        };
        Failure::new(Status::Terminated, CodeExecutionError::new("TerminatedError", message))
    }
}

impl Failure {
    /// Of that kind.
    pub fn new(status: Status, error: CodeExecutionError) -> Self {
        Self { status, error: Box::new(error) }
    }

    /// Something between host and guest broke.
    pub fn internal(message: impl Into<String>) -> Self {
        let error = CodeExecutionError { is_internal: true, ..CodeExecutionError::new("InternalError", message) };
        Self::new(Status::Error, error)
    }

    /// The executor turned the run away, or could not begin it.
    pub fn refused(error: ExecuteError) -> Self {
        let mut failure = Self::internal(error.message);
        failure.error.rejected = error.rejected;
        failure
    }

    /// A value cannot cross.
    pub fn serialization(refusal: &Refusal) -> Self {
        Self::new(Status::Error, CodeExecutionError::new("SerializationError", refusal.to_string()))
    }
}

impl Code {
    /// Links what is asked for, and makes a program of it.
    ///
    /// Reading the sources takes time: it is given up when `should_stop` says so, with a failure that means nothing then.
    pub fn start(
        language: &dyn Language,
        request: Request,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<(Program, Self), Failure> {
        let Request { source, filename, language: dialect, modules, imports, globals, function, args, limits } =
            request;
        let names = imports.iter().map(|(specifier, bridge)| (specifier.clone(), bridge.names.clone())).collect();
        let sources = Sources { entry: source, filename, dialect, modules, imports: names, globals: globals.names };
        let reading = Reading { max_source_bytes: limits.max_source_bytes, should_stop };
        let graph = link::link(&sources, language, &reading).map_err(|error| unlinked(&error))?;
        // Nothing imports the entry, `import()` neither (§6.2).
        let own = graph.modules.iter().map(|module| Module {
            importable: module.name != graph.entry,
            ..Module::source(module.name.as_str(), module.code.clone())
        });
        let bridged = imports.into_iter().map(|(specifier, bridge)| Module::synthetic(specifier, bridge.value));
        // Only the front end's own imports lead to it.
        let globals = Module { importable: false, ..Module::synthetic(GLOBALS_MODULE, globals.value) };
        let modules = own.chain(bridged).chain([globals]).collect();
        let entry = Arc::from(graph.entry.as_str());
        let source = Source::Modules(Modules { entry, modules, export: function.clone(), args });
        Ok((Program { source, namespaces: Vec::new(), limits }, Self { sources, graph, function, limits }))
    }

    /// The ending of a program that came to its own end.
    pub fn finish(&self, outcome: Outcome) -> Ending {
        let (status, error) = match outcome {
            Outcome::Returned(value) => return Ok(value),
            Outcome::Threw(thrown) => (Status::Error, self.uncaught(&thrown)),
            Outcome::Failed { error, frames } => {
                let name = "Error".to_owned();
                (Status::Error, self.uncaught(&Thrown { name, message: error.message, frames, cause: None }))
            }
            Outcome::Unlinked(error) => return Err(self.unlinked(&error)),
            Outcome::OutOfMemory => {
                let limit = bytes_text(self.limits.memory_bytes);
                let message = format!("The run exceeded its memory limit of {limit}");
                (Status::Memory, CodeExecutionError::new("MemoryLimitError", message))
            }
            Outcome::HostMemory(what) => {
                (Status::Memory, CodeExecutionError::new("MemoryLimitError", what.message(&self.limits)))
            }
            Outcome::StackOverflow => {
                (Status::Error, CodeExecutionError::new("RangeError", "Maximum call stack size exceeded"))
            }
            Outcome::Interrupted => return Err(Stop::Terminated(None).failure(&self.limits)),
            Outcome::Fault(fault) => return Err(Failure::internal(fault)),
        };
        Err(Failure::new(status, error))
    }

    /// An uncaught error, in terms of the sources as they were given.
    fn uncaught(&self, thrown: &Thrown) -> CodeExecutionError {
        let name = if thrown.name.is_empty() { "Error" } else { &thrown.name };
        let stack = bounded_stack(thrown.frames.iter().map(|frame| self.place(frame)));
        let source = stack.first().and_then(|frame| Some((self.sources.text(&frame.file)?, frame.position())));
        let message = match source {
            Some((source, at)) => explain(thrown, source, at, &self.given(source)),
            None => thrown.message.clone(),
        };
        let error = CodeExecutionError::new(name, message);
        let error = match stack.first() {
            Some(frame) => error.at(&frame.file, frame.position()),
            None => error,
        };
        CodeExecutionError { stack, ..error }
    }

    /// A frame in the sources as they were given. A module that cannot link is where its error is.
    fn place(&self, frame: &Frame) -> StackFrame {
        let place = StackFrame::of(frame, &self.graph.entry);
        let linked = self.graph.modules.iter().find(|linked| linked.name == place.file);
        match linked.and_then(|linked| linked.broken.as_ref()) {
            Some(LinkError { filename: Some(filename), position: Some(at), .. }) => place.moved(filename, *at),
            _ => place,
        }
    }

    /// What a module was given: globals, and what it imports as a namespace that is called as its specifier is.
    fn given<'a>(&'a self, source: &str) -> Given<'a> {
        let imports = self.sources.imports.iter();
        let namespaces = imports.filter(|(specifier, _)| source.contains(&format!("* as {specifier} from")));
        let namespaces =
            namespaces.map(|(name, exports)| (name.as_str(), exports.iter().map(String::as_str).collect()));
        let names = self.sources.globals.iter().map(String::as_str).collect();
        Given { namespaces: namespaces.collect(), names }
    }

    /// What only the engine sees. Everything else about linking was said before it started.
    fn unlinked(&self, error: &EngineError) -> Failure {
        let mut told = CodeExecutionError::new("LinkError", error.to_string());
        match error {
            EngineError::Export { .. } => {
                if let Err(error) = self.graph.check_export(&self.function) {
                    return unlinked(&error);
                }
            }
            EngineError::Syntax { module, message, position } => {
                told = CodeExecutionError {
                    specifier: (**module != *self.graph.entry).then(|| module.to_string()),
                    ..CodeExecutionError::new("SyntaxError", message)
                };
                told.filename = Some(module.to_string());
                if let Some(at) = *position {
                    told = told.at(module, at);
                }
            }
            EngineError::Specifier { module, specifier } => {
                told.specifier = Some(specifier.clone());
                told.filename = Some(module.to_string());
            }
            EngineError::Binding { .. } => {}
        }
        Failure::new(Status::LinkError, told)
    }
}

fn unlinked(error: &LinkError) -> Failure {
    let mut told = CodeExecutionError::new(error.name(), error.to_string());
    told.specifier.clone_from(&error.specifier);
    told.filename.clone_from(&error.filename);
    told.line = error.position.map(|at| at.line);
    told.column = error.position.map(|at| at.column);
    Failure::new(Status::LinkError, told)
}

/// A guest's value, taken apart for the host. Errors among it lose their stacks: those are in terms of the code as the
/// engine ran it, which nobody has written.
///
/// # Errors
/// As [`Value::to_graph`].
pub fn take_apart(value: &Value, what: &str, budget: usize) -> Result<Graph, Refusal> {
    let mut graph = value.to_graph(what, budget)?;
    graph.forget_stacks();
    Ok(graph)
}

// ---- The host's side --------------------------------------------------------------------------------

/// What a run has said so far: its reports and its captured log, in order.
#[derive(Debug, Default)]
pub struct Record {
    /// What was reported (§5.2).
    pub reports: Vec<Arc<Graph>>,
    /// What the captured console was told (§4.3).
    pub logs: Vec<CodeExecutionLog>,
}

/// What a notification was.
#[derive(Debug, Clone)]
pub enum Noted {
    /// A report, which is in the record now.
    Report(Arc<Graph>),
    /// A line of the console, which is in the record now.
    Log,
    /// Nothing that the contract knows.
    Unknown,
}

impl Record {
    /// Takes in a notification, at `timestamp` milliseconds since 1970. `budget` is how many bytes it may take.
    pub fn note(&mut self, notification: &Notification, timestamp: f64, budget: usize) -> Noted {
        let Ok(args) = take_apart(&notification.args, "args", budget) else { return Noted::Unknown };
        match notification.function.0 {
            REPORT => {
                let mut report = args;
                let first = report.items(report.root()).and_then(<[Datum]>::first).cloned().unwrap_or_default();
                report.set_root(first);
                let report = Arc::new(report);
                self.reports.push(Arc::clone(&report));
                Noted::Report(report)
            }
            number => match CONSOLE.get(number as usize - 1) {
                Some((_, level)) => {
                    self.logs.push(CodeExecutionLog { level: *level, args, timestamp });
                    Noted::Log
                }
                None => Noted::Unknown,
            },
        }
    }

    /// The result of a run that ended so. `budget` is how many bytes the value may take.
    pub fn finish(
        self,
        ending: Ending,
        duration: Duration,
        memory_used_bytes: Option<u64>,
        budget: usize,
    ) -> CodeExecutionResult {
        let outcome = ending.and_then(|value| {
            take_apart(&value, "result", budget).map(Arc::new).map_err(|refusal| Failure::serialization(&refusal))
        });
        let (status, result, error) = match outcome {
            Ok(value) => (Status::Success, Some(value), None),
            Err(Failure { status, error }) => (status, None, Some(*error)),
        };
        CodeExecutionResult {
            status,
            result,
            reports: self.reports,
            logs: self.logs,
            error,
            duration,
            memory_used_bytes,
        }
    }
}

/// What a run came to (§4).
#[derive(Debug, Clone)]
pub struct CodeExecutionResult {
    /// Which kind of ending.
    pub status: Status,
    /// The value of the selected export; there if and only if the run succeeded.
    pub result: Option<Arc<Graph>>,
    /// What was reported, in order.
    pub reports: Vec<Arc<Graph>>,
    /// What the captured console was told, in order.
    pub logs: Vec<CodeExecutionLog>,
    /// There if and only if the run did not succeed.
    pub error: Option<CodeExecutionError>,
    /// Wall time from the call to the ending.
    pub duration: Duration,
    /// The most memory that the program had in use, where the engine can tell.
    pub memory_used_bytes: Option<u64>,
}

/// How a run ended (§4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The selected export was resolved.
    Success,
    /// Something was thrown, and nobody caught it.
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

    /// As it stands in results, for example `link_error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Memory => "memory",
            Self::Terminated => "terminated",
            Self::LinkError => "link_error",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// Why a run did not succeed (§4.2). Its [`Display`](std::fmt::Display) is all of it as [`render`] writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct CodeExecutionError {
    /// The error's name, for example `TypeError`; `Error` for a thrown value that is no error.
    pub name: String,
    /// Exactly its message, or the thrown value as text.
    pub message: String,
    /// How the guest got there, innermost first: at most [`MAX_FRAMES`](crate::error::MAX_FRAMES). Empty for modules that
    /// do not link. In JSON it is both the text `stack` of the specification and, as data, `frames`.
    pub stack: Vec<StackFrame>,
    /// The specifier that failed to link.
    pub specifier: Option<String>,
    /// The source that line and column are in.
    pub filename: Option<String>,
    /// 1-based, in the source as it was given.
    pub line: Option<u32>,
    /// 1-based, in UTF-16 units.
    pub column: Option<u32>,
    /// Something between host and guest broke. Never so for what a guest threw, whatever it is called. Not part of what
    /// the specification serialises.
    pub is_internal: bool,
    /// Why an executor rejected the run before anything of it was executed. Not part of what the specification serialises.
    pub rejected: Option<Rejected>,
}

impl CodeExecutionError {
    /// Of that name and message.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), ..Self::default() }
    }

    fn at(self, filename: &str, at: Position) -> Self {
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

    /// As §4.2 has it, and `frames`.
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
    /// Which function of the console.
    pub level: LogLevel,
    /// Its arguments: an array.
    pub args: Graph,
    /// Milliseconds since 1970.
    pub timestamp: f64,
}

impl CodeExecutionResult {
    /// As §4 has it, with rich values in [tagged JSON](crate::value#tagged-json).
    ///
    /// # Errors
    /// A value nests too deep for JSON.
    pub fn to_json(&self) -> Result<Json, Refusal> {
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
        if let Some(bytes) = self.memory_used_bytes {
            json.insert("memoryUsedBytes".to_owned(), json!(bytes));
        }
        Ok(Json::Object(json))
    }
}
