//! The result of a call or of reading a resource: as data, or as the envelope that MCP defines. It was read [leniently](super::lenient), so that
//! every member may have any type.

use std::sync::{Arc, Mutex, PoisonError};

use execbox::ToolError;
use execbox_core::text::{cut, mend_surrogates};
use rmcp::model::ErrorData;
use serde_json::{Map, Value as Json, json};

use super::answers::Kept;
use super::{MAX_MESSAGE, ResultFormat, lenient};
use crate::text::truncate;

/// The place for the answer to one request as the server gave it. Attached to calls whose caller passes it on.
#[derive(Clone, Default)]
pub(crate) struct WholeAnswer(Arc<Mutex<Option<Result<Json, ErrorData>>>>);

impl WholeAnswer {
    pub(super) fn set(&self, answer: Result<Json, ErrorData>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// `None` if no server answered.
    pub(crate) fn take(&self) -> Option<Result<Json, ErrorData>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The result of a call in the wanted format, or its error. `has_output` is whether the tool has an output schema.
pub(super) fn formatted(
    result: Json,
    format: ResultFormat,
    has_output: bool,
    kept: &mut Kept,
) -> Result<Json, ToolError> {
    let Json::Object(result) = result else {
        return Ok(match format {
            ResultFormat::Data => result,
            ResultFormat::Envelope => envelope(Map::from_iter([("content".to_owned(), result)])),
        });
    };
    if requires_input(&result) {
        return Err(ToolError::new("the MCP server requires further input, which is not supported"));
    }
    match format {
        ResultFormat::Envelope => Ok(envelope(result)),
        ResultFormat::Data if is_error(&result) => Err(ToolError::new(failure(result))),
        ResultFormat::Data => data(result, has_output, kept),
    }
}

/// Whether the server has not finished: it asks for input, or has started a task.
fn requires_input(result: &Map<String, Json>) -> bool {
    let is_finished = |kind: &Json| kind.as_str().is_none_or(|kind| kind == "complete");
    let has_content = result.contains_key("content") || result.contains_key("structuredContent");
    !has_content && (result.get("resultType").is_some_and(|kind| !is_finished(kind)) || result.contains_key("task"))
}

pub(crate) fn is_error(result: &Map<String, Json>) -> bool {
    match result.get("isError") {
        Some(Json::Bool(is_error)) => *is_error,
        Some(Json::String(text)) => text.eq_ignore_ascii_case("true"),
        Some(Json::Number(number)) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

/// The data of a result: structured content, else the only text, as JSON if it is an object or a list, else the blocks.
fn data(mut result: Map<String, Json>, has_output: bool, kept: &mut Kept) -> Result<Json, ToolError> {
    if let Some(content) = structured(&mut result) {
        return Ok(content);
    }
    let Some(content) = result.remove("content") else {
        // Before MCP had content, results had other members.
        result.retain(|name, _| !METADATA.contains(&name.as_str()));
        let old = result.remove("toolResult");
        return Ok(old.unwrap_or(if result.is_empty() { Json::Null } else { Json::Object(result) }));
    };
    let mut blocks = blocks(content);
    Ok(match (blocks.pop(), blocks.len()) {
        (None, _) if has_output => {
            let what = "the MCP server returned no structured content, although the tool has an output schema";
            return Err(ToolError::new(what));
        }
        (None, _) => Json::Null,
        (Some(only), 0) => {
            let is_text = is_text(&only);
            match text_of(only) {
                Ok(text) if has_output => json_text(text, kept),
                Ok(text) => text_data(text, kept),
                Err(data) if is_text => data,
                Err(block) => Json::Array(vec![block]),
            }
        }
        (Some(last), _) => Json::Array(blocks.into_iter().chain([last]).collect()),
    })
}

fn structured(result: &mut Map<String, Json>) -> Option<Json> {
    result.remove("structuredContent").filter(|content| !content.is_null())
}

/// The blocks of content. A single one may stand for the list.
fn blocks(content: Json) -> Vec<Json> {
    match content {
        Json::Array(blocks) => blocks,
        Json::Null => Vec::new(),
        block => vec![block],
    }
}

fn is_text(block: &Json) -> bool {
    block.get("type").is_some_and(|kind| kind == "text")
}

/// The text of a block of text. Fails with the block if it is another one, or with its text if that is another value.
fn text_of(block: Json) -> Result<String, Json> {
    match block {
        Json::String(text) => Ok(text),
        Json::Object(mut members) if members.get("type").is_some_and(|kind| kind == "text") => {
            match members.remove("text") {
                Some(Json::String(text)) => Ok(text),
                None | Some(Json::Null) => Ok(String::new()),
                Some(other) => Err(other),
            }
        }
        block => Err(block),
    }
}

/// The data in a text: parsed if it is a JSON object or list, else the text itself. A number or `null` is a text: it may be a
/// version, or an id with more digits than a number has.
fn text_data(text: String, kept: &mut Kept) -> Json {
    if text.trim_start().starts_with(['{', '[']) { json_text(text, kept) } else { Json::String(text) }
}

/// A text that is parsed if it is JSON. It stays a text if its values would take too much memory.
pub(super) fn json_text(text: String, kept: &mut Kept) -> Json {
    let parsed = kept.parse(&text, MAX_TEXT_VALUES);
    let parsed = parsed.or_else(|| mend_surrogates(&text).and_then(|mended| kept.parse(&mended, MAX_TEXT_VALUES)));
    parsed.unwrap_or(Json::String(text))
}

/// The message of a failed call: what its blocks say, and the structured content, on which a program can act. Without both, what
/// the other members say.
fn failure(mut result: Map<String, Json>) -> String {
    let data = structured(&mut result);
    let blocks = result.remove("content").map(blocks).unwrap_or_default();
    let said: Vec<String> = blocks.into_iter().map(said_by).filter(|text| !text.trim().is_empty()).collect();
    if !said.is_empty() || data.is_some() {
        return with_data(said.join("\n"), data);
    }
    result.retain(|name, _| !METADATA.contains(&name.as_str()));
    if result.is_empty() {
        return "the tool failed without a message".to_owned();
    }
    let ErrorData { message, data, .. } = lenient::error_data(Json::Object(result));
    with_data(message.into_owned(), data)
}

/// What a block of a failed call says: its text, the text of its resource, or its members without binary data.
fn said_by(block: Json) -> String {
    let mut block = match text_of(block) {
        Ok(text) => return text,
        Err(block) => block,
    };
    if let Some(Json::String(text)) = block.pointer_mut("/resource/text") {
        return std::mem::take(text);
    }
    let binary = [("", "data"), ("/resource", "blob")];
    for (owner, name) in binary {
        if let Some(Json::Object(members)) = block.pointer_mut(owner) {
            members.retain(|member, value| member != name || !value.is_string());
        }
    }
    block.to_string()
}

/// A message of an error and what the server says beside it: `quota exceeded; data: {"retry_after":30}`.
pub(super) fn with_data(message: String, data: Option<Json>) -> String {
    let message = truncate(message, MAX_MESSAGE);
    let Some(data) = data else { return message };
    let is_repeated = serde_json::from_str::<Json>(&message).is_ok_and(|said| said == data);
    match data.to_string() {
        _ if is_repeated => message,
        data if message.is_empty() => cut(&data, MAX_MESSAGE),
        data => format!("{message}; data: {}", cut(&data, MAX_MESSAGE)),
    }
}

/// The result as MCP defines it. What does not fit is a block of text with the JSON of it.
fn envelope(mut result: Map<String, Json>) -> Json {
    let (is_failure, content) = (is_error(&result), structured(&mut result));
    let blocks = result.remove("content").map(blocks).unwrap_or_default().into_iter().map(valid_block);
    let mut envelope = Map::from_iter([("content".to_owned(), blocks.collect())]);
    envelope.extend(content.map(|content| ("structuredContent".to_owned(), content)));
    envelope.extend(result.contains_key("isError").then(|| ("isError".to_owned(), is_failure.into())));
    Json::Object(envelope)
}

/// A block whose members have the types of [`envelope_schema`](super::tool).
fn valid_block(block: Json) -> Json {
    let is_valid = |members: &Map<String, Json>| {
        let is_text = |name: &&str| members.get(*name).is_none_or(Json::is_string);
        members.contains_key("type") && BLOCK_TEXTS.iter().all(is_text)
    };
    let text = match block {
        Json::Object(members) if is_valid(&members) => return Json::Object(members),
        Json::String(text) => text,
        block => text_of(block).unwrap_or_else(|block| block.to_string()),
    };
    json!({ "type": "text", "text": text })
}

/// The members of a block that are texts.
const BLOCK_TEXTS: [&str; 6] = ["type", "text", "data", "mimeType", "uri", "name"];

/// The members of a result that are no data.
const METADATA: [&str; 3] = ["_meta", "isError", "resultType"];

/// The maximum memory of the values in a text, in bytes.
const MAX_TEXT_VALUES: usize = 64 << 20;
