//! Tools: host functions that guest code can be granted.
//!
//! A [`Tool`] is a name, words for models, schemas and a function. Nothing is checked here; a
//! [`Provider`](crate::Provider) checks schemas when it is built and values when it is called.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use execbox_core::error::ErrorCode;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::tools::finite;

/// A host function for guests, under construction. See [`Tool::new`] and [`Tool::typed`].
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Option<Json>,
    pub(crate) output_schema: Option<Json>,
    pub(crate) function: Arc<HostFunction>,
}

pub(crate) type HostFuture = Pin<Box<dyn Future<Output = Result<Json, ToolError>> + Send>>;
pub(crate) type HostFunction = dyn Fn(Json, ToolContext) -> HostFuture + Send + Sync;

impl Tool {
    /// A tool from a closure over JSON.
    ///
    /// `name` is the tool's own name; guest code sees a safe form of it (`scrape-url` → `scrape_url`).
    /// The closure gets the call's first argument, already checked against the input schema if there is
    /// one. An argument that the guest leaves out is `{}` for a tool whose schema describes an object,
    /// and `null` otherwise.
    ///
    /// ```
    /// use execbox::Tool;
    /// use serde_json::json;
    ///
    /// let echo = Tool::new("echo", async |input, _| Ok(input))
    ///     .description("Gives back what it is given")
    ///     .input_schema(json!({ "type": "object" }));
    /// ```
    pub fn new<F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        F: Fn(Json, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Json, ToolError>> + Send + 'static,
    {
        Self {
            name: name.into(),
            description: None,
            input_schema: None,
            output_schema: None,
            function: Arc::new(move |input, context| Box::pin(function(input, context))),
        }
    }

    /// A tool from a Rust function with typed input and output. Both schemas come from the types.
    ///
    /// An output that JSON cannot say (a NaN, a map whose keys are no strings) fails the call with `serialization_error`.
    ///
    /// ```
    /// use execbox::{Tool, ToolError};
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Range { from: u32, to: u32 }
    ///
    /// #[derive(Serialize, JsonSchema)]
    /// struct Sum { sum: u32 }
    ///
    /// let sum = Tool::typed("sum", async |range: Range, _| {
    ///     if range.from > range.to {
    ///         return Err(ToolError::new("`from` is greater than `to`"));
    ///     }
    ///     Ok(Sum { sum: (range.from..=range.to).sum() })
    /// });
    /// ```
    pub fn typed<I, O, F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + 'static,
        F: Fn(I, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let over_json = move |input: Json, context: ToolContext| {
            let function = Arc::clone(&function);
            async move {
                let input = serde_json::from_value(input).map_err(|error| ToolError::invalid_input(&error))?;
                let output = function(input, context).await?;
                finite::to_json(&output).map_err(|reason| ToolError::unserializable(&reason))
            }
        };
        Self::new(name, over_json).input_schema(schema_of::<I>()).output_schema(schema_of::<O>())
    }

    /// What the tool does, in words for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// JSON Schema of the input: checked before every call, and what the types for models are made from.
    #[must_use]
    pub fn input_schema(mut self, schema: Json) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// JSON Schema of the result: checked after every call, and what the types for models are made from.
    #[must_use]
    pub fn output_schema(mut self, schema: Json) -> Self {
        self.output_schema = Some(schema);
        self
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

fn schema_of<T: JsonSchema>() -> Json {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// What a host function learns about the call that it serves.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The name that guest code called.
    pub safe_name: Arc<str>,
    /// The tool's own name.
    pub original_name: Arc<str>,
    /// Fires when the execution ends, is cancelled, or is dropped: whatever the call still does is for
    /// nobody. The call's own future is dropped then, too.
    pub cancellation: CancellationToken,
}

/// Why a host function failed. Its message reaches guest code and models; its causes do not.
///
/// Made from any error by `?`: only the error's own message is kept, not its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl ToolError {
    /// A failure with that message: `tool_error`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolError, message: message.into() }
    }

    /// A failure that the caller can mend by calling with other input: `validation_error`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ValidationError, message: message.into() }
    }

    fn invalid_input(error: &serde_json::Error) -> Self {
        Self::invalid(format!("the input does not fit: {error}"))
    }

    fn unserializable(reason: &impl fmt::Display) -> Self {
        Self { code: ErrorCode::SerializationError, message: format!("the result is not JSON: {reason}") }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
