//! The functions and promises that the host gives to a run.
//!
//! Values of the host become graphs, in which functions and promises are numbers. The functions and promises themselves
//! stay here, under those numbers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context;

use execbox_core::contract::module::{FIRST_FUNCTION, to_graph};
use execbox_core::engine::{CallId, FunctionId, Pending};
use execbox_core::value::{Datum, FunctionKind, Graph, Node, SerializationError, Value};
use futures_util::FutureExt as _;

use super::value::{Args, Call, Function, HostError, HostResult, HostValue, Kind};
use crate::session::in_flight::InFlight;

/// The most functions, and the most promises, that one run may be given, in its options and by functions.
const MAX_GIVEN: usize = 1_000_000;

/// A call or a promise with its result.
pub(crate) type Settled = (Pending, Result<Value, Value>);

/// The functions and promises of one run. Dropping this drops the calls and promises that are not settled.
#[derive(Default)]
pub(crate) struct HostCalls {
    functions: Vec<Function>,
    promises: u32,
    in_flight: InFlight<(Pending, HostResult)>,
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
                let number = u32::try_from(self.functions.len()).ok().filter(|_| self.functions.len() < MAX_GIVEN);
                let number = number.ok_or_else(too_many)? + FIRST_FUNCTION;
                let name = function.name.clone();
                self.functions.push(function);
                graph.function(number, kind, name)
            }
            Kind::Promise(promise) => {
                let number = self.promises;
                self.promises =
                    number.checked_add(1).filter(|next| *next as usize <= MAX_GIVEN).ok_or_else(too_many)?;
                self.in_flight.add(promise.map(move |result| (Pending::Promise(number), result)));
                graph.add(Node::Promise(number))
            }
        })
    }

    /// Begins a call. A call that finishes at once is returned, every other one comes from
    /// [`poll_settled`](Self::poll_settled). `budget` is the most bytes that the arguments may take.
    pub(crate) fn begin(
        &mut self,
        id: CallId,
        function: FunctionId,
        args: &Value,
        budget: usize,
        cx: &mut Context<'_>,
    ) -> Option<Settled> {
        let pending = Pending::Call(id);
        let number = function.0.checked_sub(FIRST_FUNCTION);
        let Some(function) = number.and_then(|number| self.functions.get(number as usize)).cloned() else {
            return Some((pending, Err(thrown(&HostError::new("the host gave no such function")))));
        };
        let args = match to_graph(args, "args", budget) {
            Ok(args) => Args::new(args),
            Err(error) => return Some((pending, Err(thrown(&serialization(&error))))),
        };
        // A panic is a bug of the function. Its message stays on the host: the guest learns only that the function crashed.
        let crashed = {
            let name = function.name.clone();
            move || HostError::new(format!("{name} crashed"))
        };
        let (pending, result) = match function.call {
            Call::Sync(call) => {
                (pending, catch_unwind(AssertUnwindSafe(|| call(args))).unwrap_or_else(|_| Err(crashed())))
            }
            Call::Async(call) => {
                let call = AssertUnwindSafe(async move { call(args).await }).catch_unwind();
                let call = call.map(move |result| (pending, result.unwrap_or_else(|_| Err(crashed()))));
                self.in_flight.begin(call, cx)?
            }
        };
        Some((pending, self.settle(result)))
    }

    /// The next call or promise that is settled, if there is one.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        let (pending, result) = self.in_flight.poll_next(cx)?;
        Some((pending, self.settle(result)))
    }

    /// Whether no call and no promise is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Drops all calls and promises that are not settled.
    pub(crate) fn cancel(&mut self) {
        self.in_flight.clear();
    }

    fn settle(&mut self, result: HostResult) -> Result<Value, Value> {
        let graph = result.and_then(|value| self.lower(value)).map_err(|error| thrown(&error))?;
        graph.to_value("the function's value").map_err(|error| thrown(&serialization(&error)))
    }
}

fn too_many() -> HostError {
    HostError::named("RangeError", format!("the host has given more than {MAX_GIVEN} functions or promises"))
}

fn serialization(error: &SerializationError) -> HostError {
    HostError::named("SerializationError", error.to_string())
}

/// An error as a value.
fn thrown(error: &HostError) -> Value {
    let mut graph = Graph::default();
    let root = graph.error(error.name.as_str(), error.message.as_str());
    graph.set_root(root);
    graph.to_value("error").unwrap_or_else(|_| Value::undefined())
}
