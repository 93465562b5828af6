//! The QuickJS engine of Execbox: QuickJS-ng compiled to WebAssembly, hosted by Wasmtime.
//!
//! The C engine runs inside linear memory: a fault in it stays there, its memory has an exact limit,
//! and every loop in it can be stopped, in C as in JavaScript. A guest that waits is nothing but that
//! memory.
//!
//! ```text
//!   build time   guest.wasm + bootstrap.js ──run──► image ──compile──► guest.cwasm (in the binary)
//!   start        QuickJs::new     loads guest.cwasm, reserves address space for instances
//!   execution    start            a fresh copy-on-write instance of the image
//!                poll_turn        enters it on a fiber; a tick every 2 ms gives the thread back
//! ```
//!
//! - [`QuickJs`] is the [`Engine`](execbox_core::engine::Engine): this crate's one public type.
//! - `instance`: one WebAssembly instance, what it may ask of the host, and how it ends.
//! - `guest`: the [`Guest`](execbox_core::engine::Guest) around it.
//! - `ticker`: the thread that makes computing guests give way.
//! - `message`: the bytes that go in; `stack`: the stacks that come out.
//!
//! It knows nothing of providers, contracts or the protocol, and needs no async runtime.

// Lengths that a guest is told are 32 bits wide; a message that is longer is refused as a whole (`Instance::put`).
#![allow(clippy::cast_possible_truncation)]

mod engine;
mod guest;
mod instance;
mod message;
mod stack;
mod ticker;

pub use engine::{LoadError, QuickJs};
