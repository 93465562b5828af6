//! Tool calls on the host: check the input, ask the policies, call the function, check the result.
//!
//! The only place where tools are called, in every executor.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Context;

use execbox_core::cause::Cause;
use execbox_core::contract::script::{ScriptFunction, ToolCall};
use execbox_core::engine::CallId;
use execbox_core::error::{ErrorCode, ExecuteError};
use execbox_core::value::json_size;
use futures_util::FutureExt as _;
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::call::{Attached, CallWaits, Held, PendingApprovals, ToolContext};
use crate::events::{CallEnd, Observation};
use crate::in_flight::InFlight;
use crate::policy::ProposedCall;
use crate::tools::provider::{HostTool, Provider};
use crate::tools::schema::Schema;

/// A finished call with its result.
pub(crate) type Finished = (CallId, Result<Option<Json>, ExecuteError>);

/// What the calls of one execution have in common.
#[derive(Clone, Default)]
pub(crate) struct CallScope {
    pub(crate) cancellation: CancellationToken,
    pub(crate) observation: Observation,
    pub(crate) approvals: PendingApprovals,
    pub(crate) caller: CallerSource,
    pub(crate) attached: Attached,
}

/// The source of the script that makes calls.
#[derive(Clone, Default)]
pub(crate) struct CallerSource {
    /// `None` if the calls are made by a module.
    pub(crate) script: Option<Arc<str>>,
    pub(crate) functions: Arc<Vec<ScriptFunction>>,
}

/// The tool calls of one execution. Their cancellation token fires when this is dropped.
pub(crate) struct ToolCalls {
    in_flight: InFlight<(Finished, Held)>,
    /// What the last finished call holds.
    held: Held,
    scope: CallScope,
}

impl ToolCalls {
    /// Creates an empty set that runs at most `max` calls at once. After the cancellation of the scope no call begins.
    pub(crate) fn new(scope: CallScope, max: usize) -> Self {
        Self { in_flight: InFlight::new(max), held: Held::default(), scope }
    }

    /// Begins a call of one of `providers`. A call that finishes at once is returned, every other one comes from
    /// [`poll_finished`](Self::poll_finished).
    pub(crate) fn begin(&mut self, providers: &[Provider], call: ToolCall, cx: &mut Context<'_>) -> Option<Finished> {
        if self.scope.cancellation.is_cancelled() {
            return None;
        }
        let ToolCall { id, provider, tool, input, charge } = call;
        let provider = providers[provider].clone();
        let result = call_tool(provider.clone(), tool, id, input, self.scope.clone());
        let settled = result.map(move |(result, held)| {
            drop(charge); // The input is no longer kept.
            ((id, result.map_err(|error| error.with_cause(failed_call(id, &provider, tool)))), held)
        });
        let finished = self.in_flight.begin(settled, cx);
        self.hold(finished)
    }

    /// The next call that has finished, if there is one.
    pub(crate) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Option<Finished> {
        let finished = self.in_flight.poll_next(cx);
        self.hold(finished)
    }

    fn hold(&mut self, finished: Option<(Finished, Held)>) -> Option<Finished> {
        let (finished, held) = finished?;
        self.held = held;
        Some(finished)
    }

    /// Records that the result of the last finished call is passed on.
    pub(crate) fn passed_on(&mut self) {
        self.held = Held::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether there are calls in flight, and all wait for a person. The task is woken when that changes.
    pub(crate) fn await_approval(&self, cx: &Context<'_>) -> bool {
        !self.is_empty() && self.scope.approvals.poll_count(cx) >= self.in_flight.len()
    }

    /// The most calls that were in flight at once.
    pub(crate) fn peak(&self) -> usize {
        self.in_flight.peak()
    }

    /// Cancels all calls and drops them.
    pub(crate) fn cancel(&mut self) {
        self.scope.cancellation.cancel();
        self.in_flight.clear();
    }
}

impl Drop for ToolCalls {
    fn drop(&mut self) {
        self.scope.cancellation.cancel();
    }
}

/// The cause of a program that ends with the failure of this call.
fn failed_call(call: CallId, provider: &Provider, tool: usize) -> Option<Cause> {
    let tool = provider.tool(tool)?.safe_name.to_string();
    Some(Cause::FailedCall { call, provider: provider.name().to_owned(), tool })
}

impl Provider {
    /// Calls a tool by its safe name, as guest code does: checks the input, calls the function, checks the result. `None`
    /// is an omitted argument. Dropping the future cancels the call.
    ///
    /// # Errors
    /// `tool_error` if there is no such tool, a policy does not allow the call, or it fails; `validation_error` if input or
    /// result do not match their schema.
    pub async fn call(&self, safe_name: &str, input: Option<Json>) -> Result<Json, ExecuteError> {
        Ok(self.direct_call(safe_name, input)?.execute().await.outcome?.unwrap_or(Json::Null))
    }
}

/// Calls the tool with index `tool` of `provider`. `None` is an omitted argument. Returns the result with what the call holds
/// until the result is passed on.
pub(crate) async fn call_tool(
    provider: Provider,
    tool: usize,
    id: CallId,
    input: Option<Json>,
    scope: CallScope,
) -> (Result<Option<Json>, ExecuteError>, Held) {
    let Some(host_tool) = provider.tool(tool) else {
        let error = ExecuteError::internal(format!("provider {} has no such tool", provider.name()));
        return (Err(error), Held::default());
    };
    let CallScope { cancellation, observation, approvals, caller, attached } = scope;
    let name = provider.shared_name();
    let size = || input.as_ref().map_or(0, json_size);
    let span = observation.begin_call(id, Some(&name), &host_tool.safe_name, size);
    let waits = CallWaits::new(approvals, span.observed().clone());
    let context = ToolContext {
        execution: observation.execution(),
        call: id,
        provider: name,
        safe_name: host_tool.safe_name.clone(),
        original_name: host_tool.original_name.clone(),
        cancellation,
        waits: waits.clone(),
        attached,
    };
    let result = checked_call(&provider, host_tool, input, context, &caller).await;
    span.end(|| match &result {
        Ok(output) => CallEnd::Returned { bytes: json_size(output) },
        Err(error) => CallEnd::Failed { code: error.code, message: &error.message },
    });
    let result = result.map(Some).map_err(|mut error| {
        if provider.names_failed_calls() {
            error.message.insert_str(0, &failed_call_prefix(provider.name(), &host_tool.safe_name));
        }
        error
    });
    (result, waits.take_held())
}

/// Checks the input, asks the policies, calls the function and checks the result. Failures do not name the call if the provider
/// names failed calls.
async fn checked_call(
    provider: &Provider,
    tool: &HostTool,
    input: Option<Json>,
    context: ToolContext,
    caller: &CallerSource,
) -> Result<Json, ExecuteError> {
    let name = name_of(provider, tool);
    let says = |plain: &str, named: String| if provider.names_failed_calls() { plain.to_owned() } else { named };
    let input = input.unwrap_or_else(|| Schema::omitted_input(tool.input.as_deref()));
    let input =
        check(tool.input.as_ref(), input, "input", || says("invalid input", format!("Invalid input for {name}")));
    let input = input.await?;
    for policy in provider.policies() {
        let (program, functions) = (caller.script.as_deref(), caller.functions.as_slice());
        let call = ProposedCall { context: &context, effect: tool.effect, input: &input, program, functions };
        policy.check(call).await?;
    }
    // A panic is a bug of the tool. Its message stays on the host: the guest learns only that the tool crashed.
    let call = AssertUnwindSafe(async { (tool.function)(input, context).await }).catch_unwind().await;
    let output = match call {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(ExecuteError::new(error.code, error.message)),
        Err(_panic) => return Err(ExecuteError::tool(says("the tool crashed", format!("{name} crashed")))),
    };
    let output = check(tool.output.as_ref(), output, "result", || {
        let mismatch = "returned a result that does not match its output schema";
        says(&format!("it {mismatch}"), format!("{name} {mismatch}"))
    });
    output.await
}

/// The value, if the schema admits it.
async fn check(
    schema: Option<&Arc<Schema>>,
    value: Json,
    what: &'static str,
    sentence: impl FnOnce() -> String,
) -> Result<Json, ExecuteError> {
    let Some(schema) = schema else { return Ok(value) };
    let checked = schema.check_async(value, what).await;
    checked.map_err(|failures| ExecuteError::new(ErrorCode::ValidationError, format!("{}: {failures}", sentence())))
}

/// What the messages of a failed call begin with, if its provider names failed calls.
pub(crate) fn failed_call_prefix(provider: &str, tool: &str) -> String {
    format!("{provider}.{tool} failed: ")
}

fn name_of(provider: &Provider, tool: &HostTool) -> String {
    format!("{}.{}", provider.name(), tool.safe_name)
}
