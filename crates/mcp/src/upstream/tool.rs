//! One tool of an MCP server as a host function.

use std::sync::Arc;
use std::time::Duration;

use execbox::{Tool, ToolError};
use rmcp::model::{self, CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode};
use rmcp::service::ServiceError;
use serde_json::{Map, Value as Json, json};

use super::list::longer_than;
use super::{Link, MAX_MESSAGE, Results, Route, UpstreamOptions, reason};
use crate::Secrets;
use crate::text::cut;

pub(super) fn wrapped(tool: model::Tool, link: &Arc<dyn Link>, options: &UpstreamOptions) -> Tool {
    let name = tool.name.into_owned();
    let output = tool.output_schema.map(|schema| schema.as_ref().clone());
    let has_output = output.is_some();
    let (link, called, results, timeout) = (Arc::clone(link), name.clone(), options.results, options.call_timeout);
    let (most, secrets) = (options.max_result_bytes, options.secrets.clone());
    let mut wrapped = Tool::new(name, move |input, _| {
        let (link, name, secrets) = (Arc::clone(&link), called.clone(), secrets.clone());
        async move {
            let result = call(&*link, name, input, timeout, &secrets).await?;
            if longer_than(&result, most) {
                return Err(ToolError::new(format!("the result of the MCP server is longer than {most} bytes")));
            }
            shaped(result, results, has_output, &secrets)
        }
    })
    .input_schema(Json::Object(tool.input_schema.as_ref().clone()));
    if let Some(description) = tool.description {
        wrapped = wrapped.description(description);
    }
    match (results, output) {
        (Results::Envelope, output) => wrapped.output_schema(envelope_schema(output)),
        (Results::Unwrapped, Some(output)) => wrapped.output_schema(Json::Object(output)),
        (Results::Unwrapped, None) => wrapped,
    }
}

/// Calls the tool. Dropping the call, as an execution that ends does, cancels it at the server.
async fn call(
    link: &dyn Link,
    name: String,
    input: Json,
    timeout: Duration,
    secrets: &Secrets,
) -> Result<CallToolResult, ToolError> {
    let mut request = CallToolRequestParams::new(name);
    request.arguments = match input {
        Json::Object(arguments) => Some(arguments),
        Json::Null => None,
        _ => return Err(ToolError::invalid("a tool of an MCP server takes an object: `{ name: value }`")),
    };
    let route = tokio::time::timeout(timeout, link.route()).await;
    let route = route.map_err(|_| late(timeout))??;
    let waiting = Waiting { link, route: &route };
    let answer = tokio::time::timeout(timeout, route.peer.call_tool_once(request)).await.map_err(|_| late(timeout))?;
    std::mem::forget(waiting); // It was answered, or the connection is lost.
    let is_lost = matches!(answer, Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)));
    match is_lost {
        true => link.unanswered(),
        false => link.answered(),
    }
    match answer {
        Ok(CallToolResponse::Complete(result)) => Ok(result),
        Ok(_) => Err(ToolError::new("the MCP server asks for something that cannot be given during a call")),
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS => {
            Err(ToolError::invalid(cut(secrets.hide(error.message.into_owned()), MAX_MESSAGE)))
        }
        Err(error) => Err(ToolError::new(format!("the MCP server failed: {}", reason(&error, &route.lost, secrets)))),
    }
}

/// A call that may be given up: when it is dropped, it is.
struct Waiting<'a> {
    link: &'a dyn Link,
    route: &'a Route,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.given_up(self.route);
    }
}

fn late(timeout: Duration) -> ToolError {
    ToolError::new(format!("the MCP server did not answer within {} ms", timeout.as_millis()))
}

fn shaped(result: CallToolResult, results: Results, has_output: bool, secrets: &Secrets) -> Result<Json, ToolError> {
    let mut value = shaped_with_secrets(result, results, has_output, secrets)?;
    secrets.hide_in(&mut value);
    Ok(value)
}

fn shaped_with_secrets(
    result: CallToolResult,
    results: Results,
    has_output: bool,
    secrets: &Secrets,
) -> Result<Json, ToolError> {
    if results == Results::Unwrapped {
        if result.is_error == Some(true) {
            return Err(ToolError::new(cut(secrets.hide(failure_text(&result)), MAX_MESSAGE)));
        }
        if result.structured_content.is_none() && has_output {
            return Err(ToolError::new("the MCP server left out the structured content that it promises"));
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
    if texts.is_empty() { "the tool failed and does not say why".into() } else { texts.join("\n") }
}

/// The schema of an envelope whose structured content has that schema.
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
    let Json::Object(mut definitions) = definitions else { unreachable!("it is written above") };
    let Some(mut structured) = structured else {
        return json!({ "$ref": "#/$defs/CallToolResult", "$defs": definitions });
    };
    let dialect = structured.remove("$schema");
    structured.remove("$id");
    // Where the input schema has its definitions, too: a type that is in both is one then.
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

/// Makes the references of a schema that is moved to `place` of another one point to where their targets are now. Shared
/// definitions are where they were.
fn rebase(schema: &mut Json, place: &str, shared: bool) {
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Json::Object(members) if members.contains_key("$id") => {} // A document of its own.
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
    fn references_of_structured_content_still_point_where_they_did() {
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
        assert!(schema["$defs"]["At"].is_object(), "an input schema has its definitions there, too");
        assert!(declared.contains("type At = number;") && declared.contains("type CallToolFailure = {"), "{declared}");
    }
}
