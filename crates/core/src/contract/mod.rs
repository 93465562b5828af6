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

use crate::engine::{CallId, Settlement};

/// What a driver has to do about an event of a guest. `C` is a call under the contract; `N` is what a guest reports without
/// waiting for an answer.
#[derive(Debug, PartialEq)]
pub enum Action<C, N> {
    /// Have the host called, and settle the call with the result.
    Call(C),
    /// Pass this to the host's listeners.
    Notify(N),
    /// Settle the call at once.
    Settle(CallId, Settlement),
    /// Nothing.
    Ignore,
}
