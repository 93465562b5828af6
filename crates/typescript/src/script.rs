//! The way of a source through the phases.
//!
//! Nothing is decided here: [`fences`] says which part is code, [`weigh`] whether it may be parsed,
//! [`parse`] what it says, [`shape`] what its result is, [`erase`] what remains without types.
//! This file holds the memory the phases share, and turns byte offsets into positions.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use execbox_core::language::SyntaxError;
use oxc_allocator::Allocator;

use crate::print::{Map, Printed};
use crate::weigh::{self, Weight};
use crate::{Fault, erase, fences, parse, positions, print, shape, stack};

/// The longest source that is looked at, in bytes. A script is not where data belongs.
pub const MAX_SOURCE_BYTES: usize = 1024 * 1024;

/// Compiles `source`, with or without the way back.
pub(crate) fn compile(source: &str, map: Map) -> Result<Printed, SyntaxError> {
    if source.len() > MAX_SOURCE_BYTES {
        let message = format!("the source is {} bytes long; the limit is {MAX_SOURCE_BYTES}", source.len());
        return Err(SyntaxError { message, position: None });
    }
    let fault_in = |text: &str, fault: Fault| SyntaxError {
        position: Some(positions::position(text, fault.offset)),
        message: fault.message,
    };
    match fences::opening(source) {
        Err(fault) => Err(fault_in(source, fault)),
        Ok(Some(text)) => compile_text(&text, map).map_err(|fault| fault_in(&text, fault)),
        Ok(None) => compile_text(source, map).or_else(|fault| match fences::amid_prose(source) {
            Some(text) => compile_text(&text, map).map_err(|fault| fault_in(&text, fault)),
            None => Err(fault_in(source, fault)),
        }),
    }
}

/// Compiles `text`, in which only code is left.
fn compile_text(text: &str, map: Map) -> Result<Printed, Fault> {
    let weight = if text.len() <= weigh::SMALL { Weight::unweighed(text) } else { weigh::weigh(text)? };
    let phases = || with_arena(|arena| run_phases(arena, text, &weight, map));
    // The parser is a library, and its input is hostile: should it panic, that source is refused and the host goes on.
    let outcome = stack::with_room_for(weight.steps, || catch_unwind(AssertUnwindSafe(phases)));
    outcome.unwrap_or_else(|_panic| {
        Err(Fault { message: "the parser fails on this source; write it in another way".to_owned(), offset: 0 })
    })
}

/// Everything that recurses.
fn run_phases(arena: &Allocator, text: &str, weight: &Weight, map: Map) -> Result<Printed, Fault> {
    let mut parsed = parse::parse(arena, text, weight)?;
    shape::shape(arena, &mut parsed)?;
    if parsed.typescript {
        erase::erase(arena, &mut parsed.program)?;
    }
    Ok(print::print(&parsed.program, map))
}

/// Arenas up to this size are kept for the next source on the same thread.
const KEPT_ARENA_BYTES: usize = 1024 * 1024;

thread_local! {
    static ARENA: Cell<Option<Allocator>> = const { Cell::new(None) };
}

/// Lends the thread's arena to `phases`. A syntax tree lives in it and is dropped with it, in one go:
/// nothing walks the tree to free it.
fn with_arena<T>(phases: impl FnOnce(&Allocator) -> T) -> T {
    let mut arena = ARENA.take().unwrap_or_default();
    let outcome = phases(&arena);
    if arena.capacity() <= KEPT_ARENA_BYTES {
        arena.reset();
        ARENA.set(Some(arena));
    }
    outcome
}
