//! The six messages, typed, and their JSON (protocol reference, "Message Catalog"); and `log`, which is Execbox's own.
//!
//! Printing gives the fields in the specification's order. Reading ignores unknown message types and
//! fields, and names the field that is missing or wrong. `undefined` is a field that is left out, and
//! `null` is a null (runner specification, "JSON Transport Note"). When a message is due is for
//! [`runner`](super::runner) and [`host`](super::host).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::ser::{SerializeMap as _, SerializeStruct as _};
use serde::{Deserialize as _, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::code::{Attachments, CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
use super::line::{TooLong, encode_message};
use crate::engine::{LogLevel, LogLine};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult, StackFrame, bounded_stack};
use crate::language::Position;
use crate::manifest::{ProviderManifest, ToolManifest};
use crate::program::{DEFAULT_MAX_SOURCE_BYTES, Limits};

/// One JSON object, as a line has it.
pub type Object = Map<String, Json>;

/// What a host says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostMessage {
    /// Start one execution.
    Execute(Execute),
    /// Stop the execution of that id promptly.
    Cancel {
        /// The execution.
        id: String,
    },
    /// The answer to a tool call.
    ToolResult(ToolResult),
    /// Asks what the runner knows beyond the six.
    #[serde(skip)]
    Hello(Hello),
    /// Start one run of the module contract.
    #[serde(skip)]
    RunCode(Box<RunCode>),
    /// The answer to a call of a run, or what a promise came to.
    #[serde(skip)]
    Settle(Settle),
}

/// What a runner says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunnerMessage {
    /// The execution of that id was accepted, and its time runs.
    Started {
        /// The execution.
        id: String,
    },
    /// The guest calls a tool.
    ToolCall(WireCall),
    /// The guest has logged a line; said only where the host [asked](Execute::stream_logs) for it.
    Log(WireLog),
    /// The execution is over.
    Done(Done),
    /// Says what the runner knows beyond the six.
    #[serde(skip)]
    Hello(Hello),
    /// The guest of a run calls a function.
    #[serde(skip)]
    CodeCall(CodeCall),
    /// The guest of a run calls a function that has no answer.
    #[serde(skip)]
    CodeNotify(CodeNotify),
    /// The run is over.
    #[serde(skip)]
    CodeDone(CodeDone),
}

/// `execute` (runner specification, "Inputs To The Runner").
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execute {
    /// Names the execution.
    pub id: String,
    /// The guest's program, whole.
    pub code: String,
    /// Its limits, on the wire `options`, each of which may be left out for its default.
    #[serde(rename = "options", serialize_with = "write_limits")]
    pub limits: Limits,
    /// What the guest may call: names and words, no capability.
    #[serde(serialize_with = "write_providers")]
    pub providers: Vec<Arc<ProviderManifest>>,
    /// Asks for every log line as it comes, in a [`log`](WireLog), beside `done`. No part of the specification: a runner
    /// that does not know it ignores it. On the wire `streamLogs`, left out where it is false.
    #[serde(rename = "streamLogs", skip_serializing_if = "std::ops::Not::not")]
    pub stream_logs: bool,
}

/// `tool_call` (runner specification, "Tool Call Contract").
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WireCall {
    /// Names the call within its execution.
    pub call_id: String,
    /// The namespace that the guest called.
    pub provider_name: String,
    /// The tool that it called there.
    pub safe_tool_name: String,
    /// The call's first argument; `None` is `undefined`, and is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
}

/// `log`: a line of the guest's console, within the limits, when it comes. `done` carries it all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireLog {
    /// The execution.
    pub id: String,
    /// The line. On reading, a level that there is not is taken for `log`.
    pub line: LogLine,
}

/// `tool_result` (runner specification, "Tool Call Contract").
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call that this answers.
    pub call_id: String,
    /// What the call's promise settles with. On reading, a code outside the specification's set is
    /// taken for a `tool_error`.
    pub result: Result<Option<Json>, ExecuteError>,
}

/// `done` (runner specification, "Final Result Contract").
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The execution.
    pub id: String,
    /// What it came to. On reading, a code outside the specification's set is taken for an
    /// `internal_error`.
    pub result: ExecuteResult,
}

/// An object that should be a message and is not one as specified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a malformed {kind} message: {fault}")]
pub struct MessageError {
    /// The message's type, empty where it has none.
    pub kind: String,
    /// The execution or run that it is about; for `tool_call` and `tool_result`, the call (`callId`).
    pub id: Option<String>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field is not there.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A field is not what it must be.
    #[error("`{field}` is not {expected}")]
    Wrong {
        /// The field, with the path to it: `options.timeoutMs`.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
    /// Two tools of a provider have one safe name: a call could be for either.
    #[error("`{field}.safeName` is that of another tool, too")]
    SafeName {
        /// The tool, with the path to it.
        field: String,
    },
    /// `ok` is true, and there is an `error`.
    #[error("`ok` is true, yet there is an `error`")]
    OkWithError,
    /// It is JSON that cannot be held: it nests too deep, or has a number out of range.
    #[error("{0}")]
    Unreadable(String),
}

impl MessageError {
    /// The execution or run that the message is about, where it names one.
    pub(super) fn session(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| id_field(&self.kind) == "id")
    }
}

/// Which field of a message names what it is about.
pub(super) fn id_field(kind: &str) -> &'static str {
    match kind {
        "tool_call" | "tool_result" => "callId",
        _ => "id",
    }
}

/// One direction of the conversation: what one side says and the other reads.
pub trait Message: Sized {
    /// Reads a message; `None` for a type that is none of this direction's.
    fn from_object(object: Object, attachments: Attachments) -> Result<Option<Self>, MessageError>;

    /// The message as the text of its line, the end not included. What is better not written as text goes to
    /// `attachments`, if the peer takes them.
    ///
    /// # Errors
    /// One of more than `cap` bytes is refused. What to do then is for the session to say (`handle_too_long`).
    fn to_text(&self, cap: usize, attachments: &mut Attachments) -> Result<Vec<u8>, TooLong>;

    /// The greeting, if it is one: whoever carries messages has a word in it.
    fn greeting(&mut self) -> Option<&mut Hello>;
}

impl Message for HostMessage {
    fn from_object(object: Object, mut attachments: Attachments) -> Result<Option<Self>, MessageError> {
        read_message(object, |kind, fields| {
            Some(match kind {
                "execute" => Execute::read(fields).map(Self::Execute),
                "cancel" => fields.string("id").map(|id| Self::Cancel { id }),
                "tool_result" => ToolResult::read(fields).map(Self::ToolResult),
                "hello" if Hello::is_ours(fields) => Ok(Self::Hello(Hello::read(fields))),
                "run_code" => RunCode::read(fields, &mut attachments).map(|run| Self::RunCode(Box::new(run))),
                "settle" => Settle::read(fields, &mut attachments).map(Self::Settle),
                _ => return None,
            })
        })
    }

    fn greeting(&mut self) -> Option<&mut Hello> {
        if let Self::Hello(hello) = self { Some(hello) } else { None }
    }

    fn to_text(&self, cap: usize, attachments: &mut Attachments) -> Result<Vec<u8>, TooLong> {
        match self {
            Self::Hello(hello) => encode_message(&hello.write(), cap),
            Self::RunCode(run) => encode_message(&run.write(attachments), cap),
            Self::Settle(settle) => encode_message(&settle.write(attachments), cap),
            Self::Execute(_) | Self::Cancel { .. } | Self::ToolResult(_) => encode_message(self, cap),
        }
    }
}

impl Message for RunnerMessage {
    fn from_object(object: Object, mut attachments: Attachments) -> Result<Option<Self>, MessageError> {
        read_message(object, |kind, fields| {
            Some(match kind {
                "started" => fields.string("id").map(|id| Self::Started { id }),
                "tool_call" => WireCall::read(fields).map(Self::ToolCall),
                // No message of the specification: one of another shape is somebody else's, and unknown.
                "log" => Ok(Self::Log(WireLog::read(fields)?)),
                "done" => Done::read(fields).map(Self::Done),
                "hello" if Hello::is_ours(fields) => Ok(Self::Hello(Hello::read(fields))),
                "code_call" => CodeCall::read(fields, &mut attachments).map(Self::CodeCall),
                "code_notify" => CodeNotify::read(fields, &mut attachments).map(Self::CodeNotify),
                "code_done" => CodeDone::read(fields, &mut attachments).map(Self::CodeDone),
                _ => return None,
            })
        })
    }

    fn greeting(&mut self) -> Option<&mut Hello> {
        if let Self::Hello(hello) = self { Some(hello) } else { None }
    }

    fn to_text(&self, cap: usize, attachments: &mut Attachments) -> Result<Vec<u8>, TooLong> {
        match self {
            Self::Hello(hello) => encode_message(&hello.write(), cap),
            Self::CodeCall(call) => encode_message(&call.write(attachments), cap),
            Self::CodeNotify(notify) => encode_message(&notify.write(attachments), cap),
            Self::CodeDone(done) => encode_message(&done.write(attachments), cap),
            Self::Started { .. } | Self::ToolCall(_) | Self::Log(_) | Self::Done(_) => encode_message(self, cap),
        }
    }
}

/// Reads the fields of a type, if the reader knows it.
fn read_message<M>(
    object: Object,
    read: impl FnOnce(&str, &mut Fields) -> Option<Result<M, Fault>>,
) -> Result<Option<M>, MessageError> {
    let mut fields = Fields { object, path: String::new() };
    let malformed = |kind: &str, id, fault| MessageError { kind: kind.to_owned(), id, fault };
    let kind = fields.string("type").map_err(|fault| malformed("", None, fault))?;
    let id = fields.object.get(id_field(&kind)).and_then(Json::as_str).map(str::to_owned);
    read(&kind, &mut fields).transpose().map_err(|fault| malformed(&kind, id, fault))
}

impl Execute {
    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let code = fields.string("code")?;
        let limits = read_limits(&mut fields.object("options")?)?;
        let providers = fields.array("providers")?.into_iter().enumerate();
        let providers = providers.map(|(number, json)| {
            let mut provider = Fields::of(json, format!("providers[{number}]"))?;
            read_provider(&mut provider).map(Arc::new)
        });
        let providers = providers.collect::<Result<_, _>>()?;
        let stream_logs = fields.object.get("streamLogs") == Some(&Json::Bool(true));
        Ok(Self { id, code, limits, providers, stream_logs })
    }
}

pub(super) fn read_limits(options: &mut Fields) -> Result<Limits, Fault> {
    let mut limits = Limits::default();
    if let Some(ms) = options.amount("timeoutMs")? {
        limits.timeout = millis(ms);
    }
    if let Some(bytes) = options.amount("memoryLimitBytes")? {
        limits.memory_bytes = bytes as u64;
    }
    if let Some(lines) = options.amount("maxLogLines")? {
        limits.max_log_lines = lines as usize;
    }
    if let Some(chars) = options.amount("maxLogChars")? {
        limits.max_log_chars = chars as usize;
    }
    if let Some(bytes) = options.amount("maxSourceBytes")? {
        limits.max_source_bytes = bytes as usize;
    }
    Ok(limits)
}

fn read_provider(provider: &mut Fields) -> Result<ProviderManifest, Fault> {
    let name = provider.string("name")?;
    let tools = provider.object("tools")?;
    let mut safe_names = HashSet::new();
    let tools = tools.object.into_iter().map(|(key, json)| {
        let mut fields = Fields::of(json, format!("{}.{key}", tools.path))?;
        let tool = read_tool(&mut fields)?;
        let is_new = safe_names.insert(tool.safe_name.clone());
        if is_new { Ok(tool) } else { Err(Fault::SafeName { field: fields.path }) }
    });
    let tools = tools.collect::<Result<_, _>>()?;
    Ok(ProviderManifest::new(name, tools, provider.string("types")?))
}

/// The key that a tool stands under says nothing: "property names are the manifest tool `safeName` values".
fn read_tool(tool: &mut Fields) -> Result<ToolManifest, Fault> {
    let safe_name = tool.string("safeName")?;
    let original_name = tool.string("originalName")?;
    Ok(ToolManifest { safe_name, original_name, description: tool.optional_string("description")? })
}

/// The longest `callId` that a host takes, in bytes: it keeps them.
pub const MAX_CALL_ID_BYTES: usize = 256;

impl WireCall {
    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let call_id = fields.string("callId")?;
        if call_id.len() > MAX_CALL_ID_BYTES {
            return Err(wrong("callId".to_owned(), "a string of at most 256 bytes"));
        }
        Ok(Self {
            call_id,
            provider_name: fields.string("providerName")?,
            safe_tool_name: fields.string("safeToolName")?,
            input: fields.object.remove("input"),
        })
    }
}

impl WireLog {
    fn read(fields: &mut Fields) -> Option<Self> {
        let mut text = |name| fields.string(name).ok();
        let (id, level, text) = (text("id")?, text("level")?, text("text")?);
        Some(Self { id, line: LogLine { level: LogLevel::from_name(&level).unwrap_or(LogLevel::Log), text } })
    }
}

impl ToolResult {
    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        Ok(Self { call_id: fields.string("callId")?, result: read_outcome(fields, ErrorCode::ToolError)? })
    }
}

impl Done {
    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let outcome = read_outcome(fields, ErrorCode::InternalError)?;
        let duration = millis(fields.amount("durationMs")?.ok_or_else(|| fields.missing("durationMs"))?);
        let logs = fields.array("logs")?.into_iter().enumerate();
        let logs = logs.map(|(number, line)| string(line).ok_or_else(|| wrong(format!("logs[{number}]"), A_STRING)));
        Ok(Self { id, result: ExecuteResult { outcome, logs: logs.collect::<Result<_, _>>()?, duration } })
    }
}

/// `ok` with `result` or `error`. `unknown` stands for an error code that there is not.
fn read_outcome(fields: &mut Fields, unknown: ErrorCode) -> Result<Result<Option<Json>, ExecuteError>, Fault> {
    let ok = fields.field("ok", "a boolean", |json| json.as_bool())?;
    match (ok, fields.object.get("error").is_some_and(|error| !error.is_null())) {
        (true, false) => Ok(Ok(fields.object.remove("result"))),
        (true, true) => Err(Fault::OkWithError),
        (false, _) => {
            let mut error = fields.object("error")?;
            let code = ErrorCode::from_name(&error.string("code")?).unwrap_or(unknown);
            let message = error.string("message")?;
            let name = error.object.get("name").and_then(Json::as_str).unwrap_or_default();
            let position = error.object.get("position").and_then(|position| Position::deserialize(position).ok());
            let stack = read_stack(error.object.get("stack"));
            Ok(Err(ExecuteError { position, stack, ..ExecuteError::new(code, message).named(name) }))
        }
    }
}

/// The frames of a stack. No part of the specification: what is no frame is left out.
pub(super) fn read_stack(stack: Option<&Json>) -> Vec<StackFrame> {
    let frames = stack.and_then(Json::as_array).into_iter().flatten();
    bounded_stack(frames.filter_map(|frame| StackFrame::deserialize(frame).ok()))
}

/// The fields of an object, taken out one by one.
pub(super) struct Fields {
    pub(super) object: Object,
    /// The way to the object, empty for a whole message.
    path: String,
}

pub(super) const A_STRING: &str = "a string";
const AN_OBJECT: &str = "an object";

impl Fields {
    pub(super) fn of(json: Json, path: String) -> Result<Self, Fault> {
        match json {
            Json::Object(object) => Ok(Self { object, path }),
            _ => Err(wrong(path, AN_OBJECT)),
        }
    }

    pub(super) fn string(&mut self, name: &str) -> Result<String, Fault> {
        self.field(name, A_STRING, string)
    }

    fn array(&mut self, name: &str) -> Result<Vec<Json>, Fault> {
        self.field(name, "an array", |json| if let Json::Array(items) = json { Some(items) } else { None })
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Self, Fault> {
        let json = self.object.remove(name).ok_or_else(|| self.missing(name))?;
        Self::of(json, self.name(name))
    }

    /// A number of at least 0, if the field is there. `null` is what `JSON.stringify` makes of NaN.
    pub(super) fn amount(&mut self, name: &str) -> Result<Option<f64>, Fault> {
        let Some(json) = self.object.remove(name) else { return Ok(None) };
        let amount = json.as_f64().filter(|amount| *amount >= 0.0);
        amount.map(Some).ok_or_else(|| wrong(self.name(name), "a number of at least 0"))
    }

    /// A string, if the field is there and is not null.
    pub(super) fn optional_string(&mut self, name: &str) -> Result<Option<String>, Fault> {
        match self.object.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(_) => self.string(name).map(Some),
        }
    }

    pub(super) fn field<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        read: fn(Json) -> Option<T>,
    ) -> Result<T, Fault> {
        let json = self.object.remove(name).ok_or_else(|| self.missing(name))?;
        read(json).ok_or_else(|| wrong(self.name(name), expected))
    }

    pub(super) fn missing(&self, name: &str) -> Fault {
        Fault::Missing(self.name(name))
    }

    fn name(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn string(json: Json) -> Option<String> {
    if let Json::String(text) = json { Some(text) } else { None }
}

pub(super) fn wrong(field: String, expected: &'static str) -> Fault {
    Fault::Wrong { field, expected }
}

/// To the microsecond; what is too long for a duration is the longest.
pub(super) fn millis(ms: f64) -> Duration {
    Duration::from_micros((ms * 1000.0).round() as u64)
}

// ---- Printing -----------------------------------------------------------------------------------

/// A duration in milliseconds, to the microsecond, and whole where it is whole: `3`, not `3.0`.
pub(super) struct Millis(pub(super) Duration);

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = self.0.as_micros();
        match u64::try_from(micros / 1000) {
            Ok(ms) if micros.is_multiple_of(1000) => serializer.serialize_u64(ms),
            _ => serializer.serialize_f64(micros as f64 / 1000.0),
        }
    }
}

/// Limits as `options`.
pub(super) fn written_limits(limits: &Limits) -> Json {
    write_limits(limits, serde_json::value::Serializer).unwrap_or_default()
}

fn write_limits<S: Serializer>(limits: &Limits, serializer: S) -> Result<S::Ok, S::Error> {
    // The specification has four options; the fifth is sent only where it differs from what any runner has.
    let has_source_limit = limits.max_source_bytes != DEFAULT_MAX_SOURCE_BYTES;
    let mut options = serializer.serialize_struct("ExecutorRuntimeOptions", 4 + usize::from(has_source_limit))?;
    options.serialize_field("timeoutMs", &Millis(limits.timeout))?;
    options.serialize_field("memoryLimitBytes", &limits.memory_bytes)?;
    options.serialize_field("maxLogLines", &limits.max_log_lines)?;
    options.serialize_field("maxLogChars", &limits.max_log_chars)?;
    if has_source_limit {
        options.serialize_field("maxSourceBytes", &limits.max_source_bytes)?;
    }
    options.end()
}

fn write_providers<S: Serializer>(providers: &[Arc<ProviderManifest>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(providers.iter().map(|provider| WireProvider {
        name: &provider.name,
        tools: Tools(&provider.tools),
        types: &provider.types,
    }))
}

#[derive(Serialize)]
struct WireProvider<'a> {
    name: &'a str,
    tools: Tools<'a>,
    types: &'a str,
}

struct Tools<'a>(&'a [ToolManifest]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tools = serializer.serialize_map(Some(self.0.len()))?;
        for ToolManifest { safe_name, original_name, description } in self.0 {
            tools.serialize_entry(safe_name, &WireTool { safe_name, original_name, description })?;
        }
        tools.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireTool<'a> {
    safe_name: &'a str,
    original_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: &'a Option<String>,
}

impl Serialize for WireLog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("WireLog", 3)?;
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("level", self.line.level.as_str())?;
        fields.serialize_field("text", &self.line.text)?;
        fields.end()
    }
}

impl Serialize for ToolResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ToolResult", 3)?;
        fields.serialize_field("callId", &self.call_id)?;
        fields.serialize_field("ok", &self.result.is_ok())?;
        write_outcome(&mut fields, &self.result)?;
        fields.end()
    }
}

/// The fields of [`ExecuteResult`] behind the id, without a copy of the result.
impl Serialize for Done {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Done", 5)?;
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("ok", &self.result.is_ok())?;
        fields.serialize_field("durationMs", &Millis(self.result.duration))?;
        fields.serialize_field("logs", &self.result.logs)?;
        write_outcome(&mut fields, &self.result.outcome)?;
        fields.end()
    }
}

fn write_outcome<S: serde::ser::SerializeStruct>(
    fields: &mut S,
    outcome: &Result<Option<Json>, ExecuteError>,
) -> Result<(), S::Error> {
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(result)) => fields.serialize_field("result", result),
        Err(error) => fields.serialize_field("error", error),
    }
}

// ---- What is too long to be printed -------------------------------------------------------------

/// An error message that is longer than what [`shorter`] would put in its place.
const LONG_MESSAGE: usize = 200;

/// What an outcome becomes whose message was too long; `None` if that would not make it shorter.
pub(super) fn shorter(
    outcome: &Result<Option<Json>, ExecuteError>,
    what: &str,
    too_long: TooLong,
) -> Option<ExecuteError> {
    match outcome {
        Ok(_) => Some(cannot_cross(what, too_long)),
        Err(error) if error.message.len() > LONG_MESSAGE => Some(ExecuteError::new(error.code, too_long.to_string())),
        // Behind a short message it is the rest that is too long.
        Err(error) if !error.stack.is_empty() => Some(ExecuteError::new(error.code, error.message.as_str())),
        Err(_) => None,
    }
}

pub(super) fn cannot_cross(what: &str, why: impl std::fmt::Display) -> ExecuteError {
    ExecuteError::new(ErrorCode::SerializationError, format!("{what} cannot cross: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Runner specification, "Minimal Success Transcript" and "Minimal Cancellation Transcript";
    /// protocol reference, "Minimal Transcript"; and the shapes that these leave out.
    const FROM_HOST: &[&str] = &[
        r#"{"type":"execute","id":"exec-1","code":"const value = await tools.echo({\"ok\":true}); value.ok","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"echo":{"safeName":"echo","originalName":"echo","description":"Echo input"}},"types":"declare namespace tools { ... }"}]}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":true,"result":{"ok":true}}"#,
        r#"{"type":"execute","id":"exec-2","code":"await tools.hang({})","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"hang":{"safeName":"hang","originalName":"hang"}},"types":"declare namespace tools { ... }"}]}"#,
        r#"{"type":"cancel","id":"exec-2"}"#,
        r#"{"type":"execute","id":"exec-1","code":"await tools.echo({\"ok\":true})","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"echo":{"safeName":"echo","originalName":"echo","description":"Echo input"}},"types":"declare namespace tools { ... }"}]}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":true}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":true,"result":null}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":false,"error":{"code":"validation_error","message":"no"}}"#,
    ];

    const FROM_RUNNER: &[&str] = &[
        r#"{"type":"started","id":"exec-1"}"#,
        r#"{"type":"tool_call","callId":"call-1","providerName":"tools","safeToolName":"echo","input":{"ok":true}}"#,
        r#"{"type":"done","id":"exec-1","ok":true,"durationMs":3,"logs":[],"result":true}"#,
        r#"{"type":"started","id":"exec-2"}"#,
        r#"{"type":"tool_call","callId":"call-9","providerName":"tools","safeToolName":"hang","input":{}}"#,
        r#"{"type":"done","id":"exec-2","ok":false,"durationMs":1005,"logs":[],"error":{"code":"timeout","message":"Execution timed out"}}"#,
        r#"{"type":"done","id":"exec-1","ok":true,"durationMs":3,"logs":[],"result":{"ok":true}}"#,
        r#"{"type":"tool_call","callId":"call-1","providerName":"tools","safeToolName":"echo"}"#,
        r#"{"type":"tool_call","callId":"call-1","providerName":"tools","safeToolName":"echo","input":null}"#,
        r#"{"type":"done","id":"exec-1","ok":true,"durationMs":0.001,"logs":["a"]}"#,
        r#"{"type":"done","id":"exec-1","ok":true,"durationMs":1234.567,"logs":[],"result":null}"#,
        r#"{"type":"log","id":"exec-1","level":"warn","text":"half done"}"#,
        r#"{"type":"done","id":"exec-1","ok":false,"durationMs":3,"logs":[],"error":{"code":"tool_error","message":"full","position":{"line":3,"column":7}}}"#,
        r#"{"type":"done","id":"exec-1","ok":false,"durationMs":3,"logs":[],"error":{"code":"runtime_error","message":"bad","name":"TypeError","position":{"line":3,"column":7},"stack":[{"function":"f","file":"<script>","line":3,"column":7},{"file":"<script>","line":5,"column":1}]}}"#,
    ];

    fn object(line: &str) -> Object {
        serde_json::from_str(line).unwrap()
    }

    fn members(message: Json) -> Object {
        if let Json::Object(members) = message { members } else { panic!("{message} is no object") }
    }

    fn host(message: Json) -> Result<Option<HostMessage>, MessageError> {
        HostMessage::from_object(members(message), Attachments::default())
    }

    fn runner(message: Json) -> Result<Option<RunnerMessage>, MessageError> {
        RunnerMessage::from_object(members(message), Attachments::default())
    }

    fn fault<M>(read: Result<Option<M>, MessageError>) -> String {
        read.err().expect("it is malformed").fault.to_string()
    }

    fn execute(options: &Json, providers: &Json) -> Json {
        json!({"type": "execute", "id": "e", "code": "", "options": options, "providers": providers})
    }

    fn limits(options: &Json) -> Limits {
        match host(execute(options, &json!([]))).unwrap() {
            Some(HostMessage::Execute(execute)) => execute.limits,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_transcripts_of_the_specification_are_read_and_printed_as_they_are() {
        for line in FROM_HOST {
            let message = HostMessage::from_object(object(line), Attachments::default()).unwrap().unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), *line);
        }
        for line in FROM_RUNNER {
            let message = RunnerMessage::from_object(object(line), Attachments::default()).unwrap().unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), *line);
        }
    }

    #[test]
    fn done_is_the_result_with_an_id() {
        let result = ExecuteResult {
            outcome: Err(ExecuteError::tool("full")),
            logs: vec!["a".into()],
            duration: Duration::from_micros(1500),
        };
        let mut expected = serde_json::to_value(&result).unwrap();
        expected["type"] = "done".into();
        expected["id"] = "e".into();
        let done = RunnerMessage::Done(Done { id: "e".into(), result });
        assert_eq!(serde_json::to_value(done).unwrap(), expected);
    }

    #[test]
    fn every_option_may_be_left_out() {
        assert_eq!(limits(&json!({})), Limits::default());
        assert_eq!(limits(&json!({"timeoutMs": 1.5})).timeout, Duration::from_micros(1500));
        assert_eq!(limits(&json!({"memoryLimitBytes": 1.9e3})).memory_bytes, 1900);
        assert_eq!(limits(&json!({"maxLogLines": 0, "maxLogChars": 1e300})).max_log_chars, usize::MAX);
        assert!(limits(&json!({"timeoutMs": 1e300})).timeout > Duration::from_secs(1 << 40));
    }

    #[test]
    fn nonsense_is_named() {
        for option in ["timeoutMs", "memoryLimitBytes", "maxLogLines", "maxLogChars", "maxSourceBytes"] {
            for nonsense in [json!(-1), json!(null), json!("5"), json!({}), json!(true)] {
                let error = fault(host(execute(&json!({ option: nonsense }), &json!([]))));
                assert_eq!(error, format!("`options.{option}` is not a number of at least 0"));
            }
        }
        let provider = |tools: Json| json!([{"name": "t", "tools": tools, "types": ""}]);
        for (providers, error) in [
            (json!({}), "`providers` is not an array"),
            (json!([1]), "`providers[0]` is not an object"),
            (json!([{"tools": {}, "types": ""}]), "`providers[0].name` is missing"),
            (json!([{"name": "t", "tools": {}}]), "`providers[0].types` is missing"),
            (provider(json!([])), "`providers[0].tools` is not an object"),
            (provider(json!({"a": {"safeName": "a"}})), "`providers[0].tools.a.originalName` is missing"),
            (
                provider(
                    json!({"a": {"safeName": "c", "originalName": "a"}, "b": {"safeName": "c", "originalName": "b"}}),
                ),
                "`providers[0].tools.b.safeName` is that of another tool, too",
            ),
            (
                provider(json!({"a": {"safeName": "a", "originalName": "a", "description": 1}})),
                "`providers[0].tools.a.description` is not a string",
            ),
        ] {
            assert_eq!(fault(host(execute(&json!({}), &providers))), error);
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_with_the_id_to_answer() {
        for (message, error) in [
            (json!({}), "`type` is missing"),
            (json!({"type": 1}), "`type` is not a string"),
            (json!({"type": "cancel"}), "`id` is missing"),
            (json!({"type": "tool_result", "callId": "c"}), "`ok` is missing"),
            (json!({"type": "tool_result", "callId": "c", "ok": false}), "`error` is missing"),
            (json!({"type": "tool_result", "callId": "c", "ok": false, "error": null}), "`error` is not an object"),
            (
                json!({"type": "tool_result", "callId": "c", "ok": true, "error": {}}),
                "`ok` is true, yet there is an `error`",
            ),
        ] {
            assert_eq!(fault(host(message)), error);
        }
        for (message, error) in [
            (json!({"type": "tool_call", "callId": 1}), "`callId` is not a string"),
            (json!({"type": "done", "id": "e", "ok": true, "logs": []}), "`durationMs` is missing"),
            (
                json!({"type": "done", "id": "e", "ok": true, "durationMs": -1}),
                "`durationMs` is not a number of at least 0",
            ),
            (json!({"type": "done", "id": "e", "ok": true, "durationMs": 1, "logs": [1]}), "`logs[0]` is not a string"),
        ] {
            assert_eq!(fault(runner(message)), error);
        }
        let error = host(json!({"type": "execute", "id": "e"})).unwrap_err();
        assert_eq!((error.kind.as_str(), error.id.as_deref()), ("execute", Some("e")));
        assert_eq!(error.to_string(), "a malformed execute message: `code` is missing");
    }

    #[test]
    fn unknown_types_fields_and_codes_are_tolerated() {
        assert_eq!(host(json!({"type": "started", "id": "e"})), Ok(None));
        assert_eq!(runner(json!({"type": "hello"})), Ok(None));
        assert_eq!(runner(json!({"type": "log", "id": "e", "message": "another's"})), Ok(None));
        let Ok(Some(RunnerMessage::Log(log))) =
            runner(json!({"type": "log", "id": "e", "level": "trace", "text": "t"}))
        else {
            panic!()
        };
        assert_eq!(log.line.level, LogLevel::Log);
        assert_eq!(
            host(json!({"type": "cancel", "id": "e", "__proto__": 1})),
            Ok(Some(HostMessage::Cancel { id: "e".into() }))
        );
        let error = json!({"code": "made_up", "message": "m", "more": 1});
        let Ok(Some(HostMessage::ToolResult(result))) =
            host(json!({"type": "tool_result", "callId": "c", "ok": false, "error": error}))
        else {
            panic!()
        };
        assert_eq!(result.result, Err(ExecuteError::tool("m")));
        let Ok(Some(RunnerMessage::Done(done))) = runner(
            json!({"type": "done", "id": "e", "ok": false, "durationMs": 1, "logs": [], "result": null, "error": error}),
        ) else {
            panic!()
        };
        assert_eq!(done.result.outcome, Err(ExecuteError::internal("m")));
    }

    #[test]
    fn what_is_no_position_and_no_frame_is_none() {
        for nonsense in [
            json!(null),
            json!("3:7"),
            json!({"line": 1}),
            json!({"line": -1, "column": 1}),
            json!({"line": 1, "column": 1e10}),
            json!({"name": 7}),
            json!([null, {"file": "<script>"}, {"function": 1, "file": "<script>", "line": 1, "column": 1}]),
        ] {
            let error = json!({"code": "tool_error", "message": "m", "position": nonsense, "name": nonsense["name"], "stack": nonsense});
            let done = json!({"type": "done", "id": "e", "ok": false, "durationMs": 1, "logs": [], "error": error});
            let Ok(Some(RunnerMessage::Done(done))) = runner(done) else { panic!() };
            assert_eq!(done.result.outcome, Err(ExecuteError::tool("m")));
        }
    }

    fn json_value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<String>().prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    fn outcome() -> impl Strategy<Value = Result<Option<Json>, ExecuteError>> {
        prop_oneof![
            prop::option::of(json_value()).prop_map(Ok),
            any::<String>().prop_map(|message| Err(ExecuteError::new(ErrorCode::MemoryLimit, message))),
        ]
    }

    prop_compose! {
        fn execute_message()(
            id in any::<String>(), code in any::<String>(), micros in 0_u64..1 << 50, memory_bytes in 0_u64..1 << 53,
            lines in 0_usize..1 << 50, chars in 0_usize..1 << 50, source in 0_usize..1 << 50, name in any::<String>(), stream_logs in any::<bool>(),
            tools in prop::collection::btree_map(any::<String>(), prop::option::of(any::<String>()), 0..4),
        ) -> HostMessage {
            let limits = Limits {
                timeout: Duration::from_micros(micros), memory_bytes, max_log_lines: lines, max_log_chars: chars, max_source_bytes: source,
            };
            let tools = tools.into_iter().rev().map(|(safe_name, description)| {
                ToolManifest { original_name: format!("{safe_name}!"), safe_name, description }
            });
            let provider = Arc::new(ProviderManifest::new(name, tools.collect(), code.clone()));
            HostMessage::Execute(Execute { id, code, limits, providers: vec![provider], stream_logs })
        }
    }

    fn host_message() -> impl Strategy<Value = HostMessage> {
        prop_oneof![
            execute_message(),
            any::<String>().prop_map(|id| HostMessage::Cancel { id }),
            (any::<String>(), outcome())
                .prop_map(|(call_id, result)| HostMessage::ToolResult(ToolResult { call_id, result })),
        ]
    }

    fn runner_message() -> impl Strategy<Value = RunnerMessage> {
        let call = (any::<[String; 3]>(), prop::option::of(json_value())).prop_map(|(names, input)| {
            let [call_id, provider_name, safe_tool_name] = names;
            RunnerMessage::ToolCall(WireCall { call_id, provider_name, safe_tool_name, input })
        });
        let done = (any::<String>(), outcome(), any::<Vec<String>>(), 0_u64..1 << 50);
        let level =
            prop::sample::select(vec![LogLevel::Log, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Debug]);
        prop_oneof![
            any::<String>().prop_map(|id| RunnerMessage::Started { id }),
            (any::<[String; 2]>(), level)
                .prop_map(|([id, text], level)| { RunnerMessage::Log(WireLog { id, line: LogLine { level, text } }) }),
            call,
            done.prop_map(|(id, outcome, logs, micros)| {
                let result = ExecuteResult { outcome, logs, duration: Duration::from_micros(micros) };
                RunnerMessage::Done(Done { id, result })
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_a_host_says_is_what_a_runner_reads(message in host_message()) {
            let line = serde_json::to_string(&message).unwrap();
            prop_assert_eq!(HostMessage::from_object(object(&line), Attachments::default()), Ok(Some(message)));
        }

        #[test]
        fn what_a_runner_says_is_what_a_host_reads(message in runner_message()) {
            let line = serde_json::to_string(&message).unwrap();
            prop_assert_eq!(RunnerMessage::from_object(object(&line), Attachments::default()), Ok(Some(message)));
        }
    }
}
