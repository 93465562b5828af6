//! What an engine runs.
//!
//! A [contract](crate::contract) makes a [`Program`] with everything that an engine needs: code, the functions that it may
//! call, and limits. Engines know nothing of providers, tools or schemas.

use std::sync::Arc;

use crate::budget::Budget;
use crate::language::Code;
use crate::libraries::Globals;
use crate::value::Value;

pub use crate::limits::{Amount, CappedLimits, Limit, Limits, Unit, Wire};

/// Code, the functions that it may call, and its limits.
#[derive(Debug, Clone)]
pub struct Program {
    /// The code: a script or modules.
    pub source: Source,
    /// Global objects whose members are functions. Empty for modules, which import what they use.
    pub namespaces: Vec<Arc<Namespace>>,
    /// Whether a script that has returned ends only when all its calls are answered and no microtask is left, as in other hosts of
    /// JavaScript. The value is read at the end. Otherwise a script ends when its promise is settled. One that throws always does.
    pub waits_for_calls: bool,
    /// The globals of a script that are not ECMAScript's.
    pub globals: Globals,
    /// The limits that the engine enforces.
    pub limits: Limits,
    /// The budget for what the host keeps for the guest: pending calls and notifications. As large as the limit on host memory.
    pub budget: Budget,
}

impl Program {
    /// A program with a budget of its own, which does not wait for calls and has no globals beside those of every script.
    pub fn new(source: Source, namespaces: Vec<Arc<Namespace>>, limits: Limits) -> Self {
        Self {
            source,
            namespaces,
            waits_for_calls: false,
            globals: Globals::default(),
            limits,
            budget: Budget::new(limits.host_memory_len()),
        }
    }
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

/// A global object in guest code whose members are asynchronous functions. It is frozen and inherits from
/// `Object.prototype`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The global's name.
    pub name: String,
    /// The names of the host functions, in order.
    pub functions: Vec<String>,
    /// The functions of the program itself. No host function has one of their names.
    pub own: Vec<Function>,
}

impl Namespace {
    /// A namespace of host functions.
    pub fn new(name: impl Into<String>, functions: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), functions: functions.into_iter().map(Into::into).collect(), own: Vec::new() }
    }
}

/// A function of a script beside its main body.
///
/// The engine compiles the function when the guest first reads it from its namespace. If the engine rejects it, reading it
/// throws a `SyntaxError` at its place in `file`, with the message `FILE cannot be compiled: …`. The engine compiles the whole
/// text as the body of an async arrow function, so that nothing in it can close that function or see the variables of the
/// script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name in the namespace.
    pub name: String,
    /// The file name in stack frames, different from that of the script and of other functions. It contains no NUL.
    pub file: Arc<str>,
    /// The body of an async arrow function with the parameter `input`, at global scope.
    pub code: Code,
}
