//! Providers as modules of async functions, which are called with the same checks as from a script.

use execbox_core::engine::CallId;
use execbox_core::error::{ErrorCode, ExecuteError};
use execbox_core::value::FunctionKind;

use super::options::CodeExecutionOptions;
use super::value::{Args, Call, Function, HostError, HostResult, HostValue, Kind};
use crate::tools::dispatch::{CallScope, call_tool};
use crate::tools::provider::Provider;

impl CodeExecutionOptions {
    /// Grants the tools of a provider, as a module that is imported by the provider's name. It exports an async function for
    /// each tool, by its safe name, which takes one argument that is JSON.
    ///
    /// ```
    /// use execbox::code::CodeExecutionOptions;
    /// use execbox::{Executor, InlineExecutor, Provider, Tool};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shop = Provider::builder("shop").tool(Tool::new("list-orders", async |_, _| Ok(json!([7, 9])))).build()?;
    /// let source = "import { list_orders } from 'shop'; export default list_orders({ status: 'open' });";
    /// let result = InlineExecutor::new()?.run_code(source, CodeExecutionOptions::new().provider(shop)).await;
    /// assert_eq!(result.to_json()?["result"], json!([7, 9]));
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // as `ExecuteRequest::provider`
    pub fn provider(self, provider: Provider) -> Self {
        let tools = provider.manifest().tools.iter().enumerate();
        let functions = tools.map(|(index, tool)| {
            let (name, call) = (tool.safe_name.clone(), Call::Tool(provider.clone(), index));
            (name.clone(), HostValue(Kind::Function(Function { name, kind: FunctionKind::Async, call, number: None })))
        });
        self.import(provider.name(), functions)
    }

    /// Grants the tools of several providers.
    pub fn providers(self, providers: impl IntoIterator<Item = Provider>) -> Self {
        providers.into_iter().fold(self, Self::provider)
    }
}

/// Calls the tool with index `tool`, as [`ToolCalls`](crate::tools::dispatch::ToolCalls) does for scripts.
pub(super) async fn call(provider: Provider, tool: usize, id: CallId, args: Args, scope: CallScope) -> HostResult {
    let input = args.json(0)?;
    let _cancelled_when_dropped = scope.cancellation.clone().drop_guard();
    let (output, _held) = call_tool(provider, tool, id, input, scope).await;
    Ok(output.map_err(thrown)?.map_or_else(HostValue::undefined, HostValue::from))
}

/// The error that the guest sees.
fn thrown(error: ExecuteError) -> HostError {
    match error.code {
        ErrorCode::ValidationError => HostError::named("ValidationError", error.message),
        ErrorCode::SerializationError => HostError::named("SerializationError", error.message),
        _ => HostError::new(error.message),
    }
}
