//! The QuickJS engine of Execbox: QuickJS-ng compiled to WebAssembly, hosted by Wasmtime.
//!
//! The C engine runs in linear memory: a fault stays there, memory has an exact limit, and every loop can be interrupted,
//! in C as in JavaScript. A guest that waits consists of that memory alone.
//!
//! ```text
//!   build time   guest.wasm + bootstrap.js ──run──► image ──compile──► guest.cwasm (in the binary)
//!   start        QuickJs::new     loads guest.cwasm, reserves address space for instances
//!   execution    start            creates a copy-on-write instance of the image
//!                poll_turn        runs it on a fiber; a tick every 2 ms makes it yield
//! ```
//!
//! ```
//! use execbox_core::engine::Engine as _;
//! use execbox_quickjs::QuickJs;
//!
//! let engine = QuickJs::new()?; // for the executors of `execbox`: InlineExecutor::with_engine(Arc::new(engine), language)?
//! assert_eq!(engine.name(), "quickjs");
//! # Ok::<_, execbox_quickjs::LoadError>(())
//! ```
//!
//! - [`QuickJs`] is the [`Engine`](execbox_core::engine::Engine): this crate's one public type.
//! - `loaded`: the compiled code in this process.
//! - `guest`: the [`Guest`](execbox_core::engine::Guest), around an `instance`; `host`: the imports of the instance.
//! - `ticker`: the thread that makes running guests yield.
//! - `message`: the messages to a guest; `outcome`: its end; `boundary`: the numbers in them.
//!
//! The C code is in `guest/`: `guest.c` and the files that it includes, `alloc.c`, `instructions.c`, and `quickjs.patch`, which
//! lists what it changes in the engine. `guest/build.sh` makes `guest.wasm`, and `build.rs` the image.
//!
//! # What a change must keep
//!
//! - The crate does not depend on providers, contracts, schemas or the protocol, and needs no async runtime.
//! - One call is `unsafe`: `Module::deserialize` in `loaded.rs`, whose argument is the output of this build.
//! - Imports are those of `host.rs`, without WASI. What comes through them is checked as if the C engine had been taken over.
//! - Between two entries no native frame of the guest is alive, except in a synchronous call: linear memory is its whole state.
//! - `guest.c` looks up no JavaScript intrinsic that guest code could have replaced. One instance serves one execution.
//! - What the allocator counts for a block is the same when the block is given back. In debug builds, `check.c` verifies that
//!   after each program.

// Lengths in messages have 32 bits; `Instance::put` rejects a longer message.
#![allow(clippy::cast_possible_truncation)]

mod boundary;
mod engine;
mod guest;
mod host;
mod instance;
mod loaded;
mod message;
mod outcome;
mod ticker;

pub use engine::{LoadError, QuickJs};
