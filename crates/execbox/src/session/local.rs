//! The driver of guests in this process: polls the guest, passes its events on, settles its calls, and stops it in time.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use execbox_core::contract::stop::Stop;
use execbox_core::contract::{Action, Contract};
use execbox_core::engine::{Event, Guest, Outcome, Pending, Turn};
use execbox_core::protocol::host::HostContract;
use futures_util::future::OptionFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::session::host::Host;
use crate::session::turns::Turns;

/// What stops a guest.
pub(crate) struct StopCondition {
    pub(crate) cancellation: CancellationToken,
    /// `None` for a timeout that exceeds what an [`Instant`] can represent.
    pub(crate) deadline: Option<Instant>,
}

impl StopCondition {
    /// Why the guest has to stop now, if it has to.
    pub(crate) fn reached(&self) -> Option<Stop> {
        if self.cancellation.is_cancelled() {
            return Some(Stop::Cancelled(None));
        }
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late.then_some(Stop::TimedOut { stuck: false })
    }
}

/// Drives a guest until it ends or has to stop.
pub(crate) async fn drive<C, H>(
    guest: &mut dyn Guest,
    contract: &mut C,
    host: &mut H,
    condition: &StopCondition,
) -> Result<Outcome, Stop>
where
    C: Contract,
    H: Host,
    H::Contract: HostContract<Call = C::Call, Notice = C::Notice, Pending = C::Pending, Answer = C::Answer>,
{
    // Timers round up to milliseconds: a deadline that has passed must not wait for one.
    if let Some(stop) = condition.reached() {
        return Err(stop);
    }
    let mut cancelled = pin!(condition.cancellation.cancelled());
    let mut late = pin!(OptionFuture::from(condition.deadline.map(tokio::time::sleep_until)));
    let mut driver = Driver { guest, contract, host, turns: Turns::new(), events: Vec::new(), is_waiting: false };
    poll_fn(|cx| {
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Stop::Cancelled(None)));
        }
        if let Poll::Ready(Some(())) = late.as_mut().poll(cx) {
            return Poll::Ready(Err(Stop::TimedOut { stuck: driver.is_waiting && driver.host.is_idle() }));
        }
        driver.poll(cx).map(Ok)
    })
    .await
}

struct Driver<'a, C, H> {
    guest: &'a mut dyn Guest,
    contract: &'a mut C,
    host: &'a mut H,
    turns: Turns,
    events: Vec<Event>,
    /// The last turn was [`Turn::Waiting`].
    is_waiting: bool,
}

impl<C, H> Driver<'_, C, H>
where
    C: Contract,
    H: Host,
    H::Contract: HostContract<Call = C::Call, Notice = C::Notice, Pending = C::Pending, Answer = C::Answer>,
{
    /// Polls the guest and its host until neither makes progress.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            while let Some((pending, answer)) = self.host.poll_settled(cx) {
                let (pending, settlement) = C::settlement(pending, answer);
                self.guest.settle(pending, settlement);
            }
            let turn = self.turns.poll(self.guest, cx);
            self.is_waiting = matches!(turn, Poll::Ready(Turn::Waiting));
            let has_called = self.handle_events(cx);
            match turn {
                Poll::Ready(Turn::Done(outcome)) => return Poll::Ready(outcome),
                // Its calls are settled, or in flight and not polled since they were added.
                Poll::Ready(Turn::Waiting) if has_called => {}
                Poll::Ready(Turn::Waiting) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Passes the guest's calls and notices to the host. Returns whether there was a call.
    fn handle_events(&mut self, cx: &mut Context<'_>) -> bool {
        self.guest.take_events(&mut self.events);
        let mut has_called = false;
        for event in self.events.drain(..) {
            has_called |= matches!(event, Event::Call(_));
            let settled = match self.contract.event(event) {
                Action::Call(call) => self.host.call(call, cx).map(|(pending, answer)| C::settlement(pending, answer)),
                Action::Settle(call, settlement) => Some((Pending::Call(call), settlement)),
                Action::Notify(notice) => {
                    self.host.notify(notice);
                    None
                }
                Action::Ignore => None,
            };
            if let Some((pending, settlement)) = settled {
                self.guest.settle(pending, settlement);
            }
        }
        has_called
    }
}
