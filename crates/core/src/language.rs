//! What a front end for source text owes the contracts.
//!
//! A [`Language`] turns what a model wrote into what an engine runs: [`Code`], the source changed line for line,
//! with a note wherever columns differ, so that engines report positions of the source. The one that ships
//! is the crate `execbox-typescript`. Nothing here parses anything.
//!
//! The module contract also has to know how modules refer to each other, before any of them runs:
//! [`Module`] says it in the terms of the ECMAScript specification (`ModuleRequest`, `ImportEntry`,
//! `ExportEntry`), and [`link`](crate::link) is what reads it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in source text. Both numbers are 1-based; columns count UTF-16 code units, as JavaScript does.
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

/// What an engine runs: a source whose lines are where they were.
///
/// Every line of `text` up to the source's last is that line of the source, possibly changed; lines after it are generated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Code {
    /// The text to run.
    pub text: String,
    /// Where columns differ from the source's, ordered by place in `text`.
    pub shifts: Vec<Shift>,
}

/// From one place of [`Code::text`] to the next shift or the end of the line: what the columns are in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// 1-based line, in the code and in the source alike.
    pub line: u32,
    /// 1-based column in the code where it begins, in UTF-16 units.
    pub column: u32,
    /// The column of the source that corresponds to `column`.
    pub source_column: u32,
    /// The text from here on was inserted: all of it corresponds to `source_column`.
    pub inserted: bool,
}

impl Code {
    /// The place in the source that `at`, a place in [`text`](Self::text), corresponds to.
    pub fn source_position(&self, at: Position) -> Position {
        let after = self.shifts.partition_point(|shift| (shift.line, shift.column) <= (at.line, at.column));
        let Some(shift) = self.shifts[..after].last().filter(|shift| shift.line == at.line) else { return at };
        let further = if shift.inserted { 0 } else { at.column - shift.column };
        Position { column: shift.source_column + further, ..at }
    }
}

impl<T: Into<String>> From<T> for Code {
    /// Code that is the source itself.
    fn from(text: T) -> Self {
        Self { text: text.into(), shifts: Vec::new() }
    }
}

/// Source text that is not a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, in one sentence, without the position.
    pub message: String,
    /// Where, in the source as it was given.
    pub position: Option<Position>,
}

/// What reading a source may cost, and when to give up.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The longest source that is read, in bytes.
    pub max_source_bytes: usize,
    /// Asked every few thousand tokens whether to give up: time is up, or the caller cancelled. A reading that gives up is
    /// a [`SyntaxError`] of any text; whoever answers true here knows what it means.
    pub should_stop: &'a dyn Fn() -> bool,
}

impl Reading<'_> {
    /// The default limits, and never given up.
    pub const UNHURRIED: Reading<'static> =
        Reading { max_source_bytes: crate::program::DEFAULT_MAX_SOURCE_BYTES, should_stop: &|| false };
}

impl fmt::Debug for Reading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("max_source_bytes", &self.max_source_bytes).finish_non_exhaustive()
    }
}

/// A front end: from what a model wrote to what an engine runs.
pub trait Language: Send + Sync {
    /// Normalises a script (script contract) to *the body of an async function without parameters* that
    /// returns the script's result. The engine compiles all of the text as that body: nothing is put around
    /// it that the source could close.
    fn script(&self, source: &str, reading: &Reading<'_>) -> Result<Code, SyntaxError>;

    /// Compiles one ES module (module contract, §7) to what the engine runs, and says what linking must
    /// know. Whether a specifier leads anywhere is not its business.
    ///
    /// `work` is how much of all modules together may still be read, in bytes; what is read more than
    /// once counts more than once. The front end takes from it what it uses, and refuses a source that
    /// needs more.
    ///
    /// A front end for scripts alone refuses every module, which is the default.
    fn module(&self, source: ModuleSource<'_>, reading: &Reading<'_>, work: &mut u64) -> Result<Module, SyntaxError> {
        let _ = (source, reading, work);
        Err(SyntaxError { message: "this language has no modules".to_owned(), position: None })
    }
}

/// What the source of a module is written in (module contract, §3, `language`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Dialect {
    /// Standard ECMAScript. Types are a syntax error.
    JavaScript,
    /// TypeScript, whose types are erased and not checked. Nearly all JavaScript means the same in it.
    #[default]
    TypeScript,
}

/// The source of one module, and what bears on its meaning.
#[derive(Debug, Clone, Copy)]
pub struct ModuleSource<'a> {
    /// The source, as it was given.
    pub text: &'a str,
    /// What it is written in.
    pub dialect: Dialect,
    /// The names of the globals that every module sees at module scope (§3.4). The front end imports those
    /// that the module uses and does not declare from [`GLOBALS_MODULE`]; that import is in no record of
    /// [`Module`].
    pub globals: &'a BTreeSet<String>,
}

/// The specifier of the module whose exports are the globals (§3.4). The engine has it as a synthetic
/// module. Being a URL, it is nothing that a guest or a caller could name.
pub const GLOBALS_MODULE: &str = "execbox:globals";

/// One module: what the engine runs, and how it is tied to others. Positions are in the source as given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// What the engine runs: a standard ES module.
    pub code: Code,
    /// The modules that it asks for, statically, in the order of the source. Those that only types were
    /// imported from are gone. One specifier may be there more than once.
    pub requests: Vec<Request>,
    /// What it imports by name or as a namespace.
    pub imports: Vec<Import>,
    /// What it exports.
    pub exports: Vec<Export>,
    /// Names under which it exports types and nothing else: gone when it runs, and good to know for who
    /// imports one as a value.
    pub types: Vec<String>,
}

/// One `from "specifier"` or `import "specifier"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The specifier's value.
    pub specifier: String,
    /// Where its string begins.
    pub position: Position,
}

/// One imported binding: `local` in `import { imported as local } from "specifier"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Which of [`requests`](Module::requests) it is from.
    pub request: usize,
    /// What it is there.
    pub imported: Imported,
    /// What it is here.
    pub local: String,
    /// Where `imported` stands; for defaults and namespaces, where `local` does.
    pub position: Position,
}

/// What is imported of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// The export of this name; `default` among them.
    Name(String),
    /// The module's namespace: `* as local`.
    Namespace,
}

/// One export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// `export const name`, `export { local as name }`, `export default`. `local` may be an import.
    Local {
        /// What it is exported as.
        name: String,
        /// The binding here; `*default*` for a default export without a name.
        local: String,
    },
    /// `export { imported as name } from "specifier"`, `export * as name from "specifier"`.
    From {
        /// What it is exported as.
        name: String,
        /// Which of [`requests`](Module::requests) it is from.
        request: usize,
        /// What it is there.
        imported: Imported,
        /// Where `imported` stands.
        position: Position,
    },
    /// `export * from "specifier"`: every name but `default`.
    All {
        /// Which of [`requests`](Module::requests) it is from.
        request: usize,
    },
}

impl Export {
    /// The name that it adds to the module's exports; `None` if it adds all of another module's.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local { name, .. } | Self::From { name, .. } => Some(name),
            Self::All { .. } => None,
        }
    }
}
