//! Both halves joined: what a caller sees, and when.

use std::time::Duration;

use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use execbox_core::protocol::{Cancel, CloseReason, Execute, HostMessage, ToolResult};
use proptest::prelude::*;
use serde_json::json;

use crate::pair::{CAP, Cut, Pair, execute, ms};

const TWO_CALLS: &str = "log log hi; call echo 1; await; call echo {\"a\":[2]}; await; return it";

fn code(result: &ExecuteResult) -> ErrorCode {
    result.error().expect("it failed").code
}

fn timed_out() -> ExecuteError {
    ExecuteError::new(ErrorCode::Timeout, "Execution timed out after 1000 ms")
}

fn cancelled() -> ExecuteError {
    ExecuteError::new(ErrorCode::Timeout, "Execution was cancelled")
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
    assert!(!pair.runner.is_active() && pair.terminated_at.is_none(), "the runner is good for another one");
}

#[test]
fn undefined_and_null_cross_as_themselves() {
    for (input, crossed) in [("undefined", None), ("null", Some(json!(null)))] {
        let mut pair = Pair::new(&format!("call echo {input}; await; return it"));
        assert_eq!(pair.run().outcome, Ok(crossed), "{input}");
    }
}

#[test]
fn calls_under_way_at_once_are_answered_each() {
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
fn what_cannot_cross_is_a_serialization_error() {
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

/// An execution whose host asks for lines as they come.
fn watched(moves: &str) -> Pair {
    Pair::with(Execute { stream_logs: true, ..execute("exec-1", moves) })
}

#[test]
fn log_lines_come_as_they_are_logged_and_before_the_calls_behind_them() {
    let mut pair = watched("log warn a; call echo 1; log log b; await; log error c; return it");
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
    let limits = Limits { max_log_chars: 4, ..plain.limits };
    let mut pair = Pair::with(Execute { limits, stream_logs: true, ..plain });
    assert_eq!(pair.run().logs, ["abc", "d"]);
    assert_eq!(pair.shown, ["2 ms log abc", "2 ms log d"]);
}

#[test]
fn what_was_streamed_outlives_its_runner() {
    let mut pair = watched("log log a; call echo 1; await; return it");
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
fn code_that_is_no_program_is_started_and_done() {
    let mut no_program = execute("exec-1", "return 1");
    no_program.providers = vec![no_program.providers[0].clone(); 2];
    let mut pair = Pair::with(no_program);
    assert_eq!(code(&pair.run()), ErrorCode::InternalError);
    assert_eq!(pair.outline(), ["> execute exec-1", "< started exec-1", "< done exec-1"]);
}

#[test]
fn the_runner_keeps_the_timeout() {
    for moves in ["log log a; spin", "log log a; call hang 1; await"] {
        let mut pair = Pair::new(moves);
        let result = pair.run();
        assert_eq!(result.outcome, Err(timed_out()), "{moves}");
        assert_eq!((result.logs, result.duration), (vec!["a".to_owned()], ms(1000)));
        assert_eq!((pair.now, pair.guest_stopped_at), (ms(1002), Some(ms(1001))));
        assert_eq!(pair.outline().last().unwrap(), "< done exec-1", "the host need not cancel");
        assert!(pair.tools_cancelled_at.is_some() && pair.terminated_at.is_none());
    }
    let stuck = Pair::new("stall").run().error().unwrap().message.clone();
    assert!(stuck.contains("no pending tool call"), "{stuck}");
}

#[test]
fn no_time_at_all_is_a_timeout_and_for_ever_is_for_ever() {
    let with = |timeout| {
        let limits = Limits { timeout, ..Limits::default() };
        Pair::with(Execute { limits, ..execute("exec-1", "call echo 1; await; return it") }).run()
    };
    assert_eq!(code(&with(Duration::ZERO)), ErrorCode::Timeout);
    assert_eq!(with(Duration::MAX).outcome, Ok(Some(json!(1))));
}

#[test]
fn cancelling_at_any_moment_ends_in_time_and_cancels_the_tools_at_once() {
    // 0: the runner hears of both at once; 3: a call is pending; 5: an answer is under way.
    for at in 0..9 {
        let mut pair = Pair::new(TWO_CALLS);
        pair.cancel_at = Some(ms(at));
        let result = pair.run();
        assert_eq!(result.outcome, Err(cancelled()), "at {at} ms");
        assert_eq!(pair.tools_cancelled_at, Some(ms(at)));
        assert!(pair.now <= ms(at + 2), "one way there, one way back");
        assert_eq!(pair.terminated_at, None);
        assert_eq!(pair.outline().iter().filter(|line| line.contains("cancel")).count(), 1);
        assert_eq!(result.logs.len(), usize::from(at > 0), "what was logged is kept");
    }
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
    for silent_from in [0, 3] {
        let mut pair = Pair::new("log log a; call hang 1; await");
        pair.mute_runner_at = Some(ms(silent_from));
        let result = pair.run();
        assert_eq!(result.outcome, Err(timed_out()));
        assert!(result.logs.is_empty(), "nobody told");
        assert_eq!(pair.tools_cancelled_at, Some(ms(1100)), "timeout and backstop");
        assert_eq!(pair.terminated_at, Some(ms(1125)), "and the grace");
    }
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
fn a_cut_off_anywhere_ends_both_halves() {
    let whole = {
        let mut pair = Pair::new(TWO_CALLS);
        pair.run();
        pair.transcript.len()
    };
    for number in 0..whole {
        for (cut, reason) in [(Cut::Before(number), CloseReason::Closed), (Cut::Within(number), CloseReason::CutOff)] {
            let mut pair = Pair::new(TWO_CALLS);
            pair.cut = Some(cut);
            let result = pair.run();
            assert_eq!(code(&result), ErrorCode::InternalError, "cut at {number}");
            // Half a message of the host's is the runner's to see.
            let seen = pair.host.close_reason().unwrap();
            assert!(*seen == reason || *seen == CloseReason::Closed, "{seen:?}");
            assert_eq!(result.error().unwrap().message, seen.to_string());
            assert!(!pair.runner.is_active() && pair.tools_cancelled_at.is_some());
        }
    }
}

#[test]
fn a_cut_off_while_cancelling_is_a_timeout() {
    for number in 3..5 {
        let mut pair = Pair::new("call hang 1; await");
        pair.cancel_at = Some(ms(10));
        pair.cut = Some(Cut::Before(number));
        assert_eq!(pair.run().outcome, Err(cancelled()), "cut at {number}");
        assert_eq!(pair.host.close_reason(), Some(&CloseReason::Closed));
    }
}

#[test]
fn a_second_execute_is_refused_and_does_not_disturb_the_first() {
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
fn unknown_ids_and_repeated_results_change_nothing() {
    let forged = |call_id: &str| {
        HostMessage::ToolResult(ToolResult { call_id: call_id.into(), result: Ok(Some(json!("forged"))) })
    };
    let mut pair = Pair::new(TWO_CALLS);
    pair.injections = ["call-01", "call-+1", "call-9", "x", ""].map(|id| (3, forged(id))).into();
    pair.injections.push_back((3, HostMessage::Cancel(Cancel { id: "exec-2".into() })));
    pair.injections.push_back((10, forged("call-1"))); // answered before, by then
    assert_eq!(pair.run().outcome, Ok(Some(json!({"a": [2]}))));
    assert_eq!(pair.injections.len(), 0);
}

proptest! {
    /// What [`Pair::run`] asserts of every ending, and that it comes in time.
    #[test]
    fn whatever_happens_both_halves_end_in_time(
        moves in prop::sample::select(vec![
            TWO_CALLS, "spin", "stall", "call hang 1; await", "call large 1; call fail 1; await-catch; return 1",
        ]),
        delay in 0_u64..40,
        tool_delay in 0_u64..400,
        cancel_at in prop::option::of(0_u64..1200),
        mute_at in prop::option::of(0_u64..1200),
        cut in prop::option::of((0_usize..9, any::<bool>())),
    ) {
        let mut pair = Pair::new(moves);
        pair.delay = ms(delay);
        pair.tool_delay = ms(tool_delay);
        pair.cancel_at = cancel_at.map(ms);
        pair.mute_runner_at = mute_at.map(ms);
        pair.cut = cut.map(|(number, within)| if within { Cut::Within(number) } else { Cut::Before(number) });
        let result = pair.run();
        let ends_by = cancel_at.unwrap_or(1100).min(1100) + 25;
        prop_assert!(result.duration <= ms(ends_by), "{:?} at {:?}", result, pair.now);
        prop_assert!(pair.tools_cancelled_at.is_some_and(|at| at <= ms(ends_by)));
    }
}
