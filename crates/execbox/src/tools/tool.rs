//! Tools: host functions with a name, a description, schemas. A [`Provider`](crate::Provider) checks them.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use execbox_core::error::ErrorCode;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::call::{Effect, ToolContext};
use crate::tools::finite;

/// A host function for guests, granted with a [`Provider`](crate::Provider).
///
/// | constructor | the function |
/// |---|---|
/// | [`new`](Self::new) | over JSON |
/// | [`typed`](Self::typed) | over Rust types, from which the schemas are derived |
/// | [`with_state`](Self::with_state), [`typed_with_state`](Self::typed_with_state) | likewise, with state of the host |
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Option<Arc<Json>>,
    pub(crate) output_schema: Option<Arc<Json>>,
    pub(crate) effect: Effect,
    pub(crate) keeps_reserved_name: bool,
    pub(crate) function: Arc<HostFunction>,
}

pub(crate) type HostFuture = Pin<Box<dyn Future<Output = Result<Json, ToolError>> + Send>>;
pub(crate) type HostFunction = dyn Fn(Json, ToolContext) -> HostFuture + Send + Sync;

impl Tool {
    /// Creates a tool from a function over JSON.
    ///
    /// Guest code calls it by a safe form of its `name` (`scrape-url` becomes `scrape_url`). The function gets the first
    /// argument of the call, checked against the input schema if there is one. An omitted argument is `{}` if the schema
    /// describes an object, and `null` otherwise.
    ///
    /// ```
    /// use execbox::Tool;
    /// use serde_json::json;
    ///
    /// let echo = Tool::new("echo", async |input, _| Ok(input))
    ///     .description("Returns its input")
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
            effect: Effect::default(),
            keeps_reserved_name: false,
            function: Arc::new(move |input, context| Box::pin(function(input, context))),
        }
    }

    /// Creates a tool from a function over JSON that uses state, such as a connection to a database. The function
    /// receives a clone of `state` in each call: state that calls or tools share is in an [`Arc`].
    ///
    /// An async closure that captures the state instead does not compile: its future borrows from the closure.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use execbox::Tool;
    /// use serde_json::{Value, json};
    ///
    /// let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    /// let add = Tool::with_state("add", Arc::clone(&notes), async |notes, input: Value, _| {
    ///     let text = input["text"].as_str().ok_or("text is not a string")?;
    ///     notes.lock().unwrap().push(text.to_owned());
    ///     Ok(Value::Null)
    /// });
    /// let list = Tool::with_state("list", notes, async |notes, _, _| Ok(json!(*notes.lock().unwrap())));
    /// ```
    pub fn with_state<S, F, Fut>(name: impl Into<String>, state: S, function: F) -> Self
    where
        S: Clone + Send + Sync + 'static,
        F: Fn(S, Json, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Json, ToolError>> + Send + 'static,
    {
        Self::new(name, move |input, context| function(state.clone(), input, context))
    }

    /// Creates a tool from a function with typed input and output. Both schemas are derived from the types.
    ///
    /// A call whose output is not JSON (a NaN, a map with keys other than strings) fails with `serialization_error`. A
    /// tool whose input is `()` takes no argument; it accepts `{}`.
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
        let input_schema = schema_of::<I>();
        let takes_nothing = input_schema["type"] == "null";
        let over_json = move |input: Json, context: ToolContext| {
            let function = Arc::clone(&function);
            async move {
                let input = if takes_nothing { Json::Null } else { input };
                let input = serde_json::from_value(input).map_err(|error| ToolError::invalid_input(&error))?;
                let output = function(input, context).await?;
                finite::to_json(&output).map_err(|reason| ToolError::unserializable(&reason))
            }
        };
        let input_schema = if takes_nothing { json!({ "type": "object", "properties": {} }) } else { input_schema };
        Self::new(name, over_json).input_schema(input_schema).output_schema(schema_of::<O>())
    }

    /// Creates a tool from a function with typed input and output that uses state; see [`typed`](Self::typed) and
    /// [`with_state`](Self::with_state).
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::sync::Arc;
    ///
    /// use execbox::Tool;
    ///
    /// let prices = Arc::new(HashMap::from([("pen".to_owned(), 2.5)]));
    /// let price = Tool::typed_with_state("price", prices, async |prices, item: String, _| {
    ///     Ok(*prices.get(&item).ok_or_else(|| format!("unknown item {item:?}"))?)
    /// });
    /// ```
    pub fn typed_with_state<S, I, O, F, Fut>(name: impl Into<String>, state: S, function: F) -> Self
    where
        S: Clone + Send + Sync + 'static,
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + 'static,
        F: Fn(S, I, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        Self::typed(name, move |input, context| function(state.clone(), input, context))
    }

    /// Sets the description for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the JSON Schema of the input. It is checked before each call and shown to models as TypeScript.
    #[must_use]
    pub fn input_schema(mut self, schema: impl Into<Arc<Json>>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// Sets the JSON Schema of the result. It is checked after each call and shown to models as TypeScript.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<Arc<Json>>) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// States what calls do. Catalogs show it, and rank tools that read before tools that destroy.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Keeps a name that is a reserved word: guest code calls `store.delete`, not `store.delete_`. The declaration of such a
    /// tool is not valid TypeScript.
    #[must_use]
    pub fn keep_reserved_name(mut self) -> Self {
        self.keeps_reserved_name = true;
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

/// The error of a host function. Its message is shown to guest code and models.
///
/// `?` converts errors, boxed errors, `anyhow::Error` and texts. Only the message of the error itself is kept, not
/// those of its sources.
///
/// ```
/// use execbox::{Tool, ToolError};
/// use serde_json::json;
///
/// async fn load(id: &str) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
///     Ok(std::fs::read_to_string(id)?)
/// }
///
/// let get = Tool::typed("get", async |id: String, _| {
///     if id.contains('/') {
///         return Err(ToolError::invalid("an id has no slash"));
///     }
///     let text = load(&id).await?;
///     Ok(text.lines().next().ok_or("the file is empty")?.to_owned())
/// });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl ToolError {
    /// Creates an error with the code `tool_error`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolError, message: message.into() }
    }

    /// Creates an error with the code `validation_error`, for input that the caller can correct.
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

impl<'a, E: Into<Box<dyn Error + Send + Sync + 'a>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(error.into().to_string())
    }
}
