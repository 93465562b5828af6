//! The rules of Execbox, without I/O.
//!
//! This crate knows what a guest is, what may pass between guest and host, and what an execution
//! comes to. It has no clock, no thread, no socket, no engine and no parser: time is an argument,
//! engines and languages are traits.
//!
//! ```text
//!   request ──► script ──► Program ──► Engine::start ──► Guest ─┐
//!                 ▲                                             │ events: logs, calls
//!                 └───────────── a driver polls ◄───────────────┘
//!                                answers ──► Guest … Outcome ──► script ──► ExecuteResult
//! ```
//!
//! - [`engine`]: the guest as a state machine, and what an engine owes it. Read this first.
//! - [`program`], [`value`], [`language`]: what goes into an engine and comes out of it.
//! - [`contract::script`]: the script contract as functions over those.
//! - [`link`]: the modules of the module contract, from sources to a graph that is known to link.
//! - [`contract::module`]: the module contract as functions over those.
//! - [`protocol`]: the runner protocol: messages, lines, and both halves of a session.
//! - [`pool`]: who gets the next warm worker or process, and who waits.
//! - [`mailbox`]: what engines share: pending calls, log limits.
//! - [`names`], [`manifest`], [`error`]: the vocabulary.
//!
//! Trust travels by identity, never by text: see [`contract::script`].

// Numbers of the wire and of JavaScript are narrower than this machine's; each cast says where it is checked.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

pub mod contract;
pub mod engine;
pub mod error;
mod hint;
pub mod language;
pub mod link;
mod logs;
pub mod mailbox;
pub mod manifest;
pub mod names;
pub mod pool;
pub mod program;
pub mod protocol;
pub mod text;
pub mod value;
