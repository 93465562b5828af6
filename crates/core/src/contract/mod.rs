//! The two contracts between a host and a guest, as functions over [`engine`](crate::engine) and [`program`](crate::program).
//!
//! - [`script`]: a script calls tools of providers; values are JSON ([`ExecuteResult`](crate::error::ExecuteResult)).
//! - [`module`]: `run_code`; ES modules use structured clones of values, functions and promises of the host.
//! - [`stop`]: why a driver stopped a guest, and how each contract reports it.
//! - `stack`, `explain`: the stack and the message of an uncaught error, for both.

mod explain;
pub mod module;
pub mod script;
mod stack;
pub mod stop;
