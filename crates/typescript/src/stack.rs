//! Room on the stack for everything that recurses.
//!
//! What recurses lives in other crates and has no limit of its own; this file only makes sure that
//! the stack is large enough for the depth that [`weigh`](crate::weigh) found possible. It assumes
//! that it runs on a stack that the operating system gave a thread (or that `stacker` made), because
//! the room that is left there can be asked for.

/// Stack that one step may use, in any phase.
///
/// Measured as the high-water mark of the stack over nested source of 130 kinds (every bracket,
/// operator, statement and type that contains itself, and mixtures), parsed, walked, erased and
/// printed. The costliest are `((((` and `[[[[` in type position: 1.8 KB for a token optimised,
/// 3.7 KB unoptimised. The tests repeat this with whatever optimisation they are built with.
pub(crate) const BYTES_PER_STEP: usize = 6 * 1024;

/// Stack for what does not depend on the source.
const BYTES_FOR_THE_REST: usize = 192 * 1024;

/// Runs `phases` on a stack with room for `steps`: the current one if it has it.
pub(crate) fn with_room_for<T>(steps: usize, phases: impl FnOnce() -> T) -> T {
    let room = BYTES_FOR_THE_REST + steps * BYTES_PER_STEP;
    stacker::maybe_grow(room, room, phases)
}
