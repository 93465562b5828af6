//! A call of one tool without a program, as an execution of its own.

use std::any::Any;
use std::fmt;

use execbox_core::contract::stop::Stop;
use execbox_core::engine::CallId;
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use serde_json::Value as Json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::Attached;
use crate::events::{EventKind, ExecutionEnd, Observer, Observers};
use crate::tools::dispatch::{CallScope, call_tool};
use crate::tools::provider::Provider;

/// A call of one tool without a program. It is checked, approved and observed as the calls of programs are.
///
/// ```
/// use execbox::{Provider, Tool};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let echo = Tool::new("echo", async |input, _| Ok(input));
/// let provider = Provider::builder("demo").tool(echo).build()?;
/// let result = provider.direct_call("echo", Some(json!({ "text": "hello" })))?.execute().await;
/// assert_eq!(result.outcome, Ok(Some(json!({ "text": "hello" }))));
/// # Ok(())
/// # }
/// ```
#[must_use = "the call is made by `execute`"]
pub struct DirectCall {
    provider: Provider,
    tool: usize,
    input: Option<Json>,
    cancellation: CancellationToken,
    observers: Observers,
    attached: Attached,
}

impl Provider {
    /// Prepares a call of a tool by its safe name. `None` is an omitted argument.
    ///
    /// # Errors
    /// `tool_error` if there is no such tool.
    pub fn direct_call(&self, safe_name: &str, input: Option<Json>) -> Result<DirectCall, ExecuteError> {
        let Some(tool) = self.index_of(safe_name) else {
            return Err(ExecuteError::tool(format!("{} has no tool {safe_name:?}", self.name())));
        };
        let (cancellation, observers, attached) = Default::default();
        Ok(DirectCall { provider: self.clone(), tool, input, cancellation, observers, attached })
    }
}

impl DirectCall {
    /// Sets a token that cancels the call: it fails with `timeout`.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Adds an observer of the [events](crate::events) of the call.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observers.add(observer);
        self
    }

    /// Attaches a value for the tool, as [`ExecuteRequest::attach`](crate::ExecuteRequest::attach) does.
    pub fn attach<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.attached.add(value);
        self
    }

    /// Calls the tool: checks the input, asks the policies, calls the function, checks the result. The limits of programs do not
    /// apply. Dropping the future cancels the call.
    pub async fn execute(self) -> ExecuteResult {
        let began = Instant::now();
        let span = self.observers.begin();
        let observation = span.observation().clone();
        observation.emit(EventKind::Started);
        let scope = CallScope {
            // The token of the call alone: its end is not the end of others.
            cancellation: self.cancellation.child_token(),
            observation,
            attached: self.attached,
            ..CallScope::default()
        };
        let _ended = scope.cancellation.clone().drop_guard();
        let call = call_tool(self.provider, self.tool, CallId(1), self.input, scope);
        let result = match self.cancellation.run_until_cancelled(call).await {
            Some((outcome, _held)) => ExecuteResult::new(outcome, began.elapsed()),
            None => ExecuteResult::failed(Stop::Cancelled(None).execute_error(&Limits::default()), began.elapsed()),
        };
        span.end(ExecutionEnd::Script(&result));
        result
    }
}

impl fmt::Debug for DirectCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectCall").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}
