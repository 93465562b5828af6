//! A tool of an MCP server as a tool of a provider.

use std::sync::Arc;
use std::time::Duration;

use execbox::{Tool, ToolError};
use rmcp::model::{self, CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode};
use rmcp::service::ServiceError;
use serde_json::{Map, Value as Json, json};

use super::{MAX_MESSAGE, ResultFormat, Route, Router, UpstreamOptions, no_response, reason};
use crate::Secrets;
use crate::text::{json_exceeds, truncate};

pub(super) fn import(tool: model::Tool, router: &Arc<dyn Router>, options: &UpstreamOptions) -> Tool {
    let name = tool.name.into_owned();
    let output = tool.output_schema.map(|schema| schema.as_ref().clone());
    let has_output = output.is_some();
    let (router, called, results, timeout) = (Arc::clone(router), name.clone(), options.results, options.call_timeout);
    let (max_bytes, secrets) = (options.max_result_bytes, options.secrets.clone());
    let mut imported = Tool::new(name, move |input, _| {
        let (router, name, secrets) = (Arc::clone(&router), called.clone(), secrets.clone());
        async move {
            let result = call(&*router, name, input, timeout, &secrets).await?;
            if json_exceeds(&result, max_bytes) {
                return Err(ToolError::new(format!("result longer than {max_bytes} bytes")));
            }
            formatted(result, results, has_output, &secrets)
        }
    })
    .input_schema(Json::Object(tool.input_schema.as_ref().clone()));
    if let Some(description) = tool.description {
        imported = imported.description(description);
    }
    match (results, output) {
        (ResultFormat::Envelope, output) => imported.output_schema(envelope_schema(output)),
        (ResultFormat::Unwrapped, Some(output)) => imported.output_schema(Json::Object(output)),
        (ResultFormat::Unwrapped, None) => imported,
    }
}

/// Calls the tool. Dropping the call cancels it on the server.
async fn call(
    router: &dyn Router,
    name: String,
    input: Json,
    timeout: Duration,
    secrets: &Secrets,
) -> Result<CallToolResult, ToolError> {
    let mut request = CallToolRequestParams::new(name);
    request.arguments = match input {
        Json::Object(arguments) => Some(arguments),
        Json::Null => None,
        _ => return Err(ToolError::invalid("expected an object: `{ name: value }`")),
    };
    let route = tokio::time::timeout(timeout, router.route()).await;
    let route = route.map_err(|_| timed_out(timeout))??;
    let pending = PendingCall { router, route: &route };
    let answer =
        tokio::time::timeout(timeout, route.peer.call_tool_once(request)).await.map_err(|_| timed_out(timeout))?;
    pending.disarm();
    let is_lost = matches!(answer, Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)));
    match is_lost {
        true => router.on_loss(),
        false => router.on_answer(),
    }
    match answer {
        Ok(CallToolResponse::Complete(result)) => Ok(result),
        Ok(_) => Err(ToolError::new("the MCP server requires further input, which is not supported")),
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS => {
            Err(ToolError::invalid(truncate(secrets.redact(error.message.into_owned()), MAX_MESSAGE)))
        }
        Err(error) => {
            Err(ToolError::new(format!("the MCP server failed: {}", reason(&error, &route.disconnect, secrets))))
        }
    }
}

/// A call without an answer yet. Reports it as abandoned when dropped.
struct PendingCall<'a> {
    router: &'a dyn Router,
    route: &'a Route,
}

impl PendingCall<'_> {
    /// The call was answered, or its connection is lost.
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.router.on_abandoned(self.route);
    }
}

fn timed_out(timeout: Duration) -> ToolError {
    ToolError::new(format!("the MCP server failed: {}", no_response(timeout)))
}

fn formatted(
    result: CallToolResult,
    results: ResultFormat,
    has_output: bool,
    secrets: &Secrets,
) -> Result<Json, ToolError> {
    let mut value = formatted_with_secrets(result, results, has_output, secrets)?;
    secrets.redact_json(&mut value);
    Ok(value)
}

fn formatted_with_secrets(
    result: CallToolResult,
    results: ResultFormat,
    has_output: bool,
    secrets: &Secrets,
) -> Result<Json, ToolError> {
    if results == ResultFormat::Unwrapped {
        if result.is_error == Some(true) {
            return Err(ToolError::new(truncate(secrets.redact(failure_text(&result)), MAX_MESSAGE)));
        }
        if result.structured_content.is_none() && has_output {
            return Err(ToolError::new(
                "the MCP server returned no structured content, although the tool has an output schema",
            ));
        }
        if let Some(content) = result.structured_content {
            return Ok(content);
        }
    }
    let mut envelope = Map::new();
    envelope.insert("content".into(), serde_json::to_value(result.content)?);
    if let Some(content) = result.structured_content {
        envelope.insert("structuredContent".into(), content);
    }
    if let Some(is_error) = result.is_error {
        envelope.insert("isError".into(), is_error.into());
    }
    Ok(Json::Object(envelope))
}

fn failure_text(result: &CallToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    if texts.is_empty() { "the tool failed without a message".into() } else { texts.join("\n") }
}

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
        let signature = ToolSignature { safe_name: "walk", description: None, input: None, output: Some(&schema) };
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
