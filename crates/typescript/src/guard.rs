//! What stands between a hostile source and everything that reads it.
//!
//! A source is short enough, weighed, and read on a stack with room for its depth, in an arena that is
//! freed at once. Should a reader panic all the same, that source is refused and the host goes on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use execbox_core::language::SyntaxError;
use oxc_allocator::Allocator;

use crate::weigh::{self, Weight};
use crate::{Fault, stack};

/// The longest source that is looked at, in bytes. A program is not where data belongs.
pub const MAX_SOURCE_BYTES: usize = 1024 * 1024;

/// Refuses a source that is too long.
pub(crate) fn check_length(source: &str) -> Result<(), SyntaxError> {
    if source.len() <= MAX_SOURCE_BYTES {
        return Ok(());
    }
    let message = format!("the source is {} bytes long; the limit is {MAX_SOURCE_BYTES}", source.len());
    Err(SyntaxError { message, position: None })
}

/// Weighs `text`, unless it is too small to be dangerous as JavaScript.
pub(crate) fn weigh(text: &str) -> Result<Weight, Fault> {
    if text.len() <= weigh::SMALL { Ok(Weight::unweighed(text)) } else { weigh::weigh(text) }
}

/// Runs `phases`, which may recurse as deep as `weight` says.
pub(crate) fn run<T>(weight: &Weight, phases: impl FnOnce(&Allocator) -> Result<T, Fault>) -> Result<T, Fault> {
    let outcome = stack::with_room_for(weight.steps, || catch_unwind(AssertUnwindSafe(|| with_arena(phases))));
    outcome.unwrap_or_else(|_panic| {
        Err(Fault { message: "the parser fails on this source; write it in another way".to_owned(), offset: 0 })
    })
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
