//! What an engine runs.
//!
//! A [contract](crate::contract) makes a [`Program`] with everything that an engine needs: code, the functions that it may
//! call, and limits. Engines know nothing of providers, tools or schemas.

use std::sync::Arc;
use std::time::Duration;

use crate::language::{Code, DEFAULT_MAX_SOURCE_BYTES};
use crate::value::Value;

/// Code, the functions that it may call, and its limits.
#[derive(Debug, Clone)]
pub struct Program {
    /// The code.
    pub source: Source,
    /// Global objects whose members are host functions. Empty for modules, which import what they use.
    pub namespaces: Vec<Arc<Namespace>>,
    /// The limits that the engine enforces.
    pub limits: Limits,
}

/// The code of a program.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Source {
    /// The body of an async arrow function without parameters, at global scope. The engine compiles the whole
    /// text as that body and calls the function. The outcome is that of the promise that it returns. No other code can be
    /// compiled after that.
    Script {
        /// The file name in stack frames.
        name: String,
        /// The function's body. The engine reports positions in its source: see [`Code`].
        code: Code,
    },
    /// ES modules (code-execution specification §8). The engine links and evaluates them; the outcome is that of one export
    /// of the entry. An engine may [not support](crate::engine::StartError::Unsupported) modules.
    Modules(Modules),
}

/// A graph of ES modules, and the export that is its outcome.
///
/// Imports are resolved within the graph. A specifier that begins with `./` or `../` is joined to the directory of the
/// importing module's name; the result begins with `./`. Every other specifier is a module's name. For example, `main.ts`
/// imports `./lib/math.js` by that specifier, and `./lib/math.js` imports `./data.js` as `../data.js`. A specifier that
/// leads above the top has no module.
///
/// A guest can compile no other code than these modules. The global object has the globals of ECMAScript,
/// `structuredClone` and `queueMicrotask` (§6.1), and no `console`.
///
/// Values are copied whole, and may contain functions and promises of the host: see [`crate::value`].
#[derive(Debug, Clone)]
pub struct Modules {
    /// The name of the entry, one of `modules` with source.
    pub entry: Arc<str>,
    /// All modules. Names are distinct and contain no NUL. Modules that are not imported are not compiled.
    pub modules: Vec<Module>,
    /// The export of the entry that is the outcome (§5.1). The engine reads it when the entry is evaluated, calls it with
    /// `args` if it is a function, and awaits it while it is a thenable.
    pub export: String,
    /// The arguments: an array. Arguments for an export that is not a function are an error.
    pub args: Value,
}

/// One ES module.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// The name in imports and stack frames.
    pub name: Arc<str>,
    /// The source or the exports.
    pub body: ModuleBody,
    /// Whether `import(…)` finds the module. Modules for the front end's own use are not importable: only `import`
    /// declarations find them, which are all known before the program starts.
    pub importable: bool,
}

/// The content of a module.
#[derive(Debug, Clone, PartialEq)]
pub enum ModuleBody {
    /// Source text as the engine runs it. The engine reports positions in its source: see [`Code`].
    Source(Code),
    /// A *synthetic* module: an object whose members are the exports, created when the program starts.
    Synthetic(Value),
}

impl Module {
    /// An importable module of source text.
    pub fn source(name: impl Into<Arc<str>>, code: impl Into<Code>) -> Self {
        Self { name: name.into(), body: ModuleBody::Source(code.into()), importable: true }
    }

    /// An importable module of values.
    pub fn synthetic(name: impl Into<Arc<str>>, exports: Value) -> Self {
        Self { name: name.into(), body: ModuleBody::Synthetic(exports), importable: true }
    }
}

/// A global object in guest code whose members are asynchronous host functions. It is frozen and inherits from
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
    /// Wall time from acceptance to result. Enforced by the driver, not by the engine. Default 5 s.
    pub timeout: Duration,
    /// Memory that the program may use at once beyond its initial realm, in bytes. The same limit applies on the host to
    /// the inputs of pending calls, to reports, and to each value. Default 64 MiB.
    pub memory_bytes: u64,
    /// The most console lines that are kept; later ones are dropped. In modules, each call of a
    /// [log function](crate::value::FunctionKind::Log) is a line. Default 100.
    pub max_log_lines: usize,
    /// The most UTF-16 code units of all kept lines together; in modules, the most bytes of the arguments. Default 64 000.
    pub max_log_chars: usize,
    /// The most bytes of the source of a script, and of each module. Default 4 MiB.
    pub max_source_bytes: usize,
}

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
    /// [`memory_bytes`](Self::memory_bytes), capped to `usize`.
    pub fn memory_len(&self) -> usize {
        usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)
    }
}
