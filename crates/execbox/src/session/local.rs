//! The driver of guests in this process: polls the guest, passes its events on, settles its calls, and stops it in time.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::contract::stop::Stop;
use execbox_core::contract::{Action, Contract};
use execbox_core::engine::{Event, Guest, NoRoom, Outcome, Pending, Settlement, Turn};
use execbox_core::program::Limits;
use execbox_core::protocol::host::HostContract;
use execbox_core::usage::UsageLimiter;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::session::host::Host;
use crate::session::stopwatch::{self, Running, Stopwatch, Timed};
use crate::session::turns::Turns;
use crate::transport::wake_after_others;

/// What stops a guest.
pub(crate) struct StopCondition {
    /// When the program was accepted.
    pub(crate) accepted: Instant,
    pub(crate) cancellation: CancellationToken,
    /// `None` for a timeout that exceeds what an [`Instant`] can represent.
    pub(crate) deadline: Option<Instant>,
}

impl StopCondition {
    /// Why the guest has to stop now, if it has to.
    pub(crate) fn reached(&self) -> Option<Stop> {
        self.reached_at(Instant::now())
    }

    fn reached_at(&self, now: Instant) -> Option<Stop> {
        if self.cancellation.is_cancelled() {
            return Some(Stop::Cancelled(None));
        }
        let is_late = self.deadline.is_some_and(|deadline| now >= deadline);
        is_late.then_some(Stop::TimedOut)
    }
}

/// Drives a guest until it ends or has to stop. The deadline moves while the clock stands still.
pub(crate) async fn drive<C, H>(
    guest: &mut dyn Guest,
    contract: &mut C,
    host: &mut H,
    condition: &mut StopCondition,
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
    let cancellation = condition.cancellation.clone();
    let mut cancelled = pin!(cancellation.cancelled());
    let mut late = pin!(condition.deadline.map(tokio::time::sleep_until));
    let mut driver = Driver {
        guest,
        contract,
        host,
        condition,
        turns: Turns::new(),
        stopwatch: Stopwatch::default(),
        waits_since: None,
        is_clock_stopped: false,
        wait_end: None,
        events: VecDeque::new(),
        batch: Vec::new(),
        is_blocked: false,
        outcome: None,
    };
    poll_fn(|cx| {
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Stop::Cancelled(None)));
        }
        if driver.poll_late(late.as_mut().as_pin_mut(), cx).is_ready() {
            return Poll::Ready(Err(Stop::TimedOut));
        }
        if let Poll::Ready(outcome) = driver.poll(cx)? {
            return Poll::Ready(Ok(outcome));
        }
        if driver.update_clock(cx)? && driver.poll_late(late.as_mut().as_pin_mut(), cx).is_ready() {
            return Poll::Ready(Err(Stop::TimedOut));
        }
        driver.poll_wait_end(cx).map(Err)
    })
    .await
}

/// Reading the source of a program: why it has to stop, and how long it took.
pub(crate) struct Reading<'a> {
    condition: &'a StopCondition,
    limits: Limits,
    running: Running,
}

impl<'a> Reading<'a> {
    /// A source of `len` bytes is read from here on.
    pub(crate) fn new(condition: &'a StopCondition, limits: &Limits, len: usize) -> Self {
        Self { condition, limits: *limits, running: stopwatch::for_source(len) }
    }

    /// Why it has to stop now, if it has to.
    pub(crate) fn reached(&self) -> Option<Stop> {
        self.condition.reached().or_else(|| self.count(&mut UsageLimiter::new(&self.limits, 0)).err())
    }

    /// Counts the time that it took.
    pub(crate) fn count(&self, usage: &mut UsageLimiter) -> Result<(), Stop> {
        usage.compute(self.running.cpu_time()).map_err(Stop::Limit)
    }
}

/// How many bytes of settlements may wait for the guest. Beyond that it is polled before more is settled.
pub(crate) const MAX_UNREAD: usize = 1 << 20;

/// How long events are handled, and messages received, before other tasks have their turn.
pub(crate) const SLICE: Duration = Duration::from_millis(2);

struct Driver<'a, C, H> {
    guest: &'a mut dyn Guest,
    contract: &'a mut C,
    host: &'a mut H,
    condition: &'a mut StopCondition,
    turns: Turns,
    stopwatch: Stopwatch,
    /// Since when the guest only waits for calls.
    waits_since: Option<Instant>,
    /// Every call in flight waits for a person: the clock stands still while the guest waits.
    is_clock_stopped: bool,
    /// Fires when it has waited for as long as it may; created when it is needed.
    wait_end: Option<Pin<Box<Sleep>>>,
    /// What the guest did and the host was not told yet.
    events: VecDeque<Event>,
    /// Empty; kept for its memory.
    batch: Vec<Event>,
    /// The guest waits in a synchronous call and takes no other settlement in.
    is_blocked: bool,
    /// The guest is done, and its last events are being handled.
    outcome: Option<Outcome>,
}

/// How far the events were handled.
enum Handled {
    All,
    /// The guest has to take settlements in first.
    Full,
    /// Other tasks have to have their turn first. This one is woken.
    Yielded,
}

impl<C, H> Driver<'_, C, H>
where
    C: Contract,
    H: Host,
    H::Contract: HostContract<Call = C::Call, Notice = C::Notice, Pending = C::Pending, Answer = C::Answer>,
{
    /// Polls the guest and its host until neither makes progress.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, Stop>> {
        loop {
            match self.handle_events(cx)? {
                Handled::Yielded => return Poll::Pending,
                Handled::All => {
                    if let Some(outcome) = self.outcome.take() {
                        return Poll::Ready(Ok(outcome));
                    }
                }
                Handled::Full => {}
            }
            while !self.is_full()
                && let Some((pending, answer)) = self.host.poll_settled(cx)
            {
                self.answer(pending, answer)?;
            }
            let was_full = self.is_full();
            let (turn, timed) = self.stopwatch.guest_turn(self.guest, |guest| self.turns.poll(guest, cx));
            self.count(timed)?;
            self.guest.take_events(&mut self.batch);
            self.events.extend(self.batch.drain(..));
            let is_waiting = matches!(turn, Poll::Ready(Turn::Waiting));
            self.is_blocked = is_waiting && self.guest.unread_bytes() > 0;
            self.waits_since = Some(timed.ended).filter(|_| is_waiting && !self.host.is_idle());
            match turn {
                Poll::Ready(Turn::Done(outcome)) => self.outcome = Some(outcome),
                Poll::Ready(Turn::Waiting) | Poll::Pending if !self.events.is_empty() && !self.is_full() => {}
                Poll::Ready(Turn::Waiting) if was_full => {}
                Poll::Ready(Turn::Waiting) if let Some(stuck) = self.contract.stuck() => {
                    return Poll::Ready(Err(stuck));
                }
                Poll::Ready(Turn::Waiting) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Counts the time of a turn, and that in which the guest waited before.
    fn count(&mut self, turn: Timed) -> Result<(), Stop> {
        self.end_wait(turn.began)?;
        self.contract.usage_mut().compute(turn.cpu_time).map_err(Stop::Limit)
    }

    /// The guest has waited until now.
    fn end_wait(&mut self, now: Instant) -> Result<(), Stop> {
        let Some(since) = self.waits_since.take() else { return Ok(()) };
        if self.is_clock_stopped {
            self.condition.deadline = self.condition.deadline.and_then(|deadline| deadline.checked_add(now - since));
            return Ok(());
        }
        self.contract.usage_mut().wait(now - since).map_err(Stop::Limit)
    }

    /// Stops the clock, or lets it run again. Returns whether that changes anything.
    fn update_clock(&mut self, cx: &Context<'_>) -> Result<bool, Stop> {
        let is_stopped = self.host.awaits_approval(cx);
        if is_stopped == self.is_clock_stopped {
            return Ok(false);
        }
        if self.waits_since.is_some() {
            let now = Instant::now();
            self.end_wait(now)?;
            self.waits_since = Some(now);
        }
        self.is_clock_stopped = is_stopped;
        Ok(true)
    }

    /// Ready when the deadline has passed. While the clock stands still, it does not.
    fn poll_late(&self, timer: Option<Pin<&mut Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
        let stands_still = self.is_clock_stopped && self.waits_since.is_some();
        let (Some(mut timer), Some(deadline), false) = (timer, self.condition.deadline, stands_still) else {
            return Poll::Pending;
        };
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.poll(cx)
    }

    /// Ready when the guest has waited for as long as it may.
    fn poll_wait_end(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        let since = self.waits_since.filter(|_| !self.is_clock_stopped);
        let (Some(since), Some(left)) = (since, self.contract.usage().wait_left()) else { return Poll::Pending };
        let Some(end) = since.checked_add(left) else { return Poll::Pending };
        let timer = self.wait_end.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        match self.contract.usage_mut().wait(since.elapsed()) {
            Err(error) => Poll::Ready(Stop::Limit(error)),
            Ok(()) => Poll::Pending,
        }
    }

    /// Much was settled that the guest has not taken in.
    fn is_full(&self) -> bool {
        self.outcome.is_none() && !self.is_blocked && self.guest.unread_bytes() >= MAX_UNREAD
    }

    /// Passes what the host answered to the guest.
    fn answer(&mut self, pending: C::Pending, answer: C::Answer) -> Result<(), Stop> {
        if self.outcome.is_some() {
            return Ok(()); // It would never be read.
        }
        let (pending, settlement) = self.contract.settlement(pending, answer);
        self.contract.usage_mut().answer(settlement.bytes()).map_err(Stop::Limit)?;
        self.settle(pending, settlement)
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) -> Result<(), Stop> {
        if self.outcome.is_some() {
            return Ok(());
        }
        self.guest.settle(pending, settlement);
        if self.is_blocked && self.guest.unread_bytes() > self.contract.limits().memory_len() {
            return Err(Stop::HostMemory(NoRoom::Answers));
        }
        Ok(())
    }

    /// Passes the guest's calls and notices to the host. The clock is checked before each.
    fn handle_events(&mut self, cx: &mut Context<'_>) -> Result<Handled, Stop> {
        let mut slice_end = None;
        while let Some(event) = self.events.pop_front() {
            let now = Instant::now();
            if let Some(stop) = self.condition.reached_at(now) {
                return Err(stop);
            }
            if now > *slice_end.get_or_insert(now + SLICE) || self.is_full() {
                self.events.push_front(event);
                return Ok(if self.is_full() { Handled::Full } else { yielded(cx) });
            }
            self.handle_event(event, now, cx)?;
        }
        Ok(Handled::All)
    }

    fn handle_event(&mut self, event: Event, now: Instant, cx: &mut Context<'_>) -> Result<(), Stop> {
        let condition = &*self.condition;
        match self.contract.event(event, now - condition.accepted, &|| condition.reached().is_some()) {
            Action::Call(call) => {
                if let Some((pending, answer)) = self.host.call(call, cx) {
                    self.answer(pending, answer)?;
                }
            }
            Action::Settle(call, settlement) => self.settle(Pending::Call(call), settlement)?,
            Action::Notify(notice) => self.host.notify(notice).map_err(Stop::HostMemory)?,
            Action::Stop(stop) => return Err(stop),
            Action::Ignore => {}
        }
        Ok(())
    }
}

fn yielded(cx: &mut Context<'_>) -> Handled {
    wake_after_others(cx);
    Handled::Yielded
}
