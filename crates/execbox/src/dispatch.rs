//! One tool call on the host: check the input, call the function, check the result.
//!
//! The only place where host functions are called, whatever executor the call comes through.

use std::panic::AssertUnwindSafe;

use execbox_core::error::{ErrorCode, ExecuteError};
use futures_util::FutureExt as _;
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::provider::{HostTool, Provider};
use crate::schema::Schema;
use crate::tool::ToolContext;

/// Calls tool number `tool` of `provider`. `None` is an omitted argument.
pub(crate) async fn call_tool(
    provider: Provider,
    tool: usize,
    input: Option<Json>,
    cancellation: CancellationToken,
) -> Result<Option<Json>, ExecuteError> {
    let Some(host_tool) = provider.tool(tool) else {
        return Err(ExecuteError::internal(format!("provider {} has no such tool", provider.name())));
    };
    let input = input.unwrap_or_else(|| Schema::omitted_input(host_tool.input.as_ref()));
    check(host_tool.input.as_ref(), &input, "input", || {
        format!("Invalid input for {}", name_of(&provider, host_tool))
    })?;
    let context = ToolContext {
        provider: provider.shared_name(),
        safe_name: host_tool.safe_name.clone(),
        original_name: host_tool.original_name.clone(),
        cancellation,
    };
    // A panic is a bug of the tool. It stays the tool's: the guest learns that it failed, and not with what words.
    let call = AssertUnwindSafe(async { (host_tool.function)(input, context).await }).catch_unwind().await;
    let output = match call {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(ExecuteError::new(error.code, error.message)),
        Err(_panic) => return Err(ExecuteError::tool(format!("{} crashed", name_of(&provider, host_tool)))),
    };
    check(host_tool.output.as_ref(), &output, "result", || {
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
