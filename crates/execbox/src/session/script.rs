//! Executions on a runner at the other end of a channel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use execbox_core::contract::script::ToolCall;
use execbox_core::contract::stop::Stop;
use execbox_core::engine::LogLine;
use execbox_core::error::ExecuteResult;
use execbox_core::program::Limits;
use execbox_core::protocol::Execute;
use execbox_core::protocol::host::{HostOptions, HostSession, ScriptHost};
use tokio_util::sync::CancellationToken;

use crate::executor::ExecuteRequest;
use crate::session::host::Host;
use crate::session::remote::{RunnerChannel, drive};
use crate::tools::dispatch::{Finished, ToolCalls};

/// Executes a request on the runner at the other end of `channel`. Returns the result, and whether the runner can be used
/// for another program.
pub(crate) async fn execute(
    channel: &mut (impl RunnerChannel + ?Sized),
    request: &ExecuteRequest,
    options: HostOptions,
    cancellation: &CancellationToken,
) -> (ExecuteResult, bool) {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let execute = Execute {
        id: format!("exec-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        code: request.code.to_string(),
        limits: request.limits,
        providers: request.providers.iter().map(crate::Provider::shared_manifest).collect(),
        stream_logs: request.on_log.is_some(),
    };
    let mut host = Tools::new(request, cancellation);
    drive(HostSession::script(execute, options, Duration::ZERO), channel, &mut host, cancellation).await
}

/// The result of an execution that was cancelled before a runner had it.
pub(crate) fn cancelled(limits: &Limits) -> ExecuteResult {
    ExecuteResult::failed(Stop::Cancelled(None).execute_error(limits), Duration::ZERO)
}

/// The tools and listeners of one execution.
pub(crate) struct Tools<'a> {
    request: &'a ExecuteRequest,
    calls: ToolCalls,
}

impl<'a> Tools<'a> {
    /// Cancelling `execution`, or dropping this, cancels the calls.
    pub(crate) fn new(request: &'a ExecuteRequest, execution: &CancellationToken) -> Self {
        Self { request, calls: ToolCalls::new(request.on_call.clone(), Some(execution)) }
    }
}

impl Host for Tools<'_> {
    type Contract = ScriptHost;

    fn call(&mut self, call: ToolCall, cx: &mut Context<'_>) -> Option<Finished> {
        self.calls.begin(&self.request.providers, call, cx)
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Finished> {
        self.calls.poll_finished(cx)
    }

    fn notify(&mut self, line: LogLine) {
        if let Some(show) = &self.request.on_log {
            show(&line);
        }
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn cancel_calls(&mut self) {
        self.calls.cancel();
    }
}
