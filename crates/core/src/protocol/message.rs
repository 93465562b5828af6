//! All messages of each direction, read from JSON objects and written as the text of a line or frame.
//!
//! The messages themselves are in [`script`](super::script) and [`module`](super::module). When a message may be sent is
//! up to the sessions ([`host`](super::host), [`runner`](super::runner)).

use serde_json::Value as Json;

use super::attachments::Attachments;
use super::fields::{Body, Fields, MessageError, Object, Writer, id_field};
use super::line::{LineError, TooLong, read_line};
use super::module::{CodeCall, CodeDone, CodeNotify, Hello, RunCode, Settle};
use super::script::{Cancel, Clock, Done, Execute, Started, ToolResult, WireCall, WireLog};
use crate::budget::Meter;

/// Why a line is not a message.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The line is not a JSON object.
    #[error(transparent)]
    Line(LineError),
    /// The line is a message with a missing or wrong field, or one that cannot be represented.
    #[error(transparent)]
    Message(#[from] MessageError),
}

impl From<LineError> for ReadError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::Unreadable(error) => Self::Message(*error),
            error => Self::Line(error),
        }
    }
}

/// The messages of one direction.
pub trait Message: Sized {
    /// Reads a message. `None` if the type is unknown in this direction: unknown types are ignored.
    ///
    /// # Errors
    /// A required field is missing or wrong.
    fn from_object(object: Object, attachments: Attachments) -> Result<Option<Self>, MessageError>;

    /// The member that is read to a value, without a tree of JSON.
    const DIRECT: Option<&'static str>;

    /// Reads a message of one line or frame, charged to `meter`.
    ///
    /// # Errors
    /// The line is not a JSON object, or is a message with a missing or wrong field; or the meter refuses.
    fn from_line(
        line: Vec<u8>,
        mut attachments: Attachments,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Self>, ReadError> {
        let (object, result) = read_line(line, Self::DIRECT, meter)?;
        attachments.result = result;
        Ok(Self::from_object(object, attachments)?)
    }

    /// The message as compact JSON on one line, without the newline. Values that are better not written as text go to
    /// `attachments` if the peer accepts them.
    ///
    /// # Errors
    /// The text is longer than `cap` bytes. Hand the error to the session's `handle_too_long`.
    fn to_text(&self, cap: usize, attachments: &mut Attachments) -> Result<Vec<u8>, TooLong>;

    /// About how many bytes the message takes with its values and lines, for messages that are queued within a process.
    fn cost(&self) -> usize;

    /// The `hello`, if the message is one: its `attachments` depend on the transport.
    fn hello_mut(&mut self) -> Option<&mut Hello>;
}

/// Declares the messages of one direction. Every variant contains a [`Body`], and its `type` selects the variant.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident reads $direct:expr; { $($variant:ident($body:ty),)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)] // each variant is described by its struct
        pub enum $name {
            $($variant($body),)*
        }

        impl Message for $name {
            const DIRECT: Option<&'static str> = $direct;

            fn from_object(object: Object, attachments: Attachments) -> Result<Option<Self>, MessageError> {
                let mut fields = Fields::new(object, attachments);
                let kind = fields.string("type");
                let kind = kind.map_err(|fault| MessageError { kind: String::new(), id: None, fault })?;
                let id = fields.object.get(id_field(&kind)).and_then(Json::as_str).map(str::to_owned);
                let read = match kind.as_str() {
                    $(<$body>::TYPE if <$body>::matches(&fields) => <$body>::read(&mut fields).map(Self::$variant),)*
                    _ => return Ok(None),
                };
                read.map(Some).map_err(|fault| MessageError { kind, id, fault })
            }

            fn to_text(&self, cap: usize, attachments: &mut Attachments) -> Result<Vec<u8>, TooLong> {
                match self {
                    $(Self::$variant(body) => write(body, cap, attachments),)*
                }
            }

            fn cost(&self) -> usize {
                size_of::<Self>() + match self {
                    $(Self::$variant(body) => body.kept_bytes(),)*
                }
            }

            fn hello_mut(&mut self) -> Option<&mut Hello> {
                if let Self::Hello(hello) = self { Some(hello) } else { None }
            }
        }
    };
}

messages! {
    /// A message from a host to a runner.
    HostMessage reads Some("result"); {
        Execute(Execute),
        Cancel(Cancel),
        Clock(Clock),
        ToolResult(ToolResult),
        Hello(Hello),
        RunCode(RunCode),
        Settle(Settle),
    }
}

messages! {
    /// A message from a runner to a host.
    RunnerMessage reads None; {
        Started(Started),
        ToolCall(WireCall),
        Log(WireLog),
        Done(Done),
        Hello(Hello),
        CodeCall(CodeCall),
        CodeNotify(CodeNotify),
        CodeDone(CodeDone),
    }
}

impl RunnerMessage {
    /// Whether the runner ends after this message: see [`Done::exits`].
    pub(super) fn exits(&self) -> bool {
        matches!(self, Self::Done(Done { exits: true, .. }) | Self::CodeDone(CodeDone { exits: true, .. }))
    }

    /// Notes in the last message of a program that the runner ends after it.
    pub(super) fn set_exits(&mut self) {
        match self {
            Self::Done(Done { exits, .. }) | Self::CodeDone(CodeDone { exits, .. }) => *exits = true,
            _ => {}
        }
    }
}

fn write<B: Body>(body: &B, cap: usize, attachments: &mut Attachments) -> Result<Vec<u8>, TooLong> {
    let mut writer = Writer::new(B::TYPE, attachments);
    body.write(&mut writer);
    let text = writer.finish();
    if text.len() > cap { Err(TooLong { len: text.len(), cap }) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::script::ScriptFunction;
    use crate::engine::{LogLevel, LogLine};
    use crate::error::{ErrorCode, ExecuteError, ExecuteResult};
    use crate::libraries::Globals;
    use crate::manifest::{ProviderManifest, ToolManifest};
    use crate::program::Limits;
    use crate::unawaited::UnawaitedCalls;
    use crate::usage::Usage;
    use crate::value::Value;
    use proptest::prelude::*;
    use serde_json::json;
    use std::sync::Arc;
    use std::time::Duration;

    /// Runner specification, "Minimal Success Transcript" and "Minimal Cancellation Transcript"; protocol reference,
    /// "Minimal Transcript"; the messages of the module contract; and optional fields that these do not show.
    const FROM_HOST: &[&str] = &[
        r#"{"type":"execute","id":"exec-1","code":"const value = await tools.echo({\"ok\":true}); value.ok","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"echo":{"safeName":"echo","originalName":"echo","description":"Echo input"}},"types":"declare namespace tools { ... }"}]}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":true,"result":{"ok":true}}"#,
        r#"{"type":"execute","id":"exec-2","code":"await tools.hang({})","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"hang":{"safeName":"hang","originalName":"hang"}},"types":"declare namespace tools { ... }"}]}"#,
        r#"{"type":"cancel","id":"exec-2"}"#,
        r#"{"type":"clock","id":"exec-2","stopped":true}"#,
        r#"{"type":"execute","id":"exec-1","code":"1","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"hostMemoryBytes":3,"cpuTimeMs":0.5,"cpuTimeBeforeCallsMs":0.25,"hostWaitMs":20,"maxCalls":0,"maxBytesIn":1,"maxBytesOut":2,"maxLogLines":100,"maxLogChars":64000,"maxSourceBytes":1},"providers":[]}"#,
        r#"{"type":"execute","id":"exec-1","code":"await tools.echo({\"ok\":true})","options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"providers":[{"name":"tools","tools":{"echo":{"safeName":"echo","originalName":"echo","description":"Echo input"}},"types":"declare namespace tools { ... }"}]}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":true}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":true,"result":null}"#,
        r#"{"type":"tool_result","callId":"call-1","ok":false,"error":{"code":"validation_error","message":"no"}}"#,
        r#"{"type":"hello","runCode":1,"attachments":false}"#,
        r#"{"type":"run_code","id":"run-1","source":"export default 1","language":"typescript","modules":{"./a.js":"export {}"},"imports":{"fs":{}},"globals":{"n":1},"fn":"default","args":[1],"options":{"timeoutMs":1000,"memoryLimitBytes":67108864,"maxLogLines":100,"maxLogChars":64000},"filename":"main.ts"}"#,
        r#"{"type":"settle","id":"run-1","call":3,"ok":true,"value":{"$undefined":true}}"#,
        r#"{"type":"settle","id":"run-1","promise":0,"ok":false,"value":"no"}"#,
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
        r#"{"type":"done","id":"exec-1","ok":true,"durationMs":3,"logs":[],"result":1,"usage":{"cpuMs":1.5,"hostWaitMs":0.25,"calls":2,"peakCallsInFlight":0,"bytesIn":3,"bytesOut":4,"sourceBytes":5,"peakMemoryBytes":6,"peakHostMemoryBytes":7}}"#,
        r#"{"type":"done","id":"exec-1","ok":false,"durationMs":3,"logs":[],"error":{"code":"memory_limit","message":"full"},"exits":true}"#,
        r#"{"type":"hello","runCode":1,"attachments":true}"#,
        r#"{"type":"code_call","id":"run-1","call":3,"function":6,"now":false,"args":["/data"]}"#,
        r#"{"type":"code_notify","id":"run-1","function":1,"args":["got",{"a":1}]}"#,
        r#"{"type":"code_done","id":"run-1","ok":true,"durationMs":1.5,"memoryUsedBytes":7,"result":16}"#,
        r#"{"type":"code_done","id":"run-1","ok":false,"durationMs":2,"status":"terminated","error":{"name":"InternalError","message":"broken"},"internal":true}"#,
        r#"{"type":"code_done","id":"run-1","ok":false,"durationMs":2,"status":"memory","error":{"name":"MemoryLimitError","message":"full"},"exits":true}"#,
    ];

    fn object(line: &str) -> Object {
        serde_json::from_str(line).unwrap()
    }

    fn text(message: &impl Message) -> String {
        String::from_utf8(message.to_text(usize::MAX, &mut Attachments::default()).unwrap()).unwrap()
    }

    fn members(message: Json) -> Object {
        if let Json::Object(members) = message { members } else { panic!("not an object: {message}") }
    }

    fn host(message: Json) -> Result<Option<HostMessage>, MessageError> {
        HostMessage::from_object(members(message), Attachments::default())
    }

    fn runner(message: Json) -> Result<Option<RunnerMessage>, MessageError> {
        RunnerMessage::from_object(members(message), Attachments::default())
    }

    fn fault<M>(read: Result<Option<M>, MessageError>) -> String {
        read.err().expect("a malformed message").fault.to_string()
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
    fn transcripts_of_the_specification_are_read_and_written_unchanged() {
        for line in FROM_HOST {
            let message = HostMessage::from_object(object(line), Attachments::default()).unwrap().unwrap();
            assert_eq!(text(&message), *line);
        }
        for line in FROM_RUNNER {
            let message = RunnerMessage::from_object(object(line), Attachments::default()).unwrap().unwrap();
            assert_eq!(text(&message), *line);
        }
    }

    #[test]
    fn separators_of_unicode_are_escaped() {
        let written = text(&HostMessage::Cancel(Cancel { id: "a\u{2028}b\u{2029}\u{2027}\u{2028}".into() }));
        assert_eq!(written, "{\"type\":\"cancel\",\"id\":\"a\\u2028b\\u2029\u{2027}\\u2028\"}");
        let read = HostMessage::from_object(object(&written), Attachments::default());
        assert!(matches!(read, Ok(Some(HostMessage::Cancel(Cancel { id }))) if id.ends_with('\u{2028}')));
    }

    #[test]
    fn a_message_beyond_the_cap_is_rejected() {
        let cancel = HostMessage::Cancel(Cancel { id: "e".into() });
        let len = text(&cancel).len();
        assert_eq!(cancel.to_text(len - 1, &mut Attachments::default()), Err(TooLong { len, cap: len - 1 }));
        assert!(cancel.to_text(len, &mut Attachments::default()).is_ok());
    }

    #[test]
    fn done_is_the_result_with_type_and_id() {
        let usage = Usage { calls: 1, cpu_time: Some(Duration::from_micros(1200)), ..Usage::default() };
        let failed = ExecuteResult::failed(ExecuteError::tool("full"), Duration::from_micros(1500));
        let result = ExecuteResult { logs: vec!["a".into()], usage, ..failed };
        let mut expected = serde_json::to_value(&result).unwrap();
        expected["type"] = "done".into();
        expected["id"] = "e".into();
        let done = RunnerMessage::Done(Done { id: "e".into(), result, exits: false });
        assert_eq!(serde_json::from_str::<Json>(&text(&done)).unwrap(), expected);
    }

    #[test]
    fn every_option_has_a_default() {
        assert_eq!(limits(&json!({})), Limits::default());
        assert_eq!(limits(&json!({"timeoutMs": 1.5})).timeout, Duration::from_micros(1500));
        assert_eq!(limits(&json!({"memoryLimitBytes": 1.9e3})).memory_bytes, 1900);
        assert_eq!(limits(&json!({"maxLogLines": 0, "maxLogChars": 1e300})).max_log_chars, usize::MAX);
        assert!(limits(&json!({"timeoutMs": 1e300})).timeout > Duration::from_secs(1 << 40));
    }

    #[test]
    fn wrong_options_and_providers_are_named() {
        let options = [
            "timeoutMs",
            "memoryLimitBytes",
            "maxLogLines",
            "maxLogChars",
            "maxSourceBytes",
            "cpuTimeMs",
            "cpuTimeBeforeCallsMs",
            "hostWaitMs",
            "maxCalls",
            "maxBytesIn",
            "maxBytesOut",
            "hostMemoryBytes",
        ];
        for option in options {
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
                "duplicate `safeName` in `providers[0].tools.b`",
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
    fn missing_and_wrong_fields_are_named_with_the_id_to_answer() {
        for (message, error) in [
            (json!({}), "`type` is missing"),
            (json!({"type": 1}), "`type` is not a string"),
            (json!({"type": "cancel"}), "`id` is missing"),
            (json!({"type": "tool_result", "callId": "c"}), "`ok` is missing"),
            (json!({"type": "tool_result", "callId": "c", "ok": false}), "`error` is missing"),
            (json!({"type": "tool_result", "callId": "c", "ok": false, "error": null}), "`error` is not an object"),
            (
                json!({"type": "tool_result", "callId": "c", "ok": true, "error": {}}),
                "`ok` is true, but there is an `error`",
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
    fn unknown_types_fields_and_codes_are_accepted() {
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
            Ok(Some(HostMessage::Cancel(Cancel { id: "e".into() })))
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
    fn an_invalid_usage_is_skipped() {
        for nonsense in [
            json!(null),
            json!("much"),
            json!({"calls": -1}),
            json!({"cpuMs": -1}),
            json!({"bytesIn": 1e300}),
            json!({"peakMemoryBytes": "1 MiB"}),
        ] {
            let done = json!({"type": "done", "id": "e", "ok": true, "durationMs": 1, "logs": [], "usage": nonsense});
            let Ok(Some(RunnerMessage::Done(done))) = runner(done) else { panic!() };
            assert_eq!(done.result.usage, Usage::default());
        }
        let partial = json!({"cpuMs": null, "calls": 2, "more": 1});
        let done = json!({"type": "done", "id": "e", "ok": true, "durationMs": 1, "logs": [], "usage": partial});
        let Ok(Some(RunnerMessage::Done(done))) = runner(done) else { panic!() };
        assert_eq!(done.result.usage, Usage { calls: 2, ..Usage::default() });
    }

    #[test]
    fn invalid_positions_and_frames_are_skipped() {
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
            log in prop::array::uniform3(0_usize..1 << 50), name in any::<String>(), stream_logs in any::<bool>(),
            functions in prop::collection::vec(prop::array::uniform3(any::<String>()), 0..3),
            tools in prop::collection::btree_map(any::<String>(), prop::option::of(any::<String>()), 0..4),
            times in prop::array::uniform3(prop::option::of(0_u64..1 << 50)),
            amounts in prop::array::uniform4(prop::option::of(0_u64..1 << 53)),
        ) -> HostMessage {
            let limits = Limits {
                timeout: Duration::from_micros(micros), memory_bytes, max_log_lines: log[0], max_log_chars: log[1], max_source_bytes: log[2],
                cpu_time: times[0].map(Duration::from_micros), host_wait: times[1].map(Duration::from_micros),
                cpu_time_before_calls: times[2].map(Duration::from_micros),
                max_calls: amounts[0], max_bytes_in: amounts[1], max_bytes_out: amounts[2], host_memory_bytes: amounts[3],
                ..Limits::default()
            };
            let tools = tools.into_iter().rev().map(|(safe_name, description)| {
                ToolManifest { original_name: format!("{safe_name}!"), safe_name, description }
            });
            let functions = functions.into_iter().map(|[namespace, name, code]| ScriptFunction { namespace, name, code });
            let provider = Arc::new(ProviderManifest::new(name, tools.collect(), code.clone()));
            HostMessage::Execute(Execute { id, code, functions: functions.collect(), limits, providers: vec![provider], stream_logs, wait_for_calls: !stream_logs, globals: Globals { common: stream_logs, timers: !stream_logs } })
        }
    }

    fn host_message() -> impl Strategy<Value = HostMessage> {
        prop_oneof![
            execute_message(),
            any::<String>().prop_map(|id| HostMessage::Cancel(Cancel { id })),
            any::<(String, bool)>().prop_map(|(id, stopped)| HostMessage::Clock(Clock { id, stopped })),
            (any::<String>(), outcome()).prop_map(|(call_id, result)| {
                let result = result.map(|json| Value::from_json(json.as_ref(), "result").unwrap());
                HostMessage::ToolResult(ToolResult { call_id, result })
            }),
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
            any::<String>().prop_map(|id| RunnerMessage::Started(Started { id, functions: false })),
            (any::<[String; 2]>(), level)
                .prop_map(|([id, text], level)| { RunnerMessage::Log(WireLog { id, line: LogLine { level, text } }) }),
            call,
            done.prop_map(|(id, outcome, logs, micros)| {
                let duration = Duration::from_micros(micros);
                let usage = Usage { calls: micros, cpu_time: Some(duration), ..Usage::default() };
                let unawaited = UnawaitedCalls::new(micros % 3, micros % 2, []);
                let result = ExecuteResult { outcome, logs, dropped_logs: micros % 4, unawaited, duration, usage };
                RunnerMessage::Done(Done { id, result, exits: false })
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_of_a_host_survive_writing_and_reading(message in host_message()) {
            let line = text(&message);
            prop_assert_eq!(HostMessage::from_object(object(&line), Attachments::default()), Ok(Some(message)));
        }

        #[test]
        fn messages_of_a_runner_survive_writing_and_reading(message in runner_message()) {
            let line = text(&message);
            prop_assert_eq!(RunnerMessage::from_object(object(&line), Attachments::default()), Ok(Some(message)));
        }
    }
}
