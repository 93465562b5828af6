//! Turns what a language model wrote into one expression an engine can run.
//!
//! Models write scripts as people type into a notebook: fenced in Markdown, TypeScript or
//! JavaScript, with `await` and `return` where they please, the answer on the last line, or the whole
//! thing wrapped into one async function. [`TypeScript::script`](Language::script) makes all of that
//! the same thing: `(async () => { … })`, whose promise settles with the script's result.
//!
//! ```text
//!  source ──► fences ──► weigh ──► parse ──► shape ──► erase ──► print ──► (async () => { … })
//!             blank      bound     JS, then  what the  TypeScript          tree to text
//!             Markdown   the work  TS        result is only
//! ```
//!
//! The result is decided and written **in the syntax tree**, and the tree is printed. No piece of the
//! source is pasted into the output as text, so no source can close the function that is put around
//! it: `}); evil(); (() => {` does not parse, and what parses is nested by construction.
//!
//! # What this crate does not do
//!
//! It does not check types, resolve modules, rewrite newer JavaScript into older, or report the early
//! errors that the engine reports anyway (a name declared twice, an invalid regular expression). It
//! does no I/O and knows no engine.
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
mod parse;
mod positions;
mod print;
mod script;
mod shape;
mod stack;
mod weigh;

use execbox_core::language::{Language, Position, SyntaxError};

pub use script::MAX_SOURCE_BYTES;
pub use weigh::{MAX_NESTING, MAX_STEPS, MAX_WORK};

/// The language of scripts: TypeScript, and so JavaScript.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypeScript;

impl Language for TypeScript {
    fn script(&self, source: &str) -> Result<String, SyntaxError> {
        script::compile(source, print::Map::Omit).map(|printed| printed.code)
    }

    fn original_positions(&self, source: &str, compiled: &[Position]) -> Vec<Option<Position>> {
        match script::compile(source, print::Map::Keep) {
            Ok(printed) => compiled.iter().map(|position| printed.map.original(*position)).collect(),
            Err(_) => vec![None; compiled.len()],
        }
    }
}

/// Why a source is refused, and where: a byte offset into the text being compiled.
///
/// Becomes a [`SyntaxError`] at the edge of the crate, in [`script`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    message: String,
    offset: usize,
}

impl Fault {
    fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset }
    }
}
