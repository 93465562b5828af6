//! The V8 engine of Execbox: one isolate per program, for child processes only.
//!
//! V8 compiles programs to machine code, so they compute many times faster than in QuickJS. In return, starting one takes
//! longer, and V8 ends its process where it cannot continue without memory. So it runs in a process of its own:
//! `execbox runner --engine v8`.
//!
//! ```text
//!   start        Prepared      makes a snapshot of the hardened realm; starts the threads
//!   ahead        pool          makes spare isolates from the snapshot
//!   execution    start         gives a program to a thread, which runs it in its isolate and disposes of that
//!                poll_turn     waits briefly for what the thread does; it never computes
//! ```
//!
//! - `V8` is the engine.
//! - `guest`: the guest; `shared`: what it shares with its thread; `pool`: the threads.
//! - `snapshot`, `isolate`, `memory`, `resident`, `ticker`: isolates, their limits, and the thread that checks them;
//!   `exhaustion`: the end of the process for want of memory.
//! - `program`: a program from start to end, with `modules`, `outcome`, and `run`, the state of its callbacks; `libraries`:
//!   JavaScript of the core, on first use.
//! - `realm`, `globals`, `constructors`, `console`, `functions`: what programs can use; `rejections`, `stack`: thrown values.
//! - `encode`, `decode`, `text`: values that cross between host and guest.
//!
//! Without the feature `v8`, this crate is empty, so that V8 is downloaded only where it is needed.
//!
//! # What a change must keep
//!
//! - An isolate belongs to one thread and runs one program. The guest on the driver's side only terminates it.
//! - All threads run before the process is sealed: the engine is made between `confine` and `seal` of the jail.
//! - Nothing is looked up that guest code could have replaced: intrinsics come from the snapshot (`realm`), and the mark of failed
//!   calls is a private name.
//! - The `Error` that V8 reads `stackTraceLimit` of always has it, as a number that V8 supports or not as a number: guest code has
//!   a proxy of that `Error` (`bootstrap.js`).
//! - Native code of this crate that loops over guest data checks the size of what it makes (`max_message`), because V8 does not
//!   interrupt it.
//! - Nothing writes to standard output, which carries the protocol: V8 has a message listener.
#![cfg(feature = "v8")]
// V8 calls back through C, with pointers that the compiler cannot check. Each such place says why it is sound.
#![allow(unsafe_code)]
// `None` is an exception of V8 here, which `Option<Option<T>>` distinguishes from a missing value.
#![allow(clippy::option_option, clippy::similar_names, clippy::single_match_else)]
// Lengths and positions that cross have 32 bits; messages are shorter than that.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

mod console;
mod constructors;
mod decode;
mod encode;
mod engine;
mod exhaustion;
mod functions;
mod globals;
mod guest;
mod isolate;
mod libraries;
mod memory;
mod modules;
mod outcome;
mod pool;
mod program;
mod realm;
mod rejections;
mod resident;
mod run;
mod shared;
mod snapshot;
mod stack;
mod text;
mod ticker;

pub use engine::{LoadError, Options, Prepared, V8};

/// The version of V8, as V8 reports it: `MAJOR.MINOR.BUILD.PATCH`, with a suffix that identifies the build.
pub fn version() -> &'static str {
    v8::V8::get_version()
}
