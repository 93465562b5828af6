//! All messages: the parameters and results of each method, in both directions. Their JSON Schemas are made from these types.
//!
//! The documentation of a field is its description in the schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::limits::LimitValues;
use crate::rpc::RequestId;

/// The version of the protocol. A change that breaks applications gets the next one.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

// ---- The connection -----------------------------------------------------------------------------

/// Begins the connection. It is the first request; others can follow without waiting for its answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Initialize {
    /// The version of the protocol that the application uses: 1.
    pub(crate) protocol_version: u32,
    /// Whether the application reads attachments: byte strings of more than 256 bytes that come before a message, in place of base64
    /// in it. The service reads them in any case. Default: false.
    #[serde(default)]
    pub(crate) attachments: bool,
}

/// The answer to `initialize`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Initialized {
    /// The version of the protocol that the service uses.
    pub(crate) protocol_version: u32,
    /// The name and version of the service.
    pub(crate) service: Software,
    /// Where programs run: `inline`, `worker`, `process` or `remote=ADDRESS`.
    pub(crate) executor: String,
    /// The longest line, without its attachments, in bytes.
    pub(crate) max_message_bytes: usize,
    /// The most that `memoryLimitBytes` of a program can be.
    pub(crate) max_memory_limit_bytes: u64,
}

/// The name and version of a program.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Software {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

/// Nothing.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Ends a request. An execution fails with `timeout` and the cause `cancelled`. A request that has ended is not an error. Sent by
/// the service about its own requests, too: their answer is not needed any more.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// The id of the request.
    pub(crate) id: RequestId,
}

/// Terminates the program of a request: a run settles with the status `terminated`, a script as by `cancel`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Terminate {
    /// The id of the request.
    pub(crate) id: RequestId,
    /// Why, for the message of the error.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

// ---- Providers ----------------------------------------------------------------------------------

/// Adds a provider: tools of the application under one name, which can be granted to executions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddProvider {
    /// The name of the global object of scripts, and of the module of runs: an identifier.
    pub(crate) name: String,
    /// A description for models.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// The tools.
    pub(crate) tools: Vec<ToolSpec>,
    /// Skips tools that are invalid and parts of schemas that cannot be checked, with a warning: for tools from elsewhere. By default, the
    /// first one is an error.
    #[serde(default)]
    pub(crate) lenient: bool,
    /// Puts the call before the message of each failed call: `shop.get_order failed: …`. Default: false.
    #[serde(default)]
    pub(crate) name_failed_calls: bool,
}

/// A tool of the application.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolSpec {
    /// The name, with which `call_tool` calls it. Its name in programs is derived from it.
    pub(crate) name: String,
    /// A description for models.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// The JSON Schema of the input, which is checked before each call.
    #[serde(default)]
    pub(crate) input_schema: Option<Json>,
    /// The JSON Schema of the result, which is checked after each call.
    #[serde(default)]
    pub(crate) output_schema: Option<Json>,
    /// What calls do. Policies can decide by it. Default: `unstated`.
    #[serde(default)]
    pub(crate) effect: EffectName,
}

/// What calls of a tool do, as its author states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EffectName {
    /// Calls change nothing.
    ReadOnly,
    /// The author does not say.
    #[default]
    Unstated,
    /// Calls add something, and remove or overwrite nothing.
    Additive,
    /// Calls may remove or overwrite something.
    Destructive,
}

/// The answer to `add_provider`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProviderAdded {
    /// The number of the provider, for `providers` of executions.
    pub(crate) provider: u64,
    /// The TypeScript declarations of the namespace, for prompts.
    pub(crate) types: String,
    /// The tools.
    pub(crate) tools: Vec<ToolNames>,
    /// The tools and parts of schemas that were skipped, if the request is `lenient`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(crate) warnings: Vec<String>,
}

/// The names of a tool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolNames {
    /// The name with which it was added.
    pub(crate) name: String,
    /// The name in programs.
    pub(crate) safe_name: String,
}

/// Removes a provider. Executions that have it keep it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveProvider {
    /// The number of the provider.
    pub(crate) provider: u64,
}

/// A provider that is granted: the number of one that was added, or the namespace of a server in the configuration of the service.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ProviderRef {
    Added(u64),
    Server(String),
}

/// The answer to `servers`, which waits until each server is ready or has failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServerList {
    /// The servers in the configuration of the service.
    pub(crate) servers: Vec<ServerState>,
}

/// An MCP server in the configuration of the service.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServerState {
    /// The name in the configuration.
    pub(crate) name: String,
    /// The name of its provider.
    pub(crate) namespace: String,
    /// Why it cannot be used. `None` if it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// The TypeScript declarations of its tools, if it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) types: Option<String>,
    /// The tools of the server.
    pub(crate) tools: Vec<ToolNames>,
}

/// Describes a tool with which a model runs code that calls the tools of providers. Waits for servers that are starting.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DescribeCode {
    /// The providers that are granted to the code.
    #[serde(default)]
    pub(crate) providers: Vec<ProviderRef>,
    /// Whether the code has timers. Default: false.
    #[serde(default)]
    pub(crate) timers: bool,
    /// The length of the types, in characters: if all do not fit, names and parameters are shown, or else as many names as fit.
    /// Default: 20 000.
    #[serde(default)]
    pub(crate) max_type_chars: Option<usize>,
}

/// The answer to `describe_code`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CodeDescribed {
    /// What the code is, and the types of the tools.
    pub(crate) description: String,
    /// The JSON Schema of the tool's input: an object with the member `code`.
    #[schemars(with = "BTreeMap<String, Json>")]
    pub(crate) input_schema: Json,
}

// ---- Executions ---------------------------------------------------------------------------------

/// What is granted to a program, under both contracts.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    pub(crate) providers: Vec<ProviderRef>,
    pub(crate) limits: LimitValues,
    pub(crate) policy: Option<PolicySpec>,
    pub(crate) events: Vec<EventType>,
}

/// Defines the parameters of a request that executes a program: its own, and those of [`Grants`].
macro_rules! execution {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(crate) $field: $type,)*
            /// The providers whose tools the program may call.
            #[serde(default)]
            providers: Vec<ProviderRef>,
            /// The limits that differ from their defaults.
            #[serde(default)]
            limits: LimitValues,
            /// Decides about each call of a tool. By default, all are allowed.
            #[serde(default)]
            policy: Option<PolicySpec>,
            /// The events that the application receives while the program runs. Default: none.
            #[serde(default)]
            events: Vec<EventType>,
        }

        impl $name {
            pub(crate) fn take_grants(&mut self) -> Grants {
                Grants {
                    providers: std::mem::take(&mut self.providers),
                    limits: std::mem::take(&mut self.limits),
                    policy: self.policy.take(),
                    events: std::mem::take(&mut self.events),
                }
            }
        }
    };
}

execution! {
    /// Executes a script: code whose last expression, or what it returns, is the result.
    Execute {
        /// JavaScript or TypeScript.
        code: String,
        /// Functions that the script may call: code of its own, apart from the script.
        #[serde(default)]
        functions: Vec<FunctionSpec>,
        /// Whether a script that has returned ends only when the calls that it did not await are answered. Default: true.
        #[serde(default = "yes")]
        wait_for_calls: bool,
        /// Whether the script has `Intl`, `TextEncoder`, `TextDecoder`, `atob`, `btoa` and `self`. Default: true.
        #[serde(default = "yes")]
        common_globals: bool,
        /// Whether the script has timers, such as `setTimeout`. Default: false.
        #[serde(default)]
        timers: bool,
        /// Adds `text` to the result: what a model reads of it, in about this number of characters, at most 1 000 000.
        #[serde(default)]
        max_text_chars: Option<usize>,
    }
}

execution! {
    /// Runs an ES module with values, functions and promises of the application. Values are tagged JSON.
    RunCode {
        /// The source of the module, in TypeScript unless the options say otherwise.
        source: String,
        /// The options of the code-execution specification: `execute` (`fn`, `args`), `imports`, `modules`, `globals`, `language`,
        /// `memoryLimitBytes`, `filename`. A function is `{"$function": n, "kind": "async", "name": "f"}`, or of kind `sync`, and a
        /// promise `{"$promise": n}`. The application chooses the numbers.
        #[serde(default)]
        #[schemars(with = "Option<BTreeMap<String, Json>>")]
        options: Option<Json>,
        /// Whether the module has the function `report`, whose values are in the result. Default: false.
        #[serde(default)]
        report: bool,
    }
}

fn yes() -> bool {
    true
}

/// A function that a script may call as `NAMESPACE.NAME(input)`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FunctionSpec {
    /// The global object that has the function.
    pub(crate) namespace: String,
    /// The name of the function.
    pub(crate) name: String,
    /// The body, as that of a script. Its parameter is `input`.
    pub(crate) code: String,
}

/// Rules, of which the first that matches decides. Calls that match none are allowed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicySpec {
    pub(crate) rules: Vec<RuleSpec>,
}

/// A rule about the calls that match its patterns. Without patterns, all match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleSpec {
    /// A pattern for `PROVIDER.TOOL`: `bank.pay`, `*.delete_*`.
    #[serde(default)]
    pub(crate) tools: Option<String>,
    /// The effect of the tool.
    #[serde(default)]
    pub(crate) effect: Option<EffectName>,
    /// What happens with the calls.
    pub(crate) decision: DecisionName,
    /// Why calls are denied, for the program.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// What happens with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecisionName {
    /// The call is made.
    Allow,
    /// The call fails with `not allowed` and the reason.
    Deny,
    /// The application is asked, with `approve`. Meanwhile, the clock of the program is paused.
    Ask,
}

/// The result of `execute`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)] // what `ExecuteResult` serializes to, for the schema and tests
pub(crate) struct Executed {
    /// Whether the script succeeded.
    ok: bool,
    /// Wall time from acceptance to result, in milliseconds.
    duration_ms: f64,
    /// The console lines.
    logs: Vec<String>,
    /// The value of the script; it is missing for `undefined`, and if the script failed.
    #[serde(default)]
    result: Option<Json>,
    /// Why the script failed.
    #[serde(default)]
    error: Option<ExecutionError>,
    /// How many console lines the log limits dropped.
    #[serde(default)]
    dropped_logs: Option<u64>,
    /// The value or the error, the log, and what is missing of them, if the request has `maxTextChars`. Hidden characters are
    /// escaped.
    #[serde(default)]
    text: Option<String>,
    /// The calls that the script did not await.
    #[serde(default)]
    unawaited: Option<Json>,
    /// What the execution used.
    #[serde(default)]
    usage: Option<Json>,
    /// How many events were dropped because the application did not read.
    #[serde(default)]
    dropped_events: Option<u64>,
}

/// Why an execution failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)] // as `Executed`
pub(crate) struct ExecutionError {
    /// `timeout`, `memory_limit`, `validation_error`, `tool_error`, `runtime_error`, `serialization_error` or `internal_error`.
    code: String,
    /// The message.
    message: String,
    /// The name of the program's error.
    #[serde(default)]
    name: Option<String>,
    /// The line and column in the script.
    #[serde(default)]
    position: Option<Json>,
    /// The innermost frames.
    #[serde(default)]
    stack: Option<Vec<Json>>,
    /// What happened, as data.
    #[serde(default)]
    cause: Option<Json>,
}

/// The result of `run_code`, as the code-execution specification defines it. Values are tagged JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)] // as `Executed`
pub(crate) struct CodeRun {
    /// `success`, `error`, `memory`, `terminated` or `link_error`.
    status: String,
    /// The value of the selected export; it is missing for `undefined`, and if the run failed.
    #[serde(default)]
    result: Option<Json>,
    /// What the module has reported.
    reports: Vec<Json>,
    /// The calls of the console.
    logs: Vec<Json>,
    #[serde(default)]
    dropped_logs: Option<u64>,
    /// Why the run did not succeed.
    #[serde(default)]
    error: Option<Json>,
    /// Wall time in milliseconds.
    duration_ms: f64,
    #[serde(default)]
    memory_used_bytes: Option<u64>,
    #[serde(default)]
    unawaited: Option<Json>,
    #[serde(default)]
    usage: Option<Json>,
    /// How many events were dropped because the application did not read.
    #[serde(default)]
    dropped_events: Option<u64>,
}

// ---- The executor -------------------------------------------------------------------------------

/// Starts runners until there are `count`, within the size of the pool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prewarm {
    /// The number of runners.
    pub(crate) count: usize,
}

/// The answer to `usage`: what this connection has used since it began.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectionUsage {
    /// The executions that run, or wait for a runner.
    pub(crate) running: u64,
    /// The executions that have ended.
    pub(crate) ended: u64,
    /// The executions that have failed.
    pub(crate) failed: u64,
    /// The calls of all executions that have ended.
    pub(crate) calls: u64,
    /// The CPU time of their programs, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// The size of the answers to their calls, in bytes.
    pub(crate) bytes_in: u64,
    /// The size of what they sent, in bytes.
    pub(crate) bytes_out: u64,
    /// The providers that are added.
    pub(crate) providers: u64,
    /// The events that were dropped because the application did not read.
    pub(crate) dropped_events: u64,
}

/// The answer to `self_test`: what the executor prevents, each tried.
#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code)] // what `SelfTestReport` serializes to
pub(crate) struct SelfTested {
    /// The checks: `check`, its `outcome` (`passed`, `failed` or `skipped`) and the `reason`.
    checks: Vec<Json>,
    /// How the processes of programs are locked.
    #[serde(default)]
    jail: Option<Json>,
}

// ---- To the application -------------------------------------------------------------------------

/// Calls a tool of the application. The answer is the result, or an error whose message the program sees; with the code -32602, the
/// program gets a `validation_error`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallTool<'a> {
    /// The id of the `execute` or `run_code` request.
    pub(crate) execution: &'a RequestId,
    /// The number of the call in its execution, as in events.
    pub(crate) call: u64,
    /// The number of the provider.
    pub(crate) provider: u64,
    /// The name with which the tool was added.
    pub(crate) tool: &'a str,
    /// The first argument of the call. It matches the schema of the input.
    pub(crate) input: &'a Json,
}

/// The answer to `call_tool`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // the value is read part by part
pub(crate) struct ToolResult {
    /// The result: JSON. It can be left out.
    #[serde(default)]
    value: Option<Json>,
}

/// Reports how far a call of a tool has come, to those who observe the execution.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportProgress {
    /// The id of the `call_tool` request.
    pub(crate) id: u64,
    /// The amount that is done, in a unit of the tool.
    pub(crate) done: f64,
    /// The amount that is to be done in total.
    #[serde(default)]
    pub(crate) total: Option<f64>,
    /// What the tool is doing, for people.
    #[serde(default)]
    pub(crate) message: Option<String>,
}

/// Calls a function of the application. The answer is its value, or an error, which the program sees as an `Error`, or as what the
/// field `name` of its `data` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallFunction<'a> {
    /// The id of the `run_code` request.
    pub(crate) execution: &'a RequestId,
    /// The number of the function.
    pub(crate) function: u32,
    /// The arguments: an array in tagged JSON.
    #[schemars(with = "Vec<Json>")]
    pub(crate) arguments: &'a RawValue,
}

/// Waits for a promise of the application. The answer is its value, or an error, as of a function.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AwaitPromise<'a> {
    /// The id of the `run_code` request.
    pub(crate) execution: &'a RequestId,
    /// The number of the promise.
    pub(crate) promise: u32,
}

/// The answer to `call_function` and `await_promise`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // as `ToolResult`
pub(crate) struct FunctionResult {
    /// The value, in tagged JSON. If it is left out, it is `undefined`.
    #[serde(default)]
    value: Option<Json>,
}

/// Asks whether a call may be made. The questions of one execution come one after another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Approve<'a> {
    /// The id of the `execute` or `run_code` request.
    pub(crate) execution: &'a RequestId,
    /// The number of the call in its execution.
    pub(crate) call: u64,
    /// The name of the provider.
    pub(crate) provider: &'a str,
    /// The name of the tool in programs.
    pub(crate) tool: &'a str,
    /// What calls of the tool do, as its author states it.
    pub(crate) effect: EffectName,
    /// The input of the call.
    pub(crate) input: &'a Json,
    /// The first lines of the script that name the tool, each with its number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(crate) lines: Vec<String>,
}

/// The answer to `approve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approved {
    pub(crate) answer: AnswerName,
    /// Why the call is refused, for the program.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// The answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerName {
    /// The call is made.
    Approve,
    /// This call and all later calls of the tool in this execution are made.
    ApproveTool,
    /// The call is not made.
    Refuse,
    /// Neither this call nor any later call that needs approval is made.
    RefuseAll,
}

/// Something that happened in an execution.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventMessage<'a> {
    /// The id of the `execute` or `run_code` request.
    pub(crate) execution: &'a RequestId,
    /// How many events of this execution were dropped before this one, because the application did not read.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub(crate) dropped: u64,
    #[serde(flatten)]
    pub(crate) event: EventBody<'a>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The types of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventType {
    Accepted,
    Started,
    Log,
    CallBegan,
    CallProgress,
    CallWaiting,
    CallResumed,
    CallDecided,
    CallEnded,
    Reported,
    Ended,
}

/// What happened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum EventBody<'a> {
    /// The executor has the request. It may wait for a runner.
    Accepted,
    /// The program is given to an engine or a runner.
    Started,
    /// The program has written to its console.
    Log {
        /// `log`, `info`, `debug`, `warn` or `error`.
        level: &'static str,
        /// The line of a script.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
        /// The arguments of the call in a run: an array in tagged JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Vec<Json>>")]
        args: Option<Box<RawValue>>,
    },
    /// A call begins; its input is not checked yet.
    CallBegan {
        #[serde(flatten)]
        call: EventCall<'a>,
        input_bytes: usize,
    },
    /// A tool reports how far it has come.
    CallProgress {
        #[serde(flatten)]
        call: EventCall<'a>,
        done: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    },
    /// The call begins to wait for a person.
    CallWaiting {
        #[serde(flatten)]
        call: EventCall<'a>,
    },
    /// The call does not wait for a person any more.
    CallResumed {
        #[serde(flatten)]
        call: EventCall<'a>,
    },
    /// The policy has decided about the call.
    CallDecided {
        #[serde(flatten)]
        call: EventCall<'a>,
        /// `allowed`, `denied`, `approved`, `refused` or `abandoned`.
        verdict: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        /// How long the call waited for a person.
        waited_ms: f64,
    },
    /// The call has ended: with a value of `bytes`, with an `error`, or because the execution has ended.
    CallEnded {
        #[serde(flatten)]
        call: EventCall<'a>,
        duration_ms: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<EventError<'a>>,
    },
    /// The module has reported a value.
    Reported {
        /// The value, in tagged JSON.
        #[schemars(with = "Json")]
        value: Box<RawValue>,
    },
    /// The execution has ended. Its result follows.
    Ended { ok: bool },
}

/// The error of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EventError<'a> {
    pub(crate) code: &'static str,
    pub(crate) message: &'a str,
}

/// A call, in events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EventCall<'a> {
    /// The number of the call in its execution.
    pub(crate) call: u64,
    /// The name of the provider of a tool. Functions of the application have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<&'a str>,
    /// The name of the tool in programs, or of the function.
    pub(crate) name: &'a str,
}
