//! The host of a guest, as the drivers use it.

use std::task::Context;

use execbox_core::budget::Budget;
use execbox_core::engine::NoRoom;
use execbox_core::protocol::host::HostContract;

/// The functions that one guest may call, and the listeners, under either contract.
pub(crate) trait Host {
    type Contract: HostContract;

    /// Charges what is kept for the guest to this budget. Default: nothing is charged.
    fn charge_to(&mut self, _budget: &Budget) {}

    /// Begins a call. A call that finishes at once is returned, every other one comes from
    /// [`poll_settled`](Self::poll_settled).
    fn call(&mut self, call: <Self::Contract as HostContract>::Call, cx: &mut Context<'_>) -> Option<Settled<Self>>;

    /// The next call or promise that is settled, if there is one. Without one, the task is woken when there is.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled<Self>>;

    /// Records that the last settled call or promise is passed on to the guest. Default: nothing.
    fn passed_on(&mut self) {}

    /// Shows or records what the guest reports.
    ///
    /// # Errors
    /// It is more than may be kept for the guest.
    fn notify(&mut self, notice: <Self::Contract as HostContract>::Notice) -> Result<(), NoRoom>;

    /// Whether no call and no promise is pending.
    fn is_idle(&self) -> bool;

    /// Whether every call in flight waits for a person. The clock of the program is paused then, while the guest waits. The
    /// task is woken when that may have changed.
    fn awaits_approval(&self, cx: &Context<'_>) -> bool;

    /// Cancels the calls in flight.
    fn cancel_calls(&mut self);
}

/// A call or promise with its result.
pub(crate) type Settled<H> =
    (<<H as Host>::Contract as HostContract>::Pending, <<H as Host>::Contract as HostContract>::Answer);
