//! The messages of the module contract (`run_code`). They are Execbox's own: a runner that does not support them ignores
//! them, as every unknown type. So a host sends `hello` first, and a runner that supports them answers.
//!
//! | message | direction | fields |
//! |---|---|---|
//! | `hello` | both | `runCode`: 1; `attachments`: whether the sender accepts them |
//! | `run_code` | host → runner | `id`, `source`, `filename?`, `language`, `modules`: specifier → source, `imports`: specifier → value, `globals`: value, `fn`, `args`: value, `options` as in `execute` |
//! | `settle` | host → runner | `id`, `call` or `promise`: its number, `ok`, `value` |
//! | `code_call` | runner → host | `id`, `call`: its number, `function`: its number, `now`, `args`: value |
//! | `code_notify` | runner → host | `id`, `function`: its number, `args`: value |
//! | `code_done` | runner → host | `id`, `ok`, `durationMs`, `memoryUsedBytes?`, `usage?`, `droppedLogs?` and `unawaited?` as in `done`, `result`: value, or `status`, `error` and `internal?`: the fault is the runner's, not the guest's |
//!
//! `started` and `cancel` are those of the script contract. The number of a `code_call` is greater than that of the one
//! before it. The guest is suspended inside a `code_call` with `now`. For values see [`attachments`](super::attachments).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;

use super::attachments::{MAX_ATTACHMENT_BYTES, MAX_TEXT_SOURCES};
use super::fields::{A_STRING, Body, Fault, Fields, Writer, wrong};
use super::script::{read_dropped_logs, read_options, read_unawaited, write_dropped_logs, write_options};
use crate::cause::Cause;
use crate::contract::Request as _;
use crate::contract::module::{Bridge, CodeExecutionError, Failure, Request, RunOutcome, Status};
use crate::engine::{Call, CallId, FunctionId, Notification, Pending};
use crate::language::Dialect;
use crate::unawaited::UnawaitedCalls;
use crate::usage::Usage;
use crate::value::Value;

/// `hello`: asks whether a runner supports the module contract, and is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The sender accepts attachments.
    pub attachments: bool,
}

impl Body for Hello {
    const TYPE: &'static str = "hello";

    fn matches(fields: &Fields) -> bool {
        fields.object.get("runCode").and_then(Json::as_u64) == Some(1)
    }

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        Ok(Self { attachments: fields.is_true("attachments") })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("runCode", &1);
        message.field("attachments", &self.attachments);
    }
}

// ---- From the host --------------------------------------------------------------------------------

/// `run_code`: starts a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCode {
    /// Identifies the run.
    pub id: String,
    /// What to run.
    pub request: Box<Request>,
}

/// The most bytes that the imports and globals of a run may take, one by one, while their names are read: enough for the
/// longest attachment. The guest's own memory limit is checked later.
const BRIDGE_BUDGET: usize = 4 * MAX_ATTACHMENT_BYTES;

impl Body for RunCode {
    const TYPE: &'static str = "run_code";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let source = fields.source("source")?;
        let filename = fields.optional_string("filename")?;
        let language = match fields.string("language")?.as_str() {
            "javascript" => Dialect::JavaScript,
            "typescript" => Dialect::TypeScript,
            _ => return Err(wrong("language", "\"typescript\" or \"javascript\"")),
        };
        let modules = fields.object("modules")?.object.into_iter();
        let modules = modules.map(|(specifier, source)| match fields.attachments.read_text(source) {
            Some(source) => Ok((specifier, source)),
            None => Err(wrong(format!("modules.{specifier}"), A_STRING)),
        });
        let modules = modules.collect::<Result<BTreeMap<_, _>, _>>()?;
        let limits = read_options(&mut fields.object("options")?)?;
        let imports = fields.object("imports")?.object.into_iter();
        let imports = imports.map(|(specifier, json)| Ok((specifier, read_bridge(fields, &json, "imports")?)));
        let imports = imports.collect::<Result<_, Fault>>()?;
        let globals = fields.json("globals")?;
        let globals = read_bridge(fields, &globals, "globals")?;
        let function = fields.string("fn")?;
        let args = fields.value("args")?;
        let request = Request { source, filename, language, modules, imports, globals, function, args, limits };
        Ok(Self { id, request: Box::new(request) })
    }

    fn write(&self, message: &mut Writer<'_>) {
        let Request { source, filename, language, modules, imports, globals, function, args, limits } = &*self.request;
        let language = match language {
            Dialect::JavaScript => "javascript",
            Dialect::TypeScript => "typescript",
        };
        message.field("id", &self.id);
        let is_attached = self.request.source_bytes() > MAX_TEXT_SOURCES;
        message.source("source", source, is_attached);
        message.field("language", language);
        message.object("modules", |object| {
            for (specifier, source) in modules {
                object.source(specifier, source, is_attached);
            }
        });
        message.object("imports", |object| {
            for (specifier, bridge) in imports {
                object.value(specifier, &bridge.value);
            }
        });
        message.value("globals", &globals.value);
        message.field("fn", function);
        message.value("args", args);
        message.object("options", |options| write_options(options, limits));
        message.optional("filename", filename.as_ref());
    }
}

fn read_bridge(fields: &mut Fields, json: &Json, name: &str) -> Result<Bridge, Fault> {
    let value = fields.attachments.read(json).map_err(|expected| wrong(name, expected))?;
    Bridge::from_value(value, name, BRIDGE_BUDGET).map_err(|_| wrong(name, "an object of values"))
}

/// `settle`: answers a call of a run, or settles a promise of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    /// The id of the run.
    pub id: String,
    /// The call or promise that is settled.
    pub pending: Pending,
    /// The value, or the reason of the rejection.
    pub result: Result<Value, Value>,
}

impl Body for Settle {
    const TYPE: &'static str = "settle";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let pending = match fields.object.contains_key("promise") {
            true => Pending::Promise(fields.integer_32("promise")?),
            false => Pending::Call(CallId(fields.integer("call")?)),
        };
        let ok = fields.boolean("ok")?;
        let value = fields.value("value")?;
        Ok(Self { id, pending, result: if ok { Ok(value) } else { Err(value) } })
    }

    fn write(&self, message: &mut Writer<'_>) {
        let (Ok(value) | Err(value)) = &self.result;
        message.field("id", &self.id);
        match self.pending {
            Pending::Call(CallId(number)) => message.field("call", &number),
            Pending::Promise(number) => message.field("promise", &number),
        }
        message.field("ok", &self.result.is_ok());
        message.value("value", value);
    }

    fn value(&self) -> Option<&Value> {
        let (Ok(value) | Err(value)) = &self.result;
        Some(value)
    }
}

// ---- From the runner ------------------------------------------------------------------------------

/// `code_call`: the guest calls a host function.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeCall {
    /// The id of the run.
    pub id: String,
    /// The call.
    pub call: Call,
}

impl Body for CodeCall {
    const TYPE: &'static str = "code_call";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let call = CallId(fields.integer("call")?);
        let function = FunctionId(fields.integer_32("function")?);
        let now = fields.boolean("now")?;
        Ok(Self { id, call: Call { id: call, function, input: fields.value("args")?, now } })
    }

    fn write(&self, message: &mut Writer<'_>) {
        let Call { id: CallId(call), function: FunctionId(function), input, now } = &self.call;
        message.field("id", &self.id);
        message.field("call", call);
        message.field("function", function);
        message.field("now", now);
        message.value("args", input);
    }

    fn value(&self) -> Option<&Value> {
        Some(&self.call.input)
    }
}

/// `code_notify`: the guest calls a host function that has no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeNotify {
    /// The id of the run.
    pub id: String,
    /// The call.
    pub notification: Notification,
}

impl Body for CodeNotify {
    const TYPE: &'static str = "code_notify";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let function = FunctionId(fields.integer_32("function")?);
        Ok(Self { id, notification: Notification { function, args: fields.value("args")? } })
    }

    fn write(&self, message: &mut Writer<'_>) {
        let Notification { function: FunctionId(function), args } = &self.notification;
        message.field("id", &self.id);
        message.field("function", function);
        message.value("args", args);
    }

    fn value(&self) -> Option<&Value> {
        Some(&self.notification.args)
    }
}

/// `code_done`: the run is over.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeDone {
    /// The id of the run.
    pub id: String,
    /// The outcome of the run. An unknown status is read as `error`.
    pub outcome: RunOutcome,
    /// How many calls of the captured console the log limits dropped.
    pub dropped_logs: u64,
    /// The calls that the program did not await.
    pub unawaited: Option<UnawaitedCalls>,
    /// The time from `started` to here.
    pub duration: Duration,
    /// What the runner measured. On the wire `memoryUsedBytes`, and the rest as `usage`.
    pub usage: Usage,
    /// As in [`Done`](super::script::Done).
    pub exits: bool,
}

impl Body for CodeDone {
    const TYPE: &'static str = "code_done";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let ok = fields.boolean("ok")?;
        let duration = fields.duration("durationMs")?;
        let peak_memory_bytes = fields.optional_amount("memoryUsedBytes")?.map(|bytes| bytes as u64);
        let usage = Usage { peak_memory_bytes, ..Usage::read(fields.object.remove("usage")) };
        let (dropped_logs, unawaited) = (read_dropped_logs(fields)?, read_unawaited(fields));
        let outcome = if ok { Ok(fields.value("result")?) } else { Err(read_failure(fields)?) };
        Ok(Self { id, outcome, dropped_logs, unawaited, duration, usage, exits: fields.is_true("exits") })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
        message.field("ok", &self.outcome.is_ok());
        message.duration("durationMs", self.duration);
        message.optional("memoryUsedBytes", self.usage.peak_memory_bytes.as_ref());
        match &self.outcome {
            Ok(value) => message.value("result", value),
            Err(failure) => write_failure(message, failure),
        }
        write_dropped_logs(message, self.dropped_logs);
        message.optional("unawaited", self.unawaited.as_ref());
        message.optional("usage", Usage { peak_memory_bytes: None, ..self.usage }.known());
        message.flag("exits", self.exits);
    }
}

fn read_failure(fields: &mut Fields) -> Result<Failure, Fault> {
    let status = Status::from_name(&fields.string("status")?).filter(|status| *status != Status::Success);
    let mut error = fields.object("error")?;
    let error = CodeExecutionError {
        name: error.string("name")?,
        message: error.string("message")?,
        stack: error.stack("frames"),
        specifier: error.optional_string("specifier")?,
        filename: error.optional_string("filename")?,
        line: error.optional_integer_32("line")?,
        column: error.optional_integer_32("column")?,
        cause: error.object.remove("cause").and_then(Cause::read).map(Box::new),
        is_internal: fields.is_true("internal"),
        rejected: None,
    };
    Ok(Failure::new(status.unwrap_or(Status::Error), error))
}

fn write_failure(message: &mut Writer<'_>, Failure { status, error }: &Failure) {
    message.field("status", status.as_str());
    message.field("error", &**error);
    message.flag("internal", error.is_internal);
}
