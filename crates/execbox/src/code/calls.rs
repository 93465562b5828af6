//! The functions and promises that the host gives to a run.
//!
//! Values of the host become graphs, in which functions and promises are numbers. The functions and promises themselves
//! stay here, under those numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context;

use execbox_core::budget::{Budget, Meter};
use execbox_core::contract::module::{FIRST_FUNCTION, to_graph};
use execbox_core::engine::{Call as EngineCall, Pending};
use execbox_core::error::ErrorCode;
use execbox_core::value::{Datum, Graph, HostFunction, Node, NodeId, SerializationError, Value};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::provider;
use super::value::{Args, Call, Function, Given, HostError, HostResult, HostValue, Kind};
use crate::call::{Attached, PendingApprovals};
use crate::events::{CallEnd, CallSpan, Observation};
use crate::in_flight::InFlight;
use crate::tools::dispatch::CallScope;

/// The most functions, and the most promises, that one run may be given, in its options and by functions.
const MAX_GIVEN: usize = 1_000_000;

/// A call or a promise with its result.
pub(crate) type Settled = (Pending, Result<Value, Value>);

/// The functions and promises of one run. Dropping this drops the calls and promises that are not settled.
pub(crate) struct HostCalls {
    functions: Vec<Function>,
    /// The number of promises that the host has given.
    promises: u32,
    pending_promises: InFlight<(Pending, HostResult)>,
    in_flight: InFlight<(Pending, HostResult, CallSpan)>,
    approvals: PendingApprovals,
    observation: Observation,
    attached: Attached,
    /// Whether the host knows functions by numbers.
    by_number: bool,
}

/// The number of functions in values of a guest that the host has given no number, for a host that knows functions by numbers: tools,
/// and what no function is.
pub const OTHER_FUNCTION: u32 = u32::MAX;

impl HostCalls {
    /// Creates an empty set that runs at most `max` calls at once. Tools can read what is `attached`.
    pub(crate) fn new(max: usize, observation: Observation, attached: Attached, by_number: bool) -> Self {
        Self {
            functions: Vec::new(),
            promises: 0,
            pending_promises: InFlight::new(MAX_GIVEN),
            in_flight: InFlight::new(max),
            approvals: PendingApprovals::default(),
            observation,
            attached,
            by_number,
        }
    }

    /// Converts a value to a graph. Its functions and promises are kept here.
    pub(crate) fn lower(&mut self, value: HostValue) -> Result<Graph, HostError> {
        let value = match value.0 {
            Kind::Data(graph) => return Ok(graph),
            Kind::Encoded(value) => return decoded(&value),
            kind => HostValue(kind),
        };
        let mut graph = Graph::default();
        let root = self.add(&mut graph, value)?;
        graph.set_root(root);
        Ok(graph)
    }

    fn add(&mut self, graph: &mut Graph, value: HostValue) -> Result<Datum, HostError> {
        Ok(match value.0 {
            Kind::Data(data) => graph.append(data),
            Kind::Linked(mut data, given) => {
                for (at, given) in given {
                    let node = match given {
                        Given::Function(function) => Node::Function(self.keep_function(function)?),
                        Given::Promise(promise) => Node::Promise(self.keep_promise(promise)?),
                    };
                    if let Some(place) = data.get_mut(at) {
                        *place = node;
                    }
                }
                graph.append(data)
            }
            Kind::Encoded(value) => graph.append(decoded(&value)?),
            Kind::Object(members) => {
                let mut lowered: Vec<(String, Datum)> = Vec::with_capacity(members.len());
                let mut places = HashMap::<String, usize>::with_capacity(members.len());
                for (name, member) in members {
                    let member = self.add(graph, member)?;
                    match places.entry(name.clone()) {
                        Entry::Occupied(place) => lowered[*place.get()].1 = member,
                        Entry::Vacant(place) => {
                            place.insert(lowered.len());
                            lowered.push((name, member));
                        }
                    }
                }
                graph.add(Node::Object(lowered))
            }
            Kind::Array(items) => {
                let items = items.into_iter().map(|item| self.add(graph, item)).collect::<Result<_, _>>()?;
                graph.add(Node::Array(items))
            }
            Kind::Function(function) => graph.add(Node::Function(self.keep_function(function)?)),
            Kind::Promise(promise) => graph.add(Node::Promise(self.keep_promise(promise)?)),
        })
    }

    /// Keeps a function. Returns it as the guest knows it.
    fn keep_function(&mut self, function: Function) -> Result<HostFunction, HostError> {
        let number = u32::try_from(self.functions.len()).ok().filter(|_| self.functions.len() < MAX_GIVEN);
        let number = number.ok_or_else(too_many)? + FIRST_FUNCTION;
        let known = HostFunction { number, kind: function.kind, name: function.name.clone() };
        self.functions.push(function);
        Ok(known)
    }

    /// Replaces the numbers of functions by those that the host [gave](HostValue::with_handles) them, in a value of the guest. A
    /// guest that claims other numbers gets [`OTHER_FUNCTION`].
    pub(crate) fn restore_numbers(&self, value: &mut Graph) {
        if !self.by_number {
            return;
        }
        let is_function = |(id, node): (NodeId, &Node)| matches!(node, Node::Function(_)).then_some(id);
        let functions: Vec<NodeId> = value.nodes_with_ids().filter_map(is_function).collect();
        for id in functions {
            let Some(Node::Function(function)) = value.get_mut(id) else { continue };
            let own =
                function.number.checked_sub(FIRST_FUNCTION).and_then(|number| self.functions.get(number as usize));
            function.number = own.and_then(|own| own.number).unwrap_or(OTHER_FUNCTION);
        }
    }

    /// Keeps a promise. Returns its number.
    fn keep_promise(&mut self, promise: BoxFuture<'static, HostResult>) -> Result<u32, HostError> {
        let number = self.promises;
        self.promises = number.checked_add(1).filter(|next| *next as usize <= MAX_GIVEN).ok_or_else(too_many)?;
        self.pending_promises.add(promise.map(move |result| (Pending::Promise(number), result)));
        Ok(number)
    }

    /// Begins a call. A call that finishes at once is returned, every other one comes from
    /// [`poll_settled`](Self::poll_settled). The arguments are charged to `budget` until they are dropped.
    pub(crate) fn begin(&mut self, call: &EngineCall, budget: &Budget, cx: &mut Context<'_>) -> Option<Settled> {
        let pending = Pending::Call(call.id);
        let number = call.function.0.checked_sub(FIRST_FUNCTION);
        let Some(function) = number.and_then(|number| self.functions.get(number as usize)).cloned() else {
            return Some((pending, Err(thrown(&HostError::new("the host gave no such function")))));
        };
        let mut meter = Meter::new(budget, usize::MAX, &|| false);
        let args = match to_graph(&call.input, "args", &mut meter) {
            Ok(mut args) => {
                self.restore_numbers(&mut args);
                Args::new(args, budget, meter.finish())
            }
            Err(error) => return Some((pending, Err(thrown(&serialization(&error))))),
        };
        let (id, size, observation) = (call.id, call.input.as_bytes().len(), self.observation.clone());
        let (pending, result, span) = match function.call {
            Call::Sync(call) => {
                let span = observation.begin_call(id, None, &function.name, || size);
                let result = catch_unwind(AssertUnwindSafe(|| call(args)));
                (pending, result.unwrap_or_else(|_panic| Err(crashed(&function.name))), span)
            }
            Call::Async(call) => {
                let call = async move {
                    let span = observation.begin_call(id, None, &function.name, || size);
                    let result = AssertUnwindSafe(async { call(args).await }).catch_unwind().await;
                    (pending, result.unwrap_or_else(|_panic| Err(crashed(&function.name))), span)
                };
                self.in_flight.begin(call, cx)?
            }
            Call::Tool(provider, tool) => {
                let (approvals, attached) = (self.approvals.clone(), self.attached.clone());
                let scope = CallScope { observation, approvals, attached, ..CallScope::default() };
                let call = provider::call(provider, tool, id, args, scope);
                self.in_flight.begin(call.map(move |result| (pending, result, CallSpan::default())), cx)?
            }
        };
        Some((pending, self.settle(result, span)))
    }

    /// The next call or promise that is settled, if there is one.
    pub(crate) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Option<Settled> {
        if let Some((call, result, span)) = self.in_flight.poll_next(cx) {
            return Some((call, self.settle(result, span)));
        }
        let (promise, result) = self.pending_promises.poll_next(cx)?;
        Some((promise, self.settle(result, CallSpan::default())))
    }

    /// Whether no call and no promise is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.pending_promises.is_empty()
    }

    /// Whether there are calls in flight, and all wait for a person. The task is woken when that changes.
    pub(crate) fn await_approval(&self, cx: &Context<'_>) -> bool {
        let is_waiting = !self.in_flight.is_empty() && self.pending_promises.is_empty();
        is_waiting && self.approvals.poll_count(cx) >= self.in_flight.len()
    }

    /// The most calls that were in flight at once.
    pub(crate) fn peak(&self) -> usize {
        self.in_flight.peak()
    }

    /// Drops all calls and promises that are not settled.
    pub(crate) fn cancel(&mut self) {
        self.in_flight.clear();
        self.pending_promises.clear();
    }

    fn settle(&mut self, result: HostResult, span: CallSpan) -> Result<Value, Value> {
        let settled = match result {
            Ok(HostValue(Kind::Encoded(value))) => Ok(value),
            Ok(value) => self
                .lower(value)
                .and_then(|graph| graph.to_value("the function's value").map_err(|error| serialization(&error))),
            Err(error) => Err(error),
        };
        span.end(|| match &settled {
            Ok(value) => CallEnd::Returned { bytes: value.as_bytes().len() },
            Err(error) => CallEnd::Failed { code: ErrorCode::ToolError, message: &error.message },
        });
        settled.map_err(|error| thrown(&error))
    }
}

/// A panic is a bug of the function. Its message stays on the host: the guest learns only that the function crashed.
fn crashed(name: &str) -> HostError {
    HostError::new(format!("{name} crashed"))
}

fn too_many() -> HostError {
    HostError::named("RangeError", format!("the host has given more than {MAX_GIVEN} functions or promises"))
}

fn decoded(value: &Value) -> Result<Graph, HostError> {
    value.to_graph("the host's value", usize::MAX).map_err(|error| serialization(&error))
}

fn serialization(error: &SerializationError) -> HostError {
    HostError::named("SerializationError", error.to_string())
}

/// Encodes an error as a value of the guest.
fn thrown(error: &HostError) -> Value {
    let mut graph = Graph::default();
    let root = graph.error(error.name.as_str(), error.message.as_str());
    graph.set_root(root);
    graph.to_value("error").unwrap_or_else(|_| Value::undefined())
}
