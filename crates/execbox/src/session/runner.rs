//! A runner: runs guests for a host at the other end of a transport (runner specification).
//!
//! The driver of a [`RunnerSession`]: it connects the session with the channel, the guest and the clock. The rules are in
//! the session. The caller of [`Runner::serve`] provides the transport.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::engine::{Engine, Event, Guest};
use execbox_core::language::Language;
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use execbox_core::protocol::runner::{Output, RunnerSession};
use futures_util::future::FutureExt as _;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::session::channel::{Inbound, JsonChannel, MessageChannel};
use crate::session::parts::Parts;
use crate::session::turns::Turns;
use crate::transport::Transport;

/// How many bytes may wait to be sent. Beyond that, the guest is not polled until the host reads.
const MAX_UNSENT: usize = 1 << 20;

/// How long sending the last messages may take after the host has closed its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs guests for hosts. Cheap to clone; serves any number of transports at once.
///
/// Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct Runner {
    parts: Parts,
    drain: Option<Drain>,
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
        Ok(Self { parts: Parts::standard()?, drain: None })
    }

    /// Creates a runner with another engine and language.
    pub fn with_engine(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Self {
        Self { parts: Parts { engine, language }, drain: None }
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
    /// The transport fails, or ends in the middle of a message (`UnexpectedEof`).
    pub async fn serve(&self, transport: impl Transport) -> io::Result<()> {
        self.serve_channel(JsonChannel::new(transport)).await
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

/// One host being served.
struct Connection<'a, L> {
    runner: &'a Runner,
    session: RunnerSession,
    channel: &'a mut L,
    /// The zero of the session's times.
    epoch: Instant,
    guest: Option<Box<dyn Guest>>,
    turns: Turns,
    events: Vec<Event>,
    deadline: Pin<Box<Sleep>>,
}

impl<'a, L: MessageChannel<RunnerMessage, HostMessage>> Connection<'a, L> {
    fn new(runner: &'a Runner, channel: &'a mut L) -> Self {
        Self {
            runner,
            session: RunnerSession::new(),
            channel,
            epoch: Instant::now(),
            guest: None,
            turns: Turns::new(),
            events: Vec::new(),
            deadline: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    fn drain(&mut self) {
        let grace = self.runner.drain.as_ref().map_or(Duration::ZERO, |drain| drain.grace);
        self.session.drain(grace, self.epoch.elapsed());
        self.follow_outputs();
    }

    /// Makes all progress that is possible now. Ready when the host has closed its side, or the session is drained.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Poll::Ready(end) = self.poll_receive(cx) {
                self.session.handle_close();
                self.follow_outputs();
                return Poll::Ready(end);
            }
            self.poll_deadline(cx);
            let was_congested = self.is_congested();
            let answered = !was_congested && self.poll_guest(cx);
            if let Poll::Ready(Err(error)) = self.channel.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            if self.session.is_drained() {
                return Poll::Ready(Ok(()));
            }
            let freed = was_congested && !self.is_congested();
            if !answered && !freed {
                return Poll::Pending;
            }
        }
    }

    /// Handles all messages that were received. Ready when the host has closed its side.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match std::task::ready!(self.channel.poll_receive(cx))? {
                None => return Poll::Ready(Ok(())),
                Some(Inbound::Message(message)) => self.session.handle_message(message, self.epoch.elapsed()),
                Some(Inbound::InvalidMessage(error)) => self.session.handle_malformed(&error, self.epoch.elapsed()),
                // There is no id that could be answered.
                Some(Inbound::InvalidFrame(_)) => {}
            }
            self.follow_outputs();
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) {
        let Some(due) = self.session.next_timeout().and_then(|due| self.epoch.checked_add(due)) else { return };
        if self.deadline.deadline() != due {
            self.deadline.as_mut().reset(due);
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            self.session.handle_timeout(self.epoch.elapsed());
            self.follow_outputs();
        }
    }

    /// The host does not read; `poll_flush` wakes this task when it does.
    fn is_congested(&self) -> bool {
        self.channel.unsent() > MAX_UNSENT
    }

    /// Polls the guest. Whether a call of it was answered meanwhile, so that it can continue.
    fn poll_guest(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(guest) = &mut self.guest else { return false };
        let turn = self.turns.poll(&mut **guest, cx);
        guest.take_events(&mut self.events);
        let mut answered = false;
        for event in std::mem::take(&mut self.events) {
            self.session.handle_event(event);
            answered |= self.follow_outputs();
        }
        if let Some(guest) = &mut self.guest {
            self.session.handle_peak_memory(guest.peak_memory_bytes());
        }
        self.session.handle_turn(turn, self.epoch.elapsed());
        self.follow_outputs();
        if !self.session.is_active() {
            self.guest = None;
        }
        answered
    }

    /// Follows the session's outputs. Whether a call of the guest was answered.
    fn follow_outputs(&mut self) -> bool {
        let mut answered = false;
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.channel.send(message) {
                        self.session.handle_too_long(message, error);
                    }
                }
                Output::Compile(job) => {
                    let due = self.session.next_timeout();
                    let is_late = || due.is_some_and(|due| self.epoch.elapsed() >= due);
                    let compiled = job.compile(&*self.runner.parts.language, &is_late);
                    self.session.handle_compiled(compiled, self.epoch.elapsed());
                }
                Output::Start(program) => match self.runner.parts.engine.start(program) {
                    Ok(mut guest) => {
                        self.session.handle_peak_memory(guest.peak_memory_bytes());
                        self.guest = Some(guest);
                    }
                    Err(error) => self.session.handle_start_error(&error, self.epoch.elapsed()),
                },
                Output::Settle(pending, settlement) => {
                    if let Some(guest) = &mut self.guest {
                        guest.settle(pending, settlement);
                        answered = true;
                    }
                }
                Output::StopGuest => self.guest = None,
            }
        }
        answered
    }
}
