//! The host's driver of the protocol: one execution with a runner at the other end of a link.
//!
//! It joins [`HostSession`] with the tools, the caller, the clock and the link. The rules are the
//! session's. Where the link leads, and what becomes of it, is for the executors to say.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::contract::stop::Stop;
use execbox_core::error::ExecuteResult;
use execbox_core::program::Limits;
use execbox_core::protocol::host::{HostOptions, HostSession, Output};
use execbox_core::protocol::{Execute, HostMessage, RunnerMessage};
use futures_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::executor::ExecuteRequest;
use crate::session::channel::MessageChannel;
use crate::session::wire::Wire;
use crate::tools::dispatch::ToolCalls;

/// What came of an execution, and of the runner that it was given to.
pub(crate) struct Conversation {
    pub(crate) result: ExecuteResult,
    /// The runner can be given another execution.
    pub(crate) reusable: bool,
}

/// Has the runner at the other end of `link` execute.
pub(crate) async fn converse<L>(
    link: &mut L,
    execution: &ExecuteRequest,
    options: HostOptions,
    cancellation: &CancellationToken,
) -> Conversation
where
    L: MessageChannel<HostMessage, RunnerMessage> + ?Sized,
{
    Run::new(link, execution, options, cancellation).drive(cancellation).await
}

/// The result of an execution that was cancelled before a runner had it.
pub(crate) fn cancelled(limits: &Limits) -> ExecuteResult {
    ExecuteResult::failed(Stop::Cancelled(None).execute_error(limits), Duration::ZERO)
}

/// One execution under way.
struct Run<'a, L: ?Sized> {
    wire: Wire<'a, HostSession, L>,
    execution: &'a ExecuteRequest,
    calls: ToolCalls,
    result: Option<ExecuteResult>,
}

impl<'a, L: MessageChannel<HostMessage, RunnerMessage> + ?Sized> Run<'a, L> {
    fn new(
        link: &'a mut L,
        execution: &'a ExecuteRequest,
        options: HostOptions,
        cancellation: &CancellationToken,
    ) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let execute = Execute {
            id: format!("exec-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            code: execution.code.to_string(),
            limits: execution.limits,
            providers: execution.providers.iter().map(crate::Provider::shared_manifest).collect(),
            stream_logs: execution.on_log.is_some(),
        };
        let wire = Wire::new(HostSession::new(execute, options, Duration::ZERO), link);
        let calls = ToolCalls::new(execution.on_call.clone(), Some(cancellation));
        Self { wire, execution, calls, result: None }
    }

    async fn drive(mut self, cancellation: &CancellationToken) -> Conversation {
        let mut cancelled = pin!(cancellation.cancelled().fuse());
        let result = poll_fn(|cx| {
            if cancelled.as_mut().poll(cx).is_ready() {
                self.wire.session.cancel(self.wire.now());
            }
            self.poll_result(cx)
        })
        .await;
        Conversation { result, reusable: self.wire.session.is_reusable() && self.wire.is_quiet() }
    }

    /// Goes on until nothing can.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<ExecuteResult> {
        self.follow_outputs(cx);
        while self.wire.step(cx) || self.poll_calls(cx) || self.wire.flush(cx) {
            self.follow_outputs(cx);
        }
        self.result.take().map_or(Poll::Pending, Poll::Ready)
    }

    /// Whether a tool has finished. Nothing is said to a runner that does not read.
    fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        if self.wire.is_held_up() {
            return false;
        }
        let finished = self.calls.poll_finished(cx);
        finished.map(|(call, result)| self.wire.session.handle_tool_result(call, result)).is_some()
    }

    fn follow_outputs(&mut self, cx: &mut Context<'_>) {
        while let Some(output) = self.wire.session.poll_output() {
            match output {
                Output::Send(message) => {
                    if let Err((message, error)) = self.wire.send(message) {
                        let now = self.wire.now();
                        self.wire.session.handle_too_long(message, error, now);
                    }
                }
                Output::CallTool(call) => {
                    if let Some((call, result)) = self.calls.begin(&self.execution.providers, call, cx) {
                        self.wire.session.handle_tool_result(call, result);
                    }
                }
                Output::Show(line) => {
                    if let Some(show) = &self.execution.on_log {
                        show(&line);
                    }
                }
                Output::CancelTools => self.calls.cancel(),
                Output::Terminate => {} // Whoever owns the link lets go of it: it is not reusable.
                Output::Finished(result) => self.result = Some(result),
            }
        }
    }
}
