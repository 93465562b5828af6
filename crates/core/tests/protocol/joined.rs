//! Both halves connected: what a caller sees, and when.

use std::time::Duration;

use execbox_core::cause::Cause;
use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use execbox_core::protocol::host::{CloseReason, HELLO_TIMEOUT, ModuleHost, ScriptHost};
use execbox_core::protocol::{Cancel, Execute, HostMessage, ToolResult};
use execbox_core::value::Value;
use proptest::prelude::*;
use serde_json::json;

use crate::pair::{CAP, Cut, Ended, Pair, Played, execute, ms};

const TWO_CALLS: &str = "log log hi; call echo 1; await; call echo {\"a\":[2]}; await; return it";

fn code(result: &ExecuteResult) -> ErrorCode {
    result.error().expect("it failed").code
}

fn cancelled() -> ExecuteError {
    ExecuteError::new(ErrorCode::Timeout, "Execution was cancelled").with_cause(Cause::Cancelled { reason: None })
}

/// Whether an execution has timed out, as its message and its cause say.
fn has_timed_out(result: &ExecuteResult, waits: &str) -> bool {
    let error = result.error().expect("it failed");
    let Some(Cause::Limit(limit)) = error.cause.as_deref() else { return false };
    let calls = limit.calls.as_ref().map(ToString::to_string).unwrap_or_default();
    error.message == format!("Execution timed out after 1000 ms{waits}")
        && (limit.as_timeout(), calls.as_str()) == (Some(ms(1000)), waits)
}

#[test]
fn an_execution_with_calls() {
    let mut pair = Pair::new(TWO_CALLS);
    let result = pair.run();
    assert_eq!(result.outcome, Ok(Some(json!({"a": [2]}))));
    assert_eq!(result.logs, ["hi"]);
    assert_eq!(result.duration, ms(2 * (1 + 2 + 1)), "what the runner measured: two calls over the network");
    assert_eq!(
        pair.outline(),
        [
            "> execute exec-1",
            "< started exec-1",
            "< tool_call call-1",
            "> tool_result call-1",
            "< tool_call call-2",
            "> tool_result call-2",
            "< done exec-1",
        ]
    );
    assert!(!pair.runner.is_active() && pair.terminated_at.is_none(), "the runner can be used again");
}

#[test]
fn undefined_and_null_are_distinct() {
    for (input, crossed) in [("undefined", None), ("null", Some(json!(null)))] {
        let mut pair = Pair::new(&format!("call echo {input}; await; return it"));
        assert_eq!(pair.run().outcome, Ok(crossed), "{input}");
    }
}

#[test]
fn concurrent_calls_are_each_answered() {
    let mut pair = Pair::new("call echo 1; call echo 2; call echo 3; await; return it");
    assert_eq!(pair.run().outcome, Ok(Some(json!(3))));
    assert_eq!(pair.now, ms(1 + 1 + 2 + 1 + 1));
}

#[test]
fn a_failing_call_keeps_its_code_and_a_forged_one_does_not() {
    assert_eq!(Pair::new("call fail 1; await").run().outcome, Err(ExecuteError::tool("full")));
    assert_eq!(code(&Pair::new("call fail 1; await-catch; forge").run()), ErrorCode::RuntimeError);
    assert_eq!(Pair::new("call fail 1; await-catch; return 5").run().outcome, Ok(Some(json!(5))));
}

#[test]
fn values_that_cannot_be_sent_are_serialization_errors() {
    for (moves, message) in [
        ("return a Date", "result is a Date"),
        ("call echo a Date; await", "tool input is a Date"),
        ("call deep 1; await", "tool result nests"),
        ("call large 1; await", "tool result cannot cross: a message is 4"),
    ] {
        let result = Pair::new(moves).run();
        assert_eq!(code(&result), ErrorCode::SerializationError, "{moves}");
        assert!(result.error().unwrap().message.starts_with(message), "{:?}", result.error());
    }
}

/// An execution whose host asks for `log` messages.
fn streamed(moves: &str) -> Pair<ScriptHost> {
    Pair::with(Execute { stream_logs: true, ..execute("exec-1", moves) })
}

#[test]
fn log_lines_are_streamed_in_order_with_calls() {
    let mut pair = streamed("log warn a; call echo 1; log log b; await; log error c; return it");
    let result = pair.run();
    assert_eq!(result.logs, ["a", "b", "c"]);
    assert_eq!(pair.shown, ["2 ms warn a", "2 ms log b", "6 ms error c"], "before `done`, and none twice");
    assert_eq!(
        pair.outline(),
        [
            "> execute exec-1",
            "< started exec-1",
            "< log exec-1",
            "< tool_call call-1",
            "< log exec-1",
            "> tool_result call-1",
            "< log exec-1",
            "< done exec-1",
        ]
    );
    let done = pair.transcript.last().unwrap();
    assert!(done.contains(r#""logs":["a","b","c"]"#), "`done` is complete: {done}");
}

#[test]
fn lines_are_streamed_within_the_limits() {
    let plain = execute("exec-1", "log log abc; log log def; log log g; return 1");
    let limits = plain.limits.max_log_chars(4);
    let mut pair = Pair::with(Execute { limits, stream_logs: true, ..plain });
    assert_eq!(pair.run().logs, ["abc", "d"]);
    assert_eq!(pair.shown, ["2 ms log abc", "2 ms log d"]);
}

#[test]
fn streamed_lines_are_kept_when_the_runner_fails() {
    let mut pair = streamed("log log a; call echo 1; await; return it");
    pair.cut = Some(Cut::Before(5));
    let result = pair.run();
    assert_eq!((code(&result), result.logs), (ErrorCode::InternalError, vec!["a".to_owned()]));
    assert_eq!(pair.shown, ["2 ms log a"]);
}

#[test]
fn an_execute_that_is_too_long_is_never_sent() {
    let mut pair = Pair::new(&format!("return \"{}\"", "x".repeat(CAP)));
    let result = pair.run();
    assert_eq!(code(&result), ErrorCode::InternalError);
    assert!(result.error().unwrap().message.starts_with("the program cannot be sent to the runner: a message is"));
    assert!(pair.transcript.is_empty() && pair.terminated_at.is_none());
}

#[test]
fn invalid_code_is_started_and_done() {
    let mut invalid = execute("exec-1", "return 1");
    invalid.providers = vec![invalid.providers[0].clone(); 2];
    let mut pair = Pair::with(invalid);
    assert_eq!(code(&pair.run()), ErrorCode::InternalError);
    assert_eq!(pair.outline(), ["> execute exec-1", "< started exec-1", "< done exec-1"]);
}

#[test]
fn the_runner_keeps_the_timeout() {
    for (moves, waits) in
        [("log log a; spin", ""), ("log log a; call hang 1; await", "; tools.hang has not answered for 1000 ms")]
    {
        let mut pair = Pair::new(moves);
        let result = pair.run();
        assert!(has_timed_out(&result, waits), "{moves}: {:?}", result.outcome);
        assert_eq!((result.logs, result.duration), (vec!["a".to_owned()], ms(1000)));
        assert_eq!((pair.now, pair.guest_stopped_at), (ms(1002), Some(ms(1001))));
        assert_eq!(pair.outline().last().unwrap(), "< done exec-1", "the host need not cancel");
        assert!(pair.calls_cancelled_at.is_some() && pair.terminated_at.is_none());
    }
}

#[test]
fn a_program_that_would_wait_forever_ends_at_once() {
    for moves in ["stall", "call echo 1; await; stall"] {
        let mut pair = Pair::new(moves);
        let result = pair.run();
        let error = result.error().unwrap();
        assert_eq!(error.code, ErrorCode::RuntimeError);
        assert!(error.message.contains("nothing can settle"), "{error}");
        assert!(pair.now < ms(100), "{:?}", pair.now);
    }
}

#[test]
fn a_zero_timeout_fails_and_the_longest_timeout_never_passes() {
    let with = |timeout| {
        let limits = Limits::default().timeout(timeout);
        Pair::with(Execute { limits, ..execute("exec-1", "call echo 1; await; return it") }).run()
    };
    assert_eq!(code(&with(Duration::ZERO)), ErrorCode::Timeout);
    assert_eq!(with(Duration::MAX).outcome, Ok(Some(json!(1))));
}

#[test]
fn cancelling_at_any_moment_stops_the_program_and_its_calls_in_time() {
    fn cancels<C: Played>(moments: std::ops::Range<u64>) {
        for at in moments {
            let mut pair = Pair::<C>::playing(TWO_CALLS);
            pair.cancel_at = Some(ms(at));
            let outcome = pair.run();
            assert_eq!(C::ended(&outcome), Ended::Stopped, "at {at} ms: {outcome:?}");
            assert_eq!(pair.calls_cancelled_at, Some(ms(at)));
            assert!(pair.now <= ms(at + 2), "one way there, one way back");
            assert_eq!(pair.terminated_at, None);
            assert_eq!(pair.outline().iter().filter(|line| line.contains("cancel")).count(), 1);
        }
    }
    // 0: the runner receives both at once; 3: a call is pending; 5: an answer is on its way.
    cancels::<ScriptHost>(0..9);
    cancels::<ModuleHost>(2..11); // after `hello`
}

#[test]
fn a_cancelled_execution_keeps_its_log() {
    for at in 0..9 {
        let mut pair = Pair::new(TWO_CALLS);
        pair.cancel_at = Some(ms(at));
        let result = pair.run();
        assert_eq!(result.outcome, Err(cancelled()));
        assert_eq!(result.logs.len(), usize::from(at > 0));
    }
}

#[test]
fn a_run_that_is_cancelled_during_hello_terminates_its_runner() {
    let mut pair = Pair::<ModuleHost>::playing(TWO_CALLS);
    pair.cancel_at = Some(ms(1));
    assert_eq!(ModuleHost::ended(&pair.run()), Ended::Stopped);
    assert_eq!((pair.outline(), pair.terminated_at), (vec!["> hello".to_owned()], Some(ms(1))));
}

#[test]
fn cancelling_a_busy_guest_stops_it() {
    let mut pair = Pair::new("spin");
    pair.cancel_at = Some(ms(10));
    assert_eq!(pair.run().outcome, Err(cancelled()));
    assert_eq!(pair.guest_stopped_at, Some(ms(11)));
}

#[test]
fn cancelling_after_the_end_changes_nothing() {
    let mut pair = Pair::new("return 1");
    pair.cancel_at = Some(ms(50));
    assert_eq!(pair.run().outcome, Ok(Some(json!(1))));
    assert_eq!(pair.outline(), ["> execute exec-1", "< started exec-1", "< done exec-1"]);
}

#[test]
fn a_silent_runner_is_cancelled_and_then_terminated() {
    fn is_silent<C: Played>(from: u64, cancelled_at: u64) -> C::Outcome {
        let mut pair = Pair::<C>::playing("log log a; call hang 1; await");
        pair.mute_runner_at = Some(ms(from));
        let outcome = pair.run();
        assert_eq!(C::ended(&outcome), Ended::Stopped);
        assert_eq!(pair.calls_cancelled_at, Some(ms(cancelled_at)), "timeout and backstop");
        assert_eq!(pair.terminated_at, Some(ms(cancelled_at + 25)), "and the grace period");
        outcome
    }
    for from in [0, 3] {
        let result = is_silent::<ScriptHost>(from, 1100);
        assert!(has_timed_out(&result, ""), "{:?}", result.outcome);
        assert!(result.logs.is_empty(), "no message contained a line");
    }
    for from in [3, 5] {
        is_silent::<ModuleHost>(from, 1102);
    }
}

#[test]
fn a_runner_that_does_not_answer_hello_is_terminated() {
    let mut pair = Pair::<ModuleHost>::playing("return 1");
    pair.mute_runner_at = Some(ms(0));
    assert_eq!(ModuleHost::ended(&pair.run()), Ended::Internal);
    assert_eq!(pair.terminated_at, Some(HELLO_TIMEOUT));
}

#[test]
fn a_runner_that_answers_a_cancel_too_late_is_terminated() {
    let mut pair = Pair::new("call hang 1; await");
    pair.delay = ms(20);
    pair.cancel_at = Some(ms(100));
    assert_eq!(pair.run().outcome, Err(cancelled()));
    assert_eq!(pair.terminated_at, Some(ms(125)));
}

#[test]
fn a_transport_that_fails_anywhere_ends_both_halves() {
    fn fails<C: Played>() {
        let mut whole = Pair::<C>::playing(TWO_CALLS);
        whole.run();
        for number in 0..whole.transcript.len() {
            for (cut, reason) in
                [(Cut::Before(number), CloseReason::Closed), (Cut::Within(number), CloseReason::CutOff)]
            {
                let mut pair = Pair::<C>::playing(TWO_CALLS);
                pair.cut = Some(cut);
                let outcome = pair.run();
                assert_eq!(C::ended(&outcome), Ended::Internal, "cut at {number}");
                // A message of the host is cut off for the runner only.
                let seen = pair.host.close_reason().unwrap();
                assert!(*seen == reason || *seen == CloseReason::Closed, "{seen:?}");
                assert!(format!("{outcome:?}").contains(&seen.to_string()));
                assert!(!pair.runner.is_active() && pair.calls_cancelled_at.is_some());
                assert!(!pair.host.is_reusable());
            }
        }
    }
    fails::<ScriptHost>();
    fails::<ModuleHost>();
}

#[test]
fn a_transport_that_fails_while_cancelling_does_not_change_the_outcome() {
    fn fails<C: Played>(numbers: std::ops::Range<usize>) {
        for number in numbers {
            let mut pair = Pair::<C>::playing("call hang 1; await");
            pair.cancel_at = Some(ms(10));
            pair.cut = Some(Cut::Before(number));
            assert_eq!(C::ended(&pair.run()), Ended::Stopped, "cut at {number}");
            assert_eq!(pair.host.close_reason(), Some(&CloseReason::Closed));
        }
    }
    fails::<ScriptHost>(3..5);
    fails::<ModuleHost>(5..7);
}

#[test]
fn a_second_execute_is_rejected_without_effect_on_the_first() {
    let mut pair = Pair::new(TWO_CALLS);
    pair.injections = [(3, HostMessage::Execute(execute("exec-2", "return 2")))].into();
    assert_eq!(pair.run().outcome, Ok(Some(json!({"a": [2]}))));
    let refusal = pair.transcript.iter().find(|line| line.contains("done") && line.contains("exec-2")).unwrap();
    assert!(refusal.contains(r#""code":"internal_error""#), "{refusal}");
    assert!(!pair.outline().contains(&"< started exec-2".to_owned()));
}

#[test]
fn an_execute_that_repeats_the_active_id_is_ignored() {
    let mut pair = Pair::new(TWO_CALLS);
    pair.injections = [(3, HostMessage::Execute(execute("exec-1", "return 2")))].into();
    assert_eq!(pair.run().outcome, Ok(Some(json!({"a": [2]}))));
    assert_eq!(pair.outline().iter().filter(|line| line.contains("done")).count(), 1);
}

#[test]
fn unknown_ids_and_repeated_results_are_ignored() {
    let forged = |call_id: &str| {
        HostMessage::ToolResult(ToolResult {
            call_id: call_id.into(),
            result: Ok(Value::from_json(Some(&json!("forged")), "result").unwrap()),
        })
    };
    let mut pair = Pair::new(TWO_CALLS);
    pair.injections = ["call-01", "call-+1", "call-9", "x", ""].map(|id| (3, forged(id))).into();
    pair.injections.push_back((3, HostMessage::Cancel(Cancel { id: "exec-2".into() })));
    pair.injections.push_back((10, forged("call-1"))); // answered before, by then
    assert_eq!(pair.run().outcome, Ok(Some(json!({"a": [2]}))));
    assert_eq!(pair.injections.len(), 0);
}

#[test]
fn a_run_with_calls() {
    let mut pair = Pair::<ModuleHost>::playing("log log 1; call echo [1]; await; call echo [2]; await; return it");
    let end = pair.run();
    assert_eq!(end.outcome.unwrap().to_json("result", 1 << 20).unwrap(), Some(json!([2])));
    assert_eq!(end.usage.peak_memory_bytes, Some(4096));
    assert_eq!(
        pair.outline(),
        [
            "> hello",
            "< hello",
            "> run_code run-1",
            "< started run-1",
            "< code_notify run-1",
            "< code_call run-1",
            "> settle run-1",
            "< code_call run-1",
            "> settle run-1",
            "< code_done run-1",
        ]
    );
    assert_eq!(pair.shown.len(), 1);
    assert!(!pair.runner.is_active() && pair.terminated_at.is_none() && pair.host.is_reusable());
}

#[test]
fn answers_that_cannot_be_sent_fail_their_calls_in_a_run() {
    for (moves, ended) in [
        ("call fail 1; await; return 1", Ended::Threw),
        ("call large 1; await; return 1", Ended::Threw),
        ("call large 1; await-catch; return 1", Ended::Returned),
        ("call deep 1; await; return 1", Ended::Returned),
    ] {
        assert_eq!(ModuleHost::ended(&Pair::<ModuleHost>::playing(moves).run()), ended, "{moves}");
    }
}

#[test]
fn the_runner_keeps_the_safety_cap() {
    let mut pair = Pair::<ModuleHost>::playing("spin");
    assert_eq!(ModuleHost::ended(&pair.run()), Ended::Stopped);
    assert_eq!((pair.guest_stopped_at, pair.now), (Some(ms(1003)), ms(1004)));
    assert_eq!(pair.outline().last().unwrap(), "< code_done run-1", "the host need not cancel");
}

/// What happens to a pair.
#[derive(Debug, Clone)]
struct Events {
    moves: &'static str,
    delay: u64,
    tool_delay: u64,
    cancel_at: Option<u64>,
    mute_at: Option<u64>,
    cut: Option<(usize, bool)>,
}

prop_compose! {
    fn events()(
        moves in prop::sample::select(vec![
            TWO_CALLS, "spin", "stall", "call hang 1; await", "call large 1; call fail 1; await-catch; return 1",
        ]),
        delay in 0_u64..40,
        tool_delay in 0_u64..400,
        cancel_at in prop::option::of(0_u64..1200),
        mute_at in prop::option::of(0_u64..1200),
        cut in prop::option::of((0_usize..9, any::<bool>())),
    ) -> Events {
        Events { moves, delay, tool_delay, cancel_at, mute_at, cut }
    }
}

/// Plays the events. Returns when the session has to be over: after the timeout, the backstop and the grace period, or
/// after cancelling and the grace period; `began` is when the program was sent.
fn play<C: Played>(events: &Events, began: u64) -> (Pair<C>, C::Outcome, Duration) {
    let mut pair = Pair::<C>::playing(events.moves);
    pair.delay = ms(events.delay);
    pair.tool_delay = ms(events.tool_delay);
    pair.cancel_at = events.cancel_at.map(ms);
    pair.mute_runner_at = events.mute_at.map(ms);
    pair.cut = events.cut.map(|(number, within)| if within { Cut::Within(number) } else { Cut::Before(number) });
    let outcome = pair.run();
    let ends_by = events.cancel_at.map_or(began + 1100, |at| at.min(began + 1100)) + 25;
    (pair, outcome, ms(ends_by))
}

proptest! {
    /// [`Pair::run`] asserts that both halves end, exactly once.
    #[test]
    fn both_halves_always_end_in_time(events in events()) {
        let (pair, result, ends_by) = play::<ScriptHost>(&events, 0);
        prop_assert!(result.duration <= ends_by, "{:?} at {:?}", result, pair.now);
        prop_assert!(pair.calls_cancelled_at.is_some_and(|at| at <= ends_by));

        let (pair, end, ends_by) = play::<ModuleHost>(&events, 2 * events.delay);
        let is_without_hello = pair.outline().len() < 3;
        let ends_by = if is_without_hello { ends_by.max(HELLO_TIMEOUT) } else { ends_by };
        prop_assert!(pair.calls_cancelled_at.is_some_and(|at| at <= ends_by), "{end:?} at {:?}", pair.now);
    }
}
