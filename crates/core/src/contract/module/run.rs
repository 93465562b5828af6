//! The runner's side of a run: from its request to its outcome.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budget;
use crate::contract::calls::LeftCalls;
use crate::contract::explain::AvailableNames;
use crate::contract::module::{CodeExecutionError, Failure, FunctionNames, Request, RunOutcome, Status};
use crate::contract::stack::{Uncaught, stack_frame, uncaught};
use crate::contract::stop::Stop;
use crate::contract::{self, Action, Contract};
use crate::engine::{
    Call, CallId, Event, Frame, FunctionId, ModuleError, Notification, Outcome, Pending, Settlement, Thrown,
    UnawaitedCall,
};
use crate::error::{StackFrame, bounded_stack};
use crate::language::{CompileLimits, GLOBALS_MODULE, Language};
use crate::link::{self, LinkError, LinkFailure, Sources};
use crate::program::{Limits, Module, Modules, Program, Source};
use crate::unawaited::UnawaitedCalls;
use crate::usage::{Usage, UsageLimiter};
use crate::value::Value;

/// One run of a module graph under the module contract.
pub struct ModuleRun {
    sources: Sources,
    graph: link::Graph,
    function: String,
    limits: Limits,
    budget: Budget,
    usage: UsageLimiter,
    unsettled: Unsettled,
    names: FunctionNames,
    left: LeftCalls,
    dropped_logs: u64,
}

/// How many promises of the host are followed: they take less than a megabyte, which is not charged.
const MAX_PROMISES: usize = 1 << 16;

/// What the host can still settle: a program that waits for something else waits forever.
#[derive(Debug, Default)]
struct Unsettled {
    calls: BTreeMap<CallId, FunctionId>,
    /// The promises that the host has given, in any value.
    promises: HashSet<u32>,
    /// The host has given promises that are not in `promises`.
    has_others: bool,
}

impl Unsettled {
    /// Notes the promises in a value that the guest receives.
    fn give(&mut self, value: &Value) {
        self.has_others |= !value.find_promises(&mut self.promises, MAX_PROMISES);
    }

    fn settle(&mut self, pending: Pending) {
        match pending {
            Pending::Call(call) => drop(self.calls.remove(&call)),
            Pending::Promise(number) => drop(self.promises.remove(&number)),
        }
    }

    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.promises.is_empty() && !self.has_others
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// The value or the failure.
    pub outcome: RunOutcome,
    /// How many calls of the captured console the log limits dropped.
    pub dropped_logs: u64,
    /// The calls that the program did not await. A run does not wait for them (§5.1).
    pub unawaited: Option<UnawaitedCalls>,
    /// What the program used.
    pub usage: Usage,
}

impl From<Failure> for RunEnd {
    /// A run of which nothing is known but why it failed.
    fn from(failure: Failure) -> Self {
        Self { outcome: Err(failure), dropped_logs: 0, unawaited: None, usage: Usage::default() }
    }
}

impl contract::Request for Request {
    type Contract = ModuleRun;
    type Error = Failure;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn source_bytes(&self) -> usize {
        self.modules.values().chain([&self.source]).map(String::len).sum()
    }

    /// Links the sources.
    ///
    /// # Errors
    /// The sources do not link.
    fn start(self, language: &dyn Language, should_stop: &dyn Fn() -> bool) -> Result<(Program, ModuleRun), Failure> {
        let usage = UsageLimiter::new(&self.limits, self.source_bytes());
        let function_names = self.function_names();
        let Self { source, filename, language: dialect, modules, imports, globals, function, args, limits } = self;
        let mut unsettled = Unsettled::default();
        imports
            .values()
            .chain([&globals])
            .map(|bridge| &bridge.value)
            .chain([&args])
            .for_each(|value| unsettled.give(value));
        let names = imports.iter().map(|(specifier, bridge)| (specifier.clone(), bridge.names.clone())).collect();
        let sources = Sources { entry: source, filename, dialect, modules, imports: names, globals: globals.names };
        let reading = CompileLimits::new(&limits, should_stop);
        let mut graph = link::link(&sources, language, &reading).map_err(|error| unlinked(&error))?;
        // No module imports the entry, not even with `import()` (§6.2).
        let own = graph.modules.iter_mut().map(|module| Module {
            importable: module.name != graph.entry,
            ..Module::source(module.name.as_str(), std::mem::take(&mut module.code))
        });
        let bridged = imports.into_iter().map(|(specifier, bridge)| Module::synthetic(specifier, bridge.value));
        // Only imports that the front end adds find the globals.
        let globals = Module { importable: false, ..Module::synthetic(GLOBALS_MODULE, globals.value) };
        let modules = own.chain(bridged).chain([globals]).collect();
        let entry = Arc::from(graph.entry.as_str());
        let source = Source::Modules(Modules { entry, modules, export: function.clone(), args });
        let program = Program::new(source, Vec::new(), limits);
        let budget = program.budget.clone();
        let (names, left) = (function_names, LeftCalls::default());
        let run =
            ModuleRun { sources, graph, function, limits, budget, usage, unsettled, names, left, dropped_logs: 0 };
        Ok((program, run))
    }

    fn stopped(stop: &Stop, limits: &Limits) -> Failure {
        stop.failure(limits)
    }

    fn failed(failure: Failure, _: Duration) -> RunEnd {
        failure.into()
    }
}

impl ModuleRun {
    /// The outcome of a run whose program ended by itself.
    fn ended(&mut self, outcome: Outcome) -> RunOutcome {
        let (status, error) = match outcome {
            Outcome::Returned(value) => {
                let sent = self.usage.output(value.as_bytes().len());
                return sent.map(|()| value).map_err(|error| Stop::Limit(error).failure(&self.limits));
            }
            Outcome::Threw(thrown) => (Status::Error, self.uncaught(&thrown)),
            Outcome::Failed { error, frames } => {
                let thrown = Thrown { name: "Error".to_owned(), message: error.message, frames, native: None };
                (Status::Error, self.uncaught(&thrown))
            }
            Outcome::Unlinked(error) => return Err(self.unlinked(&error)),
            Outcome::OutOfMemory => return Err(Stop::OutOfMemory.failure(&self.limits)),
            Outcome::HostMemory(what) => return Err(Stop::HostMemory(what).failure(&self.limits)),
            Outcome::StackOverflow => {
                (Status::Error, CodeExecutionError::new("RangeError", "Maximum call stack size exceeded"))
            }
            Outcome::Interrupted => return Err(Stop::Cancelled(None).failure(&self.limits)),
            Outcome::Fault(fault) => return Err(Failure::internal(fault)),
        };
        Err(Failure::new(status, error))
    }

    fn uncaught(&self, thrown: &Thrown) -> CodeExecutionError {
        let source = |file: &str| {
            let text = self.sources.text(file)?;
            Some((text, self.given(text)))
        };
        let Uncaught { explained, stack } = uncaught(thrown, |frame| self.place(frame), source);
        let name = if thrown.name.is_empty() { "Error" } else { &thrown.name };
        let error = CodeExecutionError {
            cause: explained.cause.map(Box::new),
            ..CodeExecutionError::new(name, explained.message)
        };
        let error = match stack.first() {
            Some(frame) => error.at(&frame.file, frame.position()),
            None => error,
        };
        CodeExecutionError { stack, ..error }
    }

    /// The frame's place in the sources as given. In a module that does not link, it is the place of the link error.
    fn place(&self, frame: &Frame) -> StackFrame {
        let frame = stack_frame(frame);
        let linked = self.graph.modules.iter().find(|linked| linked.name == frame.file);
        match linked.and_then(|linked| linked.broken.as_deref()) {
            Some(LinkError { filename: Some(filename), position: Some(at), .. }) => {
                StackFrame { file: filename.clone(), line: at.line, column: at.column, ..frame }
            }
            _ => frame,
        }
    }

    /// What the code of a module can use: the globals, and imported namespaces that are named as their specifier.
    fn given<'a>(&'a self, source: &str) -> AvailableNames<'a> {
        let imports = self.sources.imports.iter();
        let namespaces = imports.filter(|(specifier, _)| source.contains(&format!("* as {specifier} from")));
        let namespaces =
            namespaces.map(|(name, exports)| (name.as_str(), exports.iter().map(String::as_str).collect()));
        let names = self.sources.globals.iter().map(String::as_str).collect();
        AvailableNames { namespaces: namespaces.collect(), names, answers: Vec::new(), imports: true }
    }

    /// A link error that only the engine finds. [Linking](crate::link) finds all others.
    fn unlinked(&self, error: &ModuleError) -> Failure {
        let link_error = CodeExecutionError::new("LinkError", error.to_string());
        let error = match error {
            ModuleError::Export { .. } => match self.graph.check_export(&self.function) {
                Err(error) => return unlinked(&error),
                Ok(()) => link_error,
            },
            ModuleError::Syntax { module, message, position } => CodeExecutionError {
                specifier: (**module != *self.graph.entry).then(|| module.to_string()),
                line: position.map(|at| at.line),
                column: position.map(|at| at.column),
                filename: Some(module.to_string()),
                ..CodeExecutionError::new("SyntaxError", message)
            },
            ModuleError::Specifier { module, specifier } => CodeExecutionError {
                specifier: Some(specifier.clone()),
                filename: Some(module.to_string()),
                ..link_error
            },
            ModuleError::Binding { .. } => link_error,
        };
        Failure::new(Status::LinkError, error)
    }
}

impl Contract for ModuleRun {
    type Call = Call;
    type Notice = Notification;
    type Pending = Pending;
    type Answer = Result<Value, Value>;
    type End = RunEnd;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn usage(&self) -> &UsageLimiter {
        &self.usage
    }

    fn usage_mut(&mut self) -> &mut UsageLimiter {
        &mut self.usage
    }

    fn event(&mut self, event: Event, _: Duration, _: &dyn Fn() -> bool) -> Result<Action<Call, Notification>, Stop> {
        Ok(match event {
            Event::Call(call) => {
                self.usage.call(call.input.as_bytes().len()).map_err(Stop::Limit)?;
                self.unsettled.calls.insert(call.id, call.function);
                self.usage.in_flight(self.unsettled.calls.len());
                Action::Call(call)
            }
            Event::Notify(notification) => {
                self.usage.output(notification.report_bytes()).map_err(Stop::Limit)?;
                Action::Notify(notification)
            }
            Event::Unawaited(UnawaitedCall { count, function, frame }) => {
                let at = frame.iter().map(|frame| self.place(frame));
                let call = self.names.call(function, bounded_stack(at).pop());
                self.left.add(count, call);
                Action::Ignore
            }
            Event::DroppedLogs(count) => {
                self.dropped_logs = count;
                Action::Ignore
            }
            Event::Log(_) | Event::Timer(_) => Action::Ignore, // The console of modules notifies.
        })
    }

    /// Always `Some`: the guest ignores what is not pending.
    fn settlement(&mut self, pending: Pending, answer: Self::Answer) -> Option<(Pending, Settlement)> {
        self.unsettled.settle(pending);
        let (Ok(value) | Err(value)) = &answer;
        self.unsettled.give(value);
        Some((pending, answer.into()))
    }

    fn stuck(&self) -> Option<Stop> {
        self.unsettled.is_empty().then_some(Stop::Stuck)
    }

    fn finish(&mut self, end: Result<Outcome, Stop>, _: Duration) -> RunEnd {
        let pending = self.unsettled.calls.values().map(|&function| self.names.call(function, None));
        let unawaited = self.left.end(&end, false, pending);
        let outcome = match end {
            Ok(outcome) => self.ended(outcome),
            Err(stop) => Err(stop.failure(&self.limits)),
        };
        let usage = Usage { peak_host_memory_bytes: Some(self.budget.peak() as u64), ..self.usage.usage() };
        RunEnd { outcome, dropped_logs: self.dropped_logs, unawaited, usage }
    }
}

fn unlinked(error: &LinkError) -> Failure {
    if matches!(*error.failure, LinkFailure::Memory(_)) {
        return Failure::new(Status::Memory, CodeExecutionError::new("MemoryLimitError", error.to_string()));
    }
    let error = CodeExecutionError {
        specifier: error.specifier.clone(),
        filename: error.filename.clone(),
        line: error.position.map(|at| at.line),
        column: error.position.map(|at| at.column),
        ..CodeExecutionError::new(error.name(), error.to_string())
    };
    Failure::new(Status::LinkError, error)
}
