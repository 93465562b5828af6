//! A session's way to its runner: the link and the clock, for both kinds of sessions that a host has.
//!
//! What a session says to do is for its driver ([`crate::session::host`], [`crate::code`]).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::protocol::code_host::CodeHostSession;
use execbox_core::protocol::host::{CloseReason, HostSession, Misbehaviour};
use execbox_core::protocol::line::TooLong;
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use tokio::time::{Instant, Sleep};

use crate::session::channel::{Inbound, MessageChannel};

/// The host's half of a session, as far as wires are concerned.
pub(crate) trait HostHalf {
    fn is_finished(&self) -> bool;
    fn next_timeout(&self) -> Option<Duration>;
    fn handle_timeout(&mut self, now: Duration);
    fn handle_message(&mut self, message: RunnerMessage, now: Duration);
    fn handle_misbehaviour(&mut self, misbehaviour: Misbehaviour, now: Duration);
    fn handle_close(&mut self, reason: CloseReason, now: Duration);
}

/// How much may wait to be carried off. A runner that does not read what it is told is not listened to until it does:
/// what it says would have to be answered, and the answers kept.
const MAX_UNSENT: usize = 1 << 20;

/// How long a runner that nothing can be sent to is still listened to: it may have been done before.
const LAST_WORDS: Duration = Duration::from_millis(25);

/// A session at one end of a link.
pub(crate) struct Wire<'a, S, L: ?Sized> {
    pub(crate) session: S,
    link: &'a mut L,
    /// What the session's times count from.
    epoch: Instant,
    deadline: Pin<Box<Sleep>>,
    /// Sending has failed: how, and until when the runner is still listened to.
    broken: Option<(Duration, CloseReason)>,
    closed: bool,
}

impl<'a, S: HostHalf, L: MessageChannel<HostMessage, RunnerMessage> + ?Sized> Wire<'a, S, L> {
    /// Of a session that began at time zero, which is now.
    pub(crate) fn new(session: S, link: &'a mut L) -> Self {
        let deadline = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { session, link, epoch: Instant::now(), deadline, broken: None, closed: false }
    }

    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    #[allow(clippy::result_large_err)] // the message itself, given back
    pub(crate) fn send(&mut self, message: HostMessage) -> Result<(), (HostMessage, TooLong)> {
        self.link.send(message)
    }

    /// Nothing waits to be carried off.
    pub(crate) fn is_quiet(&self) -> bool {
        self.link.unsent() == 0 && self.broken.is_none()
    }

    /// The runner does not read what it is told.
    pub(crate) fn is_held_up(&self) -> bool {
        self.link.unsent() > MAX_UNSENT
    }

    /// Carries off what was sent. Whether there is something to do after it: the runner has read, or cannot be told
    /// anything any more.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let was_held_up = self.is_held_up();
        if let Poll::Ready(Err(error)) = self.link.poll_flush(cx) {
            self.broken = Some((self.now() + LAST_WORDS, close_reason(&error)));
            return true;
        }
        was_held_up && !self.is_held_up()
    }

    /// Hands in the next thing that has happened: it is time, or the runner has said something. Whether there was one; if
    /// not, the task is woken when there is.
    pub(crate) fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if self.session.is_finished() {
            return false;
        }
        if self.poll_deadline(cx).is_ready() {
            let now = self.now();
            if let Some((_, reason)) = self.broken.take_if(|(until, _)| now >= *until) {
                self.close(reason);
            }
            self.session.handle_timeout(now);
            return true;
        }
        if self.closed || self.is_held_up() {
            return false;
        }
        let Poll::Ready(heard) = self.link.poll_receive(cx) else { return false };
        let now = self.now();
        match heard {
            Ok(Some(Inbound::Message(message))) => self.session.handle_message(message, now),
            Ok(Some(Inbound::InvalidMessage(error))) => self.session.handle_misbehaviour(error.into(), now),
            Ok(Some(Inbound::InvalidFrame(error))) => self.session.handle_misbehaviour(error.into(), now),
            Ok(None) => self.close(CloseReason::Closed),
            Err(error) => self.close(close_reason(&error)),
        }
        true
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let listened_to = self.broken.as_ref().map(|(until, _)| *until);
        let due = self.session.next_timeout().into_iter().chain(listened_to).min();
        let Some(due) = due.and_then(|due| self.epoch.checked_add(due)) else { return Poll::Pending };
        if self.deadline.deadline() != due {
            self.deadline.as_mut().reset(due);
        }
        self.deadline.as_mut().poll(cx)
    }

    fn close(&mut self, reason: CloseReason) {
        self.closed = true;
        self.session.handle_close(reason, self.now());
    }
}

/// Only the kind of an error: its words may name paths and addresses of this host.
fn close_reason(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => CloseReason::CutOff,
        kind => CloseReason::Failed(kind.to_string()),
    }
}

impl HostHalf for HostSession {
    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.next_timeout()
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.handle_timeout(now);
    }

    fn handle_message(&mut self, message: RunnerMessage, now: Duration) {
        self.handle_message(message, now);
    }

    fn handle_misbehaviour(&mut self, misbehaviour: Misbehaviour, now: Duration) {
        self.handle_misbehaviour(misbehaviour, now);
    }

    fn handle_close(&mut self, reason: CloseReason, now: Duration) {
        self.handle_close(reason, now);
    }
}

impl HostHalf for CodeHostSession {
    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.next_timeout()
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.handle_timeout(now);
    }

    fn handle_message(&mut self, message: RunnerMessage, now: Duration) {
        self.handle_message(message, now);
    }

    fn handle_misbehaviour(&mut self, misbehaviour: Misbehaviour, _: Duration) {
        self.handle_misbehaviour(misbehaviour);
    }

    fn handle_close(&mut self, reason: CloseReason, _: Duration) {
        self.handle_close(&reason);
    }
}
