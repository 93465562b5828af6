//! Turns what a language model wrote into what an engine can run: a script into one expression, a module
//! into a standard ES module.
//!
//! Models write scripts as people type into a notebook: fenced in Markdown, TypeScript or
//! JavaScript, with `await` and `return` where they please, the answer on the last line, or the whole
//! thing wrapped into one async function. [`TypeScript::script`](Language::script) makes all of that
//! the same thing: `(async () => { … })`, whose promise settles with the script's result.
//!
//! Modules come from programs, and are what they say. [`TypeScript::module`](Language::module) erases types,
//! imports the globals that a module uses, and records how it is tied to others.
//!
//! ```text
//!  script ──► fences ──► weigh ──► parse ──► shape ──► erase ──► print ──► (async () => { … })
//!             blank      bound     JS, then  what the  TypeScript          tree to text
//!             Markdown   the work  TS        result is only
//!
//!  module ─────────────► weigh ──► parse ──► erase ──► globals ──► records ──► print ──► import … export …
//!                                  TS or JS            what is     what is asked
//!                                                      free        for and given
//! ```
//!
//! The result is decided and written **in the syntax tree**, and the tree is printed. No piece of the
//! source is pasted into the output as text, so no source can close the function that is put around
//! it: `}); evil(); (() => {` does not parse, and what parses is nested by construction.
//!
//! # What this crate does not do
//!
//! It does not check types, rewrite newer JavaScript into older, or report the early errors of scripts that
//! the engine reports anyway (a name declared twice); of modules it reports them, except in regular
//! expressions. Where a specifier leads is for `execbox_core::link`. It does no I/O and knows no engine.
//!
//! # Imports in TypeScript
//!
//! TypeScript's own compiler drops an import that is never used as a value, for it may be a type. Here one
//! that is used *as a type* and never as a value is dropped, and with the last of its names the declaration.
//! One that is *never used* stays: the module contract (§3.2) says that importing what is not there is an
//! error, and a source that is plain JavaScript means the same in both dialects.
//!
//! # Hostile source
//!
//! The parser, the type eraser and the printer recurse, and a stack overflow ends the process. The
//! parser also guesses: `(` may open an arrow function, `a<` may open type arguments, and a wrong
//! guess parses the same text again, and again inside it. A hundred bytes of `(a=b<(a=b<…` would keep
//! it busy for days and take all memory. Neither can be interrupted from outside, so `weigh` looks
//! at the source first, in one pass without recursion, and bounds three things:
//!
//! - **steps**: how many tokens can be open at once, and so how deep anything can recurse. No
//!   phase uses more than `stack::BYTES_PER_STEP` of stack for a step, and `stack` switches to a
//!   stack of that size where the current one might not do. More than [`MAX_STEPS`] is refused.
//! - **nesting**: brackets open at once; more than [`MAX_NESTING`] is refused.
//! - **work**: how many bytes the parser reads when every guess is wrong, again and again. More than
//!   [`MAX_WORK`] is refused.
//!
//! Source of at most `weigh::SMALL` bytes goes to the JavaScript parser unweighed: it cannot take
//! more steps than it has bytes, and JavaScript's only guess, the arrow function, is made once for
//! each place. The TypeScript parser is never called unweighed.

mod erase;
mod fences;
mod globals;
mod guard;
mod module;
mod parse;
mod positions;
mod print;
mod records;
mod script;
mod shape;
mod stack;
mod weigh;

use execbox_core::language::{Code, Language, Module, ModuleSource, SyntaxError};

pub use guard::MAX_SOURCE_BYTES;
pub use weigh::{MAX_NESTING, MAX_STEPS, MAX_WORK};

/// The language of scripts and modules: TypeScript, and so JavaScript.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypeScript;

impl Language for TypeScript {
    fn script(&self, source: &str) -> Result<Code, SyntaxError> {
        let code = script::compile(source, print::Map::Omit)?.code;
        Ok(code.trim_start_matches("(async () => {\n").trim_end_matches("})").into())
    }

    fn module(&self, source: ModuleSource<'_>, work: &mut u64) -> Result<Module, SyntaxError> {
        module::compile(source, print::Map::Omit, work).map(|compiled| compiled.module)
    }
}

/// Why a source is refused, and where: a byte offset into the text being compiled.
///
/// Becomes a [`SyntaxError`] at the edge of the crate, in [`script`] and [`module`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    message: String,
    offset: usize,
}

impl Fault {
    fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset }
    }

    /// What is told of it; `text` is the text that it is in.
    fn within(self, text: &str) -> SyntaxError {
        SyntaxError { position: Some(positions::position(text, self.offset)), message: self.message }
    }
}
