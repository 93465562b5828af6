//! The host's driver of the protocol: one execution with a runner at the other end of a link.
//!
//! It joins [`HostSession`] with the tools, the caller, the clock and the link. The rules are the
//! session's. Where the link leads, and what becomes of it, is for the executors to say.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::engine::{LogLevel, LogLine};
use execbox_core::error::ExecuteResult;
use execbox_core::program::Limits;
use execbox_core::protocol::host::{CloseReason, HostOptions, HostSession, Output};
use execbox_core::protocol::message::{Execute, HostMessage, RunnerMessage};
use execbox_core::script::Stop;
use futures_util::future::FutureExt as _;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::dispatch::ToolCalls;
use crate::executor::Execution;
use crate::link::{Heard, Link};

/// What came of an execution, and of the runner that it was given to.
pub(crate) struct Conversation {
    pub(crate) result: ExecuteResult,
    /// The runner can be given another execution.
    pub(crate) reusable: bool,
}

/// Has the runner at the other end of `link` execute.
pub(crate) async fn converse<L>(
    link: &mut L,
    execution: &Execution,
    options: HostOptions,
    cancellation: &CancellationToken,
) -> Conversation
where
    L: Link<HostMessage, RunnerMessage> + ?Sized,
{
    let conversation = Run::new(link, execution, options).drive(cancellation).await;
    if let Some(show) = &execution.on_log {
        for text in &conversation.result.logs {
            show(&LogLine { level: LogLevel::Log, text: text.clone() });
        }
    }
    conversation
}

/// The result of an execution that was cancelled before a runner had it.
pub(crate) fn cancelled(limits: &Limits) -> ExecuteResult {
    ExecuteResult::failed(Stop::Cancelled.error(limits), Duration::ZERO)
}

/// One execution under way.
struct Run<'a, L: ?Sized> {
    session: HostSession,
    execution: &'a Execution,
    link: &'a mut L,
    /// What the session's times count from.
    epoch: Instant,
    deadline: Pin<Box<Sleep>>,
    calls: ToolCalls,
    result: Option<ExecuteResult>,
}

impl<'a, L: Link<HostMessage, RunnerMessage> + ?Sized> Run<'a, L> {
    fn new(link: &'a mut L, execution: &'a Execution, options: HostOptions) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let execute = Execute {
            id: format!("exec-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            code: execution.code.to_string(),
            limits: execution.limits,
            providers: execution.providers.iter().map(crate::Provider::shared_manifest).collect(),
        };
        Self {
            session: HostSession::new(execute, options, Duration::ZERO),
            execution,
            link,
            epoch: Instant::now(),
            deadline: Box::pin(tokio::time::sleep(Duration::ZERO)),
            calls: ToolCalls::new(execution.on_call.clone()),
            result: None,
        }
    }

    async fn drive(mut self, cancellation: &CancellationToken) -> Conversation {
        let mut cancelled = pin!(cancellation.cancelled().fuse());
        let result = poll_fn(|cx| {
            if cancelled.as_mut().poll(cx).is_ready() {
                self.session.cancel(self.epoch.elapsed());
            }
            self.follow_outputs(cx);
            self.poll_result(cx)
        })
        .await;
        Conversation { result, reusable: self.session.is_reusable() && self.link.unsent() == 0 }
    }

    /// Goes on until nothing can.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<ExecuteResult> {
        loop {
            self.poll_deadline(cx);
            self.poll_receive(cx);
            let answered = self.poll_calls(cx);
            // What breaks here is told by the receiving side, in its turn: a `done` may be on its way.
            let _ = self.link.poll_flush(cx);
            if let Some(result) = self.result.take() {
                return Poll::Ready(result);
            }
            if !answered {
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
        while self.session.close_reason().is_none() && !self.session.is_finished() {
            let Poll::Ready(heard) = self.link.poll_receive(cx) else { return };
            let now = self.epoch.elapsed();
            match heard {
                Ok(Some(Heard::Message(message))) => self.session.handle_message(message, now),
                Ok(Some(Heard::Malformed(error))) => self.session.handle_misbehaviour(error, now),
                Ok(Some(Heard::Garbage(error))) => self.session.handle_misbehaviour(error, now),
                Ok(None) => self.session.handle_close(CloseReason::Closed, now),
                Err(error) => self.session.handle_close(close_reason(&error), now),
            }
            self.follow_outputs(cx);
        }
    }

    /// Whether a tool has finished.
    fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        let mut finished = false;
        while let Some((call, result)) = self.calls.poll_finished(cx) {
            finished = true;
            self.session.handle_tool_result(call, result);
            self.follow_outputs(cx);
        }
        finished
    }

    fn follow_outputs(&mut self, cx: &mut Context<'_>) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.link.send(message) {
                        self.session.handle_too_long(message, error, self.epoch.elapsed());
                    }
                }
                Output::CallTool(call) => {
                    if let Some((call, result)) = self.calls.begin(&self.execution.providers, call, cx) {
                        self.session.handle_tool_result(call, result);
                    }
                }
                Output::CancelTools => self.calls.cancel(),
                Output::Terminate => {} // Whoever owns the link lets go of it: it is not reusable.
                Output::Finished(result) => self.result = Some(result),
            }
        }
    }
}

/// Only the kind of an error: its words may name paths and addresses of this host.
pub(crate) fn close_reason(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => CloseReason::CutOff,
        kind => CloseReason::Failed(kind.to_string()),
    }
}
