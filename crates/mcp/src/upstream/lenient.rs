//! Lenient reading of what servers send.
//!
//! Servers are imperfect, and what one of them gets wrong must concern only the part that is wrong. So the results of calls
//! and lists are data here, not types of rmcp: a block of an unknown kind, a member of another type or an invalid entry does
//! not lose the rest.
//!
//! | what | how it is read |
//! |---|---|
//! | texts | not UTF-8 and lone surrogates become U+FFFD; `NaN` and infinities of Python become `null` |
//! | errors | any value of `error`, with any members; codes that are no integers; a missing id |
//! | batches | the answer to the request |
//! | the handshake | only the version is needed; what describes the server is kept as far as it is valid |
//! | lists of tools | entry by entry; what nests too deep is replaced |
//! | other results | as data |

use std::borrow::Cow;
use std::sync::Arc;

use execbox_core::text::{cut, mend_surrogates};
use rmcp::model::{
    EmptyResult, ErrorCode, ErrorData, JsonObject, JsonRpcMessage, ListToolsResult, RequestId, ServerResult, Tool,
    ToolAnnotations,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use super::nesting::without_too_deep;
use crate::scanner::Scanner;

/// What a request asks for, which decides how its answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The handshake of protocols up to 2025-11-25.
    Initialize,
    /// The first request of the protocol of 2026-07-28.
    Discover,
    /// A page of the list of tools.
    Tools,
    /// A call, or a request about resources.
    Data,
    /// Any other request. rmcp reads its answer.
    Other,
}

/// An answer: the message for rmcp, and the result if this crate reads it itself.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) message: RxJsonRpcMessage<RoleClient>,
    pub(super) data: Option<Json>,
}

/// Reads the answer to the request `id`, whatever id the answer has. Fails with a clause.
pub(super) fn answer(text: &[u8], id: &RequestId, kind: Kind) -> Result<Answer, String> {
    let message = match json(text) {
        Err(_) if kind == Kind::Tools => json(without_too_deep(&String::from_utf8_lossy(text)).as_bytes()),
        message => message,
    };
    let message = message.map_err(|error| {
        let begins = cut(&String::from_utf8_lossy(&text[..text.len().min(4 * MAX_EXCERPT)]), MAX_EXCERPT);
        format!("invalid response: {error}; it begins with {begins:?}")
    })?;
    let message = if let Json::Array(batch) = message { answer_in(batch, id) } else { message };
    let Json::Object(mut message) = message else { return Err(format!("invalid response: {}", excerpt(&message))) };
    let (result, error) = (message.remove("result"), message.remove("error"));
    match (result.filter(|_| !error.as_ref().is_some_and(is_stated)), error) {
        (None, Some(error)) if !error.is_null() => {
            Ok(Answer { message: JsonRpcMessage::error(error_data(error), Some(id.clone())), data: None })
        }
        (Some(result), _) => result_of(result, id, kind),
        (None, _) => Err(format!("invalid response: neither `result` nor `error` in {}", excerpt(&message))),
    }
}

/// Whether a member `error` beside a result states an error.
fn is_stated(error: &Json) -> bool {
    match error {
        Json::Null | Json::Bool(false) => false,
        Json::String(text) => !text.is_empty(),
        Json::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// The answer in a batch: that with the id of the request, else the last one; `null` if there is none.
fn answer_in(mut batch: Vec<Json>, id: &RequestId) -> Json {
    batch.retain(states_answer);
    let id = json!(id);
    let own = batch.iter().position(|entry| entry.get("id") == Some(&id));
    own.map(|at| batch.swap_remove(at)).or_else(|| batch.pop()).unwrap_or_default()
}

/// Whether a message, or a batch of limited size, has an answer, whatever its id. Keeps no values of messages: most are none.
pub(super) fn is_answer(text: &[u8]) -> bool {
    if !text.trim_ascii_start().starts_with(b"[") {
        return Scanner::of(text).is_response();
    }
    if Scanner::of(text).memory() > MAX_BATCH {
        return false;
    }
    json(text).is_ok_and(|batch| batch.as_array().is_some_and(|batch| batch.iter().any(states_answer)))
}

/// The maximum size of a batch whose answer counts although its id is another one, in bytes when it is parsed.
const MAX_BATCH: usize = 8 << 20;

fn states_answer(message: &Json) -> bool {
    let Json::Object(members) = message else { return false };
    !members.contains_key("method") && (members.contains_key("result") || members.contains_key("error"))
}

/// Reads a request or a notification of a server, or an error without an id. `None` if it is none.
pub(super) fn unasked(text: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    let message = json(text).ok()?;
    match serde_json::from_value(message).ok()? {
        message @ (JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_)) => Some(message),
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
    }
}

/// The error in a message, if it is one. Its id may be missing.
pub(super) fn error_in(text: &[u8]) -> Option<ErrorData> {
    let Json::Object(mut message) = json(text).ok()? else { return None };
    let error = message.remove("error").filter(is_stated)?;
    (!message.contains_key("method")).then(|| error_data(error))
}

/// Parses JSON. What JavaScript and Python write and JSON parsers of Rust reject is mended.
pub(super) fn json(text: &[u8]) -> Result<Json, serde_json::Error> {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    serde_json::from_str(text).or_else(|error| {
        let mended = mend_surrogates(text);
        let numbers = without_odd_numbers(mended.as_deref().unwrap_or(text));
        let mended = numbers.or(mended).ok_or(error)?;
        serde_json::from_str(&mended)
    })
}

/// A JSON text with `NaN`, `Infinity` and `-Infinity`, as `json.dumps` of Python writes them, replaced by `null`. `None` if
/// there are none.
fn without_odd_numbers(text: &str) -> Option<String> {
    let (mut mended, mut kept) = (String::new(), 0);
    let (mut in_string, mut at) = (false, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'N' | b'I' | b'-' if !in_string => {
                let odd = ODD_NUMBERS.iter().find(|odd| bytes[at..].starts_with(odd.as_bytes()));
                if let Some(odd) = odd {
                    mended += &text[kept..at];
                    mended += "null";
                    kept = at + odd.len();
                    at = kept - 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (kept > 0).then(|| mended + &text[kept..])
}

fn result_of(result: Json, id: &RequestId, kind: Kind) -> Result<Answer, String> {
    let (result, data) = match kind {
        Kind::Initialize => (handshake(result, initialize_result)?, None),
        Kind::Discover => (handshake(result, discover_result)?, None),
        Kind::Tools => (ServerResult::ListToolsResult(headers_of(&result)), Some(result)),
        Kind::Data => (ServerResult::EmptyResult(EmptyResult {}), Some(result)),
        Kind::Other => (read_or(result, ServerResult::EmptyResult(EmptyResult {})), None),
    };
    Ok(Answer { message: JsonRpcMessage::response(result, id.clone()), data })
}

fn read_or<T: DeserializeOwned>(value: Json, otherwise: T) -> T {
    serde_json::from_value(value).unwrap_or(otherwise)
}

/// The tools of a page as rmcp needs them, which sends some arguments as headers.
fn headers_of(page: &Json) -> ListToolsResult {
    let tools = entries(page, "tools").unwrap_or_default().iter();
    let tools = tools.filter_map(|entry| {
        let name = entry.get("name")?.as_str()?.to_owned();
        let schema = entry.get("inputSchema")?.as_object()?.clone();
        Some(Tool::new(name, "", Arc::new(schema)))
    });
    ListToolsResult::with_all_items(tools.collect())
}

/// The error of an answer, whatever its form. Members that MCP does not define are data; without a message, they are the message.
pub(super) fn error_data(error: Json) -> ErrorData {
    let text = |value: Json| if let Json::String(text) = value { text } else { value.to_string() };
    let Json::Object(mut error) = error else {
        return ErrorData::new(ErrorCode::INTERNAL_ERROR, text(error), None);
    };
    error.retain(|_, value| !value.is_null());
    let message = error.remove("message").map(text).filter(|message| !message.trim().is_empty());
    let data = error.remove("data");
    let code = error.get("code").and_then(Json::as_i64).and_then(|code| i32::try_from(code).ok());
    if code.is_some() {
        error.remove("code");
    }
    let (message, others) = match message {
        Some(message) => (message, error),
        None if error.len() == 1 => (error.into_iter().map(|(_, only)| text(only)).collect(), Map::new()),
        None if !error.is_empty() => (Json::Object(error).to_string(), Map::new()),
        None => (code.map_or_else(|| "error without a message".to_owned(), |code| format!("error {code}")), error),
    };
    let data = match data {
        data if others.is_empty() => data,
        data => Some(others.into_iter().chain(data.map(|data| ("data".to_owned(), data))).collect()),
    };
    ErrorData::new(code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode), message, data)
}

/// Reads the result of a handshake with the members that `keep` returns.
fn handshake(result: Json, keep: fn(&mut JsonObject) -> JsonObject) -> Result<ServerResult, String> {
    let Json::Object(mut result) = result else {
        return Err(format!("invalid result of the handshake: expected an object, not {}", excerpt(&result)));
    };
    let result = serde_json::from_value(Json::Object(keep(&mut result)));
    result.map_err(|error| format!("invalid result of the handshake: {error}"))
}

fn initialize_result(result: &mut JsonObject) -> JsonObject {
    let mut kept = described(result);
    let version = result.remove("protocolVersion").filter(Json::is_string);
    kept.insert("protocolVersion".into(), version.unwrap_or_else(|| FIRST_VERSION.into()));
    kept.insert("serverInfo".into(), Json::Object(server_info(result.remove("serverInfo"))));
    kept
}

fn discover_result(result: &mut JsonObject) -> JsonObject {
    let mut kept = described(result);
    let versions = match result.remove("supportedVersions") {
        Some(Json::Array(versions)) => versions.into_iter().filter(Json::is_string).collect(),
        Some(version @ Json::String(_)) => vec![version],
        _ => Vec::new(),
    };
    kept.insert("supportedVersions".into(), Json::Array(versions));
    kept.insert("resultType".into(), "complete".into());
    kept.insert("ttlMs".into(), result.get("ttlMs").and_then(Json::as_u64).unwrap_or_default().into());
    let scope = result.remove("cacheScope").filter(|scope| matches!(scope.as_str(), Some("public" | "private")));
    kept.insert("cacheScope".into(), scope.unwrap_or_else(|| "private".into()));
    if let Some(meta @ Json::Object(_)) = result.remove("_meta") {
        kept.insert("_meta".into(), meta);
    }
    kept
}

/// The capabilities and the instructions of a server.
fn described(result: &mut JsonObject) -> JsonObject {
    let mut kept = Map::new();
    kept.insert("capabilities".into(), Json::Object(capabilities(result.remove("capabilities"))));
    if let Some(instructions @ Json::String(_)) = result.remove("instructions") {
        kept.insert("instructions".into(), instructions);
    }
    kept
}

/// The capabilities. What is not an object is an empty one, so that `"tools": []` means tools. Where the capabilities
/// themselves are none, there may be tools.
fn capabilities(stated: Option<Json>) -> JsonObject {
    let Some(Json::Object(stated)) = stated else { return Map::from_iter([("tools".to_owned(), json!({}))]) };
    let is_stated = |(_, value): &(String, Json)| !matches!(value, Json::Null | Json::Bool(false));
    let flags = |value: Json| match value {
        Json::Object(flags) => flags.into_iter().filter(|(_, flag)| flag.is_boolean()).collect(),
        _ => Map::new(),
    };
    let stated = stated.into_iter().filter(is_stated).filter_map(|(name, value)| {
        let value = match name.as_str() {
            "tools" | "resources" | "prompts" => flags(value),
            "experimental" | "extensions" => match value {
                Json::Object(all) => all.into_iter().filter(|(_, one)| one.is_object()).collect(),
                _ => return None,
            },
            _ => {
                if let Json::Object(value) = value {
                    value
                } else {
                    Map::new()
                }
            }
        };
        Some((name, Json::Object(value)))
    });
    stated.collect()
}

fn server_info(stated: Option<Json>) -> JsonObject {
    let stated = if let Some(Json::Object(stated)) = stated { stated } else { Map::new() };
    let text = |name: &str| match stated.get(name) {
        Some(Json::String(text)) => text.clone(),
        Some(other) if !other.is_null() => other.to_string(),
        _ => String::new(),
    };
    Map::from_iter(["name", "version"].map(|name| (name.to_owned(), Json::String(text(name)))))
}

/// The entries of a list: those of the member `name`, or of a result that is a list itself. An empty list may be missing,
/// `null`, or the empty object of languages that have one type for both. `None` if there is something else.
pub(super) fn entries<'a>(page: &'a Json, name: &str) -> Option<&'a [Json]> {
    match (page, page.get(name)) {
        (Json::Array(entries), _) | (_, Some(Json::Array(entries))) => Some(entries),
        (Json::Object(_) | Json::Null, None | Some(Json::Null)) => Some(&[]),
        (_, Some(Json::Object(members))) if members.is_empty() => Some(&[]),
        _ => None,
    }
}

/// As [`entries`], taken out of the page.
pub(crate) fn take_entries(page: &mut Json, name: &str) -> Option<Vec<Json>> {
    entries(page, name)?;
    let list = if page.is_array() { Some(page) } else { page.get_mut(name) };
    let Some(Json::Array(entries)) = list else { return Some(Vec::new()) };
    Some(std::mem::take(entries))
}

/// Where the next page begins. An empty cursor means that there is none.
pub(crate) fn next_cursor(page: &Json) -> Option<String> {
    match page.get("nextCursor")? {
        Json::String(cursor) => Some(cursor.clone()).filter(|cursor| !cursor.is_empty()),
        Json::Number(cursor) => Some(cursor.to_string()),
        _ => None,
    }
}

/// A tool as far as its entry can be read, and the members that cannot, with reasons.
pub(super) struct ReadTool {
    pub(super) tool: Tool,
    pub(super) unread: Vec<(String, String)>,
}

/// Reads the entry of a tool. Fails with a clause if it has no name.
pub(super) fn tool(entry: Json) -> Result<ReadTool, String> {
    let Json::Object(mut entry) = entry else { return Err(format!("expected an object, not {}", excerpt(&entry))) };
    let name = match entry.remove("name") {
        Some(Json::String(name)) => name,
        Some(name) => return Err(format!("its name is no text: {}", excerpt(&name))),
        None => return Err(format!("no name in {}", excerpt(&entry))),
    };
    let mut unread = Vec::new();
    let mut member = |name: &'static str, expected: &str, is_valid: fn(&Json) -> bool| {
        let value = entry.remove(name).filter(|value| !value.is_null())?;
        if is_valid(&value) {
            return Some(value);
        }
        unread.push((name.to_owned(), format!("expected {expected}, not {}", excerpt(&value))));
        None
    };
    let object = |value: Json| if let Json::Object(members) = value { Some(members) } else { None };
    let text = |value: Json| if let Json::String(text) = value { Some(text) } else { None };
    let description = member("description", "a text", Json::is_string).and_then(text);
    let title = member("title", "a text", Json::is_string).and_then(text);
    let input = member("inputSchema", "an object", Json::is_object).and_then(object);
    let output = member("outputSchema", "an object", Json::is_object).and_then(object);
    let annotations = member("annotations", "an object", Json::is_object).and_then(object);
    let mut tool = Tool::new_with_raw(name, description.map(Cow::Owned), Arc::new(input.unwrap_or_default()));
    tool.title = title;
    tool.output_schema = output.map(Arc::new);
    tool.annotations = annotations.map(|stated| read_annotations(stated, &mut unread));
    Ok(ReadTool { tool, unread })
}

/// The annotations whose values have the right type. A hint that is no boolean states nothing.
fn read_annotations(stated: JsonObject, unread: &mut Vec<(String, String)>) -> ToolAnnotations {
    let kept = stated.into_iter().filter(|(name, value)| {
        let is_valid = if name == "title" { value.is_string() } else { value.is_boolean() };
        let is_known = name == "title" || HINTS.contains(&name.as_str());
        if is_known && !is_valid && !value.is_null() {
            let expected = if name == "title" { "a text" } else { "true or false" };
            unread.push((format!("annotations.{name}"), format!("expected {expected}, not {}", excerpt(value))));
        }
        is_known && is_valid
    });
    read_or(Json::Object(kept.collect()), ToolAnnotations::default())
}

/// The beginning of a value as JSON.
pub(super) fn excerpt(value: &impl serde::Serialize) -> String {
    cut(&serde_json::to_string(value).unwrap_or_default(), MAX_EXCERPT)
}

/// The version of a server that states none.
const FIRST_VERSION: &str = "2024-11-05";

/// The hints of a tool about its effects.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

const ODD_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The longest excerpt of a value, in characters.
const MAX_EXCERPT: usize = 120;
