//! The JSON Schema of all messages, made from their types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};

use crate::messages::{
    AddProvider, Approve, Approved, AwaitPromise, CallFunction, CallTool, Cancel, CodeDescribed, CodeRun,
    ConnectionUsage, DescribeCode, EventMessage, Execute, Executed, FunctionResult, Initialize, Initialized, Nothing,
    Prewarm, ProviderAdded, RemoveProvider, ReportProgress, RunCode, SelfTested, ServerList, Terminate, ToolResult,
};
use crate::rpc::{RequestId, RpcError};

/// The JSON Schema (2020-12) of the messages in both directions.
///
/// A message matches one of `anyOf`. `methods` is no keyword of JSON Schema: it has, for each method, the schemas of its parameters
/// and of its result, which an answer alone does not show.
pub fn schema() -> Json {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    let mut methods = Methods { generator: settings.into_generator(), ..Methods::default() };
    methods.of_application();
    methods.of_service();
    let id = methods.generator.subschema_for::<RequestId>();
    let error = methods.generator.subschema_for::<RpcError>();
    let Methods { mut generator, application, service, mut messages } = methods;
    messages.push(json!({
        "title": "result",
        "description": "The answer to a request. Its method says which result it has.",
        "type": "object",
        "properties": { "jsonrpc": { "const": "2.0" }, "id": id, "result": true },
        "required": ["jsonrpc", "id", "result"],
    }));
    messages.push(json!({
        "title": "error",
        "description": "The answer to a request that failed. The `id` is `null` if the line was no request.",
        "type": "object",
        "properties": { "jsonrpc": { "const": "2.0" }, "id": { "anyOf": [id, { "type": "null" }] }, "error": error },
        "required": ["jsonrpc", "id", "error"],
    }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages of `execbox serve`, version 1",
        "anyOf": messages,
        "methods": { "application": application, "service": service },
        "$defs": generator.take_definitions(true),
    })
}

#[derive(Default)]
struct Methods {
    generator: SchemaGenerator,
    application: Map<String, Json>,
    service: Map<String, Json>,
    messages: Vec<Json>,
}

/// The sender of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Application,
    Service,
}

impl Methods {
    fn of_application(&mut self) {
        self.add::<Initialize, Initialized>(Sender::Application, "initialize");
        self.add::<AddProvider, ProviderAdded>(Sender::Application, "add_provider");
        self.add::<RemoveProvider, Nothing>(Sender::Application, "remove_provider");
        self.add::<Nothing, ServerList>(Sender::Application, "servers");
        self.add::<DescribeCode, CodeDescribed>(Sender::Application, "describe_code");
        self.add::<Execute, Executed>(Sender::Application, "execute");
        self.add::<RunCode, CodeRun>(Sender::Application, "run_code");
        self.add::<Cancel, Nothing>(Sender::Application, "cancel");
        self.add::<Terminate, Nothing>(Sender::Application, "terminate");
        self.add::<ReportProgress, Nothing>(Sender::Application, "report_progress");
        self.add::<Prewarm, Nothing>(Sender::Application, "prewarm");
        self.add::<Nothing, SelfTested>(Sender::Application, "self_test");
        self.add::<Nothing, ConnectionUsage>(Sender::Application, "usage");
    }

    fn of_service(&mut self) {
        self.add::<CallTool<'_>, ToolResult>(Sender::Service, "call_tool");
        self.add::<CallFunction<'_>, FunctionResult>(Sender::Service, "call_function");
        self.add::<AwaitPromise<'_>, FunctionResult>(Sender::Service, "await_promise");
        self.add::<Approve<'_>, Approved>(Sender::Service, "approve");
        self.add::<Cancel, Nothing>(Sender::Service, "cancel");
        self.add::<EventMessage<'_>, Nothing>(Sender::Service, "event");
    }

    fn add<P: JsonSchema, R: JsonSchema>(&mut self, sender: Sender, method: &str) {
        let params = self.generator.subschema_for::<P>();
        let result = self.generator.subschema_for::<R>();
        let is_notified = sender == Sender::Service && matches!(method, "cancel" | "event");
        let by_method = if sender == Sender::Application { &mut self.application } else { &mut self.service };
        let schemas =
            if is_notified { json!({ "params": params }) } else { json!({ "params": params, "result": result }) };
        by_method.insert(method.to_owned(), schemas);
        if sender == Sender::Service && method == "cancel" {
            return; // As that of the application.
        }
        let id = self.generator.subschema_for::<RequestId>();
        let mut required = vec!["jsonrpc", "method"];
        let mut properties = json!({ "jsonrpc": { "const": "2.0" }, "method": { "const": method }, "params": params });
        if !is_notified {
            properties["id"] = json!(id);
        }
        if serde_json::to_value(&params).is_ok_and(|params| params["$ref"] != "#/$defs/Nothing") {
            required.push("params");
        }
        let title = if is_notified { "notification" } else { "request" };
        self.messages.push(json!({
            "title": format!("{method} ({title})"),
            "type": "object",
            "properties": properties,
            "required": required,
        }));
    }
}
