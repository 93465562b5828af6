//! Limits of what an execution uses: the runner's half enforces them, and the host's half does not rely on it.

use std::task::Poll;
use std::time::Duration;

use execbox_core::cause::Cause;
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Call, CallId, Event, FunctionId, Outcome, Turn};
use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use execbox_core::protocol::host::{HostOptions, HostSession, Output, ScriptHost};
use execbox_core::protocol::runner::{Output as RunnerOutput, RunnerSession};
use execbox_core::protocol::{Clock, Done, Execute, HostMessage, RunnerMessage, ToolResult, WireCall};
use execbox_core::usage::{LimitError, Usage};
use execbox_core::value::Value;
use execbox_testkit::scripted::Moves;
use serde_json::{Value as Json, json};

use crate::pair::{Pair, execute, ms};

fn limited(moves: &str, limits: Limits) -> Execute {
    Execute { limits, ..execute("exec-1", moves) }
}

// ---- A runner that ignores limits -----------------------------------------------------------------

fn host(limits: Limits) -> HostSession<ScriptHost> {
    let mut host = HostSession::script(limited("return 1", limits), HostOptions::default(), Duration::ZERO);
    assert!(matches!(host.poll_output(), Some(Output::Send(HostMessage::Execute(_)))));
    host
}

fn outputs(host: &mut HostSession<ScriptHost>) -> Vec<Output<ScriptHost>> {
    std::iter::from_fn(|| host.poll_output()).collect()
}

fn call(number: u64, input: &Json) -> RunnerMessage {
    RunnerMessage::ToolCall(WireCall {
        call_id: format!("call-{number}"),
        provider_name: "tools".into(),
        safe_tool_name: "echo".into(),
        input: Some(input.clone()),
    })
}

fn done(outcome: Result<Option<Json>, ExecuteError>, usage: Usage) -> RunnerMessage {
    let mut result = ExecuteResult::new(outcome, ms(1));
    result.usage = usage;
    RunnerMessage::Done(Done { id: "exec-1".into(), result, exits: false })
}

fn finished(host: &mut HostSession<ScriptHost>) -> ExecuteResult {
    match outputs(host).pop() {
        Some(Output::Finished(result)) => result,
        other => panic!("{other:?}"),
    }
}

/// The host cancels; what the runner then reports does not matter.
fn assert_stopped(host: &mut HostSession<ScriptHost>, message: &str) -> ExecuteResult {
    let sent = outputs(host);
    assert!(matches!(&sent[..], [Output::CancelCalls, Output::Send(HostMessage::Cancel(_))]), "{sent:?}");
    host.handle_message(done(Ok(Some(json!("done"))), Usage::default()), ms(2));
    let result = finished(host);
    let error = result.error().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, message));
    assert!(!host.is_reusable());
    result
}

#[test]
fn a_host_makes_no_call_beyond_the_limit() {
    let mut host = host(Limits::default().max_calls(1));
    host.handle_message(call(1, &json!(1)), ms(1));
    assert!(matches!(&outputs(&mut host)[..], [Output::Call(_)]));
    host.handle_message(call(2, &json!(2)), ms(1));
    let message = "Execution made 2 calls; its limit is 1: make fewer calls, or raise max_calls";
    assert_eq!(assert_stopped(&mut host, message).usage.calls, 1);
}

#[test]
fn a_host_passes_no_input_and_no_answer_beyond_the_limits() {
    let limits = Limits::default().max_bytes_in(10).max_bytes_out(10);
    let mut long_input = host(limits);
    long_input.handle_message(call(1, &json!("x".repeat(9))), ms(1));
    let message = "Execution sent 11 bytes to the host; its limit is 10 bytes: send less data, or raise max_bytes_out";
    assert_stopped(&mut long_input, message);

    let mut long_answer = host(limits);
    long_answer.handle_message(call(1, &json!(1)), ms(1));
    assert!(matches!(&outputs(&mut long_answer)[..], [Output::Call(_)]));
    long_answer.settle(CallId(1), Ok(Some(json!("x".repeat(10)))), ms(2));
    let message =
        "Execution received 12 bytes from calls; its limit is 10 bytes: ask for less data, or raise max_bytes_in";
    assert_stopped(&mut long_answer, message);
}

#[test]
fn a_host_accepts_no_result_beyond_the_limit() {
    let limits = Limits::default().max_bytes_out(10);
    for (len, is_ok) in [(8, true), (9, false)] {
        let mut host = host(limits);
        host.handle_message(done(Ok(Some(json!("x".repeat(len)))), Usage::default()), ms(1));
        let result = finished(&mut host);
        assert_eq!(result.is_ok(), is_ok, "{result:?}");
        assert!(is_ok || result.error().unwrap().code == ErrorCode::Timeout);
    }
}

#[test]
fn a_runner_can_stop_a_program_only_at_a_limit_that_is_plausible() {
    let code = |limits: Limits, at: u64| {
        let mut host = host(limits);
        host.handle_message(done(Err(ExecuteError::new(ErrorCode::Timeout, "m")), Usage::default()), ms(at));
        finished(&mut host).error().unwrap().code
    };
    let times = Limits::default().cpu_time(ms(200)).host_wait(ms(100));
    for (limits, at, expected) in [
        (Limits::default(), 200, ErrorCode::InternalError),
        (times, 98, ErrorCode::InternalError),
        (times, 99, ErrorCode::Timeout),
        (Limits::default().max_calls(1), 1, ErrorCode::InternalError),
        (Limits::default().max_calls(0), 1, ErrorCode::Timeout),
        (Limits::default().max_bytes_out(1), 1, ErrorCode::Timeout),
    ] {
        assert_eq!(code(limits, at), expected, "{limits:?} at {at} ms");
    }
}

#[test]
fn a_host_counts_itself_and_bounds_what_a_runner_claims() {
    let mut host = host(Limits::default());
    host.handle_message(call(1, &json!("ab")), ms(1));
    host.settle(CallId(1), Ok(Some(json!("abcd"))), ms(1));
    let claimed = Usage::default()
        .cpu_time(ms(900))
        .host_wait(ms(2))
        .calls(99)
        .bytes_in(99)
        .bytes_out(99)
        .source_bytes(99)
        .peak_memory_bytes(u64::MAX);
    host.handle_message(done(Ok(Some(json!("c"))), claimed), ms(5));
    let usage = finished(&mut host).usage;
    assert!(usage.peak_host_memory_bytes.is_some_and(|bytes| bytes > 0));
    let expected = Usage::default()
        .cpu_time(ms(5))
        .host_wait(ms(2))
        .calls(1)
        .bytes_in(6)
        .bytes_out(4 + 3)
        .source_bytes(8)
        .peak_memory_bytes(64 << 20)
        .peak_host_memory_bytes(usage.peak_host_memory_bytes);
    assert_eq!(usage, expected);
}

/// The error of an execution that has reached a limit on time.
fn reached(limit: &LimitError, message: &str) -> ExecuteError {
    ExecuteError::new(ErrorCode::Timeout, message).with_cause(Cause::Limit(limit.into()))
}

// ---- The runner's half ----------------------------------------------------------------------------

#[test]
fn waiting_for_calls_is_limited_by_the_clock_of_the_runner() {
    let limits = Limits::default().host_wait(ms(50));
    let mut pair = Pair::with(limited("call hang 1; await", limits));
    let result = pair.run();
    let message =
        "Execution waited for calls for 50 ms; its limit is 50 ms: make calls at the same time, or raise host_wait";
    assert_eq!(result.outcome, Err(reached(&LimitError::HostWait { used: ms(50), limit: ms(50) }, message)));
    assert_eq!(result.usage.host_wait, Some(ms(50)));
    // Without a pending call, the guest does not wait for one.
    let stuck = Pair::with(limited("stall", limits.host_wait(Duration::ZERO))).run();
    assert_eq!(stuck.error().unwrap().code, ErrorCode::RuntimeError);
}

#[test]
fn waits_between_answers_add_up() {
    let limits = Limits::default().host_wait(ms(5));
    let mut pair = Pair::with(limited("call echo 1; await; call echo 2; await; call echo 3; await; return it", limits));
    assert_eq!(pair.run().error().map(|error| error.code), Some(ErrorCode::Timeout), "each takes 4 ms");
    let limits = Limits::default().host_wait(ms(13));
    let result =
        Pair::with(limited("call echo 1; await; call echo 2; await; call echo 3; await; return it", limits)).run();
    assert_eq!((result.outcome, result.usage.host_wait), (Ok(Some(json!(3))), Some(ms(12))));
}

/// A runner with a guest.
fn runner(limits: Limits) -> RunnerSession {
    let mut runner = RunnerSession::new();
    runner.handle_message(HostMessage::Execute(limited("return 1", limits)), ms(10));
    drain(&mut runner);
    assert!(runner.is_active());
    runner
}

fn drain(runner: &mut RunnerSession) -> Vec<RunnerOutput> {
    let mut outputs = Vec::new();
    while let Some(output) = runner.poll_output() {
        match output {
            RunnerOutput::Compile { .. } => runner.compile(&Moves, &|| ms(10), &|| ms(1)),
            output => outputs.push(output),
        }
    }
    outputs
}

fn clock(stopped: bool) -> HostMessage {
    HostMessage::Clock(Clock { id: "exec-1".into(), stopped })
}

fn outcome_of(runner: &mut RunnerSession) -> Result<Option<Json>, ExecuteError> {
    let outputs = drain(runner);
    let Some(RunnerOutput::Send(RunnerMessage::Done(done))) = outputs.last() else { panic!("{outputs:?}") };
    done.result.outcome.clone()
}

/// A runner whose guest has begun to wait for a call at 10 ms, with a timeout at 110 ms.
fn waiting_runner(limits: Limits) -> RunnerSession {
    let mut runner = runner(limits.timeout(ms(100)));
    let call = Call { id: CallId(1), function: FunctionId(0), input: Value::undefined(), now: false };
    runner.handle_event(Event::Call(call), &|| ms(10));
    runner.handle_turn(Poll::Ready(Turn::Waiting), ms(10));
    runner
}

#[test]
fn a_paused_clock_does_not_go_on_while_the_guest_waits() {
    let mut runner = waiting_runner(Limits::default().host_wait(ms(50)));
    assert_eq!(runner.next_timeout(), Some(ms(60)), "the limit on waiting");
    runner.handle_message(clock(true), ms(40));
    runner.handle_message(clock(true), ms(50)); // The clock is paused already.
    runner.handle_timeout(ms(10_000));
    runner.handle_message(clock(false), ms(20_040));
    assert_eq!(runner.next_timeout(), Some(ms(20_060)), "it has waited for 30 of 50 ms");
    let answer = ToolResult { call_id: "call-1".into(), result: Ok(Value::undefined()) };
    runner.handle_message(HostMessage::ToolResult(answer), ms(20_040));
    assert_eq!(runner.next_timeout(), Some(ms(20_110)), "the timeout, 20 s later");
    runner.handle_timeout(ms(20_110));
    assert_eq!(outcome_of(&mut runner).unwrap_err().code, ErrorCode::Timeout);
}

#[test]
fn a_paused_clock_counts_the_time_in_which_the_guest_computes() {
    let mut runner = waiting_runner(Limits::default());
    runner.handle_message(clock(true), ms(20));
    runner.handle_computed(ms(1020), ms(1), ms(1021));
    runner.handle_turn(Poll::Pending, ms(1021));
    assert_eq!(runner.next_timeout(), Some(ms(1110)));
    runner.handle_turn(Poll::Pending, ms(1110));
    assert_eq!(outcome_of(&mut runner).unwrap_err().code, ErrorCode::Timeout);
}

/// Without this bound, a host could occupy a listening runner forever.
#[test]
fn a_clock_is_paused_for_an_hour_at_most() {
    const HOUR: Duration = Duration::from_hours(1);
    let mut runner = waiting_runner(Limits::default());
    runner.handle_message(clock(true), ms(10));
    runner.handle_message(clock(false), ms(10) + HOUR / 2);
    runner.handle_message(clock(true), ms(10) + HOUR / 2);
    assert_eq!(runner.next_timeout(), Some(ms(110) + HOUR));
    runner.handle_timeout(ms(110) + HOUR);
    assert_eq!(outcome_of(&mut runner).unwrap_err().code, ErrorCode::Timeout);
}

#[test]
fn a_host_does_not_time_out_while_the_clock_is_paused() {
    const HOUR: Duration = Duration::from_hours(1);
    let mut host = host(Limits::default().timeout(ms(100)));
    assert_eq!(host.next_timeout(), Some(ms(200)), "with the backstop");
    host.set_paused(true, ms(50));
    host.set_paused(true, ms(60));
    assert_eq!(host.next_timeout(), Some(ms(200) + HOUR));
    host.handle_timeout(ms(10_000));
    host.set_paused(false, ms(10_050));
    assert_eq!(host.next_timeout(), Some(ms(10_200)));
    let sent = outputs(&mut host).into_iter().map(|output| match output {
        Output::Send(message) => message,
        other => panic!("{other:?}"),
    });
    assert!(sent.eq([clock(true), clock(false)]));
    host.set_paused(true, ms(10_060));
    host.cancel(Stop::Cancelled(None), ms(10_070));
    assert_eq!(host.next_timeout(), Some(ms(10_095)), "a runner that does not answer is not waited for");

    let mut patient = self::host(Limits::default().timeout(ms(100)));
    patient.set_paused(true, ms(50));
    patient.handle_timeout(ms(199) + HOUR);
    assert!(patient.is_running());
    patient.handle_timeout(ms(200) + HOUR);
    assert!(!patient.is_running(), "nor longer than a clock may be paused");
}

#[test]
fn what_a_guest_did_in_a_turn_beyond_its_cpu_time_is_too_late() {
    let mut runner = runner(Limits::default().cpu_time(ms(5)));
    runner.handle_computed(ms(16), ms(4), ms(20));
    assert!(drain(&mut runner).is_empty(), "1 ms of compiling and 4 of computing");
    runner.handle_computed(ms(20), ms(1), ms(21));
    let call = Call { id: CallId(1), function: FunctionId(0), input: Value::undefined(), now: false };
    runner.handle_event(Event::Call(call), &|| ms(21));
    runner.handle_turn(Poll::Ready(Turn::Done(Outcome::Returned(Value::undefined()))), ms(21));
    let outputs = drain(&mut runner);
    let [RunnerOutput::StopGuest, RunnerOutput::Send(RunnerMessage::Done(done))] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    let message = "Execution computed for 6 ms; its limit is 5 ms: compute less, or raise cpu_time";
    assert_eq!(done.result.outcome, Err(reached(&LimitError::CpuTime { used: ms(6), limit: ms(5) }, message)));
    assert_eq!(done.result.usage.cpu_time, Some(ms(6)));
}

#[test]
fn reading_a_source_for_too_long_is_computing() {
    let mut runner = RunnerSession::new();
    let limits = Limits::default().cpu_time(Duration::ZERO);
    runner.handle_message(HostMessage::Execute(limited("return 1", limits)), ms(10));
    let outputs = drain(&mut runner);
    let Some(RunnerOutput::Send(RunnerMessage::Done(done))) = outputs.last() else { panic!("{outputs:?}") };
    assert!(done.result.error().unwrap().message.contains("cpu_time"), "{done:?}");
    assert!(!runner.is_active());
}
