//! Executions of scripts: in this process, or on a runner at the other end of a channel.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use execbox_core::contract::script::{Request, ToolCall};
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{LogLine, NoRoom};
use execbox_core::error::ExecuteResult;
use execbox_core::program::Limits;
use execbox_core::protocol::Execute;
use execbox_core::protocol::MAX_REPEATED_LOG_BYTES;
use execbox_core::protocol::host::{HostOptions, HostSession, ScriptHost};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::PendingApprovals;
use crate::events::{EventKind, LogEntry, Observation};
use crate::request::ExecuteRequest;
use crate::session::host::Host;
use crate::session::local;
use crate::session::parts::EngineAndLanguage;
use crate::session::remote::{RunnerChannel, drive};
use crate::tools::dispatch::{CallScope, CallerSource, Finished, ToolCalls};

/// Executes a request in this process, on the task that awaits it.
pub(crate) async fn execute_here(
    parts: &EngineAndLanguage,
    mut request: ExecuteRequest,
    observation: Observation,
) -> ExecuteResult {
    let accepted = Instant::now();
    let cancellation = request.cancellation.take().unwrap_or_default();
    let script = Request {
        code: request.code.to_string(),
        functions: request.functions.to_vec(),
        providers: request.providers.iter().map(crate::Provider::shared_manifest).collect(),
        waits_for_calls: request.wait_for_calls,
        globals: request.globals,
        limits: request.effective_limits(),
    };
    let mut tools = Tools::new(&request, &observation, &cancellation);
    let mut result = local::run(parts, script, &mut tools, accepted, &cancellation).await;
    result.usage.peak_calls_in_flight = tools.end();
    result
}

/// Executes a request on the runner at the other end of `channel`. Returns the result, and whether the runner can be used
/// for another program.
pub(crate) async fn execute(
    channel: &mut (impl RunnerChannel + ?Sized),
    request: &ExecuteRequest,
    observation: &Observation,
    options: HostOptions,
    cancellation: &CancellationToken,
) -> (ExecuteResult, bool) {
    let limits = request.effective_limits();
    let execute = Execute {
        id: format!("exec-{}", observation.execution().get()),
        code: request.code.to_string(),
        functions: request.functions.to_vec(),
        limits,
        providers: request.providers.iter().map(crate::Provider::shared_manifest).collect(),
        wait_for_calls: request.wait_for_calls,
        globals: request.globals,
        // A log that may be long is streamed instead of sent in one message. Lines from before the death of a runner are kept.
        stream_logs: !request.observers.is_empty() || limits.max_log_chars > MAX_REPEATED_LOG_BYTES,
    };
    let mut host = Tools::new(request, observation, cancellation);
    let session = HostSession::script(execute, options, Duration::ZERO);
    let (mut result, is_reusable) = drive(session, channel, &mut host, cancellation).await;
    result.usage.peak_calls_in_flight = host.end();
    (result, is_reusable)
}

/// The result of an execution that was cancelled before a runner received it.
pub(crate) fn cancelled(limits: &Limits) -> ExecuteResult {
    ExecuteResult::failed(Stop::Cancelled(None).execute_error(limits), Duration::ZERO)
}

/// The tools and listeners of one execution.
pub(crate) struct Tools<'a> {
    request: &'a ExecuteRequest,
    observation: &'a Observation,
    calls: ToolCalls,
}

impl<'a> Tools<'a> {
    /// Cancelling `execution`, or dropping this, cancels the calls.
    pub(crate) fn new(
        request: &'a ExecuteRequest,
        observation: &'a Observation,
        execution: &CancellationToken,
    ) -> Self {
        observation.emit(EventKind::Started);
        let scope = CallScope {
            cancellation: execution.child_token(),
            observation: observation.clone(),
            approvals: PendingApprovals::default(),
            caller: CallerSource { script: Some(Arc::clone(&request.code)), functions: Arc::clone(&request.functions) },
            attached: request.attached.clone(),
        };
        let calls = ToolCalls::new(scope, request.effective_limits().max_calls_in_flight);
        Self { request, observation, calls }
    }

    /// Cancels the calls. Returns the most that were in flight at once.
    pub(crate) fn end(mut self) -> u64 {
        self.calls.cancel();
        self.calls.peak() as u64
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

    fn passed_on(&mut self) {
        self.calls.passed_on();
    }

    fn notify(&mut self, line: LogLine) -> Result<(), NoRoom> {
        self.observation.emit(EventKind::Log(LogEntry::Line(&line)));
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn awaits_approval(&self, cx: &Context<'_>) -> bool {
        self.calls.await_approval(cx)
    }

    fn cancel_calls(&mut self) {
        self.calls.cancel();
    }
}
