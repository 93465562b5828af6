//! Tools whose functions receive the state of a thread.
//!
//! A [`ThreadTool`] is not stored. Bound to a thread, it is an ordinary [`Tool`].

use std::fmt;
use std::sync::Arc;

use execbox::{Provider, ProviderError, Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::state::ThreadState;

/// A tool for any thread (code-execution specification §10.4). Cheap to clone.
///
/// ```
/// use execbox_thread::{ThreadStore, ThreadTool};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let remember = ThreadTool::new("remember", async |state, input: Value, _| {
///     state.write_file("/notes.txt", input["text"].as_str().unwrap_or_default()).await?;
///     Ok(json!(null))
/// })
/// .description("Writes a note")
/// .input_schema(json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] }));
///
/// let thread = ThreadStore::in_memory().await?.thread("t")?;
/// let tools = thread.provider("tools", [&remember])?; // for a request or a bridge
/// tools.call("remember", Some(json!({ "text": "buy milk" }))).await?;
/// assert_eq!(thread.read_file("/notes.txt").await?, b"buy milk");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ThreadTool(Arc<dyn Fn(&ThreadState) -> Tool + Send + Sync>);

impl ThreadTool {
    /// Creates a tool from a closure over JSON; see [`Tool::new`].
    pub fn new<F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        F: Fn(ThreadState, Json, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Json, ToolError>> + Send + 'static,
    {
        let (name, function) = (name.into(), Arc::new(function));
        Self(Arc::new(move |thread| {
            let (thread, function) = (thread.clone(), Arc::clone(&function));
            Tool::new(name.clone(), move |input, context| function(thread.clone(), input, context))
        }))
    }

    /// Creates a tool from a Rust function with typed input and output; see [`Tool::typed`].
    pub fn typed<I, O, F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + 'static,
        F: Fn(ThreadState, I, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let (name, function) = (name.into(), Arc::new(function));
        Self(Arc::new(move |thread| {
            let (thread, function) = (thread.clone(), Arc::clone(&function));
            Tool::typed(name.clone(), move |input, context| function(thread.clone(), input, context))
        }))
    }

    /// See [`Tool::description`].
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        let description = description.into();
        self.with(move |tool| tool.description(description.clone()))
    }

    /// See [`Tool::input_schema`].
    #[must_use]
    pub fn input_schema(self, schema: Json) -> Self {
        self.with(move |tool| tool.input_schema(schema.clone()))
    }

    /// See [`Tool::output_schema`].
    #[must_use]
    pub fn output_schema(self, schema: Json) -> Self {
        self.with(move |tool| tool.output_schema(schema.clone()))
    }

    /// Binds the tool to `thread`.
    pub fn bind(&self, thread: &ThreadState) -> Tool {
        (self.0)(thread)
    }

    fn with(self, change: impl Fn(Tool) -> Tool + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |thread| change((self.0)(thread))))
    }
}

impl fmt::Debug for ThreadTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadTool").finish_non_exhaustive()
    }
}

impl ThreadState {
    /// Creates a provider of tools that are bound to this thread.
    pub fn provider<'t>(
        &self,
        name: impl Into<String>,
        tools: impl IntoIterator<Item = &'t ThreadTool>,
    ) -> Result<Provider, ProviderError> {
        Provider::builder(name).tools(tools.into_iter().map(|tool| tool.bind(self))).build()
    }
}
