//! Compiles the JavaScript or TypeScript that a language model wrote into what an engine can run: a script into the body
//! of a function, a module into a standard ES module.
//!
//! Models write scripts like cells of a notebook: fenced in Markdown, in TypeScript or JavaScript, with top-level `await`
//! and `return`, with the result on the last line, or with everything in one async function.
//! [`TypeScript::script`](Language::script) compiles all of these into the body of an async function that returns the
//! result. Modules are compiled as they are. `script.rs` and `module.rs` are the two entries.
//!
//! ```
//! use execbox_core::language::{Language as _, CompileLimits};
//! use execbox_typescript::TypeScript;
//!
//! let source = "const sum: number = 1 + 2;\nsum";
//! let code = TypeScript.script(source, &CompileLimits::default())?;
//! assert_eq!(code.text, "const sum         = 1 + 2;\nreturn sum");
//!
//! let error = TypeScript.script("const = 1;", &CompileLimits::default()).unwrap_err();
//! assert_eq!(error.to_string(), "expected a name, found `=`");
//! # Ok::<(), execbox_core::language::CompileError>(())
//! ```
//!
//! ```text
//!  source ──► fences ──► parser ──► lower ──► edits ──► code: the source, line for line,
//!             blank      parse      enums,    applied   with shifts where columns differ
//!             Markdown   in order   namespaces
//! ```
//!
//! **The source is edited in place.** JavaScript is unchanged, except for the `return` before its last expression. Types
//! are replaced by spaces, so that the text after them does not move. Only enums, namespaces, parameter properties and
//! import aliases are rewritten, on the same lines. Functions therefore print as they were written, and positions of the
//! engine are positions of the source ([`Code`]).
//!
//! **No text is put around a script**, so that a source cannot close a wrapper: the engine takes the whole text as the
//! body of a function.
//!
//! # What this crate does not do
//!
//! The crate does not check types, does not compile newer JavaScript into older, and does not report errors that the engine
//! reports: it accepts all valid source, and some that is invalid. `execbox_core::link` resolves specifiers. The crate does no
//! I/O and depends on no engine.
//!
//! # Untrusted source
//!
//! Parsing is linear in the length of the source, except where the grammar needs backtracking. All work is counted and
//! limited to a multiple of the length, and the caller can stop it at least every millisecond. Everything that is kept is
//! charged to the budget of the [`CompileLimits`], beside a constant number of copies of the source. The depth of nesting is
//! limited ([`MAX_DEPTH`]). No expression is evaluated.
//!
//! # Why not oxc
//!
//! Tests compare this front end with oxc and tsc. It is used instead of oxc for four reasons, in their order:
//!
//! 1. *Start.* The front end takes 0.7 µs of the 18 µs of `1+1`. The host parses hostile sources only with a parser that is metered
//!    and bounds its recursion, which oxc does not. In a sandbox, oxc would need an instance for each program; creating and
//!    clearing that of a guest takes 11 µs.
//! 2. *Meaning.* 1 600 lines decide what a program means, not how it is written (`script`, `module`, `lower`, `edits`, `fences`).
//!    They would stay, and need a visitor in addition.
//! 3. *Positions.* Text is edited in place. A printer moves it.
//! 4. *Upkeep.* Erasable syntax changes once or twice a year, by tens of lines. The interface of oxc changes more often.
//!
//! The decision is open again with type checking, which needs a compiler in a sandbox anyway, but not before each program; after one
//! change of the grammar that takes more than 200 lines; or with more than 20 entries in
//! `oracles/typescript/expected-differences.json`, which has 7.

// Offsets and counts are below `MAX_SOURCE_BYTES`.
#![allow(clippy::cast_possible_truncation)]

mod constructs;
mod costs;
mod edits;
mod fences;
mod lexer;
mod lower;
mod module;
mod parser;
mod positions;
mod python;
mod scopes;
mod script;
mod strings;

use std::panic::{AssertUnwindSafe, catch_unwind};

use execbox_core::budget::Exhausted;
use execbox_core::language::{Code, CompileError, CompileLimits, Language, Module, ModuleSource, SyntaxError};

pub use parser::MAX_DEPTH;

/// The maximum length of a source whatever the limits are, in bytes: offsets have 32 bits.
const MAX_SOURCE_BYTES: usize = 1 << 30;

/// The language of scripts and modules: TypeScript, which includes JavaScript.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypeScript;

impl Language for TypeScript {
    fn script(&self, source: &str, reading: &CompileLimits<'_>) -> Result<Code, CompileError> {
        check_length(source, reading)?;
        guarded(|| script::compile(source, "", reading))
    }

    fn function(&self, source: &str, reading: &CompileLimits<'_>) -> Result<Code, CompileError> {
        check_length(source, reading)?;
        guarded(|| script::compile(source, "input", reading))
    }

    fn module(&self, source: ModuleSource<'_>, reading: &CompileLimits<'_>) -> Result<Module, CompileError> {
        check_length(source.text, reading)?;
        guarded(|| module::compile(source, reading))
    }
}

/// Runs `compile`. A panic becomes an error of this source.
fn guarded<T>(compile: impl FnOnce() -> Result<T, ParseError<SyntaxError>>) -> Result<T, CompileError> {
    match catch_unwind(AssertUnwindSafe(compile)) {
        Ok(compiled) => compiled.map_err(ParseError::into_error),
        Err(_panic) => {
            let message = "internal error while compiling this source; rewrite it".to_owned();
            Err(SyntaxError { message, position: None }.into())
        }
    }
}

fn check_length(source: &str, reading: &CompileLimits<'_>) -> Result<(), SyntaxError> {
    let limit = reading.max_source_bytes.min(MAX_SOURCE_BYTES);
    if source.len() <= limit {
        return Ok(());
    }
    let message = format!("the source is {} bytes long; the limit is {limit}", source.len());
    Err(SyntaxError { message, position: None })
}

type Parse<T> = Result<T, ParseError>;

/// Why parsing ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ParseError<F = Fault> {
    /// The source is invalid in this reading; another reading may be valid.
    Fault(F),
    /// The source is invalid in every reading: it exceeds a limit.
    Fatal(F),
    /// The budget of the caller is exhausted.
    Exhausted(Exhausted),
    /// The caller stopped the parser.
    Stopped,
    /// The source must be parsed again with names recorded. This is not an error of the source.
    NamesNeeded,
}

impl ParseError {
    fn fault(message: impl Into<String>, at: u32) -> Self {
        Self::Fault(Fault::new(message, at as usize))
    }
}

impl<F> ParseError<F> {
    fn map<T>(self, change: impl FnOnce(F) -> T) -> ParseError<T> {
        match self {
            Self::Fault(fault) => ParseError::Fault(change(fault)),
            Self::Fatal(fault) => ParseError::Fatal(change(fault)),
            Self::Exhausted(exhausted) => ParseError::Exhausted(exhausted),
            Self::Stopped => ParseError::Stopped,
            Self::NamesNeeded => ParseError::NamesNeeded,
        }
    }
}

impl ParseError<SyntaxError> {
    fn into_error(self) -> CompileError {
        match self {
            Self::Fault(error) | Self::Fatal(error) => error.into(),
            Self::Exhausted(exhausted) => CompileError::Memory(exhausted),
            Self::Stopped | Self::NamesNeeded => CompileError::Stopped,
        }
    }
}

impl From<Fault> for ParseError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Why a source is invalid, with a byte offset into the text that is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    message: String,
    offset: usize,
    /// How far the parser came: of two readings of one text, the fault of the further one is reported.
    reached: usize,
}

impl Fault {
    fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset, reached: offset }
    }

    /// The fault of the reading that came further; `self` if both came equally far.
    fn further(self, other: Self) -> Self {
        if other.reached > self.reached { other } else { self }
    }

    /// Converts the fault to an error with a position in `text`.
    fn within(self, text: &str) -> SyntaxError {
        SyntaxError { position: Some(positions::position(text, self.offset)), message: self.message }
    }
}
