//! The driver of guests in this process: compiles a request, polls the guest, passes its events on and settles its calls. The
//! rules are in the [`Execution`].

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::contract::stop::Stop;
use execbox_core::contract::{Action, Contract, Request};
use execbox_core::engine::{Event, Guest, Outcome, Pending, Settlement, Turn};
use execbox_core::execution::{Clock, CompileFailure, CompileTimer, Execution, compile};
use execbox_core::program::Program;
use execbox_core::protocol::host::HostContract;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::session::host::Host;
use crate::session::parts::EngineAndLanguage;
use crate::session::stopwatch::{self, Stopwatch};
use crate::session::turns::Turns;
use crate::transport::wake_after_others;

/// How the program of a request ends.
type EndOf<R> = <<R as Request>::Contract as Contract>::End;

/// Runs a request to its end. The time counts from `accepted` on.
pub(crate) async fn run<R, H>(
    parts: &EngineAndLanguage,
    request: R,
    host: &mut H,
    accepted: Instant,
    cancellation: &CancellationToken,
) -> EndOf<R>
where
    R: Request,
    H: Host,
    H::Contract: HostContract<
            Call = <R::Contract as Contract>::Call,
            Notice = <R::Contract as Contract>::Notice,
            Pending = <R::Contract as Contract>::Pending,
            Answer = <R::Contract as Contract>::Answer,
        >,
{
    let (program, mut execution) = match start(parts, request, accepted, cancellation) {
        Ok(started) => started,
        Err(end) => return end,
    };
    host.charge_to(&program.budget);
    let mut guest = match parts.engine.start(program) {
        Ok(guest) => guest,
        Err(error) => return execution.finish(Err(Stop::Failed(error.to_string())), accepted.elapsed()),
    };
    let end = drive(&mut *guest, &mut execution, host, accepted, cancellation).await;
    execution.handle_peak_memory(guest.peak_memory_bytes());
    execution.finish(end, accepted.elapsed())
}

/// Compiles a request. The error is the end of a program that has no guest.
fn start<R: Request>(
    parts: &EngineAndLanguage,
    request: R,
    accepted: Instant,
    cancellation: &CancellationToken,
) -> Result<(Program, Execution<R::Contract>), EndOf<R>> {
    let limits = *request.limits();
    let clock = Clock::new(Duration::ZERO, limits.timeout);
    let running = stopwatch::for_source(request.source_bytes());
    let timer = CompileTimer {
        now: &|| accepted.elapsed(),
        cpu_time: &|| running.cpu_time(),
        stopped: &|| cancellation.is_cancelled().then_some(Stop::Cancelled(None)),
    };
    let (program, contract) = compile(request, &*parts.language, &clock, &timer).map_err(|failure| {
        let error = match failure {
            CompileFailure::Invalid(error) => error,
            CompileFailure::Stopped(stop) => R::stopped(&stop, &limits),
        };
        R::failed(error, accepted.elapsed())
    })?;
    let mut execution = Execution::new(Box::new(contract), clock);
    match execution.handle_computed(accepted.elapsed(), running.cpu_time()) {
        Ok(()) => Ok((program, execution)),
        Err(stop) => Err(execution.finish(Err(stop), accepted.elapsed())),
    }
}

/// Drives a guest until it ends or has to stop. The time of the execution began at `epoch`.
async fn drive<C, H>(
    guest: &mut dyn Guest,
    execution: &mut Execution<C>,
    host: &mut H,
    epoch: Instant,
    cancellation: &CancellationToken,
) -> Result<Outcome, Stop>
where
    C: Contract,
    H: Host,
    H::Contract: HostContract<Call = C::Call, Notice = C::Notice, Pending = C::Pending, Answer = C::Answer>,
{
    let mut cancelled = pin!(cancellation.cancelled());
    let mut driver = Driver {
        guest,
        execution,
        host,
        epoch,
        cancellation,
        turns: Turns::new(),
        stopwatch: Stopwatch::default(),
        timer: None,
        events: VecDeque::new(),
        batch: Vec::new(),
        is_blocked: false,
        outcome: None,
    };
    poll_fn(|cx| {
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Stop::Cancelled(None)));
        }
        // Timers round up to milliseconds: a deadline that has passed must not wait for one.
        driver.execution.handle_timeout(driver.now())?;
        driver.wake_guest();
        if let Poll::Ready(outcome) = driver.poll(cx)? {
            return Poll::Ready(Ok(outcome));
        }
        driver.update_clock(cx)?;
        driver.poll_timer(cx).map(Err)
    })
    .await
}

/// How many bytes of settlements may wait for the guest. Beyond that, the guest is polled before more is settled.
pub(crate) const MAX_UNREAD: usize = 1 << 20;

/// How long events are handled, and messages received, before other tasks run.
pub(crate) const SLICE: Duration = Duration::from_millis(2);

struct Driver<'a, C: Contract, H> {
    guest: &'a mut dyn Guest,
    execution: &'a mut Execution<C>,
    host: &'a mut H,
    /// The zero of the execution's times.
    epoch: Instant,
    cancellation: &'a CancellationToken,
    turns: Turns,
    stopwatch: Stopwatch,
    /// Fires at the next timeout of the execution.
    timer: Option<Pin<Box<Sleep>>>,
    /// Events of the guest that are not passed to the host yet.
    events: VecDeque<Event>,
    /// An empty buffer whose memory is reused.
    batch: Vec<Event>,
    /// Whether the guest waits in a synchronous call and processes no other settlement.
    is_blocked: bool,
    /// The outcome of a guest that is done, while its last events are handled.
    outcome: Option<Outcome>,
}

/// How far the events were handled.
enum Handled {
    All,
    /// The guest has to process settlements first.
    Full,
    /// Other tasks have to run first. This one is woken afterwards.
    Yielded,
}

impl<C, H> Driver<'_, C, H>
where
    C: Contract,
    H: Host,
    H::Contract: HostContract<Call = C::Call, Notice = C::Notice, Pending = C::Pending, Answer = C::Answer>,
{
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

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
            self.execution.handle_computed(timed.began - self.epoch, timed.cpu_time)?;
            self.guest.take_events(&mut self.batch);
            self.events.extend(self.batch.drain(..));
            let is_waiting = matches!(turn, Poll::Ready(Turn::Waiting));
            self.is_blocked = is_waiting && self.guest.unread_bytes() > 0;
            match turn {
                Poll::Ready(Turn::Done(outcome)) => self.outcome = Some(outcome),
                Poll::Ready(Turn::Waiting) | Poll::Pending if !self.events.is_empty() && !self.is_full() => {}
                Poll::Ready(Turn::Waiting) if was_full => {}
                Poll::Ready(Turn::Waiting) => {
                    self.execution.handle_waiting(timed.ended - self.epoch)?;
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Pauses the clock while all calls wait for a person, and resumes it afterwards.
    fn update_clock(&mut self, cx: &Context<'_>) -> Result<(), Stop> {
        let is_paused = self.host.awaits_approval(cx);
        if is_paused == self.execution.clock().is_paused() {
            return Ok(());
        }
        self.execution.set_paused(is_paused, self.now())
    }

    /// Ready when a timeout of the execution has passed.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        while let Some(due) = self.execution.next_timeout().and_then(|due| self.epoch.checked_add(due)) {
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            std::task::ready!(timer.as_mut().poll(cx));
            if let Err(stop) = self.execution.handle_timeout(self.now()) {
                return Poll::Ready(stop);
            }
            if self.wake_guest() {
                cx.waker().wake_by_ref(); // The guest is polled next.
            }
        }
        Poll::Pending
    }

    /// Wakes the guest if its timer is due. Returns whether it was.
    fn wake_guest(&mut self) -> bool {
        let is_due = self.execution.take_timer(self.now());
        if is_due {
            self.guest.wake();
        }
        is_due
    }

    /// Whether many bytes of settlements wait for a guest that can process them.
    fn is_full(&self) -> bool {
        self.outcome.is_none() && !self.is_blocked && self.guest.unread_bytes() >= MAX_UNREAD
    }

    /// Passes an answer of the host to the guest.
    fn answer(&mut self, pending: C::Pending, answer: C::Answer) -> Result<(), Stop> {
        if self.outcome.is_some() {
            return Ok(()); // The answer would never be read.
        }
        let settled = self.execution.handle_answer(pending, answer, self.now())?;
        self.host.passed_on();
        match settled {
            Some((pending, settlement)) => self.settle(pending, settlement),
            None => Ok(()),
        }
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) -> Result<(), Stop> {
        if self.outcome.is_some() {
            return Ok(());
        }
        self.guest.settle(pending, settlement);
        if self.is_blocked { self.execution.handle_unread(self.guest.unread_bytes()) } else { Ok(()) }
    }

    /// Passes the guest's calls and notices to the host. The clock is checked before each.
    fn handle_events(&mut self, cx: &mut Context<'_>) -> Result<Handled, Stop> {
        let mut slice_end = None;
        while let Some(event) = self.events.pop_front() {
            if self.cancellation.is_cancelled() {
                return Err(Stop::Cancelled(None));
            }
            if slice_end.is_some_and(|end| Instant::now() > end) || self.is_full() {
                self.events.push_front(event);
                return Ok(if self.is_full() { Handled::Full } else { yielded(cx) });
            }
            self.handle_event(event, cx)?;
            if !self.events.is_empty() {
                slice_end.get_or_insert_with(|| Instant::now() + SLICE);
            }
        }
        Ok(Handled::All)
    }

    fn handle_event(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), Stop> {
        let epoch = self.epoch;
        match self.execution.handle_event(event, &|| epoch.elapsed())? {
            Action::Call(call) => {
                if let Some((pending, answer)) = self.host.call(call, cx) {
                    self.answer(pending, answer)?;
                }
            }
            Action::Settle(call, settlement) => self.settle(Pending::Call(call), settlement)?,
            Action::Notify(notice) => self.host.notify(notice).map_err(Stop::HostMemory)?,
            Action::Ignore => {}
        }
        Ok(())
    }
}

fn yielded(cx: &mut Context<'_>) -> Handled {
    wake_after_others(cx);
    Handled::Yielded
}
