//! What a run may call, and what is under way of it.
//!
//! Values of the host become graphs here, in which functions and promises are numbers; the functions and promises
//! themselves are kept by those numbers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use execbox_core::contract::module::{FIRST_FUNCTION, take_apart};
use execbox_core::engine::{CallId, Pending};
use execbox_core::value::{Datum, FunctionKind, Graph, Node, Refusal, Value};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::value::{Args, Call, Function, HostError, HostResult, HostValue, Kind};

/// How many functions and promises one run may be given: what functions return counts, too.
const MOST: usize = 1_000_000;

/// A call or a promise that has come to something.
pub(crate) type Settled = (Pending, Result<Value, Value>);

type Waiting = Pin<Box<dyn Future<Output = (Pending, HostResult)> + Send>>;

/// The functions and promises of one run. Dropping it drops what is under way.
#[derive(Default)]
pub(crate) struct HostCalls {
    functions: Vec<Function>,
    promises: u32,
    waiting: FuturesUnordered<Waiting>,
}

impl HostCalls {
    /// A value as a graph.
    pub(crate) fn lower(&mut self, value: HostValue) -> Result<Graph, HostError> {
        if let Kind::Data(graph) = value.0 {
            return Ok(graph);
        }
        let mut graph = Graph::default();
        let root = self.add(&mut graph, value)?;
        graph.set_root(root);
        Ok(graph)
    }

    fn add(&mut self, graph: &mut Graph, value: HostValue) -> Result<Datum, HostError> {
        Ok(match value.0 {
            Kind::Data(data) => graph.append(data),
            Kind::Object(members) => {
                let mut lowered: Vec<(String, Datum)> = Vec::with_capacity(members.len());
                for (name, member) in members {
                    let member = self.add(graph, member)?;
                    match lowered.iter_mut().find(|(taken, _)| *taken == name) {
                        Some((_, earlier)) => *earlier = member,
                        None => lowered.push((name, member)),
                    }
                }
                graph.add(Node::Object(lowered))
            }
            Kind::Array(items) => {
                let items = items.into_iter().map(|item| self.add(graph, item)).collect::<Result<_, _>>()?;
                graph.add(Node::Array(items))
            }
            Kind::Function(function) => {
                let kind = match function.call {
                    Call::Sync(_) => FunctionKind::Sync,
                    Call::Async(_) => FunctionKind::Async,
                };
                let number = u32::try_from(self.functions.len()).ok().filter(|_| self.functions.len() < MOST);
                let number = number.ok_or_else(too_many)? + FIRST_FUNCTION;
                let name = function.name.clone();
                self.functions.push(function);
                graph.function(number, kind, name)
            }
            Kind::Promise(promise) => {
                let number = self.promises;
                self.promises = number.checked_add(1).filter(|next| *next as usize <= MOST).ok_or_else(too_many)?;
                self.waiting.push(Box::pin(promise.map(move |result| (Pending::Promise(number), result))));
                graph.add(Node::Promise(number))
            }
        })
    }

    /// Begins a call. Many finish at once, and are given back; the others are watched by
    /// [`poll_settled`](Self::poll_settled). `budget` is how many bytes the arguments may take.
    pub(crate) fn begin(
        &mut self,
        id: CallId,
        function: usize,
        args: &Value,
        budget: usize,
        cx: &mut Context<'_>,
    ) -> Option<Settled> {
        let pending = Pending::Call(id);
        let number = function.checked_sub(FIRST_FUNCTION as usize);
        let Some(function) = number.and_then(|number| self.functions.get(number)).cloned() else {
            return Some((pending, Err(thrown(&HostError::new("the host gave no such function")))));
        };
        let args = match take_apart(args, "args", budget) {
            Ok(args) => Args::new(args),
            Err(refusal) => return Some((pending, Err(thrown(&serialization(&refusal))))),
        };
        // A panic is a bug of the function. It stays the function's: the guest learns that it failed, and not with what words.
        let crashed = {
            let name = function.name.clone();
            move || HostError::new(format!("{name} crashed"))
        };
        match function.call {
            Call::Sync(call) => {
                let result = catch_unwind(AssertUnwindSafe(|| call(args))).unwrap_or_else(|_| Err(crashed()));
                Some((pending, self.settle(result)))
            }
            Call::Async(call) => {
                let call = AssertUnwindSafe(async move { call(args).await }).catch_unwind();
                let mut call: Waiting =
                    Box::pin(call.map(move |result| (pending, result.unwrap_or_else(|_| Err(crashed())))));
                match call.as_mut().poll(cx) {
                    Poll::Ready((pending, result)) => Some((pending, self.settle(result))),
                    Poll::Pending => {
                        self.waiting.push(call);
                        None
                    }
                }
            }
        }
    }

    /// The next call or promise that has come to something.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        match self.waiting.poll_next_unpin(cx) {
            Poll::Ready(Some((pending, result))) => Some((pending, self.settle(result))),
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    /// Lets go of everything that is under way.
    pub(crate) fn cancel(&mut self) {
        self.waiting.clear();
    }

    fn settle(&mut self, result: HostResult) -> Result<Value, Value> {
        let graph = result.and_then(|value| self.lower(value)).map_err(|error| thrown(&error))?;
        graph.to_value("the function's value").map_err(|refusal| thrown(&serialization(&refusal)))
    }
}

fn too_many() -> HostError {
    HostError::named("RangeError", format!("the host has given more than {MOST} functions or promises"))
}

fn serialization(refusal: &Refusal) -> HostError {
    HostError::named("SerializationError", refusal.to_string())
}

/// An error as a value.
fn thrown(error: &HostError) -> Value {
    let mut graph = Graph::default();
    let root = graph.error(error.name.as_str(), error.message.as_str());
    graph.set_root(root);
    graph.to_value("error").unwrap_or_else(|_| Value::undefined())
}
