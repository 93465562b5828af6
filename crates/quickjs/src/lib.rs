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
//! The crate does not depend on providers, contracts or the protocol, and needs no async runtime.

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
