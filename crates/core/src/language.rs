//! The interface of a language front end.
//!
//! A [`Language`] compiles the source that a model wrote to the [`Code`] that an engine runs. Code has the lines of the
//! source, and records where columns differ, so that engines report positions in the source. The crate
//! `execbox-typescript` implements it; this module parses nothing.
//!
//! For the module contract, a front end also reports the imports and exports of a [`Module`], in the terms of the
//! ECMAScript specification (`ModuleRequest`, `ImportEntry`, `ExportEntry`). [`link`](crate::link) links modules by them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Exhausted};
use crate::limits::Limits;

/// A position in source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// 1-based line.
    pub line: u32,
    /// 1-based column, in UTF-16 code units.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Compiled source with the line numbers of the source. Lines after the last one of the source are generated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Code {
    /// The text that the engine runs.
    pub text: String,
    /// Where columns differ from those of the source, ordered by position in `text`.
    pub shifts: Vec<Shift>,
}

/// Maps the columns of [`Code::text`] to those of the source, from one position to the next shift or the end of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// 1-based line, in the code and in the source.
    pub line: u32,
    /// 1-based column in the code where the shift begins, in UTF-16 code units.
    pub column: u32,
    /// The column of the source that corresponds to `column`.
    pub source_column: u32,
    /// The text was inserted: all of it corresponds to `source_column`.
    pub inserted: bool,
}

impl Code {
    /// The position in the source that corresponds to `at`, a position in [`text`](Self::text).
    pub fn source_position(&self, at: Position) -> Position {
        Self::position_by(&self.shifts, at)
    }

    /// [`source_position`](Self::source_position) by shifts alone.
    pub fn position_by(shifts: &[Shift], at: Position) -> Position {
        let after = shifts.partition_point(|shift| (shift.line, shift.column) <= (at.line, at.column));
        let Some(shift) = shifts[..after].last().filter(|shift| shift.line == at.line) else { return at };
        let further = if shift.inserted { 0 } else { at.column - shift.column };
        Position { column: shift.source_column + further, ..at }
    }
}

impl<T: Into<String>> From<T> for Code {
    /// Code that is its own source.
    fn from(text: T) -> Self {
        Self { text: text.into(), shifts: Vec::new() }
    }
}

/// Why source text is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The message, without the position.
    pub message: String,
    /// The position in the source as given.
    pub position: Option<Position>,
}

/// Why a source was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The source is invalid.
    #[error("{}", .0.message)]
    Syntax(SyntaxError),
    /// Compiling the source takes more memory than [`CompileLimits::budget`] has.
    #[error("compiling the source takes too much host memory: {0}; write less code, or raise host_memory_bytes")]
    Memory(Exhausted),
    /// [`CompileLimits::should_stop`] returned true.
    #[error("compiling the source was stopped")]
    Stopped,
}

impl CompileError {
    /// The position of a syntax error, if it has one.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax(error) => error.position,
            Self::Memory(_) | Self::Stopped => None,
        }
    }
}

impl From<SyntaxError> for CompileError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// The memory that compiling the sources of an execution may take whatever its limits are, in bytes.
pub(crate) const MIN_COMPILE_BYTES: usize = 1 << 20;

/// Limits on reading a source.
#[derive(Clone)]
pub struct CompileLimits<'a> {
    /// The most bytes of the source.
    pub max_source_bytes: usize,
    /// The budget for everything that is kept of a source while it is read.
    pub budget: Budget,
    /// Called at least every millisecond of work. If it returns true, reading stops with [`CompileError::Stopped`].
    pub should_stop: &'a dyn Fn() -> bool,
}

impl<'a> CompileLimits<'a> {
    /// The limits of an execution. The budget is its limit on host memory, but at least 1 MiB, so that compiling does not
    /// exceed a small limit before the program runs.
    pub fn new(limits: &Limits, should_stop: &'a dyn Fn() -> bool) -> Self {
        let budget = Budget::new(limits.host_memory_len().max(MIN_COMPILE_BYTES));
        Self { max_source_bytes: limits.max_source_bytes, budget, should_stop }
    }
}

impl Default for CompileLimits<'_> {
    /// The limits of [`Limits::default`]; reading does not stop.
    fn default() -> Self {
        CompileLimits::new(&Limits::default(), &|| false)
    }
}

impl fmt::Debug for CompileLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_source_bytes, budget, .. } = self;
        let mut shown = f.debug_struct("CompileLimits");
        shown.field("max_source_bytes", max_source_bytes).field("budget", budget).finish_non_exhaustive()
    }
}

/// A front end: compiles sources to code that an engine runs.
pub trait Language: Send + Sync {
    /// Compiles a script (script contract) to *the body of an async function without parameters* that returns the result of
    /// the script. The engine compiles the whole text as that body, so that the source cannot close the function.
    ///
    /// What the front end keeps of the source while it reads is charged to the budget of `reading`.
    fn script(&self, source: &str, reading: &CompileLimits<'_>) -> Result<Code, CompileError>;

    /// Compiles a function to *the body of an async function with the parameter `input`*. As [`script`](Self::script), but a
    /// source that is one function, async or not, is called with `input`.
    ///
    /// The default implementation compiles a script.
    fn function(&self, source: &str, reading: &CompileLimits<'_>) -> Result<Code, CompileError> {
        self.script(source, reading)
    }

    /// Compiles one ES module (module contract, §7), and returns its imports and exports. Specifiers are not resolved.
    ///
    /// The default implementation fails: the language has no modules.
    fn module(&self, source: ModuleSource<'_>, reading: &CompileLimits<'_>) -> Result<Module, CompileError> {
        let _ = (source, reading);
        Err(SyntaxError { message: "this language has no modules".to_owned(), position: None }.into())
    }
}

/// The language of a module's source (module contract, §3, `language`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Standard ECMAScript. Types are syntax errors.
    JavaScript,
    /// TypeScript. Types are erased and not checked.
    #[default]
    TypeScript,
}

/// The source of one module.
#[derive(Debug, Clone, Copy)]
pub struct ModuleSource<'a> {
    /// The source as given.
    pub text: &'a str,
    /// The language of the source.
    pub dialect: Dialect,
    /// The names of the globals at module scope (§3.4). The front end imports those that the module uses and does not declare
    /// from [`GLOBALS_MODULE`]. [`Module`] does not contain this import.
    pub globals: &'a BTreeSet<String>,
}

/// The specifier of the synthetic module whose exports are the globals (§3.4). It is a URL, which no module of a guest or a
/// caller can have as its name.
pub const GLOBALS_MODULE: &str = "execbox:globals";

/// A compiled module, with its imports and exports. Positions are in the source as given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// The code: a standard ES module.
    pub code: Code,
    /// The static module requests, in the order of the source, without those that only import types. Specifiers can repeat.
    pub requests: Vec<Request>,
    /// The imported bindings.
    pub imports: Vec<Import>,
    /// The exports.
    pub exports: Vec<Export>,
    /// Names that the module exports as types only. They serve to explain an import of such a name as a value.
    pub types: Vec<String>,
}

/// One `from "specifier"` or `import "specifier"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The specifier's value.
    pub specifier: String,
    /// The position of the specifier's string.
    pub position: Position,
}

/// One imported binding: `local` in `import { imported as local } from "specifier"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The index of its request in [`requests`](Module::requests).
    pub request: usize,
    /// The name in the imported module.
    pub imported: Imported,
    /// The name in this module.
    pub local: String,
    /// The position of `imported`; for defaults and namespaces, that of `local`.
    pub position: Position,
}

/// What an import takes from a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// The export with this name, which can be `default`.
    Name(String),
    /// The module's namespace: `* as local`.
    Namespace,
}

/// One export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// `export const name`, `export { local as name }`, `export default`. `local` may be an import.
    Local {
        /// The exported name.
        name: String,
        /// The binding in this module; `*default*` for a default export without a name.
        local: String,
    },
    /// `export { imported as name } from "specifier"`, `export * as name from "specifier"`.
    From {
        /// The exported name.
        name: String,
        /// The index of its request in [`requests`](Module::requests).
        request: usize,
        /// The name in the imported module.
        imported: Imported,
        /// The position of `imported`.
        position: Position,
    },
    /// `export * from "specifier"`: every export except `default`.
    All {
        /// The index of its request in [`requests`](Module::requests).
        request: usize,
    },
}

impl Export {
    /// The exported name; `None` for `export *`.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local { name, .. } | Self::From { name, .. } => Some(name),
            Self::All { .. } => None,
        }
    }
}
