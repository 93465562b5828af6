//! Reads the messages of clients, whatever carries them, and says what is wrong with those that cannot be read.
//!
//! | message | answer |
//! |---|---|
//! | not JSON | -32700, without an id |
//! | JSON, but no JSON-RPC message | -32600, with the id if it can be read |
//! | a request of a known method with unreadable parameters | -32602, which names the member |
//! | a request of an unknown method | -32601 |
//! | a notification or a response that cannot be read | none |
//!
//! Escapes of lone surrogates are read as U+FFFD.

#![allow(deprecated)] // The parameters of `logging/setLevel`.

use std::borrow::Cow;

use execbox_core::text::{Keep, bytes_text, cut, escape, mend_surrogates};
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientJsonRpcMessage, ClientRequest, CompleteRequestParams,
    DiscoverRequestParams, ErrorCode, ErrorData, GetPromptRequestParams, GetSkillRequestParams, GetTaskParams,
    InitializeRequestParams, JsonObject, JsonRpcMessage, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
    ReadResourceRequestParams, RequestId, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionsListenRequestParams, UnsubscribeRequestParams, UpdateTaskParams,
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::typed;
use crate::scanner::Scanner;

/// A message, and the text that rmcp reads as this message.
pub(super) struct Readable<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) message: ClientJsonRpcMessage,
}

/// The approximate memory of a message while it is read, in bytes: rmcp keeps its values twice.
pub(super) fn memory(scanner: &Scanner) -> usize {
    scanner.memory().saturating_mul(2)
}

/// A message that cannot be read, with the error that says why.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// A request, or an invalid message.
    Request(Box<Answer>),
    /// A notification, which is never answered.
    Notification(Box<Answer>),
    /// A response to the request of the server with this id. It is never answered either: the error could be answered again.
    Response(Box<Answer>),
}

/// A JSON-RPC error. In contrast to rmcp's, an id that is not known is written as `null` (JSON-RPC 2.0, section 5).
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    jsonrpc: &'static str,
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
    /// Whether the request is one of MCP 2026-07-28.
    #[serde(skip)]
    pub(super) is_modern: bool,
}

impl Answer {
    pub(super) fn new(id: Option<RequestId>, error: ErrorData) -> Self {
        Self { jsonrpc: "2.0", id, error, is_modern: false }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are serializable")
    }
}

impl Unreadable {
    /// The answer for a sender that gets one in any case, as over HTTP. Only that to a request has an id.
    pub(super) fn into_answer(self) -> Answer {
        match self {
            Self::Request(answer) => *answer,
            Self::Notification(answer) | Self::Response(answer) => Answer { id: None, ..*answer },
        }
    }

    /// A message that is neither a valid request nor a valid response, for this reason.
    pub(super) fn invalid(is_response: bool, id: Option<RequestId>, reason: &str) -> Self {
        let error = ErrorData::invalid_request(format!("invalid request: {reason}"), None);
        let answer = Box::new(Answer::new(id, error));
        if is_response { Self::Response(answer) } else { Self::Request(answer) }
    }

    fn not_json(reason: &str) -> Self {
        let error = ErrorData::parse_error(format!("invalid JSON: {reason}"), None);
        Self::Request(Box::new(Answer::new(None, error)))
    }
}

/// Reads one message.
pub(super) fn read(bytes: &[u8]) -> Result<Readable<'_>, Unreadable> {
    let text = text(bytes)?;
    let message = match serde_json::from_str(&text) {
        Ok(message) if is_understood(&message) => message,
        _ => return Err(explain(&text)),
    };
    Ok(Readable { text, message })
}

/// The error of a request whose method the server does not have.
pub(super) fn unknown_method(method: &str) -> ErrorData {
    let method = escape(&cut(method, MAX_NAME), Keep::Nothing).into_owned();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method \"{method}\""), None)
}

/// The text without a byte order mark and lone surrogates.
fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Unreadable> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| Unreadable::not_json(&format!("not UTF-8: {error}")))?;
    Ok(mend_surrogates(text).map_or(Cow::Borrowed(text), Cow::Owned))
}

/// Whether rmcp has understood the message: it takes a request with unreadable parameters for one of an unknown method.
fn is_understood(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return true };
    let is_known = |request: &ClientRequest| match request {
        ClientRequest::CustomRequest(custom) => params_check(&custom.method).is_none(),
        _ => true,
    };
    is_known(&request.request) && has_short_id(&request.id)
}

/// Finds out what is wrong with a message that could not be read.
fn explain(text: &str) -> Unreadable {
    let invalid = |reason: &str| Unreadable::invalid(false, None, reason);
    match serde_json::from_str(text) {
        Ok(Json::Object(message)) => explain_object(message),
        Ok(Json::Array(_)) => invalid("batches are not supported; send each message by itself"),
        Ok(other) => invalid(&format!("expected an object, got {}", typed::described(&other))),
        Err(error) => explain_syntax(text, &error),
    }
}

/// Distinguishes JSON that is nested too deeply, whose id can be read, from what is not JSON.
fn explain_syntax(text: &str, error: &serde_json::Error) -> Unreadable {
    #[derive(Deserialize)]
    struct Head {
        id: Option<Json>,
        method: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    let Ok(head) = serde_json::from_str::<Head>(text) else { return Unreadable::not_json(&error.to_string()) };
    let is_response = head.method.is_none() && (head.result.is_some() || head.error.is_some());
    let id = head.id.and_then(|id| readable_id(&id));
    Unreadable::invalid(is_response, id, &format!("nested too deeply: expected at most {MAX_DEPTH} levels"))
}

fn explain_object(mut message: Map<String, Json>) -> Unreadable {
    let has = |member| message.contains_key(member);
    let is_response = !has("method") && (has("result") || has("error"));
    let id = message.get("id").and_then(readable_id);
    let reason = envelope_error(&message, is_response).or(is_response.then(|| "not a response".to_owned()));
    if let Some(reason) = reason {
        return Unreadable::invalid(is_response, id, &reason);
    }
    let params = message.remove("params").unwrap_or_default();
    let method = message.get("method").and_then(Json::as_str).unwrap_or_default();
    let is_modern = params["_meta"][PROTOCOL_VERSION].as_str().is_some_and(|version| version >= MODERN);
    let check = params_check(method).filter(|_| !(is_modern && REMOVED.contains(&method)));
    let error = match check.map(|check| check(params)) {
        Some(Ok(())) => return Unreadable::invalid(false, id, "expected each member at most once"),
        Some(Err(reason)) => ErrorData::invalid_params(format!("invalid params of {method}: {reason}"), None),
        None => unknown_method(method),
    };
    match id {
        Some(_) => Unreadable::Request(Box::new(Answer { is_modern, ..Answer::new(id, error) })),
        None => Unreadable::Notification(Box::new(Answer::new(id, error))),
    }
}

/// What is wrong with the members that every message has.
fn envelope_error(message: &Map<String, Json>, is_response: bool) -> Option<String> {
    let expected = |member: &str, expected: &str| match message.get(member) {
        Some(got) => format!("\"{member}\": expected {expected}, got {}", typed::described(got)),
        None => format!("\"{member}\": expected {expected}, got nothing"),
    };
    let has = |member| message.contains_key(member);
    if message.get("jsonrpc").and_then(Json::as_str) != Some("2.0") {
        return Some(expected("jsonrpc", "the string \"2.0\""));
    }
    if message.get("id").is_some_and(|id| readable_id(id).is_none()) {
        return Some(expected("id", &format!("an integer, or a string of at most {}", bytes_text(MAX_ID as u64))));
    }
    if !is_response && !message.get("method").is_some_and(Json::is_string) {
        return Some(expected("method", "a string"));
    }
    if usize::from(has("method")) + usize::from(has("result")) + usize::from(has("error")) > 1 {
        return Some("expected one of \"method\", \"result\" and \"error\"".to_owned());
    }
    None
}

/// The id of a request, if it can be repeated in an answer.
pub(super) fn readable_id(id: &Json) -> Option<RequestId> {
    RequestId::deserialize(id).ok().filter(has_short_id)
}

fn has_short_id(id: &RequestId) -> bool {
    !matches!(id, RequestId::String(text) if text.len() > MAX_ID)
}

/// The check of the parameters of a method; `None` if the method is unknown.
fn params_check(method: &str) -> Option<fn(Json) -> Result<(), String>> {
    Some(match method {
        "initialize" => check::<InitializeRequestParams>,
        "server/discover" => check::<DiscoverRequestParams>,
        "ping" => check::<JsonObject>,
        "completion/complete" => check::<CompleteRequestParams>,
        "logging/setLevel" => check::<SetLevelRequestParams>,
        "prompts/get" => check::<GetPromptRequestParams>,
        "prompts/list" | "resources/list" | "resources/templates/list" | "tools/list" | "skills/list" => {
            check::<PaginatedRequestParams>
        }
        "resources/read" => check::<ReadResourceRequestParams>,
        "resources/subscribe" => check::<SubscribeRequestParams>,
        "resources/unsubscribe" => check::<UnsubscribeRequestParams>,
        "resources/directory/read" => check::<ReadResourceDirectoryRequestParams>,
        "subscriptions/listen" => check::<SubscriptionsListenRequestParams>,
        "tools/call" => check::<CallToolRequestParams>,
        "tasks/get" => check::<GetTaskParams>,
        "tasks/update" => check::<UpdateTaskParams>,
        "tasks/cancel" => check::<CancelTaskParams>,
        "skills/get" => check::<GetSkillRequestParams>,
        _ => return None,
    })
}

fn check<P: DeserializeOwned>(params: Json) -> Result<(), String> {
    let mut params = match params {
        Json::Null => Map::new(),
        Json::Object(params) => params,
        other => return Err(format!("expected an object, got {}", typed::described(&other))),
    };
    match params.remove("_meta") {
        None | Some(Json::Null | Json::Object(_)) => typed::read_strictly::<P>(&mut Json::Object(params)).map(drop),
        Some(other) => Err(format!("\"_meta\": expected an object, got {}", typed::described(&other))),
    }
}

/// The member of `_meta` with the version of the protocol, and the version since which requests have it.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const MODERN: &str = "2026-07-28";

/// The methods that version does not have any more.
const REMOVED: [&str; 5] = ["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"];

/// The byte order mark of UTF-8, which may precede JSON (RFC 8259, section 8.1).
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The maximum depth of arrays and objects in a message: that of `serde_json`.
const MAX_DEPTH: usize = 127;

/// The maximum length of an id, in bytes: answers repeat it.
const MAX_ID: usize = 4 << 10;

/// The maximum length of an unknown name in an error, in characters.
const MAX_NAME: usize = 100;
