//! A runner: runs guests for a host at the other end of a transport (runner specification).
//!
//! The driver of a [`RunnerSession`]: it connects the session with the channel, the guest and the clock. The rules are in
//! the session. The caller of [`Runner::serve`] provides the transport.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use execbox_core::budget::Budget;
use execbox_core::engine::{Engine, Event, Guest, Turn};
use execbox_core::language::Language;
use execbox_core::program::Limits;
use execbox_core::protocol::runner::{Output, RunnerSession};
use execbox_core::protocol::{ATTACHMENT_COST, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS};
use execbox_core::protocol::{HostMessage, LineError, RunnerMessage};
use futures_util::future::FutureExt as _;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::session::channel::{Inbound, JsonChannel, MessageChannel};
use crate::session::local::{MAX_UNREAD, SLICE};
use crate::session::parts::EngineAndLanguage;
use crate::session::spin::{self, Spin};
use crate::session::stopwatch::{self, Stopwatch};
use crate::session::turns::Turns;
use crate::transport::{NOOP_WAKER, Transport, wake_after_others};

/// How many bytes may wait to be sent. Beyond that, the guest is not polled until the host reads, and without a guest, nothing
/// is received. With a guest, answers to other messages may take as much again.
const MAX_UNSENT: usize = 1 << 20;

/// The most memory that a message of the host, or its attachments, may take while they are received, in bytes: that of the
/// longest attachment, and the cost of the most attachments.
const MAX_MESSAGE_COST: usize = MAX_ATTACHMENT_BYTES + MAX_ATTACHMENTS * ATTACHMENT_COST;

/// How long sending the last messages may take after the host has closed its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs guests for hosts. Cheap to clone; serves any number of transports at once.
///
/// Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct Runner {
    pub(crate) parts: EngineAndLanguage,
    drain: Option<Drain>,
    max_limits: Limits,
    idle_timeout: Option<Duration>,
    on_invalid_frame: Option<FrameErrorSink>,
}

/// Receives the error of an invalid frame.
type FrameErrorSink = Arc<dyn Fn(&LineError) + Send + Sync>;

/// Why a runner ends a connection, as the source of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The host sends messages that must be answered and does not read the answers.
    #[error("the host does not read: more than {0} bytes are unsent")]
    UnreadAnswers(usize),
}

/// When to stop accepting programs, and how long a running one may still take.
#[derive(Clone)]
struct Drain {
    when: CancellationToken,
    grace: Duration,
}

impl Runner {
    /// Creates a runner with QuickJS, which accepts TypeScript.
    ///
    /// # Errors
    /// The engine does not load.
    #[cfg(feature = "standard")]
    pub fn new() -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self::with_parts(EngineAndLanguage::standard()?))
    }

    /// [`new`](Self::new) for a process that is [confined](crate::jail) before it serves up to `max_guests` hosts at once: its
    /// engine has room for their guests from the start. For one guest it takes little address space and private memory, which
    /// the jail limits.
    ///
    /// # Errors
    /// The engine does not load.
    #[cfg(feature = "standard")]
    pub fn with_max_guests(max_guests: u32) -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self::with_parts(EngineAndLanguage::with_max_guests(max_guests)?))
    }

    /// Creates a runner with another engine and language.
    pub fn with_engine(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Self {
        Self::with_parts(EngineAndLanguage { engine, language })
    }

    fn with_parts(parts: EngineAndLanguage) -> Self {
        spin::processors();
        Self { parts, drain: None, max_limits: Limits::unlimited(), idle_timeout: None, on_invalid_frame: None }
    }

    /// Caps the limits that hosts ask for; of several caps the lowest counts. If a program meets a limit that was capped, its
    /// error says so. Default: [`Limits::unlimited`].
    #[must_use]
    pub fn max_limits(self, max_limits: Limits) -> Self {
        Self { max_limits: self.max_limits.capped_by(&max_limits).0, ..self }
    }

    /// Closes a transport on which no program has run for `timeout`. Default: never.
    #[must_use]
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        Self { idle_timeout: Some(timeout), ..self }
    }

    /// Calls `sink` with the first frame of each transport that is not a JSON object with a `type`. Such frames are ignored. Default:
    /// no call.
    #[must_use]
    pub fn on_invalid_frame(self, sink: impl Fn(&LineError) + Send + Sync + 'static) -> Self {
        Self { on_invalid_frame: Some(Arc::new(sink)), ..self }
    }

    /// Drains when the token fires: no program is accepted, a running one is cancelled after `grace`, and each transport
    /// is closed when its program is over.
    #[must_use]
    pub fn drain_when(mut self, when: CancellationToken, grace: Duration) -> Self {
        self.drain = Some(Drain { when, grace });
        self
    }

    /// Fires when the runner starts to drain.
    pub(crate) fn drain_token(&self) -> CancellationToken {
        self.drain.as_ref().map(|drain| drain.when.clone()).unwrap_or_default()
    }

    /// Serves a host until it closes its side of the transport: one program at a time, any number in sequence. A guest that
    /// still runs then is stopped.
    ///
    /// # Errors
    /// The transport fails, or ends in the middle of a message (`UnexpectedEof`). The host does not read: [`ServeError`].
    pub async fn serve(&self, transport: impl Transport) -> io::Result<()> {
        self.serve_channel(JsonChannel::new(transport)).await
    }

    /// [`serve`](Self::serve), with attachments charged to `budget` until their message is received.
    pub(crate) async fn serve_charged(&self, transport: impl Transport, budget: &Budget) -> io::Result<()> {
        self.serve_channel(JsonChannel::charged_to(budget, transport)).await
    }

    pub(crate) async fn serve_channel(
        &self,
        mut channel: impl MessageChannel<RunnerMessage, HostMessage>,
    ) -> io::Result<()> {
        let drain = self.drain_token();
        let mut draining = pin!(drain.cancelled().fuse());
        let mut connection = Connection::new(self, &mut channel);
        let ended = poll_fn(|cx| {
            if draining.as_mut().poll(cx).is_ready() {
                connection.drain();
            }
            connection.poll(cx)
        })
        .await;
        drop(connection);
        // A host that is gone does not need the last messages: an error here does not matter.
        if ended.is_ok() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, poll_fn(|cx| channel.poll_close(cx))).await;
        }
        ended
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("engine", &self.parts.engine.name()).finish_non_exhaustive()
    }
}

/// The result of receiving.
enum Receipt {
    Messages,
    /// The end of the connection.
    End(io::Result<()>),
}

/// The timeout that has passed.
enum Due {
    /// The end of a session that was idle for too long.
    Idle,
    /// A timeout of the session, which was handled.
    Handled,
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// A program or an answer.
    Message,
    /// The answer to a synchronous call: the guest processes no other one.
    Answer,
    /// The guest computes, and has yielded.
    Nothing,
}

/// The connection to one host.
struct Connection<'a, L> {
    runner: &'a Runner,
    session: RunnerSession,
    channel: &'a mut L,
    /// The zero of the session's times.
    epoch: Instant,
    guest: Option<Box<dyn Guest>>,
    /// A guest that has ended, until its last messages are sent: the host does not wait for its memory to be cleared.
    ended: Option<Box<dyn Guest>>,
    turns: Turns,
    stopwatch: Stopwatch,
    /// Events of the guest that are not passed to the session yet.
    events: VecDeque<Event>,
    /// An empty buffer whose memory is reused.
    batch: Vec<Event>,
    /// How the turn that produced `events` ended.
    turn: Option<Poll<Turn>>,
    /// Whether the guest has to be polled again: something was settled since, or it may have woken this task meanwhile.
    is_due: bool,
    waits_for: WaitsFor,
    /// About how many calls of the guest are not answered.
    in_flight: usize,
    /// Charged for messages while they are received.
    budget: Budget,
    deadline: Pin<Box<Sleep>>,
    /// When a program was last active, or the session began.
    idle_since: Duration,
    was_active: bool,
    /// The bytes of answers that were queued while the host did not read.
    unread_answers: usize,
    /// Called with the first invalid frame.
    on_invalid_frame: Option<FrameErrorSink>,
    spin: Spin,
}

impl<'a, L: MessageChannel<RunnerMessage, HostMessage>> Connection<'a, L> {
    fn new(runner: &'a Runner, channel: &'a mut L) -> Self {
        Self {
            runner,
            session: RunnerSession::new().with_max_limits(runner.max_limits),
            channel,
            epoch: Instant::now(),
            guest: None,
            ended: None,
            turns: Turns::new(),
            stopwatch: Stopwatch::default(),
            events: VecDeque::new(),
            batch: Vec::new(),
            turn: None,
            is_due: false,
            waits_for: WaitsFor::Message,
            in_flight: 0,
            budget: Budget::new(MAX_MESSAGE_COST),
            deadline: Box::pin(tokio::time::sleep(Duration::ZERO)),
            idle_since: Duration::ZERO,
            was_active: false,
            unread_answers: 0,
            on_invalid_frame: runner.on_invalid_frame.clone(),
            spin: Spin::default(),
        }
    }

    fn drain(&mut self) {
        let grace = self.runner.drain.as_ref().map_or(Duration::ZERO, |drain| drain.grace);
        self.session.drain(grace, self.epoch.elapsed());
        self.follow_outputs();
    }

    /// Makes progress. Ready when the host has closed its side, or the session is drained or idle for too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let slice_end = Instant::now() + SLICE;
        loop {
            // The channel gets the waker of the task only before the thread sleeps: see `transport/pipe.rs`.
            let awake = &mut Context::from_waker(NOOP_WAKER);
            if let Poll::Ready(Receipt::End(end)) = self.poll_receive(awake, slice_end) {
                return Poll::Ready(end);
            }
            if let Poll::Ready(Due::Idle) = self.poll_deadline(cx) {
                return Poll::Ready(Ok(()));
            }
            let (was_congested, was_full) = (self.is_congested(), self.is_full());
            let can_go_on = !was_congested && self.poll_guest(cx, slice_end);
            let flushed = self.channel.poll_flush(cx);
            if let Poll::Ready(Err(error)) = flushed {
                return Poll::Ready(Err(error));
            }
            // A guest whose process ends with it stays until the host has read its last message.
            self.ended.take_if(|guest| flushed.is_ready() || !guest.ends_process());
            if self.session.is_drained() {
                return Poll::Ready(Ok(()));
            }
            let freed = (was_congested && !self.is_congested()) || (was_full && !self.is_full());
            let has_more = freed || (can_go_on && !self.is_congested());
            if !has_more {
                // The guest may have begun to wait, which is limited.
                match self.poll_deadline(cx) {
                    Poll::Ready(Due::Idle) => return Poll::Ready(Ok(())),
                    Poll::Ready(Due::Handled) => {}
                    Poll::Pending if self.wait_awake() => {}
                    Poll::Pending => match ready!(self.poll_receive(cx, slice_end)) {
                        Receipt::End(end) => return Poll::Ready(end),
                        Receipt::Messages => {}
                    },
                }
            }
            if Instant::now() > slice_end {
                wake_after_others(cx);
                return Poll::Pending;
            }
        }
    }

    /// Handles received messages until the slice ends. While the guest has much to process, nothing is received.
    fn poll_receive(&mut self, cx: &mut Context<'_>, slice_end: Instant) -> Poll<Receipt> {
        let mut receipt = Poll::Pending;
        // While a guest runs, messages are received although the host does not read: the host may send before it reads.
        while !self.is_full() && (!self.is_congested() || self.session.is_active()) {
            let (was_congested, unsent) = (self.is_congested(), self.channel.unsent());
            let Poll::Ready(received) = self.channel.poll_receive(cx, &self.budget) else { break };
            match received {
                Err(error) => return Poll::Ready(self.close(Err(error))),
                Ok(None) => return Poll::Ready(self.close(Ok(()))),
                Ok(Some(Inbound::Message(message))) => self.session.handle_message(message, self.epoch.elapsed()),
                Ok(Some(Inbound::InvalidMessage(error))) => {
                    self.session.handle_malformed(&error, self.epoch.elapsed());
                    if error.kind.is_empty() {
                        self.report_invalid_frame(&LineError::Unreadable(Box::new(error)));
                    }
                }
                // There is no id that could be answered.
                Ok(Some(Inbound::InvalidFrame(error))) => self.report_invalid_frame(&error),
                Ok(Some(Inbound::Ignored)) => {}
            }
            self.follow_outputs();
            self.unread_answers += self.channel.unsent().saturating_sub(unsent);
            if !was_congested || !self.session.is_active() {
                self.unread_answers = 0;
            }
            if self.unread_answers > MAX_UNSENT {
                let error = ServeError::UnreadAnswers(self.channel.unsent());
                return Poll::Ready(self.close(Err(io::Error::new(io::ErrorKind::QuotaExceeded, error))));
            }
            receipt = Poll::Ready(Receipt::Messages);
            if Instant::now() > slice_end {
                break;
            }
        }
        receipt
    }

    /// Reports the first line that is not a message.
    fn report_invalid_frame(&mut self, error: &LineError) {
        if let Some(sink) = self.on_invalid_frame.take() {
            sink(error);
        }
    }

    /// Ends the session: the host has closed its side, or the connection is broken.
    fn close(&mut self, end: io::Result<()>) -> Receipt {
        self.session.handle_close();
        self.follow_outputs();
        Receipt::End(end)
    }

    /// Busy-waits if the next message is a program, or the one answer that the guest waits for. Returns whether something has
    /// arrived. If several answers are awaited, the thread sleeps, and many of them are processed at once.
    fn wait_awake(&mut self) -> bool {
        let awaits_one = self.waits_for != WaitsFor::Nothing && self.in_flight <= 1 && self.channel.unsent() == 0;
        awaits_one && self.spin.wait(|| self.channel.receive_now())
    }

    /// Whether the guest has much to process, and can process it. Messages of a host that does not read are received, because
    /// the host may send before it reads. The guest is not polled then, and unread messages count against its memory.
    fn is_full(&self) -> bool {
        !self.cannot_take_in() && self.guest.as_ref().is_some_and(|guest| guest.unread_bytes() >= MAX_UNREAD)
    }

    fn cannot_take_in(&self) -> bool {
        self.waits_for == WaitsFor::Answer || self.is_congested()
    }

    /// Ready when a timeout of the session was handled, or it was idle for too long.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        let idle_until = self.runner.idle_timeout.map(|timeout| self.idle_since.saturating_add(timeout));
        let due = if self.session.is_active() { self.session.next_timeout() } else { idle_until };
        let Some(due) = due.and_then(|due| self.epoch.checked_add(due)) else { return Poll::Pending };
        if self.deadline.deadline() != due {
            self.deadline.as_mut().reset(due);
        }
        ready!(self.deadline.as_mut().poll(cx));
        if !self.session.is_active() {
            return Poll::Ready(Due::Idle);
        }
        self.session.handle_timeout(self.epoch.elapsed());
        self.follow_outputs();
        Poll::Ready(Due::Handled)
    }

    /// Whether the host does not read; `poll_flush` wakes this task when it does.
    fn is_congested(&self) -> bool {
        self.channel.unsent() > MAX_UNSENT
    }

    /// Polls the guest after the session has handled what the guest did before. Returns whether there is more to do, unless the
    /// host does not read.
    fn poll_guest(&mut self, cx: &mut Context<'_>, slice_end: Instant) -> bool {
        let Some(guest) = &mut self.guest else { return false };
        if self.turn.is_none() {
            self.is_due = false;
            let (turn, timed) = self.stopwatch.guest_turn(&mut **guest, |guest| self.turns.poll(guest, cx));
            self.session.handle_computed(timed.began - self.epoch, timed.cpu_time, timed.ended - self.epoch);
            guest.take_events(&mut self.batch);
            self.events.extend(self.batch.drain(..));
            self.waits_for = match turn {
                Poll::Ready(Turn::Waiting) if guest.unread_bytes() > 0 => WaitsFor::Answer,
                Poll::Ready(Turn::Waiting | Turn::Done(_)) => WaitsFor::Message,
                Poll::Pending => WaitsFor::Nothing,
            };
            self.session.handle_peak_memory(guest.peak_memory_bytes());
            if guest.ends_process() {
                self.session.handle_process_end();
            }
            self.turn = Some(turn);
        }
        while let Some(event) = self.events.pop_front() {
            if self.is_congested() || Instant::now() > slice_end {
                self.events.push_front(event);
                self.is_due = true;
                return true;
            }
            self.in_flight += usize::from(matches!(event, Event::Call(_)));
            let epoch = self.epoch;
            self.session.handle_event(event, &|| epoch.elapsed());
            self.session.handle_timeout(self.epoch.elapsed());
            self.follow_outputs();
        }
        if let Some(turn) = self.turn.take() {
            // The guest may wait for what was settled since.
            let is_settled = self.is_due && matches!(turn, Poll::Ready(Turn::Waiting));
            let turn = if is_settled { Poll::Pending } else { turn };
            self.session.handle_turn(turn, self.epoch.elapsed());
            self.follow_outputs();
        }
        if !self.session.is_active() {
            self.drop_guest();
        }
        self.is_due
    }

    /// Takes the guest, and drops its events that were not handled.
    fn drop_guest(&mut self) {
        self.ended = self.guest.take();
        self.events.clear();
        self.turn = None;
        self.in_flight = 0;
        self.waits_for = WaitsFor::Message;
    }

    fn follow_outputs(&mut self) {
        let is_active = self.session.is_active();
        if std::mem::replace(&mut self.was_active, is_active) || is_active {
            self.idle_since = self.epoch.elapsed();
        }
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.channel.send(message) {
                        self.session.handle_too_long(message, error);
                    }
                }
                Output::Compile { source_bytes } => {
                    let (epoch, running) = (self.epoch, stopwatch::for_source(source_bytes));
                    self.session.compile(&*self.runner.parts.language, &|| epoch.elapsed(), &|| running.cpu_time());
                }
                Output::Start(program) => match self.runner.parts.engine.start(program) {
                    Ok(mut guest) => {
                        self.stopwatch = Stopwatch::default();
                        self.session.handle_peak_memory(guest.peak_memory_bytes());
                        self.guest = Some(guest);
                    }
                    Err(error) => self.session.handle_start_error(&error, self.epoch.elapsed()),
                },
                Output::Settle(pending, settlement) => {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    let cannot_take_in = self.cannot_take_in();
                    if let Some(guest) = &mut self.guest {
                        guest.settle(pending, settlement);
                        self.is_due = true;
                        if cannot_take_in {
                            self.session.handle_unread(guest.unread_bytes(), self.epoch.elapsed());
                        }
                    }
                }
                Output::WakeGuest => {
                    if let Some(guest) = &mut self.guest {
                        guest.wake();
                        self.is_due = true;
                    }
                }
                Output::StopGuest => self.drop_guest(),
            }
        }
    }
}
