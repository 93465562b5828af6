//! What an engine is given to run.
//!
//! A [`Program`] is made by a contract (see [`crate::contract::script`]) and says everything an engine needs:
//! code, the functions it may call, and limits. It says nothing of providers, tools or schemas.

use std::sync::Arc;
use std::time::Duration;

use crate::language::Code;
use crate::value::Value;

/// Code with what it may use.
#[derive(Debug, Clone)]
pub struct Program {
    /// What to run.
    pub source: Source,
    /// Global objects whose members are host functions. Programs of modules have none: what they may use, they import.
    pub namespaces: Vec<Arc<Namespace>>,
    /// What the engine must hold it to.
    pub limits: Limits,
}

/// What to run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Source {
    /// The body of an async arrow function without parameters, at global scope. The engine compiles the whole
    /// text as that body and calls the function; the promise that it returns is the program's outcome. From the
    /// moment it is compiled, no other code can be.
    Script {
        /// Stands for the code in stack frames.
        name: String,
        /// The function's body. Positions that the engine reports are the source's: see [`Code`].
        code: Code,
    },
    /// ES modules (code-execution specification §8): linked, evaluated, and one export of the entry is the program's
    /// outcome. An engine without modules refuses to [start](crate::engine::StartError::Unsupported) them.
    Modules(Modules),
}

/// A graph of ES modules and what is to come of it.
///
/// What is imported is looked up here and nowhere else. A specifier that begins with `./` or `../` is joined to the
/// folder of the importing module's name, and what comes of it begins with `./` again; every other specifier is the name
/// itself. So `./lib/math.js`, imported by `main.ts` or `./main.ts`, is the module `./lib/math.js`, which imports
/// `../data.js` as `./data.js`. Above the top there is nothing.
///
/// From the moment that a guest starts, no other code can be compiled than these modules. The global object has
/// ECMAScript's own globals, `structuredClone` and `queueMicrotask` (§6.1), and no `console`.
///
/// Values go in and come out whole, and may hold functions and promises of the host: see [`crate::value`].
#[derive(Debug, Clone)]
pub struct Modules {
    /// Where it begins: the name of one of `modules`, with source.
    pub entry: Arc<str>,
    /// The whole graph. Names are distinct and have no NUL. Modules that nothing imports are not even compiled.
    pub modules: Vec<Module>,
    /// The export of the entry that becomes the outcome (§5.1): read when the entry has been evaluated; called with `args`
    /// if it is a function; awaited until it is no thenable.
    pub export: String,
    /// An array: the arguments. If there are any, an export that is no function is an error.
    pub args: Value,
}

/// One ES module.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// What it is imported by, and what stands for it in stack frames.
    pub name: Arc<str>,
    /// What it exports.
    pub body: ModuleBody,
    /// Whether `import(…)` finds it, whose specifiers the guest makes while it runs. A module for the front end's own
    /// use is not importable: only an `import` declaration gets it, and whoever made the program has seen all of those.
    pub importable: bool,
}

/// What a module is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum ModuleBody {
    /// Source text, as the engine runs it. Positions that the engine reports are the source's: see [`Code`].
    Source(Code),
    /// A *synthetic* module: an object, whose members are the exports. Made when the program starts.
    Synthetic(Value),
}

impl Module {
    /// A module of source text, importable.
    pub fn source(name: impl Into<Arc<str>>, code: impl Into<Code>) -> Self {
        Self { name: name.into(), body: ModuleBody::Source(code.into()), importable: true }
    }

    /// A module of values, importable.
    pub fn synthetic(name: impl Into<Arc<str>>, exports: Value) -> Self {
        Self { name: name.into(), body: ModuleBody::Synthetic(exports), importable: true }
    }
}

/// A global object of the guest whose members are asynchronous host functions. Frozen; inherits from
/// `Object.prototype`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The global's name.
    pub name: String,
    /// The functions' names, in order.
    pub functions: Vec<String>,
}

/// Limits of one execution (runner specification, `ExecutorRuntimeOptions`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time from acceptance to result. Kept by the driver, not by the engine. Default 5 s.
    pub timeout: Duration,
    /// What the program may have in use at once, in bytes, beyond the realm that it starts with. The
    /// host keeps no more than that for it either (calls in flight; each value that crosses). Default 64 MiB.
    pub memory_bytes: u64,
    /// How many console lines are kept: the earliest. In programs of modules, each call of a
    /// [log function](crate::value::FunctionKind::Log) is a line. Default 100.
    pub max_log_lines: usize,
    /// How many UTF-16 code units the kept lines may have together; of calls of log functions, how many bytes.
    /// Default 64 000.
    pub max_log_chars: usize,
    /// The longest source that is read, in bytes: of a script, and of each module. Default 4 MiB.
    pub max_source_bytes: usize,
}

/// The default of [`Limits::max_source_bytes`].
pub const DEFAULT_MAX_SOURCE_BYTES: usize = 4 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            memory_bytes: 64 << 20,
            max_log_lines: 100,
            max_log_chars: 64_000,
            max_source_bytes: DEFAULT_MAX_SOURCE_BYTES,
        }
    }
}

impl Limits {
    /// [`memory_bytes`](Self::memory_bytes) as a length of this machine.
    pub fn memory_len(&self) -> usize {
        usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)
    }
}
