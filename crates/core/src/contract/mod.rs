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

use std::time::Duration;

use crate::contract::stop::Stop;
use crate::engine::{CallId, Event, Pending, Settlement};
use crate::program::Limits;
use crate::usage::UsageLimiter;

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

    /// The limits of the program.
    fn limits(&self) -> &Limits;

    /// What the program uses. [`event`](Self::event) counts calls and what is sent; a driver counts time and answers.
    fn usage(&self) -> &UsageLimiter;

    /// See [`usage`](Self::usage).
    fn usage_mut(&mut self) -> &mut UsageLimiter;

    /// What to do about an event, `now` after the program was accepted. `should_stop` is asked while a large value is
    /// converted: when it returns true, the driver is about to stop the guest.
    fn event(
        &mut self,
        event: Event,
        now: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Action<Self::Call, Self::Notice>;

    /// How an answer settles a call or promise in the guest.
    fn settlement(&mut self, pending: Self::Pending, answer: Self::Answer) -> (Pending, Settlement);

    /// Why a guest that waits, and has all answers, has to stop, if it has to.
    fn stuck(&self) -> Option<Stop>;
}

/// What a driver has to do about an event of a guest.
#[derive(Debug)]
pub enum Action<C, N> {
    /// Have the host called, and settle the call with the result.
    Call(C),
    /// Pass this to the host's listeners.
    Notify(N),
    /// Settle the call at once.
    Settle(CallId, Settlement),
    /// The guest exceeded a limit: drop it.
    Stop(Stop),
    /// Nothing.
    Ignore,
}
