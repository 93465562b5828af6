//! Tool calls on the host: check the input, call the function, check the result.
//!
//! The only place where tools are called, in every executor.

use std::panic::AssertUnwindSafe;
use std::task::Context;

use execbox_core::contract::script::ToolCall;
use execbox_core::engine::CallId;
use execbox_core::error::{ErrorCode, ExecuteError};
use futures_util::FutureExt as _;
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::executor::CallSink;
use crate::session::in_flight::InFlight;
use crate::tools::provider::{HostTool, Provider};
use crate::tools::schema::Schema;
use crate::tools::tool::ToolContext;

/// A finished call with its result.
pub(crate) type Finished = (CallId, Result<Option<Json>, ExecuteError>);

/// The tool calls of one execution. Their cancellation token fires when this is dropped.
pub(crate) struct ToolCalls {
    in_flight: InFlight<Finished>,
    cancellation: CancellationToken,
    on_call: Option<CallSink>,
}

impl ToolCalls {
    /// No calls. Cancelling `execution` cancels all calls, and no call begins after that.
    pub(crate) fn new(on_call: Option<CallSink>, execution: Option<&CancellationToken>) -> Self {
        let cancellation = execution.map_or_else(CancellationToken::new, CancellationToken::child_token);
        Self { in_flight: InFlight::default(), cancellation, on_call }
    }

    /// Begins a call of one of `providers`. A call that finishes at once is returned, every other one comes from
    /// [`poll_finished`](Self::poll_finished).
    pub(crate) fn begin(&mut self, providers: &[Provider], call: ToolCall, cx: &mut Context<'_>) -> Option<Finished> {
        if self.cancellation.is_cancelled() {
            return None;
        }
        let ToolCall { id, provider, tool, input } = call;
        let (cancellation, on_call) = (self.cancellation.clone(), self.on_call.clone());
        let result = call_tool(providers[provider].clone(), tool, input, cancellation, on_call);
        self.in_flight.begin(result.map(move |result| (id, result)), cx)
    }

    /// The next call that has finished, if there is one.
    pub(crate) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Option<Finished> {
        self.in_flight.poll_next(cx)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Cancels all calls and drops them.
    pub(crate) fn cancel(&mut self) {
        self.cancellation.cancel();
        self.in_flight.clear();
    }
}

impl Drop for ToolCalls {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

impl Provider {
    /// Calls a tool by its safe name, as guest code does: checks the input, calls the function, checks the result. `None`
    /// is an omitted argument. Dropping the future cancels the call.
    ///
    /// # Errors
    /// `tool_error` if there is no such tool or it fails; `validation_error` if input or result do not match their schema.
    pub async fn call(&self, safe_name: &str, input: Option<Json>) -> Result<Json, ExecuteError> {
        let Some(tool) = self.index_of(safe_name) else {
            return Err(ExecuteError::tool(format!("{} has no tool {safe_name:?}", self.name())));
        };
        let cancellation = CancellationToken::new();
        let _cancelled_when_dropped = cancellation.clone().drop_guard();
        Ok(call_tool(self.clone(), tool, input, cancellation, None).await?.unwrap_or(Json::Null))
    }
}

/// Calls the tool with index `tool` of `provider`. `None` is an omitted argument.
pub(crate) async fn call_tool(
    provider: Provider,
    tool: usize,
    input: Option<Json>,
    cancellation: CancellationToken,
    on_call: Option<CallSink>,
) -> Result<Option<Json>, ExecuteError> {
    let Some(host_tool) = provider.tool(tool) else {
        return Err(ExecuteError::internal(format!("provider {} has no such tool", provider.name())));
    };
    let context = ToolContext {
        provider: provider.shared_name(),
        safe_name: host_tool.safe_name.clone(),
        original_name: host_tool.original_name.clone(),
        cancellation,
    };
    if let Some(show) = on_call {
        show(&context);
    }
    let input = input.unwrap_or_else(|| Schema::omitted_input(host_tool.input.as_deref()));
    check(host_tool.input.as_deref(), &input, "input", || {
        format!("Invalid input for {}", name_of(&provider, host_tool))
    })?;
    // A panic is a bug of the tool. Its message stays on the host: the guest learns only that the tool crashed.
    let call = AssertUnwindSafe(async { (host_tool.function)(input, context).await }).catch_unwind().await;
    let output = match call {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(ExecuteError::new(error.code, error.message)),
        Err(_panic) => return Err(ExecuteError::tool(format!("{} crashed", name_of(&provider, host_tool)))),
    };
    check(host_tool.output.as_deref(), &output, "result", || {
        format!("{} returned a result that does not match its output schema", name_of(&provider, host_tool))
    })?;
    Ok(Some(output))
}

fn check(
    schema: Option<&Schema>,
    value: &Json,
    what: &str,
    sentence: impl FnOnce() -> String,
) -> Result<(), ExecuteError> {
    schema
        .map_or(Ok(()), |schema| schema.check(value, what))
        .map_err(|failures| ExecuteError::new(ErrorCode::ValidationError, format!("{}: {failures}", sentence())))
}

fn name_of(provider: &Provider, tool: &HostTool) -> String {
    format!("{}.{}", provider.name(), tool.safe_name)
}
