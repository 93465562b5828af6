//! Tools of providers, as a module of async functions: called with the same checks as from a script.

use execbox_core::error::{ErrorCode, ExecuteError};
use tokio_util::sync::CancellationToken;

use super::options::CodeExecutionOptions;
use super::value::{Args, HostError, HostValue};
use crate::tools::dispatch::call_tool;
use crate::tools::provider::Provider;

impl CodeExecutionOptions {
    /// The tools of a provider, as a module that is imported by the provider's name: an async function for each, by its
    /// safe name. It takes one argument, which is JSON.
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
    /// let result = InlineExecutor::new()?.run_code(source, CodeExecutionOptions::new().tools(&shop)).await;
    /// assert_eq!(result.to_json()?["result"], json!([7, 9]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tools(self, provider: &Provider) -> Self {
        let functions = provider.manifest().tools.iter().enumerate();
        let functions = functions.map(|(number, tool)| (tool.safe_name.clone(), function(provider, number)));
        self.import(provider.name(), functions)
    }
}

/// Tool number `number` of a provider.
fn function(provider: &Provider, number: usize) -> HostValue {
    let provider = provider.clone();
    let name = provider.manifest().tools[number].safe_name.clone();
    HostValue::async_function(name, move |args: Args| {
        let provider = provider.clone();
        async move {
            let input = args.json(0)?;
            let cancellation = CancellationToken::new();
            // Whatever ends the call, or drops it, cancels what is left of it.
            let _cancels = cancellation.clone().drop_guard();
            let output = call_tool(provider, number, input, cancellation, None).await.map_err(thrown)?;
            Ok(output.map_or_else(HostValue::undefined, HostValue::from))
        }
    })
}

/// What the guest sees of a call that failed.
fn thrown(error: ExecuteError) -> HostError {
    match error.code {
        ErrorCode::ValidationError => HostError::named("ValidationError", error.message),
        ErrorCode::SerializationError => HostError::named("SerializationError", error.message),
        _ => HostError::new(error.message),
    }
}
