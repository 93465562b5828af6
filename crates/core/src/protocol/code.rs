//! The further messages, for runs of the module contract (`run_code`).
//!
//! They travel on the same lines as the six and change none of them. A runner that does not know them ignores them, as it
//! ignores every type that it does not know; so a host says `hello` first, and a runner that answers knows them.
//!
//! | message | direction | fields |
//! |---|---|---|
//! | `hello` | both | `runCode`: 1; `attachments`: whether the sender takes them |
//! | `run_code` | host → runner | `id`, `source`, `filename?`, `language`, `modules`, `imports`: specifier → value, `globals`: value, `fn`, `args`: value, `options` as in `execute` |
//! | `settle` | host → runner | `id`, `call` or `promise`: its number, `ok`, `value` |
//! | `code_call` | runner → host | `id`, `call`: its number, `function`: its number, `now`, `args`: value |
//! | `code_notify` | runner → host | `id`, `function`: its number, `args`: value |
//! | `code_done` | runner → host | `id`, `ok`, `durationMs`, `memoryUsedBytes?`, `result`: value, or `status`, `error` and `internal?`: whether something between host and guest broke |
//!
//! `started` and `cancel` are used as they are. The number of a `code_call` is greater than that of the one before it. A
//! `code_call` with `now` is one that the guest stands still in.
//!
//! A value is [tagged JSON](crate::value#tagged-json), or one of
//! - `{"$attachment": n}`: the n-th attachment ahead of the message, the bytes of the value;
//! - `{"$encoded": "…"}`: the same bytes as base64, for what nests too deep for JSON.
//!
//! An *attachment* is a string of bytes that a transport carries as it is, ahead of the message that names it: on a stream a
//! line `*LENGTH` and then so many bytes; over WebSocket a binary message. Nobody sends one to a peer that has not said that
//! it takes them.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value as Json, json};

use super::line::MAX_ATTACHMENT_BYTES;
use super::message::{A_STRING, Fault, Fields, Millis, Object, millis, read_limits, read_stack, written_limits, wrong};
use crate::contract::module::{Bridge, CodeExecutionError, Ending, Failure, Request, Status};
use crate::engine::{Call, CallId, FunctionId, Notification, Pending};
use crate::language::Dialect;
use crate::value::{Graph, Value};

/// Values of at most so many bytes are written as text also where attachments are taken.
const TEXT_BYTES: usize = 256;

/// How many bytes the imports and globals of a run may take, one by one, while their names are read: enough for the largest
/// attachment. Whether the guest has room for them is found out there.
const BRIDGE_BUDGET: usize = 4 * MAX_ATTACHMENT_BYTES;

/// Greets, and says what one takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Attachments are taken.
    pub attachments: bool,
}

/// `run_code`.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCode {
    /// Names the run.
    pub id: String,
    /// What is asked for.
    pub request: Request,
}

/// `settle`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    /// The run.
    pub id: String,
    /// What is settled.
    pub pending: Pending,
    /// With what.
    pub result: Result<Value, Value>,
}

/// `code_call`.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeCall {
    /// The run.
    pub id: String,
    /// The call.
    pub call: Call,
}

/// `code_notify`.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeNotify {
    /// The run.
    pub id: String,
    /// What the guest said.
    pub notification: Notification,
}

/// `code_done`.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeDone {
    /// The run.
    pub id: String,
    /// How it ended.
    pub ending: Ending,
    /// How long the runner took.
    pub duration: Duration,
    /// The most memory that the program had in use.
    pub memory_used_bytes: Option<u64>,
}

// ---- Values on the wire ---------------------------------------------------------------------------

/// The attachments of one message.
#[derive(Debug, Default)]
pub struct Attachments {
    /// Whether there may be any.
    pub taken: bool,
    /// In order.
    pub bytes: Vec<Vec<u8>>,
}

impl Attachments {
    /// For a peer that takes them, or does not.
    pub fn for_peer(taken: bool) -> Self {
        Self { taken, bytes: Vec::new() }
    }

    /// As they came ahead of a message.
    pub fn of(bytes: Vec<Vec<u8>>) -> Self {
        Self { taken: true, bytes }
    }

    fn write(&mut self, value: &Value) -> Json {
        let bytes = value.as_bytes();
        if self.taken && bytes.len() > TEXT_BYTES {
            self.bytes.push(bytes.to_vec());
            return json!({ "$attachment": self.bytes.len() - 1 });
        }
        let text = value.to_graph("value", usize::MAX).and_then(|graph| graph.to_tagged_json("value"));
        text.unwrap_or_else(|_| json!({ "$encoded": BASE64_STANDARD.encode(bytes) }))
    }

    fn read(&mut self, json: &Json, field: &str) -> Result<Value, Fault> {
        if let Json::Object(object) = json
            && object.len() == 1
        {
            if let Some(number) = object.get("$attachment") {
                let attached = number.as_u64().and_then(|number| self.bytes.get_mut(usize::try_from(number).ok()?));
                let bytes = attached.map(std::mem::take).filter(|bytes| !bytes.is_empty());
                return bytes.map(Value::from_bytes).ok_or_else(|| wrong(field.to_owned(), "an attachment that came"));
            }
            if let Some(text) = object.get("$encoded") {
                let bytes = text.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
                return bytes.map(Value::from_bytes).ok_or_else(|| wrong(field.to_owned(), "base64"));
            }
        }
        let value = Graph::from_tagged_json(json, field).and_then(|graph| graph.to_value(field));
        value.map_err(|_| wrong(field.to_owned(), "a value in tagged JSON"))
    }
}

impl Fields {
    fn value(&mut self, name: &str, attachments: &mut Attachments) -> Result<Value, Fault> {
        let json = self.object.remove(name).ok_or_else(|| self.missing(name))?;
        attachments.read(&json, name)
    }

    fn boolean(&mut self, name: &str) -> Result<bool, Fault> {
        self.field(name, "a boolean", |json| json.as_bool())
    }

    fn number(&mut self, name: &str) -> Result<u64, Fault> {
        self.field(name, "a whole number of at least 0", |json| json.as_u64())
    }

    fn number_32(&mut self, name: &str) -> Result<u32, Fault> {
        self.field(name, "a whole number of 32 bits", |json| {
            json.as_u64().and_then(|number| u32::try_from(number).ok())
        })
    }
}

// ---- hello --------------------------------------------------------------------------------------

impl Hello {
    pub(super) fn write(self) -> Json {
        json!({ "type": "hello", "runCode": 1, "attachments": self.attachments })
    }

    /// Others may greet each other with the same word.
    pub(super) fn is_ours(fields: &Fields) -> bool {
        fields.object.get("runCode").and_then(Json::as_u64) == Some(1)
    }

    pub(super) fn read(fields: &mut Fields) -> Self {
        Self { attachments: fields.boolean("attachments").unwrap_or(false) }
    }
}

// ---- run_code -----------------------------------------------------------------------------------

impl RunCode {
    pub(super) fn write(&self, attachments: &mut Attachments) -> Json {
        let Request { source, filename, language, modules, imports, globals, function, args, limits } = &self.request;
        let language = match language {
            Dialect::JavaScript => "javascript",
            Dialect::TypeScript => "typescript",
        };
        let imports: Object =
            imports.iter().map(|(specifier, bridge)| (specifier.clone(), attachments.write(&bridge.value))).collect();
        let mut json = json!({
            "type": "run_code", "id": self.id, "source": source, "language": language, "modules": modules,
            "imports": imports, "globals": attachments.write(&globals.value), "fn": function,
            "args": attachments.write(args), "options": written_limits(limits),
        });
        if let (Some(filename), Some(object)) = (filename, json.as_object_mut()) {
            object.insert("filename".to_owned(), json!(filename));
        }
        json
    }

    pub(super) fn read(fields: &mut Fields, attachments: &mut Attachments) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let source = fields.string("source")?;
        let filename = fields.optional_string("filename")?;
        let language = match fields.string("language")?.as_str() {
            "javascript" => Dialect::JavaScript,
            "typescript" => Dialect::TypeScript,
            _ => return Err(wrong("language".to_owned(), "\"typescript\" or \"javascript\"")),
        };
        let modules = fields.object("modules")?.object.into_iter().map(|(specifier, source)| match source {
            Json::String(source) => Ok((specifier, source)),
            _ => Err(wrong(format!("modules.{specifier}"), A_STRING)),
        });
        let modules = modules.collect::<Result<BTreeMap<_, _>, _>>()?;
        let limits = read_limits(&mut fields.object("options")?)?;
        let mut bridge = |json: &Json, field: &str| {
            let value = attachments.read(json, field)?;
            Bridge::from_value(value, field, BRIDGE_BUDGET).map_err(|_| wrong(field.to_owned(), "an object of values"))
        };
        let imports = fields.object("imports")?.object;
        let imports = imports.iter().map(|(specifier, json)| Ok((specifier.clone(), bridge(json, "imports")?)));
        let imports = imports.collect::<Result<_, Fault>>()?;
        let globals = fields.object.remove("globals").ok_or_else(|| fields.missing("globals"))?;
        let globals = bridge(&globals, "globals")?;
        let function = fields.string("fn")?;
        let args = fields.value("args", attachments)?;
        let request = Request { source, filename, language, modules, imports, globals, function, args, limits };
        Ok(Self { id, request })
    }
}

// ---- settle -------------------------------------------------------------------------------------

impl Settle {
    pub(super) fn write(&self, attachments: &mut Attachments) -> Json {
        let (key, number) = match self.pending {
            Pending::Call(CallId(number)) => ("call", number),
            Pending::Promise(number) => ("promise", u64::from(number)),
        };
        let (Ok(value) | Err(value)) = &self.result;
        json!({ "type": "settle", "id": self.id, key: number, "ok": self.result.is_ok(), "value": attachments.write(value) })
    }

    pub(super) fn read(fields: &mut Fields, attachments: &mut Attachments) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let pending = match fields.object.contains_key("promise") {
            true => Pending::Promise(fields.number_32("promise")?),
            false => Pending::Call(CallId(fields.number("call")?)),
        };
        let ok = fields.boolean("ok")?;
        let value = fields.value("value", attachments)?;
        Ok(Self { id, pending, result: if ok { Ok(value) } else { Err(value) } })
    }
}

// ---- code_call and code_notify --------------------------------------------------------------------

impl CodeCall {
    pub(super) fn write(&self, attachments: &mut Attachments) -> Json {
        let Call { id: CallId(call), function, input, now } = &self.call;
        json!({
            "type": "code_call", "id": self.id, "call": call, "function": function.0, "now": now,
            "args": attachments.write(input),
        })
    }

    pub(super) fn read(fields: &mut Fields, attachments: &mut Attachments) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let call = CallId(fields.number("call")?);
        let function = FunctionId(fields.number_32("function")?);
        let now = fields.boolean("now")?;
        let input = fields.value("args", attachments)?;
        Ok(Self { id, call: Call { id: call, function, input, now } })
    }
}

impl CodeNotify {
    pub(super) fn write(&self, attachments: &mut Attachments) -> Json {
        let Notification { function, args } = &self.notification;
        json!({ "type": "code_notify", "id": self.id, "function": function.0, "args": attachments.write(args) })
    }

    pub(super) fn read(fields: &mut Fields, attachments: &mut Attachments) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let function = FunctionId(fields.number_32("function")?);
        Ok(Self { id, notification: Notification { function, args: fields.value("args", attachments)? } })
    }
}

// ---- code_done ----------------------------------------------------------------------------------

impl CodeDone {
    pub(super) fn write(&self, attachments: &mut Attachments) -> Json {
        let mut json = Map::new();
        json.insert("type".to_owned(), json!("code_done"));
        json.insert("id".to_owned(), json!(self.id));
        json.insert("ok".to_owned(), json!(self.ending.is_ok()));
        json.insert("durationMs".to_owned(), serde_json::to_value(Millis(self.duration)).unwrap_or_default());
        if let Some(bytes) = self.memory_used_bytes {
            json.insert("memoryUsedBytes".to_owned(), json!(bytes));
        }
        match &self.ending {
            Ok(value) => {
                json.insert("result".to_owned(), attachments.write(value));
            }
            Err(Failure { status, error }) => {
                json.insert("status".to_owned(), json!(status.as_str()));
                json.insert("error".to_owned(), error.to_json());
                if error.is_internal {
                    json.insert("internal".to_owned(), json!(true));
                }
            }
        }
        Json::Object(json)
    }

    pub(super) fn read(fields: &mut Fields, attachments: &mut Attachments) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let ok = fields.boolean("ok")?;
        let duration = millis(fields.amount("durationMs")?.ok_or_else(|| fields.missing("durationMs"))?);
        let memory_used_bytes = fields.amount("memoryUsedBytes")?.map(|bytes| bytes as u64);
        let ending = if ok { Ok(fields.value("result", attachments)?) } else { Err(read_failure(fields)?) };
        Ok(Self { id, ending, duration, memory_used_bytes })
    }
}

/// A status that there is not is an `error`.
fn read_failure(fields: &mut Fields) -> Result<Failure, Fault> {
    let status = Status::from_name(&fields.string("status")?).filter(|status| *status != Status::Success);
    let mut error =
        Fields::of(fields.object.remove("error").ok_or_else(|| fields.missing("error"))?, "error".to_owned())?;
    let number = |error: &mut Fields, name: &str| match error.object.contains_key(name) {
        true => error.number_32(name).map(Some),
        false => Ok(None),
    };
    let told = CodeExecutionError {
        name: error.string("name")?,
        message: error.string("message")?,
        stack: read_stack(error.object.get("frames")),
        specifier: error.optional_string("specifier")?,
        filename: error.optional_string("filename")?,
        line: number(&mut error, "line")?,
        column: number(&mut error, "column")?,
        is_internal: fields.object.get("internal") == Some(&Json::Bool(true)),
        refusal: None,
    };
    Ok(Failure::new(status.unwrap_or(Status::Error), told))
}
