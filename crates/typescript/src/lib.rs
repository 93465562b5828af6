//! Turns what a language model wrote into what an engine can run: a script into the body of a function, a module
//! into a standard ES module.
//!
//! Models write scripts as people type into a notebook: fenced in Markdown, TypeScript or JavaScript, with `await` and
//! `return` where they please, the answer on the last line, or the whole thing wrapped into one async function.
//! [`TypeScript::script`](Language::script) makes all of that the body of an async function that returns the script's
//! result. Modules come from programs, and are what they say.
//!
//! ```text
//!  source ──► fences ──► parser ──► lower ──► edits ──► the source, line for line,
//!             blank      reads it   enums,    applied    with shifts where columns differ
//!             Markdown   once       namespaces
//! ```
//!
//! **The source is edited in place.** JavaScript stays as it was written, but for the `return` before its last
//! expression. Types are blanked, so that what stands behind them stays where it was. Only enums, namespaces, parameter
//! properties and import aliases are written anew, on the lines where they were. So functions print as they were
//! written, and an engine's positions are those of the source ([`Code`]).
//!
//! **Nothing is put around a script** that its source could close: the engine takes the whole text as the body.
//!
//! # What this crate does not do
//!
//! It does not check types, rewrite newer JavaScript into older, or look for errors that the engine finds anyway: it
//! accepts all that is valid, and some that is not. Where a specifier leads is for `execbox_core::link`. It does no I/O
//! and knows no engine.
//!
//! # Hostile source
//!
//! Reading is linear in the length of the source, but for the places where the grammar needs a try; tokens are
//! counted, depth is counted, and the caller is asked every few thousand tokens whether to go on: see
//! [`parser`](self) and [`MAX_DEPTH`].

// A source is shorter than `MAX_SOURCE_BYTES`, and so is everything that is counted in it.
#![allow(clippy::cast_possible_truncation)]

mod edits;
mod fences;
mod lexer;
mod lower;
mod module;
mod parser;
mod positions;
mod scopes;
mod script;
mod strings;

use std::panic::{AssertUnwindSafe, catch_unwind};

use execbox_core::language::{Code, Language, Module, ModuleSource, Reading, SyntaxError};

pub use parser::MAX_DEPTH;

/// The longest source that is read whatever the limits say, in bytes: offsets have 32 bits.
const MAX_SOURCE_BYTES: usize = 1 << 30;

/// The language of scripts and modules: TypeScript, and so JavaScript.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypeScript;

impl Language for TypeScript {
    fn script(&self, source: &str, reading: &Reading<'_>) -> Result<Code, SyntaxError> {
        check_length(source, reading)?;
        guarded(|| script::compile(source, reading.should_stop))
    }

    fn module(&self, source: ModuleSource<'_>, reading: &Reading<'_>, work: &mut u64) -> Result<Module, SyntaxError> {
        check_length(source.text, reading)?;
        *work = work
            .checked_sub(source.text.len() as u64)
            .ok_or_else(|| SyntaxError { message: "the modules are too long together".to_owned(), position: None })?;
        guarded(|| module::compile(source, reading.should_stop))
    }
}

/// Runs `compile`. Should it panic, that source is refused and the host goes on.
fn guarded<T>(compile: impl FnOnce() -> Result<T, Halt<SyntaxError>>) -> Result<T, SyntaxError> {
    match catch_unwind(AssertUnwindSafe(compile)) {
        Ok(compiled) => compiled.map_err(Halt::into_error),
        Err(_panic) => {
            let message = "the front end fails on this source; write it in another way".to_owned();
            Err(SyntaxError { message, position: None })
        }
    }
}

fn check_length(source: &str, reading: &Reading<'_>) -> Result<(), SyntaxError> {
    let limit = reading.max_source_bytes.min(MAX_SOURCE_BYTES);
    if source.len() <= limit {
        return Ok(());
    }
    let message = format!("the source is {} bytes long; the limit is {limit}", source.len());
    Err(SyntaxError { message, position: None })
}

/// Why reading ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Halt<F = Fault> {
    /// The source is refused.
    Fault(F),
    /// The source is refused in whatever way it is read: it costs too much.
    Fatal(F),
    /// The caller said so.
    Stopped,
}

impl Halt {
    fn fault(message: impl Into<String>, at: u32) -> Self {
        Self::Fault(Fault::new(message, at as usize))
    }
}

impl<F> Halt<F> {
    fn map<T>(self, change: impl FnOnce(F) -> T) -> Halt<T> {
        match self {
            Self::Fault(fault) => Halt::Fault(change(fault)),
            Self::Fatal(fault) => Halt::Fatal(change(fault)),
            Self::Stopped => Halt::Stopped,
        }
    }
}

impl Halt<SyntaxError> {
    fn into_error(self) -> SyntaxError {
        match self {
            Self::Fault(error) | Self::Fatal(error) => error,
            Self::Stopped => SyntaxError { message: "reading the source was stopped".to_owned(), position: None },
        }
    }
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Why a source is refused, and where: a byte offset into the text being compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    message: String,
    offset: usize,
    /// How far reading came: of two readings of one text, the fault of the one that came further is told.
    reached: usize,
}

impl Fault {
    fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset, reached: offset }
    }

    /// The fault of the reading that came further; of the first one if they tie.
    fn further(self, other: Self) -> Self {
        if other.reached > self.reached { other } else { self }
    }

    /// The error that it is; `text` is the text that it is in.
    fn within(self, text: &str) -> SyntaxError {
        SyntaxError { position: Some(positions::position(text, self.offset)), message: self.message }
    }
}
