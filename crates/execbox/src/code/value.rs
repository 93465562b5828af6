//! Host values: data, functions and promises for a run (code-execution specification §3.5).

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use execbox_core::budget::{Budget, Charge, Meter};
use execbox_core::value::{
    BigInt, Datum, FunctionKind, Graph, HostFunction, Node, NodeId, SerializationError, Value, from_json,
};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::options::OptionsError;
use crate::tools::finite;
use crate::tools::provider::Provider;

/// A value that the host grants to a guest: data, a function, a promise, or an object or array of those.
///
/// Data is copied into the guest (structured clone). Functions stay on the host and are called by the guest.
///
/// ```
/// use execbox::code::{Args, HostError, HostValue};
/// use serde_json::json;
///
/// let files = HostValue::object([
///     ("version", HostValue::from(json!({ "major": 1 }))),
///     ("exists", HostValue::function("exists", |args: Args| Ok(HostValue::from(args.str(0)? == "/etc")))),
///     ("read", HostValue::async_function("read", async |args: Args| {
///         Err(HostError::new(format!("file not found: {}", args.str(0)?)))
///     })),
/// ]);
/// ```
pub struct HostValue(pub(super) Kind);

pub(super) enum Kind {
    Data(Graph),
    /// A value with functions and promises in it, each with the position of its node.
    Linked(Graph, Vec<(NodeId, Given)>),
    /// JSON, encoded at once: a graph takes at least ten times as much memory.
    Encoded(Value),
    Function(Function),
    Promise(BoxFuture<'static, HostResult>),
    Object(Vec<(String, HostValue)>),
    Array(Vec<HostValue>),
}

/// A function or a promise of the host.
pub(super) enum Given {
    Function(Function),
    Promise(BoxFuture<'static, HostResult>),
}

/// What the functions and promises in tagged JSON stand for. They are numbers there, which the sender of the JSON chooses.
pub trait Handles {
    /// The function that `function` stands for: a [`HostValue`] that was made with a function. `None` if there is none.
    fn function(&self, function: &HostFunction) -> Option<HostValue>;

    /// The promise with this number: a [`HostValue::promise`]. `None` if there is none.
    fn promise(&self, number: u32) -> Option<HostValue>;
}

/// No functions and no promises.
#[derive(Debug, Clone, Copy)]
pub struct NoHandles;

impl Handles for NoHandles {
    fn function(&self, _: &HostFunction) -> Option<HostValue> {
        None
    }

    fn promise(&self, _: u32) -> Option<HostValue> {
        None
    }
}

/// Applies [`HostValue::try_clone`] to values with names.
pub(super) fn try_clone_members(members: &[(String, HostValue)]) -> Option<Vec<(String, HostValue)>> {
    members.iter().map(|(name, value)| Some((name.clone(), value.try_clone()?))).collect()
}

/// The result of a host function or a promise.
pub type HostResult = Result<HostValue, HostError>;

#[derive(Clone)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) kind: FunctionKind,
    pub(super) call: Call,
    /// The number by which the host knows the function.
    pub(super) number: Option<u32>,
}

#[derive(Clone)]
pub(super) enum Call {
    Sync(Arc<dyn Fn(Args) -> HostResult + Send + Sync>),
    Async(Arc<dyn Fn(Args) -> BoxFuture<'static, HostResult> + Send + Sync>),
    /// The tool of the provider with this index.
    Tool(Provider, usize),
}

impl HostValue {
    /// Copies a value. Returns `None` if it contains a promise. Copies of a function are one function.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        Some(Self(match &self.0 {
            Kind::Data(graph) => Kind::Data(graph.clone()),
            Kind::Linked(graph, given) => {
                let given = given.iter().map(|(at, given)| match given {
                    Given::Function(function) => Some((*at, Given::Function(function.clone()))),
                    Given::Promise(_) => None,
                });
                Kind::Linked(graph.clone(), given.collect::<Option<_>>()?)
            }
            Kind::Encoded(value) => Kind::Encoded(value.clone()),
            Kind::Function(function) => Kind::Function(function.clone()),
            Kind::Promise(_) => return None,
            Kind::Object(members) => Kind::Object(try_clone_members(members)?),
            Kind::Array(items) => Kind::Array(items.iter().map(Self::try_clone).collect::<Option<_>>()?),
        }))
    }

    /// `undefined`.
    pub fn undefined() -> Self {
        Self::from(Graph::default())
    }

    /// A synchronous function. The guest is blocked during the call. It is called on the task that drives the run, and must
    /// not block.
    pub fn function(name: impl Into<String>, call: impl Fn(Args) -> HostResult + Send + Sync + 'static) -> Self {
        Self(Kind::Function(Function {
            name: name.into(),
            kind: FunctionKind::Sync,
            call: Call::Sync(Arc::new(call)),
            number: None,
        }))
    }

    /// A synchronous function that is answered later. The guest is blocked until then, and other tasks run. Its future is dropped
    /// when the run ends.
    pub fn blocking_function<F, Fut>(name: impl Into<String>, call: F) -> Self
    where
        F: Fn(Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HostResult> + Send + 'static,
    {
        Self::later(name, FunctionKind::Sync, call)
    }

    /// An asynchronous function. Its future is dropped when the run ends.
    pub fn async_function<F, Fut>(name: impl Into<String>, call: F) -> Self
    where
        F: Fn(Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HostResult> + Send + 'static,
    {
        Self::later(name, FunctionKind::Async, call)
    }

    fn later<F, Fut>(name: impl Into<String>, kind: FunctionKind, call: F) -> Self
    where
        F: Fn(Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HostResult> + Send + 'static,
    {
        let call = move |args| -> BoxFuture<'static, HostResult> { Box::pin(call(args)) };
        Self(Kind::Function(Function { name: name.into(), kind, call: Call::Async(Arc::new(call)), number: None }))
    }

    /// A value whose functions and promises are those of `handles`, under the numbers that they have in `graph`. Where the guest
    /// passes such a function back, in arguments, reports or the result, it has that number.
    ///
    /// # Errors
    /// `handles` lacks a function or a promise.
    pub fn with_handles(graph: Graph, what: &str, handles: &dyn Handles) -> Result<Self, OptionsError> {
        let missing = |expected| OptionsError::Invalid { path: what.to_owned(), expected };
        let mut all = Vec::new();
        for (id, node) in graph.nodes_with_ids() {
            let (value, number) = match node {
                Node::Function(function) => (handles.function(function), function.number),
                Node::Promise(number) => (handles.promise(*number), *number),
                _ => continue,
            };
            let given = match value.ok_or_else(|| missing(DATA))?.0 {
                Kind::Function(function) => Given::Function(Function { number: Some(number), ..function }),
                Kind::Promise(promise) => Given::Promise(promise),
                _ => return Err(missing("functions and promises of the host")),
            };
            all.push((id, given));
        }
        Ok(Self(if all.is_empty() { Kind::Data(graph) } else { Kind::Linked(graph, all) }))
    }

    /// An asynchronous function with typed input and output, which are JSON: the input is the first argument of a call,
    /// `null` if it is omitted. Functions with several arguments read them with [`Args::get_as`].
    ///
    /// ```
    /// use execbox::code::{HostError, HostValue};
    ///
    /// let read = HostValue::typed("readFile", async |path: String| {
    ///     std::fs::read_to_string(&path).map_err(|error| HostError::new(format!("{path}: {error}")))
    /// });
    /// ```
    pub fn typed<I, O, F, Fut>(name: impl Into<String>, call: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, HostError>> + Send + 'static,
    {
        let call = Arc::new(call);
        Self::async_function(name, move |args: Args| {
            let call = Arc::clone(&call);
            async move {
                let output = call(args.get_as(0)?).await?;
                let json = finite::to_json(&output);
                let unserializable = |reason| format!("the result is not JSON: {reason}");
                json.map(Self::from).map_err(|reason| HostError::named("SerializationError", unserializable(reason)))
            }
        })
    }

    /// A promise. It is polled by the run, and dropped when the run ends.
    pub fn promise(future: impl Future<Output = HostResult> + Send + 'static) -> Self {
        Self(Kind::Promise(Box::pin(future)))
    }

    /// A plain object. Of members with one name, the last one counts.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, HostValue)>) -> Self {
        Self(Kind::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect()))
    }

    /// An array.
    pub fn array(items: impl IntoIterator<Item = HostValue>) -> Self {
        Self(Kind::Array(items.into_iter().collect()))
    }

    /// Bytes, as a `Uint8Array`.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        let mut graph = Graph::default();
        let bytes = graph.bytes(bytes);
        graph.set_root(bytes);
        Self::from(graph)
    }
}

impl From<Graph> for HostValue {
    fn from(graph: Graph) -> Self {
        Self(Kind::Data(graph))
    }
}

impl From<Json> for HostValue {
    fn from(json: Json) -> Self {
        match Value::from_json(Some(&json), "value") {
            Ok(value) => Self(Kind::Encoded(value)),
            Err(_) => Self::from(Graph::from_json(&json)), // The JSON is nested too deeply for a value.
        }
    }
}

impl From<()> for HostValue {
    fn from((): ()) -> Self {
        Self::undefined()
    }
}

macro_rules! primitives {
    ($($primitive:ty),*) => { $(
        impl From<$primitive> for HostValue {
            fn from(primitive: $primitive) -> Self {
                Self::from(Graph::of(primitive))
            }
        }
    )* };
}
primitives!(bool, f64, &str, String, BigInt);

macro_rules! integers {
    ($($integer:ty),*) => { $(
        /// The nearest number of JavaScript: beyond 2^53, not every integer is one. A [`BigInt`] is exact.
        impl From<$integer> for HostValue {
            fn from(integer: $integer) -> Self {
                Self::from(Json::from(integer))
            }
        }
    )* };
}
integers!(i32, u32, i64, u64);

/// An array.
impl<T: Into<HostValue>> From<Vec<T>> for HostValue {
    fn from(items: Vec<T>) -> Self {
        Self::array(items.into_iter().map(Into::into))
    }
}

/// `null` for `None`.
impl<T: Into<HostValue>> From<Option<T>> for HostValue {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Self::from(Json::Null), Into::into)
    }
}

impl fmt::Debug for HostValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Data(graph) | Kind::Linked(graph, _) => fmt::Display::fmt(graph, f),
            Kind::Encoded(value) => value.fmt(f),
            Kind::Function(function) => write!(f, "<function {}>", function.name),
            Kind::Promise(_) => f.write_str("<promise>"),
            Kind::Object(members) => f.debug_map().entries(members.iter().map(|(name, value)| (name, value))).finish(),
            Kind::Array(items) => f.debug_list().entries(items).finish(),
        }
    }
}

/// What a host function throws or a promise rejects with: an `Error` in the guest. Only name and message are sent, no stack
/// and no source.
///
/// It is made from any error, from a boxed error that is `Send + Sync`, from `anyhow::Error` and from a text, so `?` converts
/// all of these. Like `anyhow::Error`, it is no [`Error`] itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostError {
    /// The `name` of the error in the guest.
    pub name: String,
    /// The `message` of the error in the guest.
    pub message: String,
}

impl HostError {
    /// Creates an error with the name `Error`.
    pub fn new(message: impl Into<String>) -> Self {
        Self::named("Error", message)
    }

    /// Creates an error with another name, for example `TypeError`.
    pub fn named(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into() }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

impl<'a, E: Into<Box<dyn Error + Send + Sync + 'a>>> From<E> for HostError {
    fn from(error: E) -> Self {
        Self::new(error.into().to_string())
    }
}

/// What a value without functions and promises has.
const DATA: &str = "data without functions and promises";

/// The largest size of an argument as JSON, in bytes.
const MAX_JSON_BYTES: usize = 64 << 20;

/// The arguments of a call. They come from a guest and are not trusted.
#[derive(Debug, Clone)]
pub struct Args {
    graph: Graph,
    budget: Budget,
    /// The charges for the graph, and for the JSON that was made of it.
    charges: Arc<Mutex<Vec<Charge>>>,
}

impl Args {
    /// Arguments that are charged to `budget` with `charge`.
    pub(super) fn new(graph: Graph, budget: &Budget, charge: Charge) -> Self {
        Self { graph, budget: budget.clone(), charges: Arc::new(Mutex::new(vec![charge])) }
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.graph.items(self.graph.root()).map_or(0, <[Datum]>::len)
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All arguments, as a graph whose root is an array.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// An argument; a missing one is `undefined`.
    pub fn get(&self, index: usize) -> &Datum {
        const UNDEFINED: &Datum = &Datum::Undefined;
        self.graph.items(self.graph.root()).and_then(|items| items.get(index)).unwrap_or(UNDEFINED)
    }

    /// A string argument.
    ///
    /// # Errors
    /// A `TypeError` that names the index.
    pub fn str(&self, index: usize) -> Result<&str, HostError> {
        self.get(index).as_str().ok_or_else(|| Self::invalid(index, "a string"))
    }

    /// A number argument.
    ///
    /// # Errors
    /// A `TypeError` that names the index.
    pub fn number(&self, index: usize) -> Result<f64, HostError> {
        self.get(index).as_number().ok_or_else(|| Self::invalid(index, "a number"))
    }

    /// The bytes of a typed array, a `DataView` or an `ArrayBuffer`.
    ///
    /// # Errors
    /// A `TypeError` that names the index.
    pub fn bytes(&self, index: usize) -> Result<&[u8], HostError> {
        self.graph.bytes_of(self.get(index)).ok_or_else(|| Self::invalid(index, "an ArrayBuffer or a view of one"))
    }

    /// An argument as JSON; `None` for `undefined`. It is charged to the run until the arguments are dropped.
    ///
    /// # Errors
    /// A `TypeError` if it is not JSON, or larger as JSON than 64 MiB or than the run may make the host keep: objects that
    /// share members can be small in the guest and exceed any memory as JSON.
    pub fn json(&self, index: usize) -> Result<Option<Json>, HostError> {
        let mut graph = self.graph.clone();
        graph.set_root(self.get(index).clone());
        let what = format!("argument {index}");
        let mut meter = Meter::new(&self.budget, MAX_JSON_BYTES, &|| false);
        let json = graph.to_value(&what).and_then(|value| value.to_json_metered(&what, &mut meter));
        let json = json.map_err(|error: SerializationError| HostError::named("TypeError", error.to_string()))?;
        self.charges.lock().unwrap_or_else(PoisonError::into_inner).push(meter.finish());
        Ok(json)
    }

    /// An argument as a Rust type, from its [JSON](Self::json). `undefined` is read as `null`: as `None` of an
    /// [`Option`].
    ///
    /// ```
    /// use execbox::code::{Args, HostValue};
    ///
    /// let head = HostValue::function("head", |args: Args| {
    ///     let (lines, count) = (args.get_as::<Vec<String>>(0)?, args.get_as::<Option<usize>>(1)?);
    ///     Ok(lines.into_iter().take(count.unwrap_or(10)).collect::<Vec<_>>().into())
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`json`](Self::json), and a `TypeError` that names the place if the argument does not fit the type.
    pub fn get_as<T: DeserializeOwned>(&self, index: usize) -> Result<T, HostError> {
        let json = self.json(index)?.unwrap_or(Json::Null);
        from_json(&json, &format!("argument {index}")).map_err(|error| HostError::named("TypeError", error.to_string()))
    }

    fn invalid(index: usize, expected: &str) -> HostError {
        HostError::named("TypeError", format!("argument {index} is not {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_too_large_as_json_fails() {
        let mut graph = Graph::default();
        let mut doubled = graph.array([]);
        for _ in 0..40 {
            doubled = graph.array([doubled.clone(), doubled]);
        }
        let args = graph.array([doubled]);
        graph.set_root(args);
        let budget = Budget::new(100 << 20);
        let args = Args::new(graph, &budget, Charge::none());
        let error = args.json(0).unwrap_err();
        assert!(error.message.starts_with("argument 0[0]") && error.message.contains("too large"), "{error}");
    }

    #[test]
    fn arguments_are_charged_as_json_until_they_are_dropped() {
        let mut graph = Graph::default();
        let mut doubled = graph.array([]);
        for _ in 0..10 {
            doubled = graph.array([doubled.clone(), doubled]);
        }
        let args = graph.array([doubled]);
        graph.set_root(args);
        let budget = Budget::new(1 << 20);
        let args = Args::new(graph, &budget, Charge::none());
        let kept: Vec<_> = std::iter::from_fn(|| args.json(0).ok()).collect();
        assert!((1..10).contains(&kept.len()), "{}", kept.len());
        drop(args);
        assert_eq!(budget.used(), 0);
    }
}
