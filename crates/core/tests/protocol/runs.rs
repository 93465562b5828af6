//! The host's half of a run against hostile and silent runners, and the messages of the module contract.

use std::time::Duration;

use execbox_core::contract::module::{CodeExecutionError, Failure, RunEnd, RunOutcome, Status};
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Call, CallId, FunctionId, Notification, Pending};
use execbox_core::error::StackFrame;
use execbox_core::language::Position;
use execbox_core::protocol::decode_line;
use execbox_core::protocol::host::{CloseReason, HELLO_TIMEOUT, HostOptions, HostSession, ModuleHost, Output};
use execbox_core::protocol::runner::{Output as RunnerOutput, RunnerSession};
use execbox_core::protocol::{
    Attachments, CodeCall, CodeDone, CodeNotify, Hello, HostMessage, Message, RunCode, RunnerMessage, Settle, Started,
};
use execbox_core::unawaited::{CallPlace, UnawaitedCalls};
use execbox_core::usage::Usage;
use execbox_core::value::{Graph, Value};
use execbox_testkit::scripted::Moves;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::pair::{ms, request};

fn outputs(session: &mut HostSession<ModuleHost>) -> Vec<Output<ModuleHost>> {
    std::iter::from_fn(|| session.poll_output()).collect()
}

fn awaiting_hello() -> HostSession<ModuleHost> {
    let mut session = HostSession::module("run-1".into(), request(), HostOptions::default(), ms(0));
    assert!(matches!(&outputs(&mut session)[..], [Output::Send(HostMessage::Hello(_))]));
    session
}

fn running() -> HostSession<ModuleHost> {
    let mut session = awaiting_hello();
    session.handle_message(RunnerMessage::Hello(Hello { attachments: true }), ms(1));
    let outputs = outputs(&mut session);
    let [Output::Send(HostMessage::RunCode(run))] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((run.id.as_str(), &*run.request), ("run-1", &request()));
    session
}

fn call(number: u64) -> RunnerMessage {
    let call = Call { id: CallId(number), function: FunctionId(9), input: Value::undefined(), now: false };
    RunnerMessage::CodeCall(CodeCall { id: "run-1".into(), call })
}

fn notify(bytes: usize) -> RunnerMessage {
    let args = Value::from_bytes(vec![0; bytes]);
    RunnerMessage::CodeNotify(CodeNotify {
        id: "run-1".into(),
        notification: Notification { function: FunctionId(1), args },
    })
}

fn done(id: &str, outcome: RunOutcome) -> RunnerMessage {
    RunnerMessage::CodeDone(CodeDone {
        id: id.into(),
        outcome,
        dropped_logs: 0,
        unawaited: None,
        duration: ms(1),
        usage: Usage::default().peak_memory_bytes(7),
        exits: false,
    })
}

/// The outcome, and whether the runner is terminated.
fn end(session: &mut HostSession<ModuleHost>) -> (RunOutcome, bool) {
    let mut outputs = outputs(session);
    assert!(matches!(outputs.first(), Some(Output::CancelCalls)), "{outputs:?}");
    let Some(Output::Finished(RunEnd { outcome, .. })) = outputs.pop() else { panic!("{outputs:?}") };
    assert!(session.is_finished() && session.next_timeout().is_none());
    (outcome, outputs.iter().any(|output| matches!(output, Output::Terminate)))
}

fn message(outcome: RunOutcome) -> String {
    outcome.unwrap_err().error.message
}

#[test]
fn a_runner_that_does_not_answer_hello_does_not_support_runs() {
    let mut session = awaiting_hello();
    assert_eq!(session.next_timeout(), Some(HELLO_TIMEOUT));
    session.handle_message(RunnerMessage::Started(Started { id: "run-1".into(), functions: false }), ms(1));
    session.handle_message(call(1), ms(1));
    session.handle_message(done("run-1", Ok(Value::undefined())), ms(1));
    assert!(outputs(&mut session).is_empty(), "the program is not sent yet");
    session.handle_timeout(HELLO_TIMEOUT);
    let (outcome, stopped) = end(&mut session);
    assert!(stopped && !session.is_reusable());
    assert_eq!(message(outcome), "the runner does not support run_code: it did not answer `hello`");
}

#[test]
fn a_run_is_sent_once_and_finishes_once() {
    let mut session = running();
    session.handle_message(RunnerMessage::Hello(Hello { attachments: true }), ms(2));
    session.handle_message(done("run-2", Ok(Value::undefined())), ms(2));
    assert!(outputs(&mut session).is_empty());
    session.handle_message(done("run-1", Ok(Value::undefined())), ms(3));
    session.handle_message(done("run-1", Err(Failure::internal("forged"))), ms(3));
    session.cancel(Stop::Cancelled(None), ms(4));
    let (outcome, stopped) = end(&mut session);
    assert!(outcome.is_ok() && !stopped && session.is_reusable());
    session.handle_close(CloseReason::Closed, ms(5));
    assert!(!session.is_reusable(), "the runner has closed the transport after `code_done`");
}

#[test]
fn calls_are_settled_once_and_promises_always() {
    let mut session = running();
    session.handle_message(call(1), ms(2));
    assert!(matches!(&outputs(&mut session)[..], [Output::Call(_)]));
    let settled = |pending| (pending, Ok(Value::undefined()));
    for (pending, result) in [
        settled(Pending::Call(CallId(1))),
        settled(Pending::Call(CallId(1))),
        settled(Pending::Call(CallId(2))),
        settled(Pending::Promise(0)),
    ] {
        session.settle(pending, result, ms(1));
    }
    let sent = outputs(&mut session);
    let pending = |output: &Output<ModuleHost>| match output {
        Output::Send(HostMessage::Settle(settle)) => settle.pending,
        other => panic!("{other:?}"),
    };
    assert_eq!(sent.iter().map(pending).collect::<Vec<_>>(), [Pending::Call(CallId(1)), Pending::Promise(0)]);
}

#[test]
fn cancelling_sends_cancel_and_terminates_after_the_grace_period() {
    for answered in [true, false] {
        let mut session = running();
        session.handle_message(call(1), ms(2));
        session.cancel(Stop::Cancelled(Some("enough".into())), ms(5));
        session.cancel(Stop::Cancelled(Some("again".into())), ms(6));
        let asked = outputs(&mut session);
        assert!(matches!(&asked[..], [Output::Call(_), Output::CancelCalls, Output::Send(HostMessage::Cancel(_))]));
        session.settle(Pending::Call(CallId(1)), Ok(Value::undefined()), ms(1));
        session.handle_message(call(2), ms(7));
        assert!(outputs(&mut session).is_empty(), "no call begins or settles after cancelling");
        if answered {
            session.handle_message(done("run-1", Ok(Value::undefined())), ms(8));
        } else {
            session.handle_timeout(ms(29));
            assert!(!session.is_finished());
            session.handle_timeout(ms(30));
        }
        let (outcome, stopped) = end(&mut session);
        assert_eq!((stopped, session.is_reusable()), (!answered, false));
        assert_eq!(message(outcome), "The run was terminated: enough");
    }
}

#[test]
fn cancelling_before_the_run_was_sent_terminates_at_once() {
    let mut session = awaiting_hello();
    session.cancel(Stop::Cancelled(None), ms(1));
    let (outcome, stopped) = end(&mut session);
    assert!(stopped && message(outcome) == "The run was terminated");
}

#[test]
fn the_host_enforces_the_safety_cap() {
    let mut session = running();
    assert_eq!(session.next_timeout(), Some(ms(1 + 1000 + 100)));
    session.handle_timeout(ms(1101));
    session.handle_timeout(ms(1126));
    assert_eq!(message(end(&mut session).0), "The run was stopped by the safety cap of 1 s");
}

#[test]
fn notifications_before_the_end_are_kept_within_the_budget() {
    let mut session = running();
    session.handle_message(notify(100), ms(2));
    session.handle_close(CloseReason::CutOff, ms(4));
    let outputs_then = outputs(&mut session);
    assert!(matches!(&outputs_then[..], [Output::CancelCalls, Output::Notify(_), Output::Finished(_)]));

    let mut flooded = running();
    for _ in 0..40 {
        flooded.handle_message(notify(1 << 20), ms(2)); // of twice 4096 bytes and 8 MiB
    }
    let outputs = outputs(&mut flooded);
    assert_eq!(outputs.iter().filter(|output| matches!(output, Output::Notify(_))).count(), 8);
    assert!(matches!(outputs.get(1), Some(Output::Terminate)), "{outputs:?}");
}

#[test]
fn a_call_number_is_accepted_once() {
    let mut session = running();
    session.handle_message(call(1), ms(2));
    session.handle_message(call(1), ms(2));
    let (outcome, stopped) = end(&mut session);
    assert!(stopped && message(outcome).contains("second call with the id"));
}

#[test]
fn call_numbers_increase_and_arguments_are_bounded() {
    let mut session = running();
    session.handle_message(call(7), ms(2));
    session.settle(Pending::Call(CallId(7)), Ok(Value::undefined()), ms(1));
    session.handle_message(call(3), ms(2));
    assert!(message(end(&mut session).0).contains("second call with the id"));

    let large = |number: u64| {
        let call = Call {
            id: CallId(number),
            function: FunctionId(9),
            input: Value::from_bytes(vec![0; 1 << 20]),
            now: false,
        };
        RunnerMessage::CodeCall(CodeCall { id: "run-1".into(), call })
    };
    let mut session = running();
    for number in 1..=40 {
        session.handle_message(large(number), ms(2));
        session.settle(Pending::Call(CallId(number)), Ok(Value::undefined()), ms(1));
    }
    assert!(!session.is_finished());
    for number in 41..=80 {
        session.handle_message(large(number), ms(2));
    }
    let outputs = outputs(&mut session);
    let Some(Output::Finished(RunEnd { outcome: Err(failure), .. })) = outputs.last() else { panic!("{outputs:?}") };
    let message = &failure.error.message;
    assert!(message.starts_with("the inputs of the runner's calls in flight exceed their budget: 8 MiB"), "{message}");
}

#[test]
fn unawaited_calls_are_those_that_can_be() {
    let result = |unawaited: Json| {
        let mut session = running();
        for number in [1, 2] {
            session.handle_message(call(number), ms(1));
        }
        outputs(&mut session);
        let result = done("run-1", Ok(Value::undefined()));
        let RunnerMessage::CodeDone(done) = result else { unreachable!() };
        let unawaited = serde_json::from_value(unawaited).ok();
        session.handle_message(RunnerMessage::CodeDone(CodeDone { unawaited, ..done }), ms(2));
        let Some(Output::Finished(RunEnd { unawaited, .. })) = outputs(&mut session).pop() else { unreachable!() };
        json!(unawaited)
    };
    let place = |provider: &str, tool: &str, line: u64| json!({"provider": provider, "tool": tool, "at": {"file": "m.js", "line": line, "column": 1}, "calls": 1});
    let long = "x".repeat(1 << 20);
    let reported = result(json!({"waitedFor": 0, "unanswered": 2, "places": [
        place("", "", 1), place("host", "forged", 1), place("", "", 9999),
        {"provider": "", "tool": "", "at": {"file": long, "line": 1, "column": 1}, "calls": 1},
    ]}));
    let places = json!([place("", "", 1), {"provider": "", "tool": "", "calls": 2}]);
    assert_eq!(reported, json!({"waitedFor": 0, "unanswered": 2, "places": places}));
    let seen = json!({"waitedFor": 0, "unanswered": 2, "places": [{"provider": "", "tool": "", "calls": 2}]});
    for impossible in [
        Json::Null,
        json!({"waitedFor": 0, "unanswered": 3, "places": []}),
        json!({"waitedFor": u64::MAX, "unanswered": u64::MAX, "places": []}),
    ] {
        assert_eq!(result(impossible.clone()), seen, "{impossible}: this host has not answered two calls");
    }
}

#[test]
fn a_safety_cap_is_accepted_only_after_the_timeout() {
    for (at, is_early) in [(50, true), (1001, false)] {
        let mut session = running();
        let capped = Stop::TimedOut.failure(&request().limits);
        session.handle_message(done("run-1", Err(capped)), ms(at));
        let failure = end(&mut session).0.unwrap_err();
        assert_eq!((failure.error.is_internal, failure.status == Status::Terminated), (is_early, !is_early), "{at}");
    }
}

#[test]
fn malformed_messages_of_another_run_are_ignored() {
    for (id, ends) in [("run-2", false), ("run-1", true)] {
        let mut session = running();
        let line = format!(r#"{{"type":"code_done","id":"{id}","ok":true}}"#);
        let object = decode_line(line.into_bytes()).unwrap();
        session.handle_misbehavior(RunnerMessage::from_object(object, Attachments::default()).unwrap_err(), ms(2));
        assert_eq!(session.is_finished(), ends, "{id}");
    }
}

#[test]
fn a_malformed_settle_ends_its_run() {
    let mut runner = RunnerSession::new();
    let run = RunCode { id: "run-1".into(), request: Box::new(request()) };
    runner.handle_message(HostMessage::RunCode(run), ms(1));
    let outputs = std::iter::from_fn(|| runner.poll_output()).collect::<Vec<_>>();
    assert!(matches!(outputs.last(), Some(RunnerOutput::Compile { .. })), "{outputs:?}");
    runner.compile(&Moves, &|| ms(2), &|| Duration::ZERO);
    assert!(matches!(runner.poll_output(), Some(RunnerOutput::Start(_))));
    let mut receive = |line: &str| {
        let object = decode_line(line.as_bytes().to_vec()).unwrap();
        runner.handle_malformed(&HostMessage::from_object(object, Attachments::default()).unwrap_err(), ms(5));
        std::iter::from_fn(|| runner.poll_output()).collect::<Vec<_>>()
    };
    assert!(receive(r#"{"type":"settle","id":"run-2","call":1}"#).is_empty());
    let outputs = receive(r#"{"type":"settle","id":"run-1","call":1}"#);
    let [RunnerOutput::StopGuest, RunnerOutput::Send(RunnerMessage::CodeDone(done))] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    let error = &done.outcome.as_ref().unwrap_err().error;
    assert!(error.is_internal && error.message.contains("settle"), "{error}");
}

#[test]
fn a_program_that_is_too_long_fails_and_a_long_answer_becomes_an_error() {
    let too_long = execbox_core::protocol::TooLong { len: 9, cap: 8 };
    let mut session = awaiting_hello();
    session.handle_message(RunnerMessage::Hello(Hello { attachments: false }), ms(1));
    let Some(Output::Send(run)) = session.poll_output() else { panic!() };
    session.handle_too_long(run, too_long, ms(2));
    assert!(message(end(&mut session).0).starts_with("the program cannot be sent to the runner"));

    let mut session = running();
    session.handle_message(call(1), ms(2));
    session.settle(Pending::Call(CallId(1)), Ok(Value::undefined()), ms(1));
    let sent = outputs(&mut session).pop();
    let Some(Output::Send(settle)) = sent else { panic!() };
    session.handle_too_long(settle, too_long, ms(3));
    let sent = outputs(&mut session).pop();
    assert!(matches!(sent, Some(Output::Send(HostMessage::Settle(Settle { result: Err(_), .. })))), "{sent:?}");
}

// ---- The messages on the wire ---------------------------------------------------------------------

fn values() -> impl Strategy<Value = Value> {
    let json = prop_oneof![
        Just(json!(null)),
        any::<i32>().prop_map(|n| json!(n)),
        ".{0,400}".prop_map(|text| json!([text, { "$key": 1 }])),
    ];
    prop_oneof![
        Just(Value::undefined()),
        json.prop_map(|json| Graph::from_json(&json).to_value("value").unwrap()),
        (0_usize..600).prop_map(|depth| {
            let mut graph = Graph::default();
            let mut root = graph.bytes([1, 2, 3]);
            for _ in 0..depth {
                root = graph.array([root]);
            }
            graph.set_root(root);
            graph.to_value("value").unwrap()
        }),
    ]
}

fn outcomes() -> impl Strategy<Value = RunOutcome> {
    let error = (any::<String>(), any::<String>(), any::<Option<String>>(), any::<Option<u32>>());
    let error = error.prop_map(|(name, message, function, line)| {
        let mut error = CodeExecutionError::new(name, message);
        error.line = line;
        error.stack.extend(line.map(|line| StackFrame::new(function, "./a.js", Position { line, column: 7 })));
        Err(Failure::new(Status::LinkError, error))
    });
    prop_oneof![values().prop_map(Ok), error]
}

fn assert_round_trip<M: Message + PartialEq + std::fmt::Debug>(message: &M, attachments: bool) {
    let mut sent = Attachments::for_peer(attachments);
    let text = message.to_text(usize::MAX, &mut sent).unwrap();
    assert!(attachments || sent.bytes.is_empty());
    let read = M::from_object(decode_line(text).unwrap(), Attachments::received(sent.bytes)).unwrap();
    assert_eq!(read.as_ref(), Some(message));
}

#[test]
fn positions_outside_the_sources_are_dropped() {
    let frame = |line| StackFrame::new(None, "<runCode>", Position { line, column: 1 });
    let mut session = running();
    let mut error = CodeExecutionError::new("Error", "no");
    error.stack = [1, 2_000_000, 2].map(frame).into();
    error.filename = Some("<runCode>".into());
    error.line = Some(2_000_000);
    error.column = Some(1);
    let outcome = Err(Failure::new(Status::Error, error));
    session.handle_message(done("run-1", outcome), ms(2));
    let failure = end(&mut session).0.unwrap_err();
    assert_eq!((failure.error.line, failure.error.column), (None, None));
    assert_eq!(failure.error.stack, [1, 2].map(frame));
    assert_eq!(failure.error.to_json()["stack"], "Error: no\n    at <runCode>:1:1\n    at <runCode>:2:1");
}

proptest! {
    #[test]
    fn messages_of_a_run_survive_writing_and_reading(
        value in values(), number in 0_u32..1 << 30, outcome in outcomes(), flag: bool, attachments: bool,
        peak_memory_bytes in proptest::option::of(0_u64..1 << 50), calls in 0_u64..1 << 50,
    ) {
        let id = "run-1".to_owned();
        let mut request = request();
        request.args = value.clone();
        assert_round_trip(&HostMessage::RunCode(RunCode { id: id.clone(), request: Box::new(request) }), attachments);
        let pending = if flag { Pending::Promise(number) } else { Pending::Call(CallId(number.into())) };
        let result = if flag { Ok(value.clone()) } else { Err(value.clone()) };
        assert_round_trip(&HostMessage::Settle(Settle { id: id.clone(), pending, result }), attachments);
        let call = Call { id: CallId(number.into()), function: FunctionId(number), input: value.clone(), now: flag };
        assert_round_trip(&RunnerMessage::CodeCall(CodeCall { id: id.clone(), call }), attachments);
        let notification = Notification { function: FunctionId(number), args: value };
        assert_round_trip(&RunnerMessage::CodeNotify(CodeNotify { id: id.clone(), notification }), attachments);
        let duration = Duration::from_micros(number.into());
        let usage = Usage::default().peak_memory_bytes(peak_memory_bytes).calls(calls);
        let mut place = CallPlace::default();
        place.tool = "get".to_owned();
        place.at = flag.then(|| StackFrame::new(None, "m.js", Position { line: number, column: 1 }));
        place.calls = calls;
        let mut unawaited = UnawaitedCalls::default();
        unawaited.unanswered = calls;
        unawaited.places.push(place);
        let unawaited = flag.then_some(unawaited);
        let done = CodeDone { id, outcome, dropped_logs: 0, unawaited, duration, usage, exits: false };
        assert_round_trip(&RunnerMessage::CodeDone(done), attachments);
    }
}
