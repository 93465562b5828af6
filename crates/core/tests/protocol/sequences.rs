//! Random sequences of whatever can happen to a half: none panics, and what each half promises holds
//! in all of them.

use std::collections::HashSet;
use std::task::{Context, Waker};
use std::time::Duration;

use execbox_core::contract::stop::Stop;
use execbox_core::engine::{CallId, Engine as _, Guest, LogLevel, LogLine};
use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::program::Limits;
use execbox_core::protocol::host::{Output as HostOutput, ScriptHost};
use execbox_core::protocol::runner::Output as RunnerOutput;
use execbox_core::protocol::{
    Attachments, Cancel, CloseReason, Done, Execute, HostMessage, HostOptions, HostSession, LineDecoder, LineError,
    Message as _, RunnerMessage, RunnerSession, Started, TooLong, ToolResult, WireCall, WireLog,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::pair::{execute, ms};
use execbox_testkit::scripted::{Moves, Scripted};

const TOO_LONG: TooLong = TooLong { len: 2, cap: 1 };

/// How many lines the host's half keeps, and how many units of them.
const LOG_LIMITS: (usize, usize) = (4, 6);

// ---- The host's half ----------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum ToHost {
    Message(RunnerMessage),
    Garbage,
    ToolResult(u64, Result<Option<Json>, ExecuteError>),
    Cancel,
    Close,
    Wait(u64),
    /// Nobody polls outputs for a while.
    Look,
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("exec-1".to_owned()), 1 => Just("exec-2".to_owned())]
}

fn call_id() -> impl Strategy<Value = String> {
    (0_u64..5).prop_map(|number| format!("call-{number}"))
}

fn outcome() -> impl Strategy<Value = Result<Option<Json>, ExecuteError>> {
    prop_oneof![Just(Ok(None)), Just(Ok(Some(json!([1])))), Just(Err(ExecuteError::tool("full")))]
}

fn to_host() -> impl Strategy<Value = ToHost> {
    let tool = prop_oneof![3 => Just("echo"), 1 => Just("nope")];
    let call = (call_id(), tool).prop_map(|(call_id, tool)| {
        let (provider_name, safe_tool_name) = ("tools".into(), tool.into());
        RunnerMessage::ToolCall(WireCall { call_id, provider_name, safe_tool_name, input: None })
    });
    let text = || prop::sample::select(vec!["", "a", "bc😀"]).prop_map(str::to_owned);
    let log = (id(), text())
        .prop_map(|(id, text)| RunnerMessage::Log(WireLog { id, line: LogLine { level: LogLevel::Warn, text } }));
    let done = (id(), outcome(), prop::collection::vec(text(), 0..6)).prop_map(|(id, outcome, logs)| {
        RunnerMessage::Done(Done { id, result: ExecuteResult { outcome, logs, duration: ms(1) } })
    });
    prop_oneof![
        2 => id().prop_map(|id| ToHost::Message(RunnerMessage::Started(Started { id }))),
        6 => call.prop_map(ToHost::Message),
        6 => log.prop_map(ToHost::Message),
        1 => done.prop_map(ToHost::Message),
        1 => Just(ToHost::Garbage),
        4 => (0_u64..5, outcome()).prop_map(|(call, result)| ToHost::ToolResult(call, result)),
        1 => Just(ToHost::Cancel),
        1 => Just(ToHost::Close),
        2 => (0_u64..600).prop_map(ToHost::Wait),
        8 => Just(ToHost::Look),
    ]
}

/// What a host's half said so far, checked as it comes.
#[derive(Default)]
struct HostLog {
    /// Lines of the log, where they are asked for.
    shown: Option<Vec<String>>,
    executed: bool,
    cancelled: bool,
    finished: bool,
    calls: HashSet<CallId>,
    answered: HashSet<String>,
}

impl HostLog {
    fn look(&mut self, host: &mut HostSession<ScriptHost>, now: Duration, too_long: bool) {
        while let Some(output) = host.poll_output() {
            assert!(!self.finished, "after the end: {output:?}");
            match output {
                HostOutput::Send(HostMessage::Execute(_)) => assert!(!std::mem::replace(&mut self.executed, true)),
                HostOutput::Send(HostMessage::Cancel(_)) => {
                    assert!(self.executed && !std::mem::replace(&mut self.cancelled, true));
                }
                HostOutput::Send(HostMessage::ToolResult(result)) => {
                    assert!(!self.cancelled);
                    if too_long {
                        host.handle_too_long(HostMessage::ToolResult(result), TOO_LONG, now);
                    } else {
                        assert!(self.answered.insert(result.call_id), "each call is answered once");
                    }
                }
                HostOutput::Send(other) => panic!("a host of scripts does not say {other:?}"),
                HostOutput::Call(call) => assert!(!self.cancelled && self.calls.insert(call.id)),
                HostOutput::CancelCalls | HostOutput::Terminate => {}
                HostOutput::Notify(line) => self.shown.as_mut().expect("asked for").push(line.text),
                HostOutput::Finished(result) => {
                    self.finished = true;
                    let units: usize = result.logs.iter().map(|line| line.encode_utf16().count()).sum();
                    assert!(result.logs.len() <= LOG_LIMITS.0 && units <= LOG_LIMITS.1, "{:?}", result.logs);
                    assert!(self.shown.as_ref().is_none_or(|shown| *shown == result.logs), "each line is shown once");
                }
            }
        }
        assert_eq!(host.is_finished(), self.finished);
    }
}

proptest! {
    #[test]
    fn a_host_finishes_exactly_once(
        happenings in prop::collection::vec(to_host(), 0..40), too_long: bool, stream_logs: bool,
    ) {
        let plain = execute("exec-1", "");
        let (max_log_lines, max_log_chars) = LOG_LIMITS;
        let limits = Limits { max_log_lines, max_log_chars, ..plain.limits };
        let execute = Execute { limits, stream_logs, ..plain };
        let mut host = HostSession::script(execute, HostOptions::default(), Duration::ZERO);
        let mut log = HostLog { shown: stream_logs.then(Vec::new), ..HostLog::default() };
        let mut now = Duration::ZERO;
        for happening in happenings {
            match happening {
                ToHost::Message(message) => host.handle_message(message, now),
                ToHost::Garbage => host.handle_misbehaviour(LineError::NotUtf8, now),
                ToHost::ToolResult(call, result) => host.settle(CallId(call), result),
                ToHost::Cancel => host.cancel(Stop::Cancelled(None), now),
                ToHost::Close => host.handle_close(CloseReason::Closed, now),
                ToHost::Wait(time) => {
                    now += ms(time);
                    host.handle_timeout(now);
                }
                ToHost::Look => log.look(&mut host, now, too_long),
            }
        }
        // Its patience ends, and then its grace does.
        for _ in 0..2 {
            now = host.next_timeout().map_or(now, |timeout| now.max(timeout));
            host.handle_timeout(now);
        }
        log.look(&mut host, now, too_long);
        prop_assert!(log.finished);
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
    let answer =
        (call_id(), outcome()).prop_map(|(call_id, result)| HostMessage::ToolResult(ToolResult { call_id, result }));
    let malformed = prop::sample::select(vec![
        json!({"type": "execute", "id": "exec-1"}),
        json!({"type": "execute", "id": "exec-3"}),
        json!({"type": "tool_result", "callId": "call-1"}),
        json!({"type": "cancel"}),
    ]);
    prop_oneof![
        20 => execute.prop_map(ToRunner::Message),
        5 => id().prop_map(|id| ToRunner::Message(HostMessage::Cancel(Cancel { id }))),
        30 => answer.prop_map(ToRunner::Message),
        5 => malformed.prop_map(ToRunner::Malformed),
        10 => (0_u64..600).prop_map(ToRunner::Wait),
        1 => Just(ToRunner::Close),
        40 => Just(ToRunner::Turn),
    ]
}

/// A driver that checks what it is told.
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
                    assert!(!self.closed, "nobody listens: {message:?}");
                    self.sent(message);
                }
                RunnerOutput::Compile(job) => {
                    self.runner.handle_compiled(job.compile(&Moves, &|| false), self.now);
                }
                RunnerOutput::Start(program) => {
                    assert!(self.guest.is_none() && self.active.is_some());
                    self.guest = Some(Scripted.start(program).unwrap());
                }
                RunnerOutput::Settle(pending, settlement) => self.guest.as_mut().unwrap().settle(pending, settlement),
                RunnerOutput::StopGuest => assert!(self.guest.take().is_some()),
            }
        }
        assert!(self.closed || self.runner.is_active() == self.active.is_some());
    }

    fn sent(&mut self, message: RunnerMessage) {
        match message {
            RunnerMessage::Started(Started { id }) => {
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
                    assert_eq!(self.logged.len(), 1, "none comes after one that is too long");
                    self.runner.handle_too_long(RunnerMessage::Log(log), TOO_LONG);
                }
            }
            RunnerMessage::Done(done) if self.too_long && (done.result.is_ok() || !done.result.logs.is_empty()) => {
                self.runner.handle_too_long(RunnerMessage::Done(done), TOO_LONG);
            }
            RunnerMessage::Hello(_)
            | RunnerMessage::CodeCall(_)
            | RunnerMessage::CodeNotify(_)
            | RunnerMessage::CodeDone(_) => {
                panic!("no run was asked for: {message:?}")
            }
            // What is done and not active was refused.
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
            self.runner.handle_event(event);
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
    fn a_runner_is_done_exactly_once_with_all_that_it_started(
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

    /// Whatever a peer writes, a half only ever gets messages or typed errors of it.
    #[test]
    fn bytes_never_break_a_session(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]\":,a-z0-9\n]{0,80}") {
        let mut decoder = LineDecoder::new(64);
        decoder.push(&bytes);
        decoder.push(text.as_bytes());
        let mut host = HostSession::script(execute("exec-1", ""), HostOptions::default(), Duration::ZERO);
        for line in decoder {
            match line.map(|object| RunnerMessage::from_object(object, Attachments::default())) {
                Ok(Ok(message)) => message.into_iter().for_each(|message| host.handle_message(message, ms(1))),
                Ok(Err(error)) => host.handle_misbehaviour(error, ms(1)),
                Err(error) => host.handle_misbehaviour(error, ms(1)),
            }
        }
    }
}
