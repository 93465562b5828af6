//! The rules of a running program, by the clock of a model that counts minute by minute.

use std::time::Duration;

use execbox_core::contract::script::Request;
use execbox_core::contract::stop::Stop;
use execbox_core::contract::{Action, Request as _};
use execbox_core::engine::{Call, CallId, Event, FunctionId, LogLevel, LogLine, NoRoom, Outcome, Pending};
use execbox_core::error::ErrorCode;
use execbox_core::execution::{Clock, CompileFailure, CompileTimer, Execution, MAX_PAUSE, compile};
use execbox_core::libraries::Globals;
use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::program::Limits;
use execbox_core::usage::LimitError;
use execbox_core::value::Value;
use execbox_testkit::scripted::Moves;
use proptest::prelude::*;
use serde_json::json;

type Script = <Request as execbox_core::contract::Request>::Contract;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn request(limits: Limits) -> Request {
    let tool = ToolManifest::new("echo", "echo");
    let provider = ProviderManifest::new("tools", vec![tool], "");
    Request {
        code: "return 1".into(),
        functions: Vec::new(),
        providers: vec![provider.into()],
        waits_for_calls: false,
        globals: Globals::default(),
        limits,
    }
}

/// A program that was accepted at 10 ms.
fn execution(limits: Limits) -> Execution<Script> {
    let (_, script) = request(limits).start(&Moves, &|| false).unwrap();
    Execution::new(Box::new(script), Clock::new(ms(10), limits.timeout))
}

fn call() -> Event {
    Event::Call(Call { id: CallId(1), function: FunctionId(0), input: Value::undefined(), now: false })
}

/// An execution that made a call at 10 ms and has waited since then.
fn waiting(limits: Limits) -> Execution<Script> {
    let mut execution = execution(limits);
    assert!(matches!(execution.handle_event(call(), &|| ms(10)), Ok(Action::Call(_))));
    execution.handle_waiting(ms(10)).unwrap();
    execution
}

#[test]
fn nothing_that_a_late_program_did_is_passed_on() {
    let mut execution = execution(Limits::default().timeout(ms(100)));
    let line = || Event::Log(LogLine::new(LogLevel::Log, "a"));
    assert!(matches!(execution.handle_event(line(), &|| ms(109)), Ok(Action::Notify(_))));
    assert_eq!(execution.handle_event(line(), &|| ms(110)).unwrap_err(), Stop::TimedOut);
    assert_eq!(execution.handle_timeout(ms(110)), Err(Stop::TimedOut));
    let result = execution.finish(Err(Stop::TimedOut), ms(111));
    assert_eq!((result.logs, result.duration), (vec!["a".to_owned()], ms(101)));
}

#[test]
fn a_program_that_waits_for_nothing_is_stuck() {
    assert_eq!(execution(Limits::default()).handle_waiting(ms(11)), Err(Stop::Stuck));
    let mut execution = waiting(Limits::default());
    let settled = execution.handle_answer(CallId(1), Ok(Some(json!(1))), ms(12)).unwrap();
    assert!(matches!(settled, Some((Pending::Call(CallId(1)), _))));
    assert_eq!(execution.handle_waiting(ms(13)), Err(Stop::Stuck));
}

#[test]
fn a_program_with_a_timer_is_not_stuck() {
    let mut execution = execution(Limits::default());
    let timer = |after| Event::Timer(Some(ms(after)));
    assert!(matches!(execution.handle_event(timer(500), &|| ms(20)), Ok(Action::Ignore)));
    execution.handle_waiting(ms(20)).unwrap();
    assert_eq!(execution.next_timeout(), Some(ms(520)));
    execution.handle_event(timer(100), &|| ms(30)).unwrap();
    assert_eq!(execution.next_timeout(), Some(ms(130)), "in place of the first one");
    assert!(!execution.take_timer(ms(129)));
    assert!(execution.take_timer(ms(130)));
    assert!(!execution.take_timer(ms(131)), "once");
    assert_eq!(execution.handle_waiting(ms(131)), Err(Stop::Stuck));
    execution.handle_event(timer(100), &|| ms(140)).unwrap();
    execution.handle_event(Event::Timer(None), &|| ms(141)).unwrap();
    assert_eq!(execution.handle_waiting(ms(141)), Err(Stop::Stuck));
    execution.handle_event(Event::Timer(Some(Duration::MAX)), &|| ms(142)).unwrap();
    assert_eq!(execution.next_timeout(), Some(ms(5010)));
}

#[test]
fn a_wait_ends_when_it_is_answered_or_the_guest_computes() {
    let limits = Limits::default().host_wait(ms(50));
    let mut answered = waiting(limits);
    assert_eq!(answered.next_timeout(), Some(ms(60)));
    answered.handle_answer(CallId(1), Ok(None), ms(40)).unwrap();
    assert_eq!(answered.next_timeout(), Some(ms(5010)));
    assert_eq!(answered.finish(Ok(Outcome::Returned(Value::undefined())), ms(45)).usage.host_wait, Some(ms(30)));

    let mut computing = waiting(limits);
    computing.handle_computed(ms(30), ms(1)).unwrap();
    assert_eq!(computing.next_timeout(), Some(ms(5010)));
    computing.handle_waiting(ms(31)).unwrap();
    assert_eq!(computing.next_timeout(), Some(ms(61)), "20 of 50 ms are used");
    assert_eq!(computing.handle_timeout(ms(60)), Ok(()));
    let expected = Stop::Limit(LimitError::HostWait { used: ms(50), limit: ms(50) });
    assert_eq!(computing.handle_timeout(ms(61)), Err(expected));
}

#[test]
fn an_answer_after_the_limit_on_waiting_is_not_received() {
    let mut execution = waiting(Limits::default().host_wait(ms(50)));
    let stop = execution.handle_answer(CallId(1), Ok(None), ms(60)).unwrap_err();
    assert_eq!(stop, Stop::Limit(LimitError::HostWait { used: ms(50), limit: ms(50) }));
}

#[test]
fn a_pause_comes_too_late_after_the_timeout() {
    let mut execution = waiting(Limits::default().timeout(ms(100)));
    assert_eq!(execution.set_paused(true, ms(110)), Err(Stop::TimedOut));
}

#[test]
fn what_a_guest_cannot_take_in_is_bounded_by_its_memory() {
    let execution = execution(Limits::default().memory_bytes(1000));
    assert_eq!(execution.handle_unread(1000), Ok(()));
    assert_eq!(execution.handle_unread(1001), Err(Stop::HostMemory(NoRoom::Answers)));
}

#[test]
fn compiling_takes_the_time_of_the_program() {
    let limits = Limits::default().timeout(ms(100)).cpu_time(ms(20));
    let invalid = || Request { providers: vec![request(limits).providers[0].clone(); 2], ..request(limits) };
    let failure = |now: u64, cpu: u64, stopped: Option<Stop>| {
        let (now, cpu, stopped) = (|| ms(now), || ms(cpu), || stopped.clone());
        let timer = CompileTimer { now: &now, cpu_time: &cpu, stopped: &stopped };
        match compile(invalid(), &Moves, &Clock::new(ms(10), limits.timeout), &timer) {
            Err(CompileFailure::Stopped(stop)) => Err(stop),
            Err(CompileFailure::Invalid(error)) => Ok(error.code),
            Ok(_) => panic!("two providers of one name"),
        }
    };
    assert_eq!(failure(109, 20, None), Ok(ErrorCode::InternalError));
    assert_eq!(failure(110, 20, None), Err(Stop::TimedOut));
    let limit = LimitError::CpuTime { used: ms(21), limit: ms(20) };
    assert_eq!(failure(109, 21, None), Err(Stop::Limit(limit)));
    assert_eq!(failure(110, 21, Some(Stop::Cancelled(None))), Err(Stop::Cancelled(None)));
}

#[test]
fn a_failure_of_the_engine_is_an_internal_error() {
    let result = execution(Limits::default()).finish(Err(Stop::Failed("it broke".into())), ms(11));
    let error = result.error().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::InternalError, "it broke"));
}

#[derive(Debug, Clone)]
enum Step {
    /// The guest waits.
    Wait,
    /// The guest computes.
    Compute,
    Pause(bool),
    Minutes(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Wait),
        Just(Step::Compute),
        any::<bool>().prop_map(Step::Pause),
        (0_u16..50).prop_map(Step::Minutes),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    /// The clock counts each minute, unless it is paused, the guest waits, and the pauses have not taken an hour.
    #[test]
    fn a_clock_counts_what_a_model_counts(steps in steps(), timeout in 1_u64..300) {
        let minute = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut clock = Clock::new(minute(5), minute(timeout));
        let (mut now, mut counted, mut paused, mut waited) = (5, 0, 0, 0);
        let (mut is_waiting, mut is_paused, mut reported) = (false, false, Duration::ZERO);
        for step in steps {
            match step {
                Step::Wait => {
                    clock.begin_wait(minute(now));
                    is_waiting = true;
                }
                Step::Compute => {
                    reported += clock.end_wait(minute(now)).unwrap_or_default();
                    is_waiting = false;
                }
                Step::Pause(pause) => {
                    reported += clock.set_paused(pause, minute(now)).unwrap_or_default();
                    is_paused = pause;
                }
                Step::Minutes(minutes) => {
                    for _ in 0..minutes {
                        now += 1;
                        if is_paused && is_waiting && minute(paused) < MAX_PAUSE {
                            paused += 1;
                        } else {
                            counted += 1;
                            waited += u64::from(is_waiting);
                        }
                        prop_assert_eq!(clock.is_late(minute(now)), counted >= timeout, "at {}", now);
                        if counted >= timeout {
                            return Ok(()); // The program is stopped.
                        }
                    }
                }
            }
            prop_assert_eq!(clock.elapsed(minute(now)), minute(now - 5));
            prop_assert_eq!(clock.is_paused(), is_paused);
        }
        reported += clock.end_wait(minute(now)).unwrap_or_default();
        prop_assert_eq!(reported, minute(waited));
    }
}
