//! Random sequences of events for each half, under both contracts: no sequence panics, and the promises of each half hold in
//! all of them.

use std::collections::HashSet;
use std::task::{Context, Waker};
use std::time::Duration;

use execbox_core::contract::module::{Failure, Request, RunEnd};
use execbox_core::contract::script::ToolCall;
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Call, CallId, Engine as _, FunctionId, Guest, LogLevel, LogLine, Notification, Pending};
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use execbox_core::protocol::host::{
    CloseReason, HostOptions, HostSession, ModuleHost, Output as HostOutput, ScriptHost,
};
use execbox_core::protocol::runner::{Output as RunnerOutput, RunnerSession};
use execbox_core::protocol::{
    Attachments, Cancel, Clock, CodeCall, CodeDone, CodeNotify, Done, Execute, Hello, HostMessage, LineDecoder,
    LineError, Message as _, RunCode, RunnerMessage, Settle, Started, TooLong, ToolResult, WireCall, WireLog,
};
use execbox_core::usage::Usage;
use execbox_core::value::Value;
use execbox_testkit::scripted::{Moves, Scripted};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::pair::{Played, execute, ms, request};

const TOO_LONG: TooLong = TooLong { len: 2, cap: 1 };

/// How many lines the host's half keeps, and how many units of them.
const LOG_LIMITS: (usize, usize) = (4, 6);

// ---- The host's half ----------------------------------------------------------------------------

/// A contract with random events for the host's half.
trait Random: Played {
    /// Messages of the contract, for this session or another.
    fn messages() -> BoxedStrategy<RunnerMessage>;

    /// The identifier of a call, and its answer.
    fn settlement(call: u64, is_ok: bool) -> (Self::Pending, Self::Answer);

    fn call_id(call: &Self::Call) -> CallId;

    /// Checks the outcome, and what was shown if the host asked for notices.
    fn check(shown: Option<&[String]>, outcome: &Self::Outcome);
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // most are messages
enum ToHost {
    Message(RunnerMessage),
    InvalidFrame,
    Settle(u64, bool),
    StopClock(bool),
    Cancel,
    Close,
    Wait(u64),
    /// Outputs are polled only here.
    Poll,
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("exec-1".to_owned()), 1 => Just("exec-2".to_owned())]
}

fn run_id() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("run-1".to_owned()), 1 => Just("run-2".to_owned())]
}

fn call_id() -> impl Strategy<Value = String> {
    (0_u64..5).prop_map(|number| format!("call-{number}"))
}

fn outcome() -> impl Strategy<Value = Result<Option<Json>, ExecuteError>> {
    prop_oneof![Just(Ok(None)), Just(Ok(Some(json!([1])))), Just(Err(ExecuteError::tool("full")))]
}

impl Random for ScriptHost {
    fn messages() -> BoxedStrategy<RunnerMessage> {
        let tool = prop_oneof![3 => Just("echo"), 1 => Just("nope")];
        let call = (call_id(), tool).prop_map(|(call_id, tool)| {
            let (provider_name, safe_tool_name) = ("tools".into(), tool.into());
            RunnerMessage::ToolCall(WireCall { call_id, provider_name, safe_tool_name, input: None })
        });
        let text = || prop::sample::select(vec!["", "a", "bc😀"]).prop_map(str::to_owned);
        let log = (id(), text())
            .prop_map(|(id, text)| RunnerMessage::Log(WireLog { id, line: LogLine::new(LogLevel::Warn, text) }));
        let done = (id(), outcome(), prop::collection::vec(text(), 0..6)).prop_map(|(id, outcome, logs)| {
            let mut result = ExecuteResult::new(outcome, ms(1));
            result.logs = logs;
            RunnerMessage::Done(Done { id, result, exits: false })
        });
        prop_oneof![6 => call, 6 => log, 1 => done].boxed()
    }

    fn settlement(call: u64, is_ok: bool) -> (CallId, Result<Option<Json>, ExecuteError>) {
        (CallId(call), if is_ok { Ok(None) } else { Err(ExecuteError::tool("full")) })
    }

    fn call_id(call: &ToolCall) -> CallId {
        call.id
    }

    fn check(shown: Option<&[String]>, result: &ExecuteResult) {
        let units: usize = result.logs.iter().map(|line| line.encode_utf16().count()).sum();
        assert!(result.logs.len() <= LOG_LIMITS.0 && units <= LOG_LIMITS.1, "{:?}", result.logs);
        let lines = shown.map(|shown| shown.iter().map(|line| line.split_once(' ').unwrap().1));
        assert!(
            lines.is_none_or(|lines| lines.eq(&result.logs)),
            "each line is shown once: {shown:?} {:?}",
            result.logs
        );
    }
}

impl Random for ModuleHost {
    fn messages() -> BoxedStrategy<RunnerMessage> {
        let call = (run_id(), 0_u64..5).prop_map(|(id, call)| {
            let call = Call { id: CallId(call), function: FunctionId(6), input: Value::undefined(), now: false };
            RunnerMessage::CodeCall(CodeCall { id, call })
        });
        let notify = (run_id(), 0_usize..2000).prop_map(|(id, len)| {
            let notification = Notification { function: FunctionId(1), args: Value::from_bytes(vec![0; len]) };
            RunnerMessage::CodeNotify(CodeNotify { id, notification })
        });
        let done = (run_id(), any::<bool>()).prop_map(|(id, is_ok)| {
            let outcome = if is_ok { Ok(Value::undefined()) } else { Err(Failure::internal("broken")) };
            RunnerMessage::CodeDone(CodeDone {
                id,
                outcome,
                dropped_logs: 0,
                unawaited: None,
                duration: ms(1),
                usage: Usage::default(),
                exits: false,
            })
        });
        let hello = Just(RunnerMessage::Hello(Hello { attachments: true }));
        prop_oneof![4 => hello, 6 => call, 6 => notify, 1 => done].boxed()
    }

    fn settlement(call: u64, is_ok: bool) -> (Pending, Result<Value, Value>) {
        (Pending::Call(CallId(call)), if is_ok { Ok(Value::undefined()) } else { Err(Value::undefined()) })
    }

    fn call_id(call: &Call) -> CallId {
        call.id
    }

    fn check(_: Option<&[String]>, _: &RunEnd) {}
}

fn to_host<C: Random>() -> impl Strategy<Value = Vec<ToHost>> {
    let event = prop_oneof![
        2 => id().prop_map(|id| ToHost::Message(RunnerMessage::Started(Started { id, functions: false }))),
        13 => C::messages().prop_map(ToHost::Message),
        1 => Just(ToHost::InvalidFrame),
        4 => (0_u64..5, any::<bool>()).prop_map(|(call, is_ok)| ToHost::Settle(call, is_ok)),
        2 => any::<bool>().prop_map(ToHost::StopClock),
        1 => Just(ToHost::Cancel),
        1 => Just(ToHost::Close),
        2 => (0_u64..600).prop_map(ToHost::Wait),
        8 => Just(ToHost::Poll),
    ];
    prop::collection::vec(event, 0..40)
}

/// The outputs of a host's half so far, checked as they come.
struct HostLog<C: Random> {
    too_long: bool,
    /// What was shown, if the host asked for notices.
    shown: Option<Vec<String>>,
    is_sent: bool,
    is_cancelled: bool,
    /// Whether the clock was stopped, as the last message says.
    clock: Option<bool>,
    outcome: Option<C::Outcome>,
    calls: HashSet<CallId>,
    answered: HashSet<String>,
}

impl<C: Random> HostLog<C> {
    fn poll(&mut self, host: &mut HostSession<C>, now: Duration) {
        while let Some(output) = host.poll_output() {
            assert!(self.outcome.is_none(), "after the end: {output:?}");
            match output {
                HostOutput::Send(HostMessage::Hello(_)) => assert!(!self.is_sent),
                HostOutput::Send(HostMessage::Execute(_) | HostMessage::RunCode(_)) => {
                    assert!(!std::mem::replace(&mut self.is_sent, true));
                }
                HostOutput::Send(HostMessage::Clock(clock)) => {
                    let before = self.clock.replace(clock.stopped).unwrap_or(false);
                    assert!(self.is_sent && before != clock.stopped);
                }
                HostOutput::Send(HostMessage::Cancel(_)) => {
                    assert!(self.is_sent && !std::mem::replace(&mut self.is_cancelled, true));
                }
                HostOutput::Send(answer @ (HostMessage::ToolResult(_) | HostMessage::Settle(_))) => {
                    assert!(!self.is_cancelled);
                    let call = match &answer {
                        HostMessage::ToolResult(result) => result.call_id.clone(),
                        HostMessage::Settle(settle) => format!("{:?}", settle.pending),
                        _ => unreachable!(),
                    };
                    let is_error = matches!(&answer, HostMessage::Settle(settle) if settle.result.is_err());
                    if self.too_long && !is_error {
                        host.handle_too_long(answer, TOO_LONG, now);
                    } else {
                        assert!(self.answered.insert(call), "each call is answered once");
                    }
                }
                HostOutput::Call(call) => assert!(!self.is_cancelled && self.calls.insert(C::call_id(&call))),
                HostOutput::CancelCalls | HostOutput::Terminate => {}
                HostOutput::Notify(notice) => self.shown.as_mut().expect("asked for").push(C::show(&notice)),
                HostOutput::Finished(outcome) => {
                    C::check(self.shown.as_deref(), &outcome);
                    self.outcome = Some(outcome);
                }
            }
        }
        assert_eq!(host.is_finished(), self.outcome.is_some());
    }
}

/// Plays events for a host's half, and then waits for its deadlines. It finishes exactly once.
fn play<C: Random>(mut host: HostSession<C>, events: Vec<ToHost>, too_long: bool, shows: bool) {
    let mut log = HostLog {
        too_long,
        shown: shows.then(Vec::new),
        is_sent: false,
        is_cancelled: false,
        clock: None,
        outcome: None,
        calls: HashSet::new(),
        answered: HashSet::new(),
    };
    let mut now = Duration::ZERO;
    for event in events {
        match event {
            ToHost::Message(message) => host.handle_message(message, now),
            ToHost::InvalidFrame => host.handle_misbehavior(LineError::NotUtf8, now),
            ToHost::Settle(call, is_ok) => {
                let (pending, answer) = C::settlement(call, is_ok);
                host.settle(pending, answer, now);
            }
            ToHost::StopClock(stopped) => host.set_paused(stopped, now),
            ToHost::Cancel => host.cancel(Stop::Cancelled(None), now),
            ToHost::Close => host.handle_close(CloseReason::Closed, now),
            ToHost::Wait(time) => {
                now += ms(time);
                host.handle_timeout(now);
            }
            ToHost::Poll => log.poll(&mut host, now),
        }
    }
    host.set_paused(false, now);
    // The timeout with the backstop, and then the grace period.
    for _ in 0..2 {
        now = host.next_timeout().map_or(now, |timeout| now.max(timeout));
        host.handle_timeout(now);
    }
    log.poll(&mut host, now);
    assert!(log.outcome.is_some());
    assert!(!host.is_reusable() || host.close_reason().is_none());
}

proptest! {
    #[test]
    fn a_host_of_a_script_finishes_exactly_once(events in to_host::<ScriptHost>(), too_long: bool, stream_logs: bool) {
        let plain = execute("exec-1", "");
        let (max_log_lines, max_log_chars) = LOG_LIMITS;
        let limits = plain.limits.max_log_lines(max_log_lines).max_log_chars(max_log_chars);
        let execute = Execute { limits, stream_logs, ..plain };
        play(HostSession::script(execute, HostOptions::default(), Duration::ZERO), events, too_long, stream_logs);
    }

    #[test]
    fn a_host_of_a_run_finishes_exactly_once(events in to_host::<ModuleHost>(), too_long: bool) {
        let host = HostSession::module("run-1".into(), request(), HostOptions::default(), Duration::ZERO);
        play(host, events, too_long, true);
    }
}

// ---- The runner's half --------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum ToRunner {
    Message(HostMessage),
    Malformed(Json),
    Wait(u64),
    Close,
    /// The guest takes a turn.
    Turn,
}

const MODULE_MOVES: [&str; 5] = [
    "call 6 1; call 7 2; await; return it",
    "notify 1 [1]; call 6 1; await-catch; notify 0 [2]; return 1",
    "notify 1 [1]; spin",
    "stall",
    "throw Error no",
];

fn to_runner() -> impl Strategy<Value = ToRunner> {
    let moves = prop::sample::select(vec![
        "call echo 1; call echo 2; await; return it",
        "call echo 1; await-catch; call echo 2; await",
        "call echo a Date; await",
        "log log a; spin",
        "log warn a; call echo 1; await; log log b; return it",
        "stall",
        "return 1",
    ]);
    let execute = (id(), moves, any::<bool>())
        .prop_map(|(id, moves, stream_logs)| HostMessage::Execute(Execute { stream_logs, ..execute(&id, moves) }));
    let run = (run_id(), prop::sample::select(MODULE_MOVES.to_vec())).prop_map(|(id, moves)| {
        let limits = Limits::default().timeout(ms(1000));
        let request = Request { source: moves.replace("; ", "\n"), limits, ..request() };
        HostMessage::RunCode(RunCode { id, request: Box::new(request) })
    });
    let settle = (run_id(), 0_u64..5, any::<bool>()).prop_map(|(id, call, is_ok)| {
        let (pending, result) = ModuleHost::settlement(call, is_ok);
        HostMessage::Settle(Settle { id, pending, result })
    });
    let answer = (call_id(), outcome()).prop_map(|(call_id, result)| {
        let result = result.map(|json| Value::from_json(json.as_ref(), "result").unwrap());
        HostMessage::ToolResult(ToolResult { call_id, result })
    });
    let malformed = prop::sample::select(vec![
        json!({"type": "execute", "id": "exec-1"}),
        json!({"type": "execute", "id": "exec-3"}),
        json!({"type": "tool_result", "callId": "call-1"}),
        json!({"type": "cancel"}),
        json!({"type": "run_code", "id": "run-3"}),
        json!({"type": "settle", "id": "run-1", "call": 1}),
    ]);
    prop_oneof![
        20 => execute.prop_map(ToRunner::Message),
        20 => run.prop_map(ToRunner::Message),
        30 => settle.prop_map(ToRunner::Message),
        2 => run_id().prop_map(|id| ToRunner::Message(HostMessage::Cancel(Cancel { id }))),
        5 => id().prop_map(|id| ToRunner::Message(HostMessage::Cancel(Cancel { id }))),
        30 => answer.prop_map(ToRunner::Message),
        5 => (id(), any::<bool>())
            .prop_map(|(id, stopped)| ToRunner::Message(HostMessage::Clock(Clock { id, stopped }))),
        5 => malformed.prop_map(ToRunner::Malformed),
        10 => (0_u64..600).prop_map(ToRunner::Wait),
        1 => Just(ToRunner::Close),
        40 => Just(ToRunner::Turn),
    ]
}

/// A driver that checks the outputs.
struct RunnerLog {
    runner: RunnerSession,
    now: Duration,
    guest: Option<Box<dyn Guest>>,
    active: Option<String>,
    calls: HashSet<String>,
    logged: Vec<String>,
    closed: bool,
    too_long: bool,
}

impl RunnerLog {
    fn look(&mut self) {
        while let Some(output) = self.runner.poll_output() {
            match output {
                RunnerOutput::Send(message) => {
                    assert!(!self.closed, "after the transport has closed: {message:?}");
                    self.sent(message);
                }
                RunnerOutput::Compile { .. } => {
                    let now = self.now;
                    self.runner.compile(&Moves, &|| now, &|| Duration::ZERO);
                }
                RunnerOutput::Start(program) => {
                    assert!(self.guest.is_none() && self.active.is_some());
                    self.guest = Some(Scripted.start(program).unwrap());
                }
                RunnerOutput::Settle(pending, settlement) => self.guest.as_mut().unwrap().settle(pending, settlement),
                RunnerOutput::WakeGuest => panic!("the scripted engine has no timers"),
                RunnerOutput::StopGuest => assert!(self.guest.take().is_some()),
            }
        }
        assert!(self.closed || self.runner.is_active() == self.active.is_some());
    }

    fn sent(&mut self, message: RunnerMessage) {
        match message {
            RunnerMessage::Started(Started { id, .. }) => {
                assert_eq!(self.active.replace(id), None);
                self.calls.clear();
                self.logged.clear();
            }
            RunnerMessage::ToolCall(call) => {
                assert!(self.active.is_some() && self.calls.insert(call.call_id.clone()));
                if self.too_long {
                    self.runner.handle_too_long(RunnerMessage::ToolCall(call), TOO_LONG);
                }
            }
            RunnerMessage::Log(log) => {
                assert_eq!(self.active.as_ref(), Some(&log.id));
                self.logged.push(log.line.text.clone());
                if self.too_long {
                    assert_eq!(self.logged.len(), 1, "no line follows one that was too long");
                    self.runner.handle_too_long(RunnerMessage::Log(log), TOO_LONG);
                }
            }
            RunnerMessage::Done(done) if self.too_long && (done.result.is_ok() || !done.result.logs.is_empty()) => {
                self.runner.handle_too_long(RunnerMessage::Done(done), TOO_LONG);
            }
            RunnerMessage::Hello(_) => {}
            RunnerMessage::CodeCall(CodeCall { id, call }) => {
                assert_eq!(self.active.as_ref(), Some(&id));
                assert!(self.calls.insert(call.id.to_string()));
                if self.too_long {
                    self.runner.handle_too_long(RunnerMessage::CodeCall(CodeCall { id, call }), TOO_LONG);
                }
            }
            RunnerMessage::CodeNotify(notify) => {
                assert_eq!(self.active.as_ref(), Some(&notify.id));
                if self.too_long {
                    self.runner.handle_too_long(RunnerMessage::CodeNotify(notify), TOO_LONG);
                }
            }
            RunnerMessage::CodeDone(done) if self.too_long && done.outcome.is_ok() => {
                self.runner.handle_too_long(RunnerMessage::CodeDone(done), TOO_LONG);
            }
            RunnerMessage::CodeDone(done) => drop(self.active.take_if(|active| *active == done.id)),
            // A program that is done and was not active was rejected.
            RunnerMessage::Done(done) => {
                let is_active = self.active.as_ref() == Some(&done.id);
                assert!(!is_active || self.too_long || done.result.logs.starts_with(&self.logged), "{done:?}");
                self.active.take_if(|active| *active == done.id);
            }
        }
    }

    fn turn(&mut self, now: Duration) {
        let Some(guest) = &mut self.guest else { return };
        let turn = guest.poll_turn(&mut Context::from_waker(Waker::noop()));
        let mut events = Vec::new();
        guest.take_events(&mut events);
        for event in events {
            let now = self.now;
            self.runner.handle_event(event, &|| now);
        }
        let over = matches!(turn, std::task::Poll::Ready(execbox_core::engine::Turn::Done(_)));
        self.runner.handle_turn(turn, now);
        self.look();
        if over {
            self.guest = None;
        }
    }
}

proptest! {
    #[test]
    fn a_runner_ends_each_program_exactly_once(
        happenings in prop::collection::vec(to_runner(), 0..60), too_long: bool,
    ) {
        let runner = RunnerSession::new();
        let (guest, active, calls, logged) = (None, None, HashSet::new(), Vec::new());
        let mut log = RunnerLog { runner, now: Duration::ZERO, guest, active, calls, logged, closed: false, too_long };
        let mut now = Duration::ZERO;
        for happening in happenings {
            match happening {
                ToRunner::Message(message) => log.runner.handle_message(message, now),
                ToRunner::Malformed(Json::Object(object)) => {
                    let error = HostMessage::from_object(object, Attachments::default()).unwrap_err();
                    log.runner.handle_malformed(&error, now);
                }
                ToRunner::Malformed(_) => unreachable!(),
                ToRunner::Wait(time) => {
                    now += ms(time);
                    log.now = now;
                    log.runner.handle_timeout(now);
                }
                ToRunner::Close => {
                    log.runner.handle_close();
                    log.closed = true;
                }
                ToRunner::Turn => log.turn(now),
            }
            log.look();
        }
        if let Some(timeout) = log.runner.next_timeout() {
            log.runner.handle_timeout(timeout);
            log.look();
        }
        prop_assert!(!log.runner.is_active() && log.guest.is_none());
        prop_assert!(log.closed || log.active.is_none());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]\":,a-z0-9\n]{0,80}") {
        let mut decoder = LineDecoder::new(64);
        decoder.push(&bytes);
        decoder.push(text.as_bytes());
        let mut host = HostSession::script(execute("exec-1", ""), HostOptions::default(), Duration::ZERO);
        for line in decoder {
            match line.map(|object| RunnerMessage::from_object(object, Attachments::default())) {
                Ok(Ok(message)) => message.into_iter().for_each(|message| host.handle_message(message, ms(1))),
                Ok(Err(error)) => host.handle_misbehavior(error, ms(1)),
                Err(error) => host.handle_misbehavior(error, ms(1)),
            }
        }
    }
}
