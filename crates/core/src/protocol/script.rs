//! The messages of the script contract (protocol reference, "Message Catalog"), and `log`, which is Execbox's own.
//!
//! `cancel`, `clock` and `started` belong to both contracts.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value as Json;

use super::fields::{A_STRING, Body, Fault, Fields, Writer, duration, string, wrong};
use super::line::TooLong;
use crate::cause::Cause;
use crate::contract::script::ScriptFunction;
use crate::engine::{LogLevel, LogLine};
use crate::error::{ErrorCode, ExecuteError, ExecuteResult};
use crate::language::Position;
use crate::libraries::Globals;
use crate::manifest::{ProviderManifest, ToolManifest};
use crate::program::{Amount, Limits, Unit, Wire};
use crate::unawaited::UnawaitedCalls;
use crate::usage::Usage;
use crate::value::Value;

// ---- From the host --------------------------------------------------------------------------------

/// `execute`: starts an execution (runner specification, "Inputs To The Runner").
#[derive(Debug, Clone, PartialEq)]
pub struct Execute {
    /// Identifies the execution.
    pub id: String,
    /// The guest's program.
    pub code: String,
    /// Functions that the program may call; on the wire left out if there are none. Not part of the specification: a runner
    /// that supports them confirms it in [`Started`].
    pub functions: Vec<ScriptFunction>,
    /// On the wire `options`; each may be left out for its default.
    pub limits: Limits,
    /// The tools that the guest may call: their names and descriptions only.
    pub providers: Vec<Arc<ProviderManifest>>,
    /// Asks for a [`log`](WireLog) message for every log line when it is logged, in addition to `done`. On the wire
    /// `streamLogs`, left out if false. Not part of the specification: other runners ignore it.
    pub stream_logs: bool,
    /// Asks that a script that has returned ends only when its calls are answered: see
    /// [`Program::waits_for_calls`](crate::program::Program::waits_for_calls). On the wire `waitForCalls`, left out if false. Not
    /// part of the specification: with other runners a script ends when its promise is settled.
    pub wait_for_calls: bool,
    /// The globals of the script that are not ECMAScript's. On the wire `commonGlobals` and `timers`, left out if false. Not part of
    /// the specification: with other runners a script has the globals that they give it.
    pub globals: Globals,
}

impl Body for Execute {
    const TYPE: &'static str = "execute";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let code = fields.string("code")?;
        let functions = if fields.object.contains_key("functions") { fields.array("functions")? } else { Vec::new() };
        let functions = functions.into_iter().enumerate();
        let functions = functions.map(|(number, json)| read_function(json, format!("functions[{number}]")));
        let functions = functions.collect::<Result<_, _>>()?;
        let limits = read_options(&mut fields.object("options")?)?;
        let providers = fields.array("providers")?.into_iter().enumerate();
        let providers = providers.map(|(number, json)| {
            let mut provider = Fields::of(json, format!("providers[{number}]"))?;
            read_provider(&mut provider).map(Arc::new)
        });
        let providers = providers.collect::<Result<_, _>>()?;
        let (stream_logs, wait_for_calls) = (fields.is_true("streamLogs"), fields.is_true("waitForCalls"));
        let globals = Globals { common: fields.is_true("commonGlobals"), timers: fields.is_true("timers") };
        Ok(Self { id, code, functions, limits, providers, stream_logs, wait_for_calls, globals })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
        message.field("code", &self.code);
        if !self.functions.is_empty() {
            message.objects("functions", &self.functions, write_function);
        }
        message.object("options", |options| write_options(options, &self.limits));
        message.objects("providers", &self.providers, |provider, manifest| write_provider(provider, manifest));
        message.flag("streamLogs", self.stream_logs);
        message.flag("waitForCalls", self.wait_for_calls);
        message.flag("commonGlobals", self.globals.common);
        message.flag("timers", self.globals.timers);
    }
}

fn read_function(json: Json, path: String) -> Result<ScriptFunction, Fault> {
    let mut fields = Fields::of(json, path)?;
    let [namespace, name, code] = [fields.string("namespace")?, fields.string("name")?, fields.string("code")?];
    Ok(ScriptFunction { namespace, name, code })
}

fn write_function(message: &mut Writer<'_>, function: &ScriptFunction) {
    message.field("namespace", &function.namespace);
    message.field("name", &function.name);
    message.field("code", &function.code);
}

/// The limits of an execution or a run.
pub(super) fn read_options(options: &mut Fields) -> Result<Limits, Fault> {
    let mut limits = Limits::default();
    for limit in Limits::TABLE {
        let (Wire::Always(name) | Wire::IfSet(name)) = limit.wire else { continue };
        if let Some(amount) = options.optional_amount(name)? {
            let is_time = limit.unit == Unit::Time;
            let amount = if is_time { Amount::Time(duration(amount)) } else { Amount::Count(amount as u64) };
            limit.set(&mut limits, Some(amount));
        }
    }
    Ok(limits)
}

pub(super) fn write_options(options: &mut Writer<'_>, limits: &Limits) {
    for limit in Limits::TABLE {
        let amount = limit.get(limits);
        let name = match limit.wire {
            Wire::Always(name) => name,
            Wire::IfSet(name) if amount != limit.get(&Limits::default()) => name,
            Wire::IfSet(_) | Wire::Never => continue,
        };
        match amount {
            Some(Amount::Time(time)) => options.duration(name, time),
            Some(Amount::Count(count)) => options.field(name, &count),
            None => {}
        }
    }
}

fn read_provider(provider: &mut Fields) -> Result<ProviderManifest, Fault> {
    let name = provider.string("name")?;
    let tools = provider.object("tools")?;
    let mut safe_names = HashSet::new();
    let tools = tools.object.into_iter().map(|(key, json)| {
        let mut fields = Fields::of(json, format!("{}.{key}", tools.path))?;
        let tool = read_tool(&mut fields)?;
        let is_new = safe_names.insert(tool.safe_name.clone());
        if is_new { Ok(tool) } else { Err(Fault::DuplicateSafeName { field: fields.path }) }
    });
    let tools = tools.collect::<Result<_, _>>()?;
    Ok(ProviderManifest::new(name, tools, provider.string("types")?))
}

fn write_provider(provider: &mut Writer<'_>, manifest: &ProviderManifest) {
    provider.field("name", &manifest.name);
    provider.object("tools", |tools| {
        for tool in &manifest.tools {
            tools.object(&tool.safe_name, |fields| write_tool(fields, tool));
        }
    });
    provider.field("types", &manifest.types);
}

/// The key of a tool is not read: "property names are the manifest tool `safeName` values".
fn read_tool(tool: &mut Fields) -> Result<ToolManifest, Fault> {
    let safe_name = tool.string("safeName")?;
    let original_name = tool.string("originalName")?;
    Ok(ToolManifest { safe_name, original_name, description: tool.optional_string("description")? })
}

fn write_tool(fields: &mut Writer<'_>, tool: &ToolManifest) {
    fields.field("safeName", &tool.safe_name);
    fields.field("originalName", &tool.original_name);
    fields.optional("description", tool.description.as_ref());
}

/// `cancel`: stops an execution or a run promptly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// The id of the execution or run.
    pub id: String,
}

impl Body for Cancel {
    const TYPE: &'static str = "cancel";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        Ok(Self { id: fields.string("id")? })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
    }
}

/// `clock`: pauses the clock of an execution or a run while its calls wait for a person, or resumes it. Not part of the
/// specification: other runners do not pause the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// The id of the execution or run.
    pub id: String,
    /// Whether time in which the guest only waits does not count from here on.
    pub stopped: bool,
}

impl Body for Clock {
    const TYPE: &'static str = "clock";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        Ok(Self { id: fields.string("id")?, stopped: fields.boolean("stopped")? })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
        message.field("stopped", &self.stopped);
    }
}

/// `tool_result`: answers a tool call (runner specification, "Tool Call Contract").
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call that this answers.
    pub call_id: String,
    /// The value that the call's promise settles with: JSON or `undefined`. An unknown error code is read as `tool_error`.
    pub result: Result<Value, ExecuteError>,
}

impl Body for ToolResult {
    const TYPE: &'static str = "tool_result";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let call_id = fields.string("callId")?;
        let result = read_outcome(fields, ErrorCode::ToolError, |fields| match fields.attachments.result.take() {
            Some(value) => Ok(value),
            None => Value::from_json(fields.object.remove("result").as_ref(), "result")
                .map_err(|error| Fault::Unreadable(error.to_string())),
        })?;
        Ok(Self { call_id, result })
    }

    /// A value that is not JSON fails the call.
    fn write(&self, message: &mut Writer<'_>) {
        message.field("callId", &self.call_id);
        let failure = match &self.result {
            Ok(value) => match message.result(value) {
                Ok(()) => return,
                Err(reason) => &cannot_cross("tool result", reason),
            },
            Err(error) => error,
        };
        message.field("ok", &false);
        message.field("error", failure);
    }

    fn value(&self) -> Option<&Value> {
        self.result.as_ref().ok()
    }
}

// ---- From the runner ------------------------------------------------------------------------------

/// `started`: the runner has accepted an execution or a run, and its timeout counts from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The id of the execution or run.
    pub id: String,
    /// The program has the [functions](Execute::functions) of its request. On the wire left out if false.
    pub functions: bool,
}

impl Body for Started {
    const TYPE: &'static str = "started";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        Ok(Self { id: fields.string("id")?, functions: fields.is_true("functions") })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
        message.flag("functions", self.functions);
    }
}

/// `tool_call`: the guest calls a tool (runner specification, "Tool Call Contract").
#[derive(Debug, Clone, PartialEq)]
pub struct WireCall {
    /// Identifies the call within its execution; at most 256 bytes long.
    pub call_id: String,
    /// The namespace that the guest called.
    pub provider_name: String,
    /// The tool that the guest called.
    pub safe_tool_name: String,
    /// The call's first argument; `None` is `undefined`, and is left out.
    pub input: Option<Json>,
}

/// The longest `callId` that a host accepts, in bytes: the host keeps them.
pub(crate) const MAX_CALL_ID_BYTES: usize = 256;

impl Body for WireCall {
    const TYPE: &'static str = "tool_call";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let call_id = fields.string("callId")?;
        if call_id.len() > MAX_CALL_ID_BYTES {
            return Err(wrong("callId", "a string of at most 256 bytes"));
        }
        Ok(Self {
            call_id,
            provider_name: fields.string("providerName")?,
            safe_tool_name: fields.string("safeToolName")?,
            input: fields.object.remove("input"),
        })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("callId", &self.call_id);
        message.field("providerName", &self.provider_name);
        message.field("safeToolName", &self.safe_tool_name);
        message.optional("input", self.input.as_ref());
    }
}

/// `log`: a console line of the guest within the limits, when it is logged. `done` contains it, too, unless the lines take more
/// than [`MAX_REPEATED_LOG_BYTES`] together; then it contains none. Not part of the specification: sent only if the host
/// [asked](Execute::stream_logs) for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireLog {
    /// The id of the execution.
    pub id: String,
    /// The line. An unknown level is read as `log`.
    pub line: LogLine,
}

/// The most bytes of lines that a runner sends twice, when they are logged and with `done`.
pub const MAX_REPEATED_LOG_BYTES: usize = 1 << 20;

/// Cuts a line that is too long for one message, to what fits however its characters are escaped. Returns whether it was cut.
pub(super) fn cut_line(line: &mut LogLine, too_long: TooLong) -> bool {
    const MARK: &str = "…";
    let max = too_long.cap / 8;
    if line.text.len() <= max + MARK.len() {
        return false;
    }
    line.text.truncate(line.text.floor_char_boundary(max));
    line.text.push_str(MARK);
    true
}

impl Body for WireLog {
    const TYPE: &'static str = "log";

    fn matches(fields: &Fields) -> bool {
        ["id", "level", "text"].into_iter().all(|name| fields.object.get(name).is_some_and(Json::is_string))
    }

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let level = LogLevel::from_name(&fields.string("level")?).unwrap_or(LogLevel::Log);
        Ok(Self { id, line: LogLine { level, text: fields.string("text")? } })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
        message.field("level", self.line.level.as_str());
        message.field("text", &self.line.text);
    }

    fn kept_bytes(&self) -> usize {
        self.line.text.len()
    }
}

/// What a runner reports of unawaited calls, if it is that.
pub(super) fn read_unawaited(fields: &mut Fields) -> Option<UnawaitedCalls> {
    serde_json::from_value(fields.object.remove("unawaited")?).ok()
}

/// How many console lines a runner reports as dropped: none if it reports nothing, at most the largest integer of JSON.
pub(super) fn read_dropped_logs(fields: &mut Fields) -> Result<u64, Fault> {
    Ok(fields.optional_amount("droppedLogs")?.map_or(0, |count| (count as u64).min(MAX_SAFE_INTEGER)))
}

/// `Number.MAX_SAFE_INTEGER`.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

pub(super) fn write_dropped_logs(message: &mut Writer<'_>, count: u64) {
    message.optional("droppedLogs", Some(&count).filter(|count| **count > 0));
}

/// `done`: the execution is over (runner specification, "Final Result Contract").
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The id of the execution.
    pub id: String,
    /// The result of the execution. An unknown error code is read as `internal_error`.
    pub result: ExecuteResult,
    /// The runner ends after this message, because the program has exhausted the memory of its process. On the wire left out if
    /// false. Not part of the specification.
    pub exits: bool,
}

impl Body for Done {
    const TYPE: &'static str = "done";

    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let id = fields.string("id")?;
        let outcome = read_outcome(fields, ErrorCode::InternalError, |fields| Ok(fields.object.remove("result")))?;
        let duration = fields.duration("durationMs")?;
        let logs = fields.array("logs")?.into_iter().enumerate();
        let logs = logs.map(|(number, line)| string(line).ok_or_else(|| wrong(format!("logs[{number}]"), A_STRING)));
        let logs = logs.collect::<Result<_, _>>()?;
        let usage = Usage::read(fields.object.remove("usage"));
        let unawaited = read_unawaited(fields);
        let dropped_logs = read_dropped_logs(fields)?;
        let exits = fields.is_true("exits");
        Ok(Self { id, result: ExecuteResult { outcome, logs, dropped_logs, unawaited, duration, usage }, exits })
    }

    fn write(&self, message: &mut Writer<'_>) {
        message.field("id", &self.id);
        message.field("ok", &self.result.is_ok());
        message.duration("durationMs", self.result.duration);
        message.field("logs", &self.result.logs);
        write_dropped_logs(message, self.result.dropped_logs);
        write_outcome(message, &self.result.outcome);
        message.optional("unawaited", self.result.unawaited.as_ref());
        message.optional("usage", self.result.usage.known());
        message.flag("exits", self.exits);
    }
}

// ---- Outcomes -------------------------------------------------------------------------------------

/// `ok` with `result` or `error`. An unknown error code is read as `unknown`.
fn read_outcome<T>(
    fields: &mut Fields,
    unknown: ErrorCode,
    result: impl FnOnce(&mut Fields) -> Result<T, Fault>,
) -> Result<Result<T, ExecuteError>, Fault> {
    let ok = fields.boolean("ok")?;
    match (ok, fields.object.get("error").is_some_and(|error| !error.is_null())) {
        (true, false) => result(fields).map(Ok),
        (true, true) => Err(Fault::OkWithError),
        (false, _) => {
            let mut error = fields.object("error")?;
            let code = ErrorCode::from_name(&error.string("code")?).unwrap_or(unknown);
            let message = error.string("message")?;
            let cause = error.object.remove("cause").and_then(Cause::read).map(Box::new);
            let name = error.object.get("name").and_then(Json::as_str).unwrap_or_default();
            let position = error.object.get("position").and_then(|position| Position::deserialize(position).ok());
            let stack = error.stack("stack");
            Ok(Err(ExecuteError { position, stack, cause, ..ExecuteError::new(code, message).with_name(name) }))
        }
    }
}

/// Writes `result` or `error`. The caller has written `ok`.
fn write_outcome(message: &mut Writer<'_>, outcome: &Result<Option<Json>, ExecuteError>) {
    match outcome {
        Ok(result) => message.optional("result", result.as_ref()),
        Err(error) => message.field("error", error),
    }
}

/// An error message that is longer than this, in bytes, can be replaced by a shorter one.
const LONG_MESSAGE: usize = 200;

/// What to send instead of an outcome whose message was too long; `None` if nothing would be shorter.
pub(super) fn shortened<T>(outcome: &Result<T, ExecuteError>, what: &str, too_long: TooLong) -> Option<ExecuteError> {
    match outcome {
        Ok(_) => Some(cannot_cross(what, too_long)),
        Err(error) if error.message.len() > LONG_MESSAGE => Some(ExecuteError::new(error.code, too_long.to_string())),
        Err(error) if !error.stack.is_empty() => Some(ExecuteError::new(error.code, error.message.as_str())),
        Err(_) => None,
    }
}

pub(super) fn cannot_cross(what: &str, why: impl std::fmt::Display) -> ExecuteError {
    ExecuteError::new(ErrorCode::SerializationError, format!("{what} cannot cross: {why}"))
}
