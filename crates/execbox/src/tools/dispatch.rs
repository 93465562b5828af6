//! Tool calls on the host: check the input, call the function, check the result.
//!
//! The only place where host functions are called, whatever executor the call comes through.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use execbox_core::engine::CallId;

use execbox_core::contract::script::ToolCall;
use execbox_core::error::{ErrorCode, ExecuteError};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::executor::CallSink;
use crate::tools::provider::{HostTool, Provider};
use crate::tools::schema::Schema;
use crate::tools::tool::ToolContext;

/// What a call came to.
pub(crate) type Finished = (CallId, Result<Option<Json>, ExecuteError>);

/// The calls of one execution that are under way. Their cancellation token fires when this is dropped.
pub(crate) struct ToolCalls {
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Finished> + Send>>>,
    cancellation: CancellationToken,
    on_call: Option<CallSink>,
}

impl ToolCalls {
    /// None. Cancelling `execution` cancels them, and lets none begin any more.
    pub(crate) fn new(on_call: Option<CallSink>, execution: Option<&CancellationToken>) -> Self {
        let cancellation = execution.map_or_else(CancellationToken::new, CancellationToken::child_token);
        Self { under_way: FuturesUnordered::new(), cancellation, on_call }
    }

    /// Begins a call of one of `providers`. Many finish at once, and are given back; the others are
    /// watched by [`poll_finished`](Self::poll_finished).
    pub(crate) fn begin(&mut self, providers: &[Provider], call: ToolCall, cx: &mut Context<'_>) -> Option<Finished> {
        if self.cancellation.is_cancelled() {
            return None;
        }
        let ToolCall { id, provider, tool, input } = call;
        let (cancellation, on_call) = (self.cancellation.clone(), self.on_call.clone());
        let result = call_tool(providers[provider].clone(), tool, input, cancellation, on_call);
        let mut call = Box::pin(async move { (id, result.await) });
        match call.as_mut().poll(cx) {
            Poll::Ready(finished) => Some(finished),
            Poll::Pending => {
                self.under_way.push(call);
                None
            }
        }
    }

    /// The next call that has finished, if one has.
    pub(crate) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Option<Finished> {
        match self.under_way.poll_next_unpin(cx) {
            Poll::Ready(finished) => finished,
            Poll::Pending => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Cancels every call, and forgets it.
    pub(crate) fn cancel(&mut self) {
        self.cancellation.cancel();
        self.under_way.clear();
    }
}

impl Drop for ToolCalls {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

impl Provider {
    /// Calls a tool as guest code does, by the name that it has there: input checked, called, result checked. `None` is an
    /// omitted argument. For hosts that lead calls to tools on ways of their own.
    ///
    /// Dropping the future cancels the call.
    pub async fn call(&self, safe_name: &str, input: Option<Json>) -> Result<Json, ExecuteError> {
        let Some(tool) = self.number_of(safe_name) else {
            return Err(ExecuteError::tool(format!("{} has no tool {safe_name:?}", self.name())));
        };
        let cancellation = CancellationToken::new();
        let _cancelled_when_dropped = cancellation.clone().drop_guard();
        Ok(call_tool(self.clone(), tool, input, cancellation, None).await?.unwrap_or(Json::Null))
    }
}

/// Calls tool number `tool` of `provider`. `None` is an omitted argument.
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
    // A panic is a bug of the tool. It stays the tool's: the guest learns that it failed, and not with what words.
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
