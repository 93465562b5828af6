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

use crate::engine::{CallId, Event, Pending, Settlement};

/// What the contracts have in common, for drivers of guests.
pub trait Contract {
    /// A call by the guest.
    type Call;
    /// Something that the guest reports without waiting for an answer.
    type Notice;
    /// Identifies a call or promise that the host settles.
    type Pending;
    /// The answer of the host.
    type Answer;

    /// What to do about an event.
    fn event(&mut self, event: Event) -> Action<Self::Call, Self::Notice>;

    /// How an answer settles a call or promise in the guest.
    fn settlement(pending: Self::Pending, answer: Self::Answer) -> (Pending, Settlement);
}

/// What a driver has to do about an event of a guest.
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
