//! Runs with a runner at the other end of a link: the host's driver, as [`crate::session::host`] is for scripts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::contract::module::{CodeExecutionResult, Request, RunOutcome};
use execbox_core::contract::stop::Stop;
use execbox_core::protocol::code_host::{CodeHostSession, Output};
use execbox_core::protocol::host::HostOptions;
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use futures_util::future::FutureExt as _;

use super::execution::Run;
use crate::session::channel::MessageChannel;
use crate::session::wire::Wire;

/// Has the runner at the other end of `link` run it. Whether that runner may be used again is the second answer.
pub(crate) async fn converse<L>(
    link: &mut L,
    request: Request,
    run: Run,
    options: HostOptions,
) -> (CodeExecutionResult, bool)
where
    L: MessageChannel<HostMessage, RunnerMessage>,
{
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let id = format!("run-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let session = CodeHostSession::new(id, request, options, Duration::ZERO);
    Conversation { wire: Wire::new(session, link), run, end: None }.drive().await
}

struct Conversation<'a, L> {
    wire: Wire<'a, CodeHostSession, L>,
    run: Run,
    end: Option<(RunOutcome, Option<u64>)>,
}

impl<L: MessageChannel<HostMessage, RunnerMessage>> Conversation<'_, L> {
    async fn drive(mut self) -> (CodeExecutionResult, bool) {
        let stopped = self.run.stopped();
        let mut stopped = pin!(stopped.cancelled().fuse());
        let (ending, memory_used_bytes) = poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                let stop = self.run.stop().unwrap_or(Stop::Cancelled(None));
                self.wire.session.terminate(stop, self.wire.now());
            }
            self.poll_end(cx)
        })
        .await;
        let reusable = self.wire.session.is_reusable() && self.wire.is_quiet();
        (self.run.finish(ending, memory_used_bytes), reusable)
    }

    /// Goes on until nothing can.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<(RunOutcome, Option<u64>)> {
        self.follow_outputs(cx);
        while self.wire.step(cx) || self.poll_calls(cx) || self.wire.flush(cx) {
            self.follow_outputs(cx);
        }
        self.end.take().map_or(Poll::Pending, Poll::Ready)
    }

    /// Whether a function or a promise has come to something. Nothing is settled in a guest that is not there yet, and
    /// nothing is said to a runner that does not read.
    fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.wire.session.is_running() || self.wire.is_held_up() {
            return false;
        }
        let settled = self.run.poll_settled(cx);
        settled.map(|(pending, result)| self.wire.session.settle(pending, result)).is_some()
    }

    fn follow_outputs(&mut self, cx: &mut Context<'_>) {
        while let Some(output) = self.wire.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.wire.send(message) {
                        self.wire.session.handle_too_long(&message, error);
                    }
                }
                Output::Call(call) => {
                    if let Some((pending, result)) = self.run.call(&call, cx) {
                        self.wire.session.settle(pending, result);
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
