//! Runs with a runner at the other end of a link: the host's driver, as [`crate::host`] is for scripts.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::code::{CodeExecutionResult, Ending, Request, Stop};
use execbox_core::protocol::code_host::{CodeHostSession, Output};
use execbox_core::protocol::host::{CloseReason, HostOptions};
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use futures_util::future::FutureExt as _;
use tokio::time::{Instant, Sleep};

use super::execution::Run;
use crate::host::close_reason;
use crate::link::{Heard, Link};

/// Has the runner at the other end of `link` run it. Whether that runner may be used again is the second answer.
pub(crate) async fn converse<L>(
    link: &mut L,
    request: Request,
    run: Run,
    options: HostOptions,
) -> (CodeExecutionResult, bool)
where
    L: Link<HostMessage, RunnerMessage>,
{
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let id = format!("run-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let conversation = Conversation {
        session: CodeHostSession::new(id, request, options, Duration::ZERO),
        run,
        link,
        epoch: Instant::now(),
        deadline: Box::pin(tokio::time::sleep(Duration::ZERO)),
        closed: false,
        end: None,
    };
    conversation.drive().await
}

struct Conversation<'a, L> {
    session: CodeHostSession,
    run: Run,
    link: &'a mut L,
    /// What the session's times count from.
    epoch: Instant,
    deadline: Pin<Box<Sleep>>,
    closed: bool,
    end: Option<(Ending, Option<u64>)>,
}

impl<L: Link<HostMessage, RunnerMessage>> Conversation<'_, L> {
    async fn drive(mut self) -> (CodeExecutionResult, bool) {
        let stopped = self.run.stopped();
        let mut stopped = pin!(stopped.cancelled().fuse());
        let (ending, memory_used_bytes) = poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                let stop = self.run.stop().unwrap_or(Stop::Terminated(None));
                self.session.terminate(stop, self.epoch.elapsed());
            }
            self.follow_outputs(cx);
            self.poll_end(cx)
        })
        .await;
        let reusable = self.session.is_reusable() && self.link.unsent() == 0;
        (self.run.finish(ending, memory_used_bytes), reusable)
    }

    /// Goes on until nothing can.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<(Ending, Option<u64>)> {
        loop {
            self.poll_deadline(cx);
            self.poll_receive(cx);
            let settled = self.poll_calls(cx);
            // What breaks here is told by the receiving side, in its turn.
            let _ = self.link.poll_flush(cx);
            if let Some(end) = self.end.take() {
                return Poll::Ready(end);
            }
            if !settled {
                return Poll::Pending;
            }
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) {
        // Handing in one timeout may set another.
        while let Some(due) = self.session.next_timeout().and_then(|due| self.epoch.checked_add(due)) {
            if self.deadline.deadline() != due {
                self.deadline.as_mut().reset(due);
            }
            if self.deadline.as_mut().poll(cx).is_pending() {
                return;
            }
            self.session.handle_timeout(self.epoch.elapsed());
            self.follow_outputs(cx);
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) {
        while !self.closed && !self.session.is_finished() {
            let Poll::Ready(heard) = self.link.poll_receive(cx) else { return };
            let now = self.epoch.elapsed();
            match heard {
                Ok(Some(Heard::Message(message))) => self.session.handle_message(message, now),
                Ok(Some(Heard::Malformed(error))) => self.session.handle_misbehaviour(error, now),
                Ok(Some(Heard::Garbage(error))) => self.session.handle_misbehaviour(error, now),
                Ok(None) => self.close(&CloseReason::Closed),
                Err(error) => self.close(&close_reason(&error)),
            }
            self.follow_outputs(cx);
        }
    }

    fn close(&mut self, reason: &CloseReason) {
        self.closed = true;
        self.session.handle_close(reason);
    }

    /// Whether a function or a promise has come to something. Nothing is settled in a guest that is not there yet.
    fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        let mut settled = false;
        while self.session.is_running()
            && let Some((pending, result)) = self.run.calls.poll_settled(cx)
        {
            settled = true;
            self.session.settle(pending, result);
            self.follow_outputs(cx);
        }
        settled
    }

    fn follow_outputs(&mut self, cx: &mut Context<'_>) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.link.send(message) {
                        self.session.handle_too_long(&message, error);
                    }
                }
                Output::Call(call) => {
                    let budget = self.run.budget();
                    if let Some((pending, result)) =
                        self.run.calls.begin(call.id, call.function, &call.input, budget, cx)
                    {
                        self.session.settle(pending, result);
                    }
                }
                Output::Note(notification) => self.run.note(&notification),
                Output::CancelCalls => self.run.calls.cancel(),
                Output::Terminate => {} // Whoever owns the link lets go of it: it is not reusable.
                Output::Finished { ending, memory_used_bytes } => self.end = Some((ending, memory_used_bytes)),
            }
        }
    }
}
