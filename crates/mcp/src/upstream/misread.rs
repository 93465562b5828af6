//! Results of calls that rmcp takes for results of other requests.
//!
//! rmcp recognizes a result by its members: it reads `{ "content": […], "tools": [] }`, which a published server returns for
//! calls, as a list of tools. Such an answer is read again, as the result of a call.

use rmcp::model::{CallToolResult, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde::Deserialize;
use serde_json::Value as Json;

/// Corrects the answer to a call. `text` is the answer as text.
pub(super) fn as_call_result(mut answer: ServerJsonRpcMessage, text: &[u8]) -> ServerJsonRpcMessage {
    if let JsonRpcMessage::Response(response) = &mut answer
        && !is_of_call(&response.result)
        && let Some(result) = call_result(text)
    {
        response.result = ServerResult::CallToolResult(result);
    }
    answer
}

/// Whether a result is of a kind that answers a call.
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
