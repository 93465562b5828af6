//! Results of calls that rmcp takes for results of other requests.
//!
//! It knows a result by its members: `{ "content": […], "tools": [] }`, as a published server answers calls, is a list of tools
//! to it. Such an answer is read again, as what was asked for.

use rmcp::model::{CallToolResult, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde::Deserialize;
use serde_json::Value as Json;

/// The answer to a call, whose text is `text`.
pub(super) fn as_call_result(mut answer: ServerJsonRpcMessage, text: &[u8]) -> ServerJsonRpcMessage {
    if let JsonRpcMessage::Response(response) = &mut answer
        && !is_of_call(&response.result)
        && let Some(result) = call_result(text)
    {
        response.result = ServerResult::CallToolResult(result);
    }
    answer
}

/// Whether it was read as an answer that a call can have.
fn is_of_call(result: &ServerResult) -> bool {
    use ServerResult::{CallToolResult, CreateTaskResult, InputRequiredResult};
    matches!(result, CallToolResult(_) | InputRequiredResult(_) | CreateTaskResult(_))
}

fn call_result(text: &[u8]) -> Option<CallToolResult> {
    #[derive(Deserialize)]
    struct Answer {
        result: Json,
    }
    let Answer { result } = serde_json::from_slice(text).ok()?;
    let has = |name: &str| result.get(name).is_some();
    if has("content") || has("structuredContent") { serde_json::from_value(result).ok() } else { None }
}
