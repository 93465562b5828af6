//! The runner's side of a run: from its request to its outcome.

use std::sync::Arc;

use crate::contract::explain::Given;
use crate::contract::module::{CodeExecutionError, Failure, Request, RunOutcome, Status};
use crate::contract::stack::{Uncaught, stack_frame, uncaught};
use crate::contract::stop::Stop;
use crate::contract::{Action, Contract};
use crate::engine::{Call, Event, Frame, LinkError as EngineError, Notification, Outcome, Pending, Settlement, Thrown};
use crate::error::StackFrame;
use crate::language::{GLOBALS_MODULE, Language, Reading};
use crate::link::{self, LinkError, Sources};
use crate::program::{Limits, Module, Modules, Program, Source};
use crate::text::bytes_text;
use crate::value::Value;

/// One run of a module graph under the module contract.
pub struct ModuleRun {
    sources: Sources,
    graph: link::Graph,
    function: String,
    limits: Limits,
}

impl ModuleRun {
    /// Links the sources of a request and makes a program of them. Stops reading them when `should_stop` returns true, and
    /// fails with any failure.
    ///
    /// # Errors
    /// The sources do not link.
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
        // No module imports the entry, not even with `import()` (§6.2).
        let own = graph.modules.iter().map(|module| Module {
            importable: module.name != graph.entry,
            ..Module::source(module.name.as_str(), module.code.clone())
        });
        let bridged = imports.into_iter().map(|(specifier, bridge)| Module::synthetic(specifier, bridge.value));
        // Only imports that the front end adds find the globals.
        let globals = Module { importable: false, ..Module::synthetic(GLOBALS_MODULE, globals.value) };
        let modules = own.chain(bridged).chain([globals]).collect();
        let entry = Arc::from(graph.entry.as_str());
        let source = Source::Modules(Modules { entry, modules, export: function.clone(), args });
        Ok((Program { source, namespaces: Vec::new(), limits }, Self { sources, graph, function, limits }))
    }

    /// The outcome of a run whose program ended by itself.
    pub fn finish(&self, outcome: Outcome) -> RunOutcome {
        let (status, error) = match outcome {
            Outcome::Returned(value) => return Ok(value),
            Outcome::Threw(thrown) => (Status::Error, self.uncaught(&thrown)),
            Outcome::Failed { error, frames } => {
                let thrown = Thrown { name: "Error".to_owned(), message: error.message, frames, cause: None };
                (Status::Error, self.uncaught(&thrown))
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
        let Uncaught { message, stack } = uncaught(thrown, |frame| self.place(frame), source);
        let name = if thrown.name.is_empty() { "Error" } else { &thrown.name };
        let error = CodeExecutionError::new(name, message);
        let error = match stack.first() {
            Some(frame) => error.at(&frame.file, frame.position()),
            None => error,
        };
        CodeExecutionError { stack, ..error }
    }

    /// The frame's place in the sources as given. In a module that does not link, it is the place of the link error.
    fn place(&self, frame: &Frame) -> StackFrame {
        let frame = stack_frame(frame, &self.graph.entry);
        let linked = self.graph.modules.iter().find(|linked| linked.name == frame.file);
        match linked.and_then(|linked| linked.broken.as_ref()) {
            Some(LinkError { filename: Some(filename), position: Some(at), .. }) => {
                StackFrame { file: filename.clone(), line: at.line, column: at.column, ..frame }
            }
            _ => frame,
        }
    }

    /// What the code of a module can use: the globals, and imported namespaces that are named as their specifier.
    fn given<'a>(&'a self, source: &str) -> Given<'a> {
        let imports = self.sources.imports.iter();
        let namespaces = imports.filter(|(specifier, _)| source.contains(&format!("* as {specifier} from")));
        let namespaces =
            namespaces.map(|(name, exports)| (name.as_str(), exports.iter().map(String::as_str).collect()));
        let names = self.sources.globals.iter().map(String::as_str).collect();
        Given { namespaces: namespaces.collect(), names }
    }

    /// A link error that only the engine finds. [`start`](Self::start) finds all others.
    fn unlinked(&self, error: &EngineError) -> Failure {
        let link_error = CodeExecutionError::new("LinkError", error.to_string());
        let error = match error {
            EngineError::Export { .. } => match self.graph.check_export(&self.function) {
                Err(error) => return unlinked(&error),
                Ok(()) => link_error,
            },
            EngineError::Syntax { module, message, position } => CodeExecutionError {
                specifier: (**module != *self.graph.entry).then(|| module.to_string()),
                line: position.map(|at| at.line),
                column: position.map(|at| at.column),
                filename: Some(module.to_string()),
                ..CodeExecutionError::new("SyntaxError", message)
            },
            EngineError::Specifier { module, specifier } => CodeExecutionError {
                specifier: Some(specifier.clone()),
                filename: Some(module.to_string()),
                ..link_error
            },
            EngineError::Binding { .. } => link_error,
        };
        Failure::new(Status::LinkError, error)
    }
}

impl Contract for ModuleRun {
    type Call = Call;
    type Notice = Notification;
    type Pending = Pending;
    type Answer = Result<Value, Value>;

    fn event(&mut self, event: Event) -> Action<Call, Notification> {
        match event {
            Event::Call(call) => Action::Call(call),
            Event::Notify(notification) => Action::Notify(notification),
            Event::Log(_) => Action::Ignore, // The console of modules notifies.
        }
    }

    fn settlement(pending: Pending, answer: Self::Answer) -> (Pending, Settlement) {
        (pending, answer.into())
    }
}

fn unlinked(error: &LinkError) -> Failure {
    let error = CodeExecutionError {
        specifier: error.specifier.clone(),
        filename: error.filename.clone(),
        line: error.position.map(|at| at.line),
        column: error.position.map(|at| at.column),
        ..CodeExecutionError::new(error.name(), error.to_string())
    };
    Failure::new(Status::LinkError, error)
}
