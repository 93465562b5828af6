//! The two contracts between a host and a guest, as functions over [`engine`](crate::engine) and [`program`](crate::program).
//!
//! - [`script`]: a script calls tools of providers; values are JSON ([`ExecuteResult`](crate::error::ExecuteResult)).
//! - [`module`]: `run_code`; ES modules use structured clones of values, functions and promises of the host.
//! - [`stop`]: why a driver stopped a guest, and how each contract reports it.
//! - `calls`: the calls of a script, for what results and errors say about them.
//! - `functions`: the functions of a script, apart from its code.
//! - `stack`, `explain`: the stack and the message of an uncaught error, for both.

mod answers;
mod calls;
mod explain;
mod functions;
pub mod module;
pub mod script;
mod stack;
pub mod stop;

use std::time::Duration;

use crate::contract::stop::Stop;
use crate::engine::{CallId, Event, Outcome, Pending, Settlement};
use crate::language::Language;
use crate::program::{Limits, Program};
use crate::usage::UsageLimiter;

/// What the contracts have in common, for [`Execution`](crate::execution::Execution).
pub trait Contract {
    /// A call by the guest.
    type Call;
    /// Something that the guest reports without waiting for an answer.
    type Notice;
    /// Identifies a call or promise that the host settles.
    type Pending;
    /// The answer of the host.
    type Answer;
    /// How a program ended.
    type End;

    /// The limits of the program.
    fn limits(&self) -> &Limits;

    /// What the program uses. [`event`](Self::event) counts calls and what is sent; the execution counts time and answers.
    fn usage(&self) -> &UsageLimiter;

    /// See [`usage`](Self::usage).
    fn usage_mut(&mut self) -> &mut UsageLimiter;

    /// What to do about an event, `elapsed` after the program was accepted. `should_stop` is called while a large value is
    /// converted: when it returns true, the program is about to be stopped, and the action does not matter.
    ///
    /// # Errors
    /// The program exceeds a limit.
    fn event(
        &mut self,
        event: Event,
        elapsed: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Action<Self::Call, Self::Notice>, Stop>;

    /// How an answer settles a call or promise in the guest; `None` if it is not pending.
    fn settlement(&mut self, pending: Self::Pending, answer: Self::Answer) -> Option<(Pending, Settlement)>;

    /// Why a guest that waits and has all answers must stop; `None` if it may wait.
    fn stuck(&self) -> Option<Stop>;

    /// Makes the end of a program, `duration` after it was accepted, from the outcome of its guest or the reason why it was
    /// stopped. To be called once.
    fn finish(&mut self, end: Result<Outcome, Stop>, duration: Duration) -> Self::End;
}

/// What starts a program under a contract.
pub trait Request: Sized {
    /// The contract of the program.
    type Contract: Contract;
    /// Why no program was made.
    type Error;

    /// The limits of the program.
    fn limits(&self) -> &Limits;

    /// The length of all sources together, in bytes.
    fn source_bytes(&self) -> usize;

    /// Compiles the sources to a program. When `should_stop` returns true, it stops and fails; the error does not matter.
    ///
    /// # Errors
    /// The sources are invalid, or compiling takes too much memory or was stopped.
    fn start(
        self,
        language: &dyn Language,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<(Program, Self::Contract), Self::Error>;

    /// The error of a program that was stopped before it was started.
    fn stopped(stop: &Stop, limits: &Limits) -> Self::Error;

    /// The end of a program that was not started.
    fn failed(error: Self::Error, duration: Duration) -> <Self::Contract as Contract>::End;
}

/// What a driver has to do about an event of a guest.
#[derive(Debug)]
pub enum Action<C, N> {
    /// Pass this call to the host, and settle it with the result.
    Call(C),
    /// Pass this to the host's listeners.
    Notify(N),
    /// Settle the call at once.
    Settle(CallId, Settlement),
    /// Do nothing.
    Ignore,
}
