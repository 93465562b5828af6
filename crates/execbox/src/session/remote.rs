//! The driver of guests on a runner at the other end of a channel.
//!
//! The driver connects a [`HostSession`] with the [`Host`], the clock and the channel. The rules are in the session; the
//! executors decide what happens to the channel afterwards.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::contract::stop::Stop;
use execbox_core::protocol::host::{CloseReason, HostContract, HostSession, Output};
use execbox_core::protocol::{HostMessage, RunnerMessage};
use futures_util::FutureExt as _;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::session::channel::{Inbound, MessageChannel};
use crate::session::host::{Host, Settled};
use crate::session::local::SLICE;
use crate::session::spin::Spin;
use crate::transport::command::Ended;
use crate::transport::tls::TlsFailure;
use crate::transport::{NOOP_WAKER, OutOfMemory, RunnerUsesTls, TokenRejection, tls_reason, wake_after_others};

/// A channel to a runner.
pub(crate) trait RunnerChannel: MessageChannel<HostMessage, RunnerMessage> {}

impl<T: MessageChannel<HostMessage, RunnerMessage> + ?Sized> RunnerChannel for T {}

type Outcome<H> = <<H as Host>::Contract as HostContract>::Outcome;

/// Runs a program to its end. Returns the outcome, and whether the runner can be used for another program.
pub(crate) async fn drive<H, L>(
    session: HostSession<H::Contract>,
    channel: &mut L,
    host: &mut H,
    cancellation: &CancellationToken,
) -> (Outcome<H>, bool)
where
    H: Host,
    L: RunnerChannel + ?Sized,
{
    let mut cancelled = pin!(cancellation.cancelled().fuse());
    let mut driver = Driver::new(session, channel, host);
    let outcome = poll_fn(|cx| {
        if cancelled.as_mut().poll(cx).is_ready() {
            driver.session.cancel(Stop::Cancelled(None), driver.now());
        }
        driver.poll(cx)
    })
    .await;
    (outcome, driver.session.is_reusable() && driver.has_sent_everything())
}

/// How many bytes may wait to be sent. Beyond that, nothing is received until the runner reads: its messages would have to be
/// answered, and the answers kept.
const MAX_UNSENT: usize = 1 << 20;

/// How long to receive from a runner after sending has failed: it may have finished before.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(25);

/// The driver of one program.
struct Driver<'a, H: Host, L: ?Sized> {
    session: HostSession<H::Contract>,
    channel: &'a mut L,
    host: &'a mut H,
    /// The zero of the session's times.
    epoch: Instant,
    timer: Pin<Box<Sleep>>,
    /// After sending has failed: until when messages are still received, and the reason.
    broken: Option<(Duration, CloseReason)>,
    closed: bool,
    outcome: Option<Outcome<H>>,
    spin: Spin,
}

impl<'a, H: Host, L: RunnerChannel + ?Sized> Driver<'a, H, L> {
    /// A driver of a session that began at time zero, which is now.
    fn new(session: HostSession<H::Contract>, channel: &'a mut L, host: &'a mut H) -> Self {
        channel.charge_to(session.budget());
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self {
            session,
            channel,
            host,
            epoch: Instant::now(),
            timer,
            broken: None,
            closed: false,
            outcome: None,
            spin: Spin::default(),
        }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Makes progress for as long as a slice. The clock is read before each step: a timer does not fire in a task that does
    /// not yield.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<H>> {
        let slice_end = Instant::now() + SLICE;
        loop {
            self.handle_timeouts();
            self.follow_outputs(cx);
            self.update_clock(cx);
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(outcome);
            }
            // The channel gets the waker of the task only before the thread sleeps: see `transport/pipe.rs`.
            let awake = &mut Context::from_waker(NOOP_WAKER);
            let has_progressed =
                self.poll_timer(cx) || self.poll_receive(awake) || self.poll_calls(cx) || self.poll_flush(cx);
            if !has_progressed && !self.wait_awake() && !self.poll_receive(cx) {
                return Poll::Pending;
            }
            if Instant::now() > slice_end {
                wake_after_others(cx);
                return Poll::Pending;
            }
        }
    }

    /// Busy-waits for a message if only the runner can make progress. Returns whether something has arrived.
    fn wait_awake(&mut self) -> bool {
        let is_awaited = self.session.is_running() && self.host.is_idle() && !self.closed && self.channel.unsent() == 0;
        is_awaited && self.spin.wait(|| self.channel.receive_now())
    }

    fn handle_timeouts(&mut self) {
        let now = self.now();
        if let Some((_, reason)) = self.broken.take_if(|(until, _)| now >= *until) {
            self.close(reason);
        }
        if self.session.next_timeout().is_some_and(|due| due <= now) {
            self.session.handle_timeout(now);
        }
    }

    /// Pauses or resumes the clock of the program.
    fn update_clock(&mut self, cx: &mut Context<'_>) {
        let is_paused = self.host.awaits_approval(cx);
        if is_paused != self.session.is_paused() {
            let now = self.now();
            self.session.set_paused(is_paused, now);
            self.follow_outputs(cx);
        }
    }

    fn follow_outputs(&mut self, cx: &mut Context<'_>) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.channel.send(message) {
                        let now = self.now();
                        self.session.handle_too_long(message, error, now);
                    }
                }
                Output::Call(call) => {
                    if let Some(settled) = self.host.call(call, cx) {
                        self.settle(settled);
                    }
                }
                Output::Notify(notice) => {
                    if let Err(what) = self.host.notify(notice) {
                        let now = self.now();
                        self.session.cancel(Stop::HostMemory(what), now);
                    }
                }
                Output::CancelCalls => self.host.cancel_calls(),
                Output::Terminate => {} // The owner of the channel drops it, as the runner is not reusable.
                Output::Finished(outcome) => self.outcome = Some(outcome),
            }
        }
    }

    /// Whether a timeout is due.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let receive_until = self.broken.as_ref().map(|(until, _)| *until);
        let due = self.session.next_timeout().into_iter().chain(receive_until).min();
        let due = due.filter(|_| !self.session.is_finished()).and_then(|due| self.epoch.checked_add(due));
        let Some(due) = due else { return false };
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }

    /// Receives a message or the end of the channel. Returns whether there was one.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> bool {
        if self.session.is_finished() || self.closed || self.is_congested() {
            return false;
        }
        let Poll::Ready(received) = self.channel.poll_receive(cx, self.session.budget()) else { return false };
        let now = self.now();
        match received {
            Ok(Some(Inbound::Message(message))) => self.session.handle_message(message, now),
            Ok(Some(Inbound::InvalidMessage(error))) => self.session.handle_misbehavior(error, now),
            Ok(Some(Inbound::InvalidFrame(error))) => self.session.handle_misbehavior(error, now),
            Ok(Some(Inbound::Ignored)) => {}
            Ok(None) => self.close(CloseReason::Closed),
            Err(error) => self.close(close_reason(&error)),
        }
        true
    }

    /// Passes on a call or promise that has settled. Returns whether there was one. Settlements wait until the program is sent,
    /// and while the runner does not read.
    fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.session.is_running() || self.is_congested() {
            return false;
        }
        let Some(settled) = self.host.poll_settled(cx) else { return false };
        self.settle(settled);
        true
    }

    /// Passes on a call or promise that has settled.
    fn settle(&mut self, (pending, answer): Settled<H>) {
        let now = self.now();
        self.session.settle(pending, answer, now);
        self.host.passed_on();
    }

    /// Sends what is queued. Returns whether there is something to do then: the runner reads again, or the channel is broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let was_congested = self.is_congested();
        if let Poll::Ready(Err(error)) = self.channel.poll_flush(cx) {
            self.broken = Some((self.now() + RECEIVE_TIMEOUT, close_reason(&error)));
            return true;
        }
        was_congested && !self.is_congested()
    }

    /// Whether the runner does not read.
    fn is_congested(&self) -> bool {
        self.channel.unsent() > MAX_UNSENT
    }

    fn has_sent_everything(&self) -> bool {
        self.channel.unsent() == 0 && self.broken.is_none()
    }

    fn close(&mut self, reason: CloseReason) {
        self.closed = true;
        let now = self.now();
        self.session.handle_close(reason, now);
    }
}

/// The kind of an error only: its message may contain paths and addresses of this host.
fn close_reason(error: &io::Error) -> CloseReason {
    if let Some(OutOfMemory) = error.get_ref().and_then(|source| source.downcast_ref()) {
        return CloseReason::OutOfMemory;
    }
    if let Some(Ended(end)) = error.get_ref().and_then(|source| source.downcast_ref()) {
        return CloseReason::Ended(*end);
    }
    if let Some(rejection) = TokenRejection::of(error) {
        return CloseReason::Rejected(rejection.to_string());
    }
    if let Some(RunnerUsesTls) = error.get_ref().and_then(|source| source.downcast_ref()) {
        return CloseReason::Rejected(RunnerUsesTls.to_string());
    }
    if let Some(failure) = TlsFailure::of(error) {
        return CloseReason::Failed(tls_reason(failure));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => CloseReason::CutOff,
        kind => CloseReason::Failed(kind.to_string()),
    }
}
