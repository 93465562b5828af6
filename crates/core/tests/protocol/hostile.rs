//! Each half against a peer that violates the protocol.

use std::cell::Cell;
use std::task::Poll;
use std::time::Duration;

use execbox_core::contract::script::ScriptFunction;
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{
    Call, CallId, Event, FunctionId, LogLevel, LogLine, Outcome, Pending, Settlement, StartError, Turn,
};
use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult, StackFrame};
use execbox_core::language::Position;
use execbox_core::program::Limits;
use execbox_core::protocol::MAX_REPEATED_LOG_BYTES;
use execbox_core::protocol::host::{
    CloseReason, HostOptions, HostSession, Misbehavior, Output as HostOutput, ScriptHost,
};
use execbox_core::protocol::runner::{Output as RunnerOutput, RunnerSession};
use execbox_core::protocol::{
    Attachments, Cancel, Done, Execute, HostMessage, LineError, Message as _, RunnerMessage, Started, TooLong,
    ToolResult, WireCall, decode_line,
};
use execbox_core::value::Value;
use serde_json::{Value as Json, json};

use crate::pair::{execute, ms};
use execbox_testkit::scripted::Moves;

// ---- A hostile runner ---------------------------------------------------------------------------

fn host() -> HostSession<ScriptHost> {
    let mut host = HostSession::script(execute("exec-1", "return 1"), HostOptions::default(), Duration::ZERO);
    assert!(matches!(host.poll_output(), Some(HostOutput::Send(HostMessage::Execute(_)))));
    assert!(host.poll_output().is_none());
    host
}

fn outputs(host: &mut HostSession<ScriptHost>) -> Vec<HostOutput<ScriptHost>> {
    std::iter::from_fn(|| host.poll_output()).collect()
}

fn runner_says(message: Json) -> RunnerMessage {
    let Json::Object(object) = message else { panic!() };
    RunnerMessage::from_object(object, Attachments::default()).unwrap().unwrap()
}

fn call(call_id: &str, tool: &str) -> RunnerMessage {
    let (provider_name, safe_tool_name) = tool.split_once('.').unwrap();
    RunnerMessage::ToolCall(WireCall {
        call_id: call_id.into(),
        provider_name: provider_name.into(),
        safe_tool_name: safe_tool_name.into(),
        input: None,
    })
}

fn done(id: &str, outcome: Result<Option<Json>, ExecuteError>) -> RunnerMessage {
    let mut result = ExecuteResult::new(outcome, ms(1));
    result.logs.push("line".into());
    RunnerMessage::Done(Done { id: id.into(), result, exits: false })
}

fn finished(host: &mut HostSession<ScriptHost>) -> ExecuteResult {
    match outputs(host).pop() {
        Some(HostOutput::Finished(result)) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_runner_may_omit_or_repeat_started() {
    for times in 0..3 {
        let mut host = host();
        for _ in 0..times {
            host.handle_message(RunnerMessage::Started(Started { id: "exec-1".into(), functions: false }), ms(1));
        }
        host.handle_message(done("exec-1", Ok(None)), ms(2));
        assert_eq!(finished(&mut host).outcome, Ok(None));
    }
}

#[test]
fn unawaited_calls_are_those_that_can_be() {
    let result = |unawaited: Json| {
        let mut host = host();
        for id in ["call-1", "call-2"] {
            host.handle_message(call(id, "tools.echo"), ms(1));
        }
        outputs(&mut host);
        let done =
            json!({"type": "done", "id": "exec-1", "ok": true, "durationMs": 1, "logs": [], "unawaited": unawaited});
        host.handle_message(runner_says(done), ms(2));
        finished(&mut host).unawaited
    };
    let place = |tool: &str, line: u64| json!({"provider": "tools", "tool": tool, "at": {"file": "<script>", "line": line, "column": 1}, "calls": 1});
    let reported = result(json!({
        "waitedFor": 1, "unanswered": 1,
        "places": [place("echo", 1), place("forged", 1), place("echo", 99), json!({"provider": "tools", "tool": "echo", "calls": 9})]
    }));
    let places = json!([place("echo", 1), {"provider": "tools", "tool": "echo", "calls": 1}]);
    assert_eq!(json!(reported), json!({"waitedFor": 1, "unanswered": 1, "places": places}));
    let seen = json!({"waitedFor": 0, "unanswered": 2, "places": [{"provider": "tools", "tool": "echo", "calls": 2}]});
    for impossible in [
        Json::Null,
        json!({"waitedFor": 3, "unanswered": 0, "places": []}),
        json!({"waitedFor": u64::MAX, "unanswered": u64::MAX, "places": []}),
        json!({"waitedFor": 0, "unanswered": 0, "places": []}),
        json!({"waitedFor": -1, "unanswered": "all", "places": 7}),
        json!([1, 2]),
    ] {
        assert_eq!(json!(result(impossible.clone())), seen, "{impossible}: this host has not answered two calls");
    }
}

#[test]
fn a_runner_that_does_not_say_that_it_has_functions_is_ended() {
    let function = ScriptFunction::new("lib", "f", "1");
    let execute = Execute { functions: vec![function], ..execute("exec-1", "return 1") };
    let started = |functions| RunnerMessage::Started(Started { id: "exec-1".into(), functions });
    let failed = || done("exec-1", Err(ExecuteError::internal("busy")));
    let unsupported = "the runner does not support functions of scripts";
    for (messages, expected) in [
        (vec![started(true), done("exec-1", Ok(None))], Ok(None)),
        (vec![started(true), started(false), done("exec-1", Ok(None))], Ok(None)),
        (vec![started(false)], Err(unsupported)),
        (vec![done("exec-1", Ok(None))], Err(unsupported)),
        (vec![call("call-1", "tools.echo")], Err(unsupported)),
        (vec![failed()], Err("busy")),
    ] {
        let mut host = HostSession::script(execute.clone(), HostOptions::default(), Duration::ZERO);
        for message in messages {
            host.handle_message(message, ms(1));
        }
        assert_eq!(finished(&mut host).outcome, expected.map_err(ExecuteError::internal));
    }
}

#[test]
fn messages_with_another_id_are_ignored() {
    let mut host = host();
    host.handle_message(RunnerMessage::Started(Started { id: "exec-2".into(), functions: false }), ms(1));
    host.handle_message(done("exec-2", Ok(Some(json!("forged")))), ms(1));
    assert!(outputs(&mut host).is_empty() && !host.is_finished());
}

#[test]
fn everything_after_the_first_done_is_ignored() {
    let mut host = host();
    host.handle_message(call("call-1", "tools.hang"), ms(1));
    host.handle_message(done("exec-1", Ok(Some(json!(1)))), ms(2));
    host.handle_message(done("exec-1", Ok(Some(json!(2)))), ms(2));
    host.handle_message(call("call-2", "tools.echo"), ms(2));
    host.settle(CallId(1), Ok(None), ms(1));
    host.cancel(Stop::Cancelled(None), ms(3));
    host.handle_misbehavior(LineError::NotUtf8, ms(3));
    let outputs = outputs(&mut host);
    let [HostOutput::CancelCalls, HostOutput::Finished(result)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(result.outcome, Ok(Some(json!(1))));
    assert_eq!((host.next_timeout(), host.misbehavior()), (None, None));
}

#[test]
fn a_call_of_an_unknown_tool_fails_and_the_session_continues() {
    let mut host = host();
    for (call_id, tool) in [("call-1", "tools.nope"), ("call-2", "nope.echo"), ("call-3", "tools.__proto__")] {
        host.handle_message(call(call_id, tool), ms(1));
        let outputs = outputs(&mut host);
        let [HostOutput::Send(HostMessage::ToolResult(result))] = &outputs[..] else { panic!("{outputs:?}") };
        let error = result.result.as_ref().unwrap_err();
        assert_eq!((result.call_id.as_str(), error.code), (call_id, ErrorCode::InternalError));
        assert!(error.message.contains(tool), "{error}");
    }
    host.handle_message(done("exec-1", Ok(None)), ms(2));
    assert_eq!(finished(&mut host).outcome, Ok(None));
}

#[test]
fn a_runner_is_reusable_only_after_an_outcome_without_doubt() {
    let error = |code| Err(ExecuteError::new(code, "x"));
    for (outcome, reusable) in [
        (Ok(None), true),
        (error(ErrorCode::RuntimeError), true),
        (error(ErrorCode::MemoryLimit), true),
        (error(ErrorCode::Timeout), false),
        (error(ErrorCode::InternalError), false),
    ] {
        let mut host = host();
        host.handle_message(done("exec-1", outcome.clone()), ms(2));
        assert_eq!(host.is_reusable(), reusable, "{outcome:?}");
        host.handle_close(CloseReason::Closed, ms(3));
        assert!(!host.is_reusable(), "the runner has closed the transport after `done`");
    }
    let mut host_of_exiting = host();
    let message = json!({"type": "done", "id": "exec-1", "ok": true, "durationMs": 1, "logs": [], "exits": true});
    host_of_exiting.handle_message(runner_says(message), ms(2));
    assert_eq!(finished(&mut host_of_exiting).outcome, Ok(None));
    assert!(!host_of_exiting.is_reusable(), "the runner ends after `done`");
    let mut cancelled = host();
    cancelled.cancel(Stop::Cancelled(None), ms(1));
    cancelled.handle_message(done("exec-1", Ok(None)), ms(2));
    assert!(!cancelled.is_reusable(), "the outcome of a cancelled execution is a timeout");
    let mut closed = host();
    closed.handle_close(CloseReason::Closed, ms(1));
    assert!(!closed.is_reusable());
}

#[test]
fn each_misbehavior_ends_the_session_with_its_error() {
    let malformed = json!({"type": "done", "id": "exec-1"});
    let Json::Object(malformed) = malformed else { panic!() };
    let malformed = RunnerMessage::from_object(malformed, Attachments::default()).unwrap_err();
    for misbehavior in [
        Misbehavior::Frame(LineError::Oversized(9)),
        Misbehavior::Frame(LineError::NotUtf8),
        Misbehavior::Frame(LineError::NotJson("?".into())),
        Misbehavior::Frame(LineError::NotAnObject),
        Misbehavior::Message(malformed),
    ] {
        let mut host = host();
        host.handle_misbehavior(misbehavior.clone(), ms(1));
        assert_eq!(host.misbehavior(), Some(&misbehavior));
        let outputs = outputs(&mut host);
        let [HostOutput::CancelCalls, HostOutput::Terminate, HostOutput::Finished(result)] = &outputs[..] else {
            panic!("{outputs:?}")
        };
        assert_eq!(result.outcome, Err(ExecuteError::internal(misbehavior.to_string())));
    }
}

#[test]
fn a_call_id_is_accepted_once() {
    for answered in [false, true] {
        let mut host = host();
        host.handle_message(call("call-1", "tools.echo"), ms(1));
        if answered {
            host.settle(CallId(1), Ok(None), ms(1));
        }
        host.handle_message(call("call-1", "tools.echo"), ms(1));
        assert_eq!(host.misbehavior(), Some(&Misbehavior::DuplicateCall("call-1".into())));
        assert_eq!(finished(&mut host).error().unwrap().code, ErrorCode::InternalError);
    }
}

#[test]
fn calls_in_flight_are_bounded() {
    let limits = Limits::default().memory_bytes(1 << 20);
    let execute = Execute { limits, ..execute("exec-1", "") };
    let mut host = HostSession::script(execute, HostOptions::default(), Duration::ZERO);
    for number in 1..=5000 {
        host.handle_message(call(&format!("call-{number}"), "tools.hang"), ms(1));
    }
    assert_eq!(host.misbehavior(), Some(&Misbehavior::TooManyCalls(2048)));
    assert_eq!(outputs(&mut host).len(), 3, "no call begins after that");
}

#[test]
fn a_call_id_that_fills_a_line_is_not_answered_endlessly() {
    let mut host = host();
    let too_long = TooLong { len: 2, cap: 1 };
    let mut answer = ToolResult { call_id: "x".repeat(1000), result: Err(ExecuteError::tool("y".repeat(1000))) };
    for message in ["tool_error: a message is 2 bytes long, and the transport takes at most 1", ""] {
        host.handle_too_long(HostMessage::ToolResult(answer.clone()), too_long, ms(1));
        match host.poll_output() {
            Some(HostOutput::Send(HostMessage::ToolResult(shorter))) => answer = shorter,
            other => assert!(other.is_none() && message.is_empty(), "{other:?}"),
        }
        assert!(message.is_empty() || answer.result.as_ref().unwrap_err().to_string() == message);
    }
}

#[test]
fn only_the_first_answer_to_a_pending_call_is_sent() {
    let mut host = host();
    host.handle_message(call("x", "tools.echo"), ms(1));
    host.handle_message(call("y", "tools.echo"), ms(1));
    assert_eq!(outputs(&mut host).len(), 2);
    host.settle(CallId(2), Ok(Some(json!(2))), ms(1));
    host.settle(CallId(2), Ok(Some(json!("again"))), ms(1));
    host.settle(CallId(9), Ok(None), ms(1));
    let sent = outputs(&mut host);
    let [HostOutput::Send(HostMessage::ToolResult(answer))] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(
        *answer,
        ToolResult { call_id: "y".into(), result: Ok(Value::from_json(Some(&json!(2)), "result").unwrap()) }
    );
    host.cancel(Stop::Cancelled(None), ms(2));
    host.settle(CallId(1), Ok(None), ms(1));
    host.handle_message(call("z", "tools.echo"), ms(2));
    let sent = outputs(&mut host);
    let [HostOutput::CancelCalls, HostOutput::Send(HostMessage::Cancel(cancel))] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(cancel.id, "exec-1");
}

#[test]
fn codes_of_failed_tools_are_accepted_only_if_a_tool_failed() {
    let ends_with = |code, failed: bool| {
        let mut host = host();
        if failed {
            host.handle_message(call("call-1", "tools.echo"), ms(1));
            host.settle(CallId(1), Err(ExecuteError::new(code, "m")), ms(1));
        }
        host.handle_message(done("exec-1", Err(ExecuteError::new(code, "m"))), ms(1));
        finished(&mut host).error().unwrap().code
    };
    for code in [ErrorCode::ToolError, ErrorCode::ValidationError] {
        assert_eq!(ends_with(code, true), code);
        assert_eq!(ends_with(code, false), ErrorCode::RuntimeError, "forged");
    }
    for code in [ErrorCode::MemoryLimit, ErrorCode::SerializationError, ErrorCode::InternalError] {
        assert_eq!(ends_with(code, false), code);
    }
}

#[test]
fn a_timeout_is_accepted_only_after_the_timeout() {
    for (at, expected) in [
        (20, "internal_error: the runner reported a timeout after 20 of 1000 ms: m"),
        (989, "internal_error: the runner reported a timeout after 989 of 1000 ms: m"),
        (990, "timeout: m"),
        (1010, "timeout: m"),
    ] {
        let mut host = host();
        host.handle_message(done("exec-1", Err(ExecuteError::new(ErrorCode::Timeout, "m"))), ms(at));
        assert_eq!(finished(&mut host).error().unwrap().to_string(), expected);
    }
}

/// The error of reading a line or its message.
fn rejected(line: &str) -> Misbehavior {
    let object = match decode_line(line.as_bytes().to_vec()) {
        Ok(object) => object,
        Err(LineError::Unreadable(error)) => return (*error).into(),
        Err(error) => return error.into(),
    };
    RunnerMessage::from_object(object, Attachments::default()).unwrap_err().into()
}

#[test]
fn malformed_messages_with_another_id_are_ignored() {
    let too_deep = format!(r#""result":{}{}"#, "[".repeat(200), "]".repeat(200));
    for line in [
        r#"{"type":"done","id":"ID"}"#,
        r#"{"type":"done","id":"ID","ok":1}"#,
        r#"{"type":"code_done","id":"ID"}"#,
        &format!(r#"{{"type":"done","id":"ID","ok":true,"durationMs":1,"logs":[],{too_deep}}}"#),
    ] {
        let mut host = host();
        host.handle_misbehavior(rejected(&line.replace("ID", "exec-2")), ms(1));
        assert!(!host.is_finished() && host.misbehavior().is_none(), "{line}");
        host.handle_misbehavior(rejected(&line.replace("ID", "exec-1")), ms(1));
        assert_eq!(finished(&mut host).error().unwrap().code, ErrorCode::InternalError, "{line}");
    }
    for line in [r#"{"type":"done","callId":"exec-2"}"#, r#"{"type":"tool_call","callId":"c","id":"exec-2"}"#, "{"] {
        let mut host = host();
        host.handle_misbehavior(rejected(line), ms(1));
        assert!(host.is_finished(), "without the id of another execution: {line}");
    }
}

#[test]
fn memory_for_calls_does_not_grow_with_their_number() {
    let mut host = host();
    let mut kept = |calls: std::ops::Range<u64>| {
        for number in calls {
            let tool = if number % 2 == 0 { "tools.echo" } else { "tools.nope" };
            host.handle_message(call(&format!("call-{number:09}"), tool), ms(1));
            host.settle(CallId(number / 2 + 1), Ok(None), ms(1));
            assert!(!outputs(&mut host).is_empty());
        }
        format!("{host:?}").len()
    };
    let early = kept(0..2_000);
    let late = kept(2_000..50_000);
    assert!(late <= early + 100, "{early} and {late} bytes as text");
}

#[test]
fn inputs_of_calls_in_flight_are_bounded() {
    let limits = Limits::default().memory_bytes(1 << 20);
    let execute = Execute { limits, ..execute("exec-1", "") };
    let mut host = HostSession::script(execute, HostOptions::default(), Duration::ZERO);
    let call = |number: u64| {
        let input = json!({"a": ["x".repeat(1 << 20)]});
        runner_says(json!({
            "type": "tool_call", "callId": number.to_string(), "providerName": "tools", "safeToolName": "hang", "input": input
        }))
    };
    for number in 1..=20 {
        host.handle_message(call(number), ms(1));
        host.settle(CallId(number), Ok(None), ms(1));
    }
    assert_eq!(host.misbehavior(), None, "answering makes room");
    for number in 21..=60 {
        host.handle_message(call(number), ms(1));
    }
    let Some(Misbehavior::TooMuchInput(exhausted)) = host.misbehavior() else { panic!("{host:?}") };
    assert_eq!(exhausted.limit, (2 << 20) + (8 << 20), "twice the limit, and room for messages");
    assert_eq!(finished(&mut host).error().unwrap().code, ErrorCode::InternalError);
}

#[test]
fn a_long_call_id_is_rejected() {
    let call = |len: usize| {
        let id = "x".repeat(len);
        json!({"type": "tool_call", "callId": id, "providerName": "tools", "safeToolName": "echo"}).to_string()
    };
    runner_says(serde_json::from_str(&call(256)).unwrap());
    let expected = "the runner sent a malformed tool_call message: `callId` is not a string of at most 256 bytes";
    assert_eq!(rejected(&call(257)).to_string(), expected);
}

#[test]
fn logs_and_duration_are_cut_to_their_limits() {
    let limits = Limits::default().max_log_lines(3).max_log_chars(6);
    let execute = Execute { limits, ..execute("exec-1", "") };
    let mut host = HostSession::script(execute, HostOptions::default(), ms(5));
    let logs = json!(["ab", "", "c😀defg", "h"]);
    let done = json!({"type": "done", "id": "exec-1", "ok": true, "durationMs": 1e30, "logs": logs});
    host.handle_message(runner_says(done), ms(7));
    let result = finished(&mut host);
    assert_eq!(result.logs, ["ab", "", "c😀d"]);
    assert_eq!(result.duration, ms(2));
}

#[test]
fn a_position_outside_the_code_is_dropped() {
    let code = "return 1"; // of eight characters
    for (line, column, is_kept) in
        [(1, 9, true), (9, 1, true), (0, 1, false), (1, 0, false), (10, 1, false), (1, 10, false)]
    {
        let mut host = HostSession::script(execute("exec-1", code), HostOptions::default(), ms(5));
        let position = Some(Position { line, column });
        let mut error = ExecuteError::new(ErrorCode::RuntimeError, "no");
        error.position = position;
        error.stack.push(StackFrame::new(None, "<script>", Position { line, column }));
        host.handle_message(done("exec-1", Err(error)), ms(7));
        let result = finished(&mut host);
        let error = result.error().unwrap();
        assert_eq!((error.position, error.stack.len()), (position.filter(|_| is_kept), usize::from(is_kept)));
    }
}

#[test]
fn a_cause_that_cannot_be_is_dropped() {
    let failed =
        |call: u64, tool: &str| json!({"kind": "failed_call", "call": call, "provider": "tools", "tool": tool});
    let limit = json!({"kind": "limit", "limit": "maxCalls", "used": 2, "allowed": 1});
    for (code, cause, is_kept) in [
        ("tool_error", failed(1, "echo"), true),
        ("tool_error", failed(2, "echo"), false), // not made
        ("tool_error", failed(0, "echo"), false),
        ("tool_error", failed(1, "drop_tables"), false),
        ("runtime_error", failed(1, "echo"), false),
        ("validation_error", failed(1, "echo"), false), // no call failed so
        ("memory_limit", limit.clone(), true),
        ("runtime_error", limit, false),
        ("runtime_error", json!({"kind": "cancelled"}), false),
        ("runtime_error", json!({"kind": "not_defined", "name": "shp"}), true),
        ("runtime_error", json!({"kind": "not_defined", "name": "x".repeat(10_000)}), false),
        ("tool_error", json!({"kind": "not_defined", "name": "shp"}), false),
        ("runtime_error", json!({"kind": "made_up"}), false),
        ("runtime_error", json!([[]]), false),
    ] {
        let mut host = host();
        host.handle_message(call("call-1", "tools.echo"), ms(6));
        host.settle(CallId(1), Err(ExecuteError::tool("no")), ms(6));
        let error = json!({"code": code, "message": "m", "cause": cause});
        let done = json!({"type": "done", "id": "exec-1", "ok": false, "durationMs": 1, "logs": [], "error": error});
        host.handle_message(runner_says(done), ms(7));
        let result = finished(&mut host);
        let kept = &result.error().unwrap().cause;
        assert_eq!(json!(kept), if is_kept { cause } else { json!(null) }, "{code}");
    }
}

#[test]
fn a_stack_is_cut_to_frames_of_the_script() {
    let function = ScriptFunction::new("lib", "f", "1");
    let execute = Execute { functions: vec![function], ..execute("exec-1", "return 1") };
    let mut host = HostSession::script(execute, HostOptions::default(), Duration::ZERO);
    let frame = |file: &str, line| json!({"function": "f".repeat(100_000), "file": file, "line": line, "column": 1});
    let frame = |number| match number {
        3 => frame("/etc/passwd", 1),
        4 => frame("lib.f", 2),
        5 => frame("lib.f", 3), // The function has one line, and no code after it.
        6 => frame("lib.g", 1),
        _ => frame("<script>", 1),
    };
    let stack: Vec<Json> = (0..100).map(frame).collect();
    let error = json!({"code": "runtime_error", "message": "m", "name": "N".repeat(100_000), "stack": stack});
    let done = json!({"type": "done", "id": "exec-1", "ok": false, "durationMs": 1, "logs": [], "error": error});
    host.handle_message(runner_says(done), ms(7));
    let result = finished(&mut host);
    let error = result.error().unwrap();
    let files: Vec<_> = error.stack.iter().map(|frame| frame.file.as_str()).collect();
    let script = "<script>";
    assert_eq!(files, [script, script, script, "lib.f", script], "of the innermost eight, those of the script");
    assert!(error.name.as_ref().unwrap().len() < 300 && error.render().len() < 3000);
}

fn log(id: &str, text: &str) -> RunnerMessage {
    runner_says(json!({"type": "log", "id": id, "level": "warn", "text": text}))
}

/// The lines that are shown of an execution, and its result, with limits of three lines and six characters.
fn shown(messages: impl IntoIterator<Item = RunnerMessage>, stream_logs: bool) -> (Vec<String>, ExecuteResult) {
    let limits = Limits::default().max_log_lines(3).max_log_chars(6);
    let execute = Execute { limits, stream_logs, ..execute("exec-1", "") };
    let mut host = HostSession::script(execute, HostOptions::default(), ms(5));
    messages.into_iter().for_each(|message| host.handle_message(message, ms(7)));
    let mut outputs = outputs(&mut host);
    let Some(HostOutput::Finished(result)) = outputs.pop() else { panic!("{outputs:?}") };
    let line = |output: HostOutput<ScriptHost>| match output {
        HostOutput::Notify(line) => Some(format!("{} {}", line.level.as_str(), line.text)),
        _ => None,
    };
    (outputs.into_iter().filter_map(line).collect(), result)
}

#[test]
fn streamed_lines_are_cut_to_the_limits() {
    let flood = (0..10_000).map(|_| log("exec-1", &"x".repeat(1000))).chain([done("exec-1", Ok(None))]);
    let (lines, result) = shown(flood, true);
    assert_eq!((lines, result.logs), (vec!["warn xxxxxx".to_owned()], vec!["xxxxxx".to_owned()]));
    assert_eq!(result.dropped_logs, 9_999, "the line of `done` was streamed");
    let many = (0..10_000).map(|_| log("exec-1", "")).chain([done("exec-1", Ok(None))]);
    assert_eq!(shown(many, true).1.logs.len(), 3);
}

#[test]
fn lines_of_log_and_done_are_counted_once() {
    let done =
        |logs: &[&str]| runner_says(json!({"type": "done", "id": "exec-1", "ok": true, "durationMs": 1, "logs": logs}));
    let (lines, result) = shown([log("exec-1", "a"), done(&["a", "b"])], true);
    assert_eq!(
        (lines, result.logs),
        (vec!["warn a".to_owned(), "log b".to_owned()], vec!["a".to_owned(), "b".to_owned()])
    );
    let (lines, result) = shown([log("exec-1", "a"), done(&[])], true);
    assert_eq!((lines.len(), result.logs), (1, vec!["a".to_owned()]), "a line that was shown stays in the log");
}

#[test]
fn lines_that_runner_and_host_drop_are_counted_together() {
    let done = |logs: Json, dropped: Json| json!({"type": "done", "id": "exec-1", "ok": true, "durationMs": 1, "logs": logs, "droppedLogs": dropped});
    let five = json!(["a", "b", "c", "d", "e"]);
    let dropped = |dropped| shown([runner_says(done(five.clone(), dropped))], false).1.dropped_logs;
    assert_eq!((dropped(json!(0)), dropped(json!(7)), dropped(json!(1e300))), (2, 9, (1 << 53) - 1 + 2));
    let streamed = ["a", "b", "c", "d", "e"].map(|text| log("exec-1", text));
    let (_, result) = shown(streamed.into_iter().chain([runner_says(done(five.clone(), json!(7)))]), true);
    assert_eq!((result.logs.len(), result.dropped_logs), (3, 9), "lines of `log` and `done` are counted once");
    for wrong in [json!("7"), json!(-1), json!(null)] {
        let Json::Object(message) = done(json!([]), wrong) else { unreachable!() };
        let error = RunnerMessage::from_object(message, Attachments::default()).unwrap_err().to_string();
        assert!(error.contains("`droppedLogs` is not a number of at least 0"), "{error}");
    }
}

#[test]
fn unrequested_late_and_foreign_lines_are_ignored() {
    let line = || log("exec-1", "forged");
    let (lines, result) = shown([line(), done("exec-1", Ok(None)), line()], false);
    assert_eq!((lines.len(), result.logs), (0, vec!["line".to_owned()]));
    let (lines, result) = shown([log("exec-2", "forged"), done("exec-1", Ok(None)), line()], true);
    assert_eq!((lines, result.logs), (vec!["log line".to_owned()], vec!["line".to_owned()]));
}

#[test]
fn done_within_the_grace_period_is_a_timeout_with_its_logs() {
    for outcome in [Ok(Some(json!("too late"))), Err(ExecuteError::internal("broken"))] {
        let mut host = host();
        host.handle_timeout(ms(1099));
        assert!(outputs(&mut host).is_empty());
        host.handle_timeout(ms(1100));
        assert_eq!(host.next_timeout(), Some(ms(1125)));
        host.handle_timeout(ms(1124));
        host.handle_message(done("exec-1", outcome), ms(1124));
        let result = finished(&mut host);
        assert_eq!(result.error().unwrap().to_string(), "timeout: Execution timed out after 1000 ms");
        assert_eq!(result.logs, ["line"]);
    }
}

#[test]
fn the_first_close_reason_is_kept() {
    let mut host = host();
    let broken = CloseReason::Failed("reset".into());
    host.handle_close(broken.clone(), ms(1));
    host.handle_close(CloseReason::Closed, ms(2));
    assert_eq!(host.close_reason(), Some(&broken));
    let error = finished(&mut host).outcome.unwrap_err();
    assert_eq!(error, ExecuteError::internal("the connection to the runner failed: reset"));

    let mut host = self::host();
    host.handle_message(done("exec-1", Ok(None)), ms(1));
    host.handle_close(CloseReason::CutOff, ms(2));
    assert_eq!(host.close_reason(), Some(&CloseReason::CutOff), "also after the end");
    assert_eq!(finished(&mut host).outcome, Ok(None));
}

#[test]
fn a_runner_that_its_program_ended_has_reached_the_memory_limit_unless_the_program_was_stopped() {
    let mut host = host();
    host.handle_close(CloseReason::OutOfMemory, ms(1));
    let error = finished(&mut host).outcome.unwrap_err();
    assert_eq!(error.to_string(), "memory_limit: Execution exceeded its memory limit of 64 MiB");
    assert!(!host.is_reusable());

    let mut host = self::host();
    host.cancel(Stop::TimedOut, ms(1));
    host.handle_close(CloseReason::OutOfMemory, ms(2));
    assert_eq!(finished(&mut host).outcome.unwrap_err().code, ErrorCode::Timeout);
}

// ---- A hostile host -----------------------------------------------------------------------------

fn runner() -> RunnerSession {
    RunnerSession::new()
}

fn active() -> RunnerSession {
    let mut runner = runner();
    runner.handle_message(HostMessage::Execute(execute("exec-1", "return 1")), ms(10));
    let outputs = runner_outputs(&mut runner);
    assert!(matches!(&outputs[..], [RunnerOutput::Send(RunnerMessage::Started(_)), RunnerOutput::Start(_)]));
    runner
}

#[test]
fn a_draining_runner_accepts_nothing_and_stops_programs_after_the_grace_period() {
    let mut idle = runner();
    idle.drain(ms(100), ms(0));
    assert!(idle.is_drained());

    let mut runner = active();
    runner.drain(ms(100), ms(20));
    assert!(runner.is_active() && !runner.is_drained());
    assert_eq!(runner.next_timeout(), Some(ms(120)));
    runner.drain(ms(500), ms(30));
    assert_eq!(runner.next_timeout(), Some(ms(120)), "draining again does not extend the grace period");
    runner.handle_timeout(ms(119));
    assert!(runner_outputs(&mut runner).is_empty());
    runner.handle_timeout(ms(120));
    let outputs = runner_outputs(&mut runner);
    let [RunnerOutput::StopGuest, RunnerOutput::Send(RunnerMessage::Done(done))] = &outputs[..] else { panic!() };
    let error = done.result.error().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::InternalError, "the runner is shutting down"));
    assert!(runner.is_drained());

    runner.handle_message(HostMessage::Execute(execute("exec-2", "return 1")), ms(130));
    let outputs = runner_outputs(&mut runner);
    let [RunnerOutput::Send(RunnerMessage::Done(done))] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((done.id.as_str(), done.result.error().unwrap().code), ("exec-2", ErrorCode::InternalError));
}

#[test]
fn a_draining_runner_lets_a_guest_finish_within_the_grace_period() {
    let mut runner = active();
    runner.drain(ms(100), ms(20));
    runner.handle_turn(Poll::Ready(Turn::Done(Outcome::Returned(Value::undefined()))), ms(119));
    let outputs = runner_outputs(&mut runner);
    let [RunnerOutput::Send(RunnerMessage::Done(done))] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(done.result.is_ok() && runner.is_drained());
}

/// A runner of an execution with streamed logs that has written these lines.
fn streaming(lines: &[&str]) -> RunnerSession {
    let mut runner = runner();
    let execute = Execute { stream_logs: true, ..execute("exec-1", "return 1") };
    runner.handle_message(HostMessage::Execute(execute), ms(10));
    runner_outputs(&mut runner);
    for text in lines {
        runner.handle_event(Event::Log(LogLine::new(LogLevel::Log, *text)), &|| ms(1));
    }
    runner
}

fn streamed(output: Option<RunnerOutput>) -> RunnerMessage {
    match output {
        Some(RunnerOutput::Send(message @ RunnerMessage::Log(_))) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_streamed_line_that_is_too_long_is_cut() {
    let long = "é".repeat(100);
    let mut runner = streaming(&["a", &long, "c"]);
    streamed(runner.poll_output());
    let too_long = streamed(runner.poll_output());
    runner.handle_too_long(too_long, TooLong { len: 250, cap: 88 });
    let RunnerMessage::Log(cut) = streamed(runner.poll_output()) else { panic!() };
    assert_eq!(cut.line.text, "ééééé…");
    // A line that is too long for another reason is dropped.
    runner.handle_too_long(RunnerMessage::Log(cut), TooLong { len: 250, cap: 88 });
    let RunnerMessage::Log(next) = streamed(runner.poll_output()) else { panic!() };
    assert_eq!(next.line.text, "c");
}

#[test]
fn long_logs_are_not_sent_again_with_the_result() {
    let line = "x".repeat(MAX_REPEATED_LOG_BYTES / 2);
    for (lines, repeated) in [(&[&line[..], &line][..], 2), (&[&line, &line, "y"], 0), (&[&line, &line, "y", "z"], 0)] {
        let mut runner = streaming(lines);
        assert_eq!(runner_outputs(&mut runner).len(), lines.len());
        runner.handle_turn(Poll::Ready(Turn::Done(Outcome::Returned(Value::undefined()))), ms(20));
        assert_eq!(last_done(&mut runner).result.logs.len(), repeated);
    }
}

/// The outputs. Programs are compiled on the way.
fn runner_outputs(runner: &mut RunnerSession) -> Vec<RunnerOutput> {
    let mut outputs = Vec::new();
    while let Some(output) = runner.poll_output() {
        match output {
            RunnerOutput::Compile { .. } => runner.compile(&Moves, &|| ms(10), &|| Duration::ZERO),
            output => outputs.push(output),
        }
    }
    outputs
}

fn receive(runner: &mut RunnerSession, message: Json) {
    let Json::Object(object) = message else { panic!() };
    match HostMessage::from_object(object, Attachments::default()) {
        Ok(message) => runner.handle_message(message.unwrap(), ms(10)),
        Err(error) => runner.handle_malformed(&error, ms(10)),
    }
}

fn last_done(runner: &mut RunnerSession) -> Done {
    match runner_outputs(runner).pop() {
        Some(RunnerOutput::Send(RunnerMessage::Done(done))) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_that_are_not_due_are_ignored() {
    let mut runner = runner();
    receive(&mut runner, json!({"type": "cancel", "id": "exec-1"}));
    receive(&mut runner, json!({"type": "tool_result", "callId": "call-1", "ok": true}));
    runner.handle_turn(Poll::Ready(Turn::Done(Outcome::Interrupted)), ms(10));
    runner.handle_timeout(ms(1 << 40));
    assert!(runner_outputs(&mut runner).is_empty() && runner.next_timeout().is_none());
}

#[test]
fn the_last_message_says_that_the_process_ends() {
    for ends in [false, true] {
        let mut runner = active();
        if ends {
            runner.handle_process_end();
        }
        runner.handle_turn(Poll::Ready(Turn::Done(Outcome::OutOfMemory)), ms(10));
        let done = last_done(&mut runner);
        assert_eq!((done.result.error().unwrap().code, done.exits), (ErrorCode::MemoryLimit, ends));
    }
}

#[test]
fn a_malformed_execute_is_answered_by_its_id() {
    for mut runner in [runner(), active()] {
        receive(&mut runner, json!({"type": "execute", "id": "exec-2", "code": "", "options": {"timeoutMs": -1}}));
        let done = last_done(&mut runner);
        let error = done.result.outcome.unwrap_err();
        assert_eq!((done.id.as_str(), error.code), ("exec-2", ErrorCode::InternalError));
        assert_eq!(error.message, "a malformed execute message: `options.timeoutMs` is not a number of at least 0");
    }
    let mut runner = runner();
    receive(&mut runner, json!({"type": "execute", "code": ""}));
    assert!(runner_outputs(&mut runner).is_empty(), "there is no id to answer");
}

#[test]
fn an_outcome_after_the_deadline_is_a_timeout() {
    let mut runner = active();
    assert_eq!(runner.next_timeout(), Some(ms(1010)));
    runner.handle_turn(Poll::Ready(Turn::Done(Outcome::Returned(Value::undefined()))), ms(1010));
    assert_eq!(last_done(&mut runner).result.error().unwrap().code, ErrorCode::Timeout);
}

#[test]
fn a_zero_timeout_starts_no_guest() {
    let limits = Limits::default().timeout(Duration::ZERO);
    let mut runner = runner();
    runner.handle_message(HostMessage::Execute(Execute { limits, ..execute("exec-1", "return 1") }), ms(10));
    let outputs = runner_outputs(&mut runner);
    let [_, RunnerOutput::Send(RunnerMessage::Done(done))] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(done.result.error().unwrap().code, ErrorCode::Timeout);
}

#[test]
fn only_the_first_result_settles_a_call() {
    let mut runner = active();
    for number in 1..=2 {
        let call = Call { id: CallId(number), function: FunctionId(0), input: Value::undefined(), now: false };
        runner.handle_event(Event::Call(call), &|| ms(1));
    }
    assert_eq!(runner_outputs(&mut runner).len(), 2);
    for call_id in ["call-2", "call-2", "call-3", "call-02"] {
        receive(&mut runner, json!({"type": "tool_result", "callId": call_id, "ok": true}));
    }
    assert!(matches!(
        runner_outputs(&mut runner)[..],
        [RunnerOutput::Settle(Pending::Call(CallId(2)), Settlement::Fulfilled(_))]
    ));
    receive(&mut runner, json!({"type": "tool_result", "callId": "call-1", "ok": false, "error": "none"}));
    let outputs = runner_outputs(&mut runner);
    let [RunnerOutput::Settle(Pending::Call(CallId(1)), Settlement::Failed(error))] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(error.to_string(), "internal_error: a malformed tool_result message: `error` is not an object");
}

#[test]
fn an_unreadable_answer_fails_its_call() {
    let mut runner = active();
    let call = Call { id: CallId(1), function: FunctionId(0), input: Value::undefined(), now: false };
    runner.handle_event(Event::Call(call), &|| ms(1));
    assert_eq!(runner_outputs(&mut runner).len(), 1);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(r#"{{"type":"tool_result","callId":"call-1","ok":true,"result":{deep},"id":"exec-2"}}"#);
    let Err(LineError::Unreadable(error)) = decode_line(line.into_bytes()) else { panic!() };
    runner.handle_malformed(&error, ms(11));
    let outputs = runner_outputs(&mut runner);
    let [RunnerOutput::Settle(Pending::Call(CallId(1)), Settlement::Failed(error))] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(error.code, ErrorCode::SerializationError);
    assert!(error.message.starts_with("tool result cannot cross: recursion limit exceeded"), "{error}");
}

#[test]
fn call_ids_are_unique_per_connection() {
    let mut runner = active();
    let call = || Event::Call(Call { id: CallId(1), function: FunctionId(0), input: Value::undefined(), now: false });
    let call_id = |runner: &mut RunnerSession| match runner_outputs(runner).pop() {
        Some(RunnerOutput::Send(RunnerMessage::ToolCall(call))) => call.call_id,
        other => panic!("{other:?}"),
    };
    runner.handle_event(call(), &|| ms(1));
    let early = call_id(&mut runner);
    receive(&mut runner, json!({"type": "cancel", "id": "exec-1"}));
    runner.handle_message(HostMessage::Execute(execute("exec-2", "return 1")), ms(10));
    runner_outputs(&mut runner);
    runner.handle_event(call(), &|| ms(1));
    let late = call_id(&mut runner);
    receive(&mut runner, json!({"type": "tool_result", "callId": early, "ok": true, "result": "late"}));
    assert!(runner_outputs(&mut runner).is_empty(), "the call is not pending any more");
    receive(&mut runner, json!({"type": "tool_result", "callId": late, "ok": true}));
    assert!(matches!(
        runner_outputs(&mut runner)[..],
        [RunnerOutput::Settle(Pending::Call(CallId(1)), Settlement::Fulfilled(_))]
    ));
}

#[test]
fn compile_time_counts() {
    let program = execute("exec-1", "return 1");
    let invalid = Execute { providers: vec![program.providers[0].clone(); 2], ..program.clone() };
    let compiled_at = |execute: &Execute, at| {
        let mut runner = runner();
        runner.handle_message(HostMessage::Execute(execute.clone()), ms(10));
        assert!(matches!(runner.poll_output(), Some(RunnerOutput::Send(RunnerMessage::Started(_)))));
        assert_eq!(runner.next_timeout(), Some(ms(1010)));
        assert!(matches!(runner.poll_output(), Some(RunnerOutput::Compile { .. })));
        let clock = Cell::new(ms(10));
        runner.compile(&Moves, &|| clock.replace(ms(at)), &|| Duration::ZERO);
        last_done(&mut runner).result
    };
    let refused = compiled_at(&invalid, 210);
    assert_eq!((refused.error().unwrap().code, refused.duration), (ErrorCode::InternalError, ms(200)));
    for execute in [&program, &invalid] {
        let too_late = compiled_at(execute, 1010);
        assert_eq!((too_late.error().unwrap().code, too_late.duration), (ErrorCode::Timeout, ms(1000)));
    }
}

#[test]
fn only_an_accepted_program_is_compiled() {
    let compile = |runner: &mut RunnerSession| runner.compile(&Moves, &|| ms(11), &|| Duration::ZERO);
    let mut idle = runner();
    compile(&mut idle);
    assert!(runner_outputs(&mut idle).is_empty() && !idle.is_active());

    let mut runner = runner();
    runner.handle_message(HostMessage::Execute(execute("exec-1", "return 1")), ms(10));
    receive(&mut runner, json!({"type": "cancel", "id": "exec-1"}));
    let outputs = std::iter::from_fn(|| runner.poll_output()).collect::<Vec<_>>();
    assert!(matches!(outputs.last(), Some(RunnerOutput::Send(RunnerMessage::Done(_)))), "{outputs:?}");
    compile(&mut runner);
    assert!(runner_outputs(&mut runner).is_empty() && !runner.is_active());

    let mut running = active();
    compile(&mut running);
    assert!(runner_outputs(&mut running).is_empty() && running.is_active());
}

#[test]
fn an_engine_that_does_not_start_is_an_internal_error() {
    let mut runner = active();
    runner.handle_start_error(&StartError::Full(3), ms(11));
    let result = last_done(&mut runner).result;
    assert_eq!((result.error().unwrap().code, result.duration), (ErrorCode::InternalError, ms(1)));
    assert!(!runner.is_active());
}

#[test]
fn an_execution_can_start_after_another_was_cancelled() {
    let mut runner = active();
    receive(&mut runner, json!({"type": "cancel", "id": "exec-1"}));
    assert!(matches!(runner_outputs(&mut runner)[0], RunnerOutput::StopGuest), "the first output");
    runner.handle_message(HostMessage::Execute(execute("exec-1", "return 1")), ms(20));
    assert_eq!((runner_outputs(&mut runner).len(), runner.next_timeout()), (2, Some(ms(1020))));
}

#[test]
fn a_cancel_after_the_timeout_ends_with_the_timeout() {
    for (now, expected) in [(999, "Execution was cancelled"), (1000, "Execution timed out after 1000 ms")] {
        let mut runner = RunnerSession::new();
        runner.handle_message(HostMessage::Execute(execute("exec-1", "call hang 1; await")), ms(0));
        runner.handle_message(HostMessage::Cancel(Cancel { id: "exec-1".into() }), ms(now));
        let done = runner_outputs(&mut runner).pop();
        let Some(RunnerOutput::Send(RunnerMessage::Done(done))) = done else { panic!("{done:?}") };
        let error = done.result.outcome.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, expected));
    }
}

#[test]
fn a_closed_transport_stops_the_guest_and_ends_the_session() {
    let mut runner = active();
    runner.handle_close();
    assert!(matches!(runner_outputs(&mut runner)[..], [RunnerOutput::StopGuest]));
    runner.handle_message(HostMessage::Execute(execute("exec-2", "return 1")), ms(20));
    receive(&mut runner, json!({"type": "execute", "id": "exec-3"}));
    runner.handle_close();
    assert!(runner_outputs(&mut runner).is_empty());
}

#[test]
fn a_done_that_is_too_long_is_shortened_step_by_step() {
    let long = TooLong { len: 9, cap: 5 };
    let mut runner = runner();
    let mut result = ExecuteResult::new(Ok(Some(json!(1))), ms(1));
    result.logs.push("a".into());
    let mut resend = |result: &ExecuteResult| {
        runner
            .handle_too_long(RunnerMessage::Done(Done { id: "e".into(), result: result.clone(), exits: false }), long);
        runner_outputs(&mut runner).pop().map(|output| match output {
            RunnerOutput::Send(RunnerMessage::Done(done)) => done.result,
            other => panic!("{other:?}"),
        })
    };
    result = resend(&result).unwrap();
    assert_eq!((result.error().unwrap().code, result.logs.len()), (ErrorCode::SerializationError, 1));
    result = resend(&result).unwrap();
    assert!(result.logs.is_empty());
    assert_eq!(resend(&result), None, "nothing shorter is left");
    result.outcome = Err(ExecuteError::new(ErrorCode::RuntimeError, "x".repeat(1000)));
    result = resend(&result).unwrap();
    assert_eq!(result.error().unwrap().to_string(), format!("runtime_error: {long}"));
}
