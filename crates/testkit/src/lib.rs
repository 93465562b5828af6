//! What tests of several crates of Execbox share. It is a dev-dependency only, and never published.
//!
//! - [`cases`]: the format of files `*.cases`.
//! - [`scripted`]: a second engine, whose programs are lists of moves; and [`scripted::ThreadBound`], an engine bound to
//!   threads.
//! - [`graphs`]: value graphs at random, for property tests.
//! - [`hosts`]: hosts of a listening runner that misbehave.
//! - [`threads`]: how many tests run at once; [`crash`]: a panic that a test expects.
//!
//! The crate depends on `execbox-core` alone. Unit tests inside `execbox-core` cannot use it: they would see a second copy of
//! the crate's types. Its integration tests can.

pub mod cases;
pub mod graphs;
pub mod hosts;
pub mod scripted;

/// The number of threads for tests that wait most of the time: `each` for every processor.
pub fn threads(each: usize) -> usize {
    each * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Panics without the message and the backtrace that others print.
pub fn crash(message: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(message))
}
