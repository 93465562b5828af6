//! The rules of Execbox, without I/O.
//!
//! This crate defines guests, values, the two contracts between host and guest, and the runner protocol. It has no clock, thread,
//! socket, engine or parser: time is an argument, engines and languages are traits. A driver polls its state machines and does the
//! I/O; the crate `execbox` has the drivers.
//!
//! **This crate has no stable interface.** Depend on `execbox`, which re-exports what embedders and the authors of engines,
//! languages and transports need.
//!
//! ```text
//!   request ──► script ──► Program ──► Engine::start ──► Guest ─┐
//!                 ▲                                             │ events: logs, calls
//!                 └───────────── the driver polls ◄─────────────┘
//!                              settlements ──► Guest … Outcome ──► script ──► ExecuteResult
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`budget`] | the memory and work that one client or guest may use |
//! | [`engine`] | the guest as a state machine, and the interface of engines; read this first |
//! | [`program`], [`value`], [`language`] | what goes into an engine and comes out of it |
//! | [`contract::script`], [`contract::module`] | the two contracts as functions over those |
//! | [`execution`] | when a running program has to stop |
//! | [`usage`] | what an execution uses, and the limits on it |
//! | [`libraries`] | JavaScript that both engines evaluate when a script first uses it |
//! | [`link`] | ES modules, from sources to a graph that links |
//! | [`protocol`] | the runner protocol: messages, lines, both halves of a session |
//! | [`pool`] | pools of worker threads and runner processes, and their queues |
//! | [`awake`] | whether a thread that waits stays awake for a moment |
//! | [`mailbox`], [`stack`] | calls in flight and log lines within their limits, and the places of errors, for engines |
//! | [`names`], [`manifest`], [`error`], [`cause`], [`unawaited`], [`text`] | names, manifests and errors, shared by all |
//!
//! Error codes and tool failures are decided by identity on the host, never by text from the guest: see [`contract::script`].
//!
//! # What a change must keep
//!
//! - No clock, socket, file, thread or environment, and safe Rust only: CI checks the source and the dependencies.
//! - Bytes from a guest are hostile. Each length is checked before anything is allocated, and nothing recurses on a depth that
//!   the guest chose.
//! - Engines know [`program::Program`], not providers. A program is the same data under each driver.
//! - When a program has to stop is decided in [`execution`], and for runners that do not stop theirs in [`protocol::host`].
//! - The text of a script, of each of its functions and of each module is compiled whole, under a file name of its own. No text
//!   is made of several, so none can close another one, and positions need no other map than the shifts of the text. An engine
//!   that has to put text around it (V8) checks that the text does not close that.
//!
//! A state machine without its driver, at a time of 0 and of 3 seconds:
//!
//! ```
//! use std::time::Duration;
//!
//! use execbox_core::pool::{Acquired, Grant, Output, Pool, PoolOptions, Rejected};
//!
//! let options = PoolOptions::default().max_size(1).queue_timeout(Duration::from_secs(2));
//! let mut pool: Pool<(), &str> = Pool::new(options);
//! assert_eq!(pool.acquire(|| "first", Duration::ZERO), Ok(Acquired::Granted(Grant::Start)));
//! assert!(matches!(pool.acquire(|| "second", Duration::ZERO), Ok(Acquired::Waiting { .. })));
//! pool.handle_timeout(Duration::from_secs(3));
//! let rejected = Rejected::QueueTimeout(options.queue_timeout);
//! assert_eq!(pool.poll_output(), Some(Output::Reject("second", rejected)));
//! ```

// Numbers of the wire and of JavaScript are narrower than `usize`; each cast states where its range is checked.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

pub mod awake;
pub mod budget;
pub mod cause;
pub mod contract;
pub mod engine;
pub mod error;
pub mod execution;
pub mod hint;
pub mod language;
pub mod libraries;
mod limits;
pub mod link;
mod logs;
pub mod mailbox;
pub mod manifest;
pub mod memory;
pub mod names;
pub mod pool;
pub mod program;
pub mod protocol;
mod setters;
pub mod stack;
pub mod text;
pub mod unawaited;
pub mod usage;
pub mod value;
