//! A tool of an MCP server as a tool of a provider.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use execbox::{Effect, Tool, ToolContext, ToolError};
use execbox_core::budget::Charge;
use rmcp::model::{
    self, CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ErrorCode, ToolAnnotations,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value as Json, json};
use tokio::runtime::Handle;

use super::answers::Kept;
use super::call_result::with_data;
use super::input::{MAX_ROUNDS, Relayed, RequiredInput, add, failed, pause};
use super::progress::{InProgress, Waiting};
use super::requests::Asker;
use super::{ResultFormat, Route, Router, UpstreamOptions, WholeAnswer, call_result, lenient, no_response, reason};
use crate::Secrets;
use crate::clients::{Channel, Origin};
use crate::shapes::SeenTool;
use crate::text::json_exceeds;

/// Converts a tool. It holds `catalog`, the charge for the list of tools.
pub(super) fn import(
    tool: model::Tool,
    namespace: &str,
    router: &Arc<dyn Router>,
    options: &UpstreamOptions,
    catalog: &Arc<OnceLock<Charge>>,
) -> Tool {
    let name = tool.name.into_owned();
    let catalog = Arc::clone(catalog);
    let output = tool.output_schema.map(Arc::unwrap_or_clone);
    let has_output = output.is_some();
    let seen = options.shapes.clone().filter(|_| !has_output && options.results == ResultFormat::Data);
    let input = Json::Object(Arc::unwrap_or_clone(tool.input_schema));
    let seen = seen.map(|shapes| (shapes, Arc::new(SeenTool::new(namespace, &name, Some(&input)))));
    let (router, called, results, timeout) = (Arc::clone(router), name.clone(), options.results, options.call_timeout);
    let (max_bytes, secrets) = (options.max_result_bytes, options.secrets.clone());
    let effect = effect(tool.annotations.as_ref());
    let mut imported = Tool::new(name, move |input, context| {
        let (router, name, secrets) = (Arc::clone(&router), called.clone(), secrets.clone());
        let (catalog, seen) = (Arc::clone(&catalog), seen.clone());
        async move {
            let _catalog = catalog;
            let whole = context.attached::<WholeAnswer>().cloned();
            let format = |result: Json, kept: &mut Kept| {
                if json_exceeds(&result, max_bytes) {
                    return Err(ToolError::new(format!("result longer than {max_bytes} bytes")));
                }
                whole.inspect(|whole| whole.set(Ok(result.clone())));
                call_result::formatted(result, results, has_output, kept)
            };
            let result = call(&*router, name, input, context, timeout, &secrets, format).await?;
            if let Some((shapes, tool)) = seen {
                shapes.record(&tool, &result, &secrets);
            }
            Ok(result)
        }
    })
    .input_schema(input)
    .effect(effect);
    if let Some(description) = tool.description {
        imported = imported.description(description);
    }
    match (results, output) {
        (ResultFormat::Envelope, None) => imported.output_schema(Arc::clone(&PLAIN_ENVELOPE)),
        (ResultFormat::Envelope, output) => imported.output_schema(envelope_schema(output)),
        (ResultFormat::Data, Some(output)) => imported.output_schema(Json::Object(output)),
        (ResultFormat::Data, None) => imported,
    }
}

/// The effect that the server states. A tool without annotations states none, although MCP's default is destructive.
pub(super) fn effect(annotations: Option<&ToolAnnotations>) -> Effect {
    match annotations.map(|annotations| (annotations.read_only_hint, annotations.destructive_hint)) {
        Some((Some(true), _)) => Effect::ReadOnly,
        Some((_, Some(true))) => Effect::Destructive,
        Some((_, Some(false))) => Effect::Additive,
        Some((_, None)) | None => Effect::Unstated,
    }
}

/// Calls the tool and formats its result.
async fn call(
    router: &dyn Router,
    name: String,
    input: Json,
    context: ToolContext,
    timeout: Duration,
    secrets: &Secrets,
    format: impl FnOnce(Json, &mut Kept) -> Result<Json, ToolError>,
) -> Result<Json, ToolError> {
    let mut request = CallToolRequestParams::new(name);
    request.arguments = match input {
        Json::Object(arguments) => Some(arguments),
        Json::Null => None,
        _ => return Err(ToolError::invalid("expected an object: `{ name: value }`")),
    };
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
    send(router, request, context, timeout, secrets, format).await
}

/// Sends a request of a call to the server and formats its result. Dropping the future cancels the request on the server.
pub(super) async fn send(
    router: &dyn Router,
    request: ClientRequest,
    context: ToolContext,
    timeout: Duration,
    secrets: &Secrets,
    format: impl FnOnce(Json, &mut Kept) -> Result<Json, ToolError>,
) -> Result<Json, ToolError> {
    let route = tokio::time::timeout(timeout, router.route()).await;
    let route = route.map_err(|_| timed_out(timeout))??;
    let call = UpstreamCall { router, route: &route, context: &context, secrets };
    let answered = context.within(timeout, Box::pin(call.answer(request))).await;
    let (answer, mut pending) = answered.ok_or_else(|| timed_out(timeout))??;
    let is_lost = matches!(answer, Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)));
    match is_lost {
        true => router.on_loss(),
        false => router.on_answer(),
    }
    if let (Err(ServiceError::McpError(error)), Some(whole)) = (&answer, context.attached::<WholeAnswer>()) {
        whole.set(Err(error.clone()));
    }
    match answer {
        Ok(result) => {
            let formatted = format(result, &mut pending.kept);
            // The result takes memory until the program has it.
            context.hold(std::mem::replace(&mut pending.kept, route.answers.kept(None)));
            formatted
        }
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS => {
            Err(ToolError::invalid(with_data(error.message.into_owned(), error.data)))
        }
        Err(error) => {
            let reason = reason(&error, &route.disconnect, secrets);
            let data = if let ServiceError::McpError(error) = error { error.data } else { None };
            Err(ToolError::new(with_data(reason, data)))
        }
    }
}

/// A call, which may need several requests.
struct UpstreamCall<'a> {
    router: &'a dyn Router,
    route: &'a Route,
    context: &'a ToolContext,
    secrets: &'a Secrets,
}

impl<'a> UpstreamCall<'a> {
    /// What the client has sent for the server, if the client gets the requirements of the server: unless it was asked for
    /// something else during the call, for an approval, which is not valid for another call.
    fn relay(&self) -> Option<(&'a Relayed, &'a Origin)> {
        let origin = self.context.attached::<Origin>()?;
        let is_possible = matches!(origin.channel, Channel::Results(_)) && !origin.was_asked.load(Ordering::Relaxed);
        self.context.attached::<Relayed>().filter(|_| is_possible).map(|relayed| (relayed, origin))
    }

    /// Sends the request until the server has no further questions. Returns the answer with its request.
    async fn answer(
        &self,
        mut request: ClientRequest,
    ) -> Result<(Result<Json, ServiceError>, UpstreamRequest<'a>), ToolError> {
        let (mut questions, mut pauses) = (0, 0);
        let relay = self.relay();
        if let Some((Relayed { answers, state }, _)) = &relay {
            add(&mut request, answers.clone(), state.clone())?;
        }
        // Holds the charge for what the next request repeats, until that is answered.
        let mut _last = None;
        loop {
            let Self { router, route, context, secrets } = *self;
            let mut pending = UpstreamRequest {
                router,
                route,
                context,
                kept: route.answers.kept(None),
                in_progress: None,
                is_answered: false,
            };
            let mut answer = pending.answer(request.clone(), secrets).await;
            let Some(required) = answer.as_mut().ok().and_then(RequiredInput::take) else {
                return Ok((answer, pending));
            };
            let required = required?;
            drop(answer);
            if required.has_requests()
                && let Some((_, origin)) = relay
            {
                let asker = Asker { server: &context.provider, origin, secrets };
                let required = json!(required.relayed(&asker)?);
                context.attached::<WholeAnswer>().inspect(|whole| whole.set(Ok(required)));
                return Err(failed("the next request of the client has it"));
            }
            if required.has_requests() {
                questions += 1;
                if questions > MAX_ROUNDS {
                    return Err(failed(format!("it has asked {MAX_ROUNDS} times")));
                }
            } else {
                tokio::time::sleep(pause(pauses)).await;
                pauses += 1;
            }
            let waiting = required.has_requests().then(|| Waiting::of_call(context, secrets)).flatten();
            // Boxed: calls that ask nothing need no room for it.
            Box::pin(required.supply(&mut request, route.forwarding.as_ref(), waiting.as_ref())).await?;
            _last = Some(pending);
        }
    }
}

/// A request, until its answer is formatted. Dropping it before the answer arrives cancels the request on the server.
struct UpstreamRequest<'a> {
    router: &'a dyn Router,
    route: &'a Route,
    context: &'a ToolContext,
    /// What is kept of the answer.
    kept: Kept,
    /// The registration of the request, which reports its progress.
    in_progress: Option<InProgress>,
    /// Whether it was answered, or its connection is lost.
    is_answered: bool,
}

impl UpstreamRequest<'_> {
    async fn answer(&mut self, request: ClientRequest, secrets: &Secrets) -> Result<Json, ServiceError> {
        let mut options = PeerRequestOptions::no_options();
        options.meta = self.context.attached::<Origin>().map(|origin| self.route.metadata(origin));
        let sending = self.route.progress.sending();
        let sent = self.route.peer.send_request_with_option(request, options).await;
        let answer = match sent {
            Ok(sent) => {
                self.kept.request = Some(sent.id.clone());
                let (token, context) = (sent.progress_token.clone(), self.context.clone());
                self.in_progress = Some(self.route.progress.register(token, context, secrets));
                drop(sending);
                let id = sent.id.clone();
                sent.await_response().await.map(|result| self.route.answers.take_or(&id, result))
            }
            Err(error) => Err(error),
        };
        self.is_answered = true;
        answer
    }
}

impl Drop for UpstreamRequest<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        if let (Some(id), Ok(runtime)) = (self.kept.request.clone(), Handle::try_current()) {
            let cancelled = CancelledNotificationParam::new(Some(id), None);
            let peer = self.route.peer.clone();
            runtime.spawn(async move { peer.notify_cancelled(cancelled).await });
        }
        self.router.on_abandoned(self.route);
    }
}

pub(super) fn unexpected(result: &Json) -> ToolError {
    ToolError::new(format!("the MCP server has answered, but not as expected: {}", lenient::excerpt(result)))
}

fn timed_out(timeout: Duration) -> ToolError {
    ToolError::new(no_response(timeout))
}

/// The schema of an envelope of any structured content, which many tools share.
static PLAIN_ENVELOPE: LazyLock<Arc<Json>> = LazyLock::new(|| Arc::new(envelope_schema(None)));

/// The schema of an envelope whose structured content has the schema `structured`.
fn envelope_schema(structured: Option<Map<String, Json>>) -> Json {
    let content = json!({ "type": "array", "items": { "$ref": "#/$defs/Content" } });
    let definitions = json!({
        "Content": {
            "type": "object",
            "properties": {
                "type": { "type": "string" }, "text": { "type": "string" },
                "data": { "type": "string" }, "mimeType": { "type": "string" },
                "uri": { "type": "string" }, "name": { "type": "string" },
                "resource": { "$ref": "#/$defs/Resource" }
            },
            "required": ["type"],
            "additionalProperties": true
        },
        "Resource": {
            "type": "object",
            "properties": {
                "uri": { "type": "string" }, "mimeType": { "type": "string" },
                "text": { "type": "string" }, "blob": { "type": "string" }
            },
            "required": ["uri"]
        },
        "CallToolFailure": {
            "type": "object",
            "properties": { "content": content, "isError": { "const": true }, "structuredContent": {} },
            "required": ["content", "isError"]
        },
        "CallToolResult": {
            "type": "object",
            "properties": { "content": content, "isError": { "type": "boolean" }, "structuredContent": {} },
            "required": ["content"]
        }
    });
    let Json::Object(mut definitions) = definitions else { unreachable!("`definitions` is an object") };
    let Some(mut structured) = structured else {
        return json!({ "$ref": "#/$defs/CallToolResult", "$defs": definitions });
    };
    let dialect = structured.remove("$schema");
    structured.remove("$id");
    // Definitions stay at `#/$defs`, as in the input schema, so that a type of both is declared once.
    let own = structured.get("$defs").and_then(Json::as_object);
    let shared = own.is_some_and(|own| !own.keys().any(|name| definitions.contains_key(name)));
    let mut structured = Json::Object(structured);
    rebase(&mut structured, "#/anyOf/0/properties/structuredContent", shared);
    if shared && let Some(Json::Object(own)) = structured.as_object_mut().and_then(|schema| schema.remove("$defs")) {
        definitions.extend(own);
    }
    let success = json!({
        "type": "object",
        "properties": { "content": content, "structuredContent": structured, "isError": { "const": false } },
        "required": ["content", "structuredContent"]
    });
    let mut schema = json!({ "anyOf": [success, { "$ref": "#/$defs/CallToolFailure" }], "$defs": definitions });
    if let Some(dialect) = dialect {
        schema["$schema"] = dialect;
    }
    schema
}

/// Updates the local references of a schema that becomes part of another one at `place`. Shared definitions are not
/// moved.
fn rebase(schema: &mut Json, place: &str, shared: bool) {
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Json::Object(members) if members.contains_key("$id") => {} // A separate document.
            Json::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member) {
                        ("$ref", Json::String(target)) if shared && target.starts_with("#/$defs/") => {}
                        ("$ref", Json::String(target)) if target == "#" || target.starts_with("#/") => {
                            target.replace_range(..1, place);
                        }
                        ("const" | "enum" | "default" | "examples", _) => {} // Values, not schemas.
                        (_, member) => rest.push(member),
                    }
                }
            }
            Json::Array(items) => rest.extend(items),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use execbox::declarations::ToolSignature;

    use super::*;

    #[test]
    fn references_in_structured_content_keep_their_targets() {
        let output = json!({
            "type": "object", "properties": { "next": { "$ref": "#" }, "at": { "$ref": "#/$defs/At" } },
            "$defs": { "At": { "type": "integer" }, "Up": { "$ref": "#" } }, "required": ["at"]
        });
        let Json::Object(output) = output else { unreachable!() };
        let schema = envelope_schema(Some(output));
        let compiled = execbox::Schema::compile(&schema).unwrap();
        let result = |structured: Json| json!({ "content": [], "structuredContent": structured });
        assert_eq!(compiled.check(&result(json!({ "at": 1, "next": { "at": 2 } })), "result"), Ok(()));
        assert!(compiled.check(&result(json!({ "at": 1, "next": { "at": "2" } })), "result").is_err());
        assert_eq!(compiled.check(&json!({ "content": [], "isError": true }), "result"), Ok(()));
        let signature = ToolSignature::new("walk").output(&schema);
        let types = execbox::declarations::signature(&signature);
        let (function, declared) = types.split_once("type Content").unwrap();
        assert_eq!(
            function,
            "function walk(input?: unknown): Promise<{\n  content: Content[];\n  structuredContent: \
             { next?: StructuredContent; at: At };\n  isError?: false;\n} | CallToolFailure>;\n"
        );
        assert!(schema["$defs"]["At"].is_object(), "where an input schema has its definitions");
        assert!(declared.contains("type At = number;") && declared.contains("type CallToolFailure = {"), "{declared}");
    }
}
