//! Host values: what a run is given, functions and promises among it (code-execution specification §3.5).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use execbox_core::value::{Datum, Graph, SerializationError};
use futures_util::future::BoxFuture;
use serde_json::Value as Json;

/// A value of the host, for a guest: data, functions, promises, and objects and arrays of those.
///
/// Data is copied into the guest (structured clone); functions stay here and are called from there.
///
/// ```
/// use execbox::code::{Args, HostError, HostValue};
/// use serde_json::json;
///
/// let files = HostValue::object([
///     ("version", HostValue::from(json!({ "major": 1 }))),
///     ("exists", HostValue::function("exists", |args: Args| Ok(HostValue::from(args.str(0)? == "/etc")))),
///     ("read", HostValue::async_function("read", async |args: Args| {
///         Err(HostError::new(format!("there is no file {}", args.str(0)?)))
///     })),
/// ]);
/// ```
pub struct HostValue(pub(super) Kind);

pub(super) enum Kind {
    Data(Graph),
    Function(Function),
    Promise(BoxFuture<'static, HostResult>),
    Object(Vec<(String, HostValue)>),
    Array(Vec<HostValue>),
}

/// What a host function or a promise comes to.
pub type HostResult = Result<HostValue, HostError>;

#[derive(Clone)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) call: Call,
}

#[derive(Clone)]
pub(super) enum Call {
    Sync(Arc<dyn Fn(Args) -> HostResult + Send + Sync>),
    Async(Arc<dyn Fn(Args) -> BoxFuture<'static, HostResult> + Send + Sync>),
}

impl HostValue {
    /// `undefined`.
    pub fn undefined() -> Self {
        Self::from(Graph::default())
    }

    /// A function that answers at once: the guest stands still inside the call. It runs on the task that drives the run,
    /// and should be quick.
    pub fn function(name: impl Into<String>, call: impl Fn(Args) -> HostResult + Send + Sync + 'static) -> Self {
        Self(Kind::Function(Function { name: name.into(), call: Call::Sync(Arc::new(call)) }))
    }

    /// A function that returns a promise. Its future is dropped when the run ends before it.
    pub fn async_function<F, Fut>(name: impl Into<String>, call: F) -> Self
    where
        F: Fn(Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HostResult> + Send + 'static,
    {
        let call = move |args| -> BoxFuture<'static, HostResult> { Box::pin(call(args)) };
        Self(Kind::Function(Function { name: name.into(), call: Call::Async(Arc::new(call)) }))
    }

    /// A promise. It is driven by the run, and dropped with it.
    pub fn promise(future: impl Future<Output = HostResult> + Send + 'static) -> Self {
        Self(Kind::Promise(Box::pin(future)))
    }

    /// A plain object. Of two members of one name, the later counts.
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
        Self::from(Graph::from_json(&json))
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
primitives!(bool, f64, &str, String);

impl From<i32> for HostValue {
    fn from(number: i32) -> Self {
        Self::from(f64::from(number))
    }
}

impl fmt::Debug for HostValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Data(graph) => match graph.to_tagged_json("value") {
                Ok(json) => write!(f, "{json}"),
                Err(error) => write!(f, "<{error}>"),
            },
            Kind::Function(function) => write!(f, "<function {}>", function.name),
            Kind::Promise(_) => f.write_str("<promise>"),
            Kind::Object(members) => f.debug_map().entries(members.iter().map(|(name, value)| (name, value))).finish(),
            Kind::Array(items) => f.debug_list().entries(items).finish(),
        }
    }
}

/// What a host function throws, or a promise rejects with: an `Error` in the guest. Its words cross as they are; no stack
/// and no source does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct HostError {
    /// The error's name in the guest.
    pub name: String,
    /// Its message.
    pub message: String,
}

impl HostError {
    /// An `Error` with that message.
    pub fn new(message: impl Into<String>) -> Self {
        Self::named("Error", message)
    }

    /// An error of that name, for example `TypeError`.
    pub fn named(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into() }
    }
}

/// What one argument may take as JSON.
const JSON_BYTES: usize = 64 << 20;

/// The arguments of a call. They come from a guest: check them.
#[derive(Debug, Clone)]
pub struct Args {
    graph: Graph,
}

impl Args {
    pub(super) fn new(graph: Graph) -> Self {
        Self { graph }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.graph.items(self.graph.root()).map_or(0, <[Datum]>::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, as one graph whose root is an array.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// One of them; a missing one is `undefined`.
    pub fn get(&self, index: usize) -> &Datum {
        const UNDEFINED: &Datum = &Datum::Undefined;
        self.graph.items(self.graph.root()).and_then(|items| items.get(index)).unwrap_or(UNDEFINED)
    }

    /// One that must be a string. The error is a `TypeError` that says which is not.
    pub fn str(&self, index: usize) -> Result<&str, HostError> {
        self.get(index).as_str().ok_or_else(|| Self::wrong(index, "a string"))
    }

    /// One that must be a number.
    pub fn number(&self, index: usize) -> Result<f64, HostError> {
        self.get(index).as_number().ok_or_else(|| Self::wrong(index, "a number"))
    }

    /// One that must be bytes: a typed array, a `DataView` or an `ArrayBuffer`.
    pub fn bytes(&self, index: usize) -> Result<&[u8], HostError> {
        self.graph.bytes_of(self.get(index)).ok_or_else(|| Self::wrong(index, "an ArrayBuffer or a view of one"))
    }

    /// One that must be JSON; `undefined` is `None`. As JSON it is at most 64 MiB, roughly counted: few objects that name each
    /// other again and again would be more than fits any memory.
    pub fn json(&self, index: usize) -> Result<Option<Json>, HostError> {
        let mut graph = self.graph.clone();
        graph.set_root(self.get(index).clone());
        let what = format!("argument {index}");
        let json = graph.to_value(&what).and_then(|value| value.to_json(&what, JSON_BYTES));
        json.map_err(|error: SerializationError| HostError::named("TypeError", error.to_string()))
    }

    fn wrong(index: usize, expected: &str) -> HostError {
        HostError::named("TypeError", format!("argument {index} is not {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_too_much_as_json_is_refused() {
        let mut graph = Graph::default();
        let mut doubled = graph.array([]);
        for _ in 0..40 {
            doubled = graph.array([doubled.clone(), doubled]);
        }
        let args = graph.array([doubled]);
        graph.set_root(args);
        let error = Args::new(graph).json(0).unwrap_err();
        assert!(error.message.starts_with("argument 0[0]") && error.message.contains("too large"), "{error}");
    }
}
