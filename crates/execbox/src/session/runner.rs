//! A runner: executions for a host at the other end of a transport (runner specification).
//!
//! A driver of [`RunnerSession`]: messages in, guest, clock, messages out. The rules are the session's. It
//! opens nothing: whoever calls [`Runner::serve`] brings the transport.

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

/// How much may wait to be carried off before the guest must wait too: a host that does not read gets no
/// more said to it.
const MAX_UNSENT: usize = 1 << 20;

/// How long a host that has ended may take to read what was said before.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs executions for hosts. Cheap to clone; serves any number of transports at once.
///
/// Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct Runner {
    parts: Parts,
    drain: Option<Drain>,
}

/// When to take no more executions, and what those that run have left then.
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

    /// Drains when the token fires: no execution begins any more, one that runs is cancelled after
    /// `grace`, and a transport whose execution is over is closed.
    #[must_use]
    pub fn drain_when(mut self, when: CancellationToken, grace: Duration) -> Self {
        self.drain = Some(Drain { when, grace });
        self
    }

    /// Fires when it is to drain.
    pub(crate) fn drain_token(&self) -> CancellationToken {
        self.drain.as_ref().map(|drain| drain.when.clone()).unwrap_or_default()
    }

    /// Speaks the runner protocol until the host has nothing more to say: one execution at a time, any
    /// number one after another. A guest that still runs then is stopped.
    ///
    /// # Errors
    /// When the transport breaks, or ends in the middle of a message (`UnexpectedEof`).
    pub async fn serve(&self, transport: impl Transport) -> io::Result<()> {
        self.serve_link(JsonChannel::new(transport)).await
    }

    pub(crate) async fn serve_link(&self, mut link: impl MessageChannel<RunnerMessage, HostMessage>) -> io::Result<()> {
        let drain = self.drain_token();
        let mut draining = pin!(drain.cancelled().fuse());
        let mut conversation = Conversation::new(self, &mut link);
        let ended = poll_fn(|cx| {
            if draining.as_mut().poll(cx).is_ready() {
                conversation.drain();
            }
            conversation.poll(cx)
        })
        .await;
        drop(conversation);
        // What was said before the end is worth a moment. A host that has gone away does not miss it.
        if ended.is_ok() {
            let _ = tokio::time::timeout(LAST_WORDS, poll_fn(|cx| link.poll_close(cx))).await;
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
struct Conversation<'a, L> {
    runner: &'a Runner,
    session: RunnerSession,
    link: &'a mut L,
    /// What the session's times count from.
    epoch: Instant,
    guest: Option<Box<dyn Guest>>,
    turns: Turns,
    events: Vec<Event>,
    deadline: Pin<Box<Sleep>>,
}

impl<'a, L: MessageChannel<RunnerMessage, HostMessage>> Conversation<'a, L> {
    fn new(runner: &'a Runner, link: &'a mut L) -> Self {
        Self {
            runner,
            session: RunnerSession::new(),
            link,
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

    /// Goes on until nothing can; ready when the host's side has ended, or all is drained.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Poll::Ready(end) = self.poll_receive(cx) {
                self.session.handle_close();
                self.follow_outputs();
                return Poll::Ready(end);
            }
            self.poll_deadline(cx);
            let held_up = self.is_held_up();
            let answered = !held_up && self.poll_guest(cx);
            if let Poll::Ready(Err(error)) = self.link.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            if self.session.is_drained() {
                return Poll::Ready(Ok(()));
            }
            let freed = held_up && !self.is_held_up();
            if !answered && !freed {
                return Poll::Pending;
            }
        }
    }

    /// Takes in everything that the host has said. Ready when it has nothing more to say.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match std::task::ready!(self.link.poll_receive(cx))? {
                None => return Poll::Ready(Ok(())),
                Some(Inbound::Message(message)) => self.session.handle_message(message, self.epoch.elapsed()),
                Some(Inbound::InvalidMessage(error)) => self.session.handle_malformed(&error, self.epoch.elapsed()),
                // What is no object names nothing that could be answered.
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

    /// Whether the guest must wait for the host to read; `poll_flush` wakes this task when it has.
    fn is_held_up(&self) -> bool {
        self.link.unsent() > MAX_UNSENT
    }

    /// Lets the guest compute. Whether it was answered meanwhile, and can go on.
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

    /// Does what the session says. Whether the guest was answered.
    fn follow_outputs(&mut self) -> bool {
        let mut answered = false;
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.link.send(message) {
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
                    Ok(guest) => self.guest = Some(guest),
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
