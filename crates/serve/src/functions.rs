//! Functions and promises of the application, for runs. Values are tagged JSON in both directions.

use std::cell::RefCell;
use std::sync::Arc;

use execbox::code::{
    Args, AttachedBytes, FunctionKind, Graph, Handles, HostError, HostFunction, HostResult, HostValue,
};
use execbox_core::budget::Meter;
use execbox_core::value::parse_json;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::execution::ExecutionKey;
use crate::messages::{AwaitPromise, CallFunction};
use crate::peer::{Answer, Peer, Reply};
use crate::rpc::{self, RpcError};

/// What the numbers of an application stand for in one run.
#[derive(Clone)]
pub(crate) struct RunHandles(Arc<Inner>);

struct Inner {
    peer: Peer,
    key: ExecutionKey,
}

impl RunHandles {
    pub(crate) fn new(peer: Peer, key: ExecutionKey) -> Self {
        Self(Arc::new(Inner { peer, key }))
    }

    async fn call(self, function: u32, args: Args) -> HostResult {
        let Inner { peer, key } = &*self.0;
        let attached = RefCell::default();
        let arguments =
            write(args.graph(), "args", peer, &attached).map_err(|error| HostError::named("TypeError", error))?;
        drop(args);
        let params = CallFunction { execution: &key.id, function, arguments: &arguments };
        let attachments = attached.into_inner().into_inner();
        let answer = peer.request("call_function", &params, attachments, &key.budget, None).await;
        self.read(answer)
    }

    async fn promise(self, promise: u32) -> HostResult {
        let Inner { peer, key } = &*self.0;
        let params = AwaitPromise { execution: &key.id, promise };
        let answer = peer.request("await_promise", &params, Vec::new(), &key.budget, None).await;
        self.read(answer)
    }

    /// The value or the error of an answer.
    fn read(&self, answer: Answer) -> HostResult {
        let Reply { result, attachments, charge: _charge } = answer.map_err(|error| thrown(&error))?;
        let unreadable = |reason: &dyn std::fmt::Display| {
            HostError::new(format!("the application's answer cannot be read: {reason}"))
        };
        let mut meter = Meter::new(&self.0.key.budget, usize::MAX, &|| false);
        let json = parse_json(result.get(), &mut meter).map_err(|error| unreadable(&error))?;
        let value = match &json {
            Json::Object(members) if members.keys().all(|key| key == "value") => members.get("value"),
            _ => return Err(unreadable(&"expected an object with `value`")),
        };
        let Some(value) = value else { return Ok(HostValue::undefined()) };
        let graph = Graph::from_tagged_json_with(value, "value", &mut AttachedBytes::from(attachments));
        let graph = graph.map_err(|error| unreadable(&error))?;
        HostValue::with_handles(graph, "value", self).map_err(|error| unreadable(&error))
    }
}

impl Handles for RunHandles {
    fn function(&self, function: &HostFunction) -> Option<HostValue> {
        let (handles, number, name) = (self.clone(), function.number, function.name.as_str());
        let call = move |args: Args| handles.clone().call(number, args);
        match function.kind {
            FunctionKind::Async => Some(HostValue::async_function(name, call)),
            FunctionKind::Sync => Some(HostValue::blocking_function(name, call)),
            FunctionKind::Notify | FunctionKind::Log => None,
        }
    }

    fn promise(&self, number: u32) -> Option<HostValue> {
        Some(HostValue::promise(self.clone().promise(number)))
    }
}

/// Writes a value as tagged JSON, with long byte strings attached if the application reads attachments.
pub(crate) fn write(
    graph: &Graph,
    what: &str,
    peer: &Peer,
    attached: &RefCell<AttachedBytes>,
) -> Result<Box<RawValue>, String> {
    let tagged = graph.as_tagged_json(what);
    let tagged = if peer.attaches() { tagged.attaching(attached) } else { tagged };
    let written = rpc::write_raw(&tagged);
    written.map_err(|error| tagged.refusal().map_or_else(|| error.to_string(), |reason| reason.to_string()))
}

/// What the program sees of an error of the application.
fn thrown(error: &RpcError) -> HostError {
    let name = error.data.as_ref().and_then(|data| data.get("name")?.as_str());
    HostError::named(name.unwrap_or("Error"), error.message.as_str())
}
