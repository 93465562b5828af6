//! Both halves of a session under either contract, connected by a simulated network under a simulated clock.
//!
//! Messages cross as lines of bytes, through the codec, and take the network's delay. The clock is paused while a half
//! has something to do, and then jumps to the next event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use execbox_core::contract::module::{Bridge, Request, RunEnd, Status};
use execbox_core::contract::script::ToolCall;
use execbox_core::contract::stop::Stop;
use execbox_core::engine::{Call, CallId, Engine as _, Guest, LogLine, Notification, Pending};
use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
use execbox_core::language::Dialect;
use execbox_core::libraries::Globals;
use execbox_core::manifest::{ProviderManifest, ToolManifest};
use execbox_core::program::Limits;
use execbox_core::protocol::host::{
    CloseReason, HostContract, HostOptions, HostSession, ModuleHost, Output as HostOutput, ScriptHost,
};
use execbox_core::protocol::runner::{Output as RunnerOutput, RunnerSession};
use execbox_core::protocol::{Attachments, Execute, HostMessage, LineDecoder, Message, RunnerMessage, StreamEnd};
use execbox_core::value::{Graph, Value};
use serde_json::{Value as Json, json};

use execbox_testkit::scripted::{Moves, Scripted};

pub(crate) const CAP: usize = 4096;

/// How long the simulated guest computes between two polls.
const SLICE: Duration = Duration::from_millis(1);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The functions that moves call: `echo` answers with its input, `fail` fails, `deep` answers with a value that nests deep,
/// `large` with one that is too long for a line, and `hang` never answers.
const FUNCTIONS: [&str; 5] = ["echo", "fail", "deep", "large", "hang"];

/// One provider `tools` with these functions.
pub(crate) fn tools() -> Arc<ProviderManifest> {
    let tool = |name: &str| ToolManifest::new(name, name);
    Arc::new(ProviderManifest::new("tools", FUNCTIONS.map(tool).into(), ""))
}

pub(crate) fn execute(id: &str, moves: &str) -> Execute {
    let limits = Limits::default().timeout(ms(1000));
    let providers = vec![tools()];
    Execute {
        id: id.into(),
        code: moves.replace("; ", "\n"),
        functions: Vec::new(),
        limits,
        providers,
        stream_logs: false,
        wait_for_calls: false,
        globals: Globals::default(),
    }
}

/// A run that does nothing.
pub(crate) fn request() -> Request {
    let mut nothing = Graph::default();
    let object = nothing.object(Vec::<(String, _)>::new());
    nothing.set_root(object);
    let limits = Limits::default().timeout(ms(1000)).memory_bytes(4096);
    Request {
        source: "export default 1".into(),
        filename: Some("main.ts".into()),
        language: Dialect::TypeScript,
        modules: BTreeMap::from([("./a.js".to_owned(), "export {}".to_owned())]),
        imports: BTreeMap::from([("fs".to_owned(), Bridge::new(&nothing, "fs").unwrap())]),
        globals: Bridge::new(&nothing, "globals").unwrap(),
        function: "default".into(),
        args: Graph::from_json(&json!([1])).to_value("args").unwrap(),
        limits,
    }
}

/// A contract with a session that plays moves, and the functions that moves call: `echo`, `fail`, `deep`, `large`, `hang`.
pub(crate) trait Played: HostContract<Outcome: Clone> {
    /// A session that plays moves of the scripted engine. Both contracts take the same moves.
    fn session(moves: &str) -> HostSession<Self>;

    /// The answer to a call, if it has one.
    fn answer(call: Self::Call) -> Option<(Self::Pending, Self::Answer)>;

    /// A log line as text, with its level.
    fn show(notice: &Self::Notice) -> String;

    /// How a session ended.
    fn ended(outcome: &Self::Outcome) -> Ended;
}

/// How a program ended, under either contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Returned,
    Threw,
    Stopped,
    Internal,
}

impl Played for ScriptHost {
    fn session(moves: &str) -> HostSession<Self> {
        HostSession::script(execute("exec-1", moves), HostOptions::default(), Duration::ZERO)
    }

    fn answer(call: ToolCall) -> Option<(CallId, Result<Option<Json>, ExecuteError>)> {
        let result = match call.tool {
            0 => Ok(call.input),
            1 => Err(ExecuteError::tool("full")),
            2 => Ok(Some((0..200).fold(json!(0), |inner, _| json!([inner])))),
            3 => Ok(Some(json!("x".repeat(CAP)))),
            _ => return None,
        };
        Some((call.id, result))
    }

    fn show(line: &LogLine) -> String {
        format!("{} {}", line.level.as_str(), line.text)
    }

    fn ended(result: &ExecuteResult) -> Ended {
        match result.error().map(|error| error.code) {
            None => Ended::Returned,
            Some(ErrorCode::Timeout) => Ended::Stopped,
            Some(ErrorCode::InternalError) => Ended::Internal,
            Some(_) => Ended::Threw,
        }
    }
}

impl Played for ModuleHost {
    /// The functions have the numbers 6 to 10, and the console notifies.
    fn session(moves: &str) -> HostSession<Self> {
        let translate = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
            ["log", _, text] => format!("notify 1 [\"{text}\"]"),
            ["call", name, input] => {
                let (number, _) = (6..).zip(FUNCTIONS).find(|(_, function)| *function == name).unwrap();
                format!("call {number} {input}")
            }
            _ => line.to_owned(),
        };
        let source = moves.split("; ").map(translate).collect::<Vec<_>>().join("\n");
        let limits = Limits::default().timeout(ms(1000));
        let request = Request { source, limits, ..request() };
        HostSession::module("run-1".into(), request, HostOptions::default(), Duration::ZERO)
    }

    fn answer(call: Call) -> Option<(Pending, Result<Value, Value>)> {
        let value = |json: Json| Value::from_json(Some(&json), "value").unwrap();
        let result = match call.function.0 {
            6 => Ok(call.input),
            7 => Err(value(json!("full"))),
            8 => Ok(value((0..100).fold(json!(0), |inner, _| json!([inner])))),
            9 => Ok(value(json!("x".repeat(CAP)))),
            _ => return None,
        };
        Some((Pending::Call(call.id), result))
    }

    fn show(notification: &Notification) -> String {
        format!("{} {:?}", notification.function.0, notification.args)
    }

    fn ended(end: &RunEnd) -> Ended {
        match &end.outcome {
            Ok(_) => Ended::Returned,
            Err(failure) if failure.status == Status::Terminated => Ended::Stopped,
            Err(failure) if failure.error.is_internal => Ended::Internal,
            Err(_) => Ended::Threw,
        }
    }
}

/// What crosses the network.
enum Parcel {
    Bytes(Vec<u8>),
    End,
}

type Wire = VecDeque<(Duration, Parcel)>;

/// Where the network breaks.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// Before the message of that number, counted over both directions.
    Before(usize),
    /// In the middle of that message.
    Within(usize),
}

/// See the [module](self).
pub(crate) struct Pair<C: Played> {
    // What a test may set.
    pub(crate) delay: Duration,
    pub(crate) tool_delay: Duration,
    pub(crate) cut: Option<Cut>,
    pub(crate) cancel_at: Option<Duration>,
    /// The runner's half neither receives nor sends from then on.
    pub(crate) mute_runner_at: Option<Duration>,
    /// Messages that are sent to the runner after that many messages, without the host's half.
    pub(crate) injections: VecDeque<(usize, HostMessage)>,
    // What a test may read.
    pub(crate) now: Duration,
    pub(crate) host: HostSession<C>,
    pub(crate) runner: RunnerSession,
    /// What was sent, in order: `> ` from the host, `< ` from the runner.
    pub(crate) transcript: Vec<String>,
    pub(crate) results: Vec<C::Outcome>,
    /// Notices that were shown, with the time.
    pub(crate) shown: Vec<String>,
    pub(crate) calls_cancelled_at: Option<Duration>,
    pub(crate) guest_stopped_at: Option<Duration>,
    pub(crate) terminated_at: Option<Duration>,

    guest: Option<Box<dyn Guest>>,
    guest_computes: bool,
    calls: Vec<(Duration, C::Pending, C::Answer)>,
    to_runner: Wire,
    to_host: Wire,
    runner_decoder: LineDecoder,
    host_decoder: LineDecoder,
    broken: bool,
}

impl Pair<ScriptHost> {
    pub(crate) fn new(moves: &str) -> Self {
        Self::playing(moves)
    }

    pub(crate) fn with(execute: Execute) -> Self {
        Self::of(HostSession::script(execute, HostOptions::default(), Duration::ZERO))
    }
}

impl<C: Played> Pair<C> {
    pub(crate) fn playing(moves: &str) -> Self {
        Self::of(C::session(moves))
    }

    fn of(host: HostSession<C>) -> Self {
        Self {
            delay: ms(1),
            tool_delay: ms(2),
            cut: None,
            cancel_at: None,
            mute_runner_at: None,
            injections: VecDeque::new(),
            now: Duration::ZERO,
            host,
            runner: RunnerSession::new(),
            transcript: Vec::new(),
            results: Vec::new(),
            shown: Vec::new(),
            calls_cancelled_at: None,
            guest_stopped_at: None,
            terminated_at: None,
            guest: None,
            guest_computes: false,
            calls: Vec::new(),
            to_runner: Wire::new(),
            to_host: Wire::new(),
            runner_decoder: LineDecoder::new(CAP),
            host_decoder: LineDecoder::new(CAP),
            broken: false,
        }
    }

    /// Runs until nothing more can happen, and returns the outcome.
    pub(crate) fn run(&mut self) -> C::Outcome {
        for moment in 0.. {
            self.settle();
            let Some(next) = self.next_moment() else { break };
            assert!(moment < 10_000, "endless");
            self.now = self.now.max(next);
            self.happen();
        }
        assert_eq!(self.results.len(), 1, "finished exactly once");
        assert!(self.host.is_finished() && (!self.runner.is_active() || self.is_mute()));
        self.results[0].clone()
    }

    /// The types and ids of what was sent: `> execute exec-1`.
    pub(crate) fn outline(&self) -> Vec<String> {
        let outline = |line: &String| {
            let json: Json = serde_json::from_str(&line[2..]).unwrap();
            let id = json.get("id").or(json.get("callId")).map_or("", |id| id.as_str().unwrap());
            format!("{}{} {id}", &line[..2], json["type"].as_str().unwrap()).trim_end().to_owned()
        };
        self.transcript.iter().map(outline).collect()
    }

    fn is_mute(&self) -> bool {
        self.mute_runner_at.is_some_and(|at| self.now >= at)
    }

    /// Both halves handle everything that is due.
    fn settle(&mut self) {
        loop {
            while let Some((_, message)) = self.injections.pop_front_if(|(after, _)| *after <= self.transcript.len()) {
                self.send(&message, true).unwrap();
            }
            let moved = self.carry_out_host() | (!self.is_mute() && (self.carry_out_runner() | self.drive_guest()));
            if !moved {
                return;
            }
        }
    }

    fn carry_out_host(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.host.poll_output() {
            moved = true;
            assert!(self.results.is_empty(), "nothing after the end: {output:?}");
            match output {
                HostOutput::Send(message) => {
                    if let Err(error) = self.send(&message, true) {
                        self.host.handle_too_long(message, error, self.now);
                    }
                }
                HostOutput::Call(call) => {
                    let at = self.now + self.tool_delay;
                    self.calls.extend(C::answer(call).map(|(pending, answer)| (at, pending, answer)));
                }
                HostOutput::Notify(notice) => {
                    self.shown.push(format!("{} ms {}", self.now.as_millis(), C::show(&notice)));
                }
                HostOutput::CancelCalls => {
                    self.calls_cancelled_at.get_or_insert(self.now);
                }
                HostOutput::Terminate => {
                    self.terminated_at = Some(self.now);
                    self.break_network();
                }
                HostOutput::Finished(result) => self.results.push(result),
            }
        }
        moved
    }

    fn carry_out_runner(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.runner.poll_output() {
            moved = true;
            match output {
                RunnerOutput::Send(message) => {
                    if let Err(error) = self.send(&message, false) {
                        self.runner.handle_too_long(message, error);
                    }
                }
                RunnerOutput::Compile { .. } => {
                    let now = self.now;
                    self.runner.compile(&Moves, &|| now, &|| Duration::ZERO);
                }
                RunnerOutput::Start(program) => match Scripted.start(program) {
                    Ok(guest) => self.guest = Some(guest),
                    Err(error) => self.runner.handle_start_error(&error, self.now),
                },
                RunnerOutput::Settle(pending, settlement) => {
                    if let Some(guest) = &mut self.guest {
                        guest.settle(pending, settlement);
                    }
                    self.guest_computes = true;
                }
                RunnerOutput::WakeGuest => panic!("the scripted engine has no timers"),
                RunnerOutput::StopGuest => {
                    self.guest_stopped_at = Some(self.now);
                    self.guest = None;
                }
            }
            self.guest_computes |= self.guest.is_some();
        }
        moved
    }

    /// One turn of the guest, where it has something to do.
    fn drive_guest(&mut self) -> bool {
        let Some(guest) = self.guest.as_mut().filter(|_| self.guest_computes) else { return false };
        let turn = guest.poll_turn(&mut Context::from_waker(Waker::noop()));
        let mut events = Vec::new();
        guest.take_events(&mut events);
        self.guest_computes = turn.is_pending();
        let peak = guest.peak_memory_bytes();
        if matches!(turn, Poll::Ready(execbox_core::engine::Turn::Done(_))) {
            self.guest = None;
        }
        for event in events {
            let now = self.now;
            self.runner.handle_event(event, &|| now);
        }
        self.runner.handle_peak_memory(peak);
        self.runner.handle_turn(turn, self.now);
        self.carry_out_runner()
    }

    fn send(&mut self, message: &impl Message, from_host: bool) -> Result<(), execbox_core::protocol::TooLong> {
        let mut line = message.to_text(CAP, &mut Attachments::default())?;
        line.push(b'\n');
        if self.broken {
            return Ok(());
        }
        let number = self.transcript.len();
        let (arrow, wire) = if from_host { ("> ", &mut self.to_runner) } else { ("< ", &mut self.to_host) };
        let at = self.now + self.delay;
        match self.cut {
            Some(Cut::Before(cut)) if cut == number => self.break_network(),
            Some(Cut::Within(cut)) if cut == number => {
                line.truncate(line.len() / 2);
                wire.push_back((at, Parcel::Bytes(line)));
                self.break_network();
            }
            _ => {
                self.transcript.push(format!("{arrow}{}", String::from_utf8_lossy(line.trim_ascii_end())));
                wire.push_back((at, Parcel::Bytes(line)));
            }
        }
        Ok(())
    }

    fn break_network(&mut self) {
        if !std::mem::replace(&mut self.broken, true) {
            let at = self.now + self.delay;
            self.to_runner.push_back((at, Parcel::End));
            self.to_host.push_back((at, Parcel::End));
        }
    }

    fn next_moment(&self) -> Option<Duration> {
        let runner_timer = self.runner.next_timeout().filter(|_| !self.is_mute());
        let guest = (self.guest_computes && self.guest.is_some() && !self.is_mute()).then(|| self.now + SLICE);
        let wires = [&self.to_runner, &self.to_host].map(|wire| wire.front().map(|(at, _)| *at));
        let calls = self.calls.iter().map(|(at, ..)| *at).min();
        let moments = [self.host.next_timeout(), runner_timer, guest, wires[0], wires[1], calls, self.cancel_at];
        moments.into_iter().flatten().min()
    }

    /// Handles the events that are due at the current time.
    fn happen(&mut self) {
        let now = self.now;
        while let Some((_, parcel)) = self.to_runner.pop_front_if(|(at, _)| *at <= now) {
            self.reach_runner(parcel);
        }
        while let Some((_, parcel)) = self.to_host.pop_front_if(|(at, _)| *at <= now) {
            self.reach_host(parcel);
        }
        for (_, pending, answer) in self.calls.extract_if(.., |(at, ..)| *at <= now) {
            self.host.settle(pending, answer, self.now);
        }
        if self.cancel_at.take_if(|at| *at <= now).is_some() {
            self.host.cancel(Stop::Cancelled(None), now);
        }
        self.host.handle_timeout(now);
        if !self.is_mute() {
            self.runner.handle_timeout(now);
        }
    }

    fn reach_runner(&mut self, parcel: Parcel) {
        if self.is_mute() {
            return;
        }
        match parcel {
            Parcel::Bytes(bytes) => self.runner_decoder.push(&bytes),
            Parcel::End => self.runner.handle_close(),
        }
        for object in self.runner_decoder.by_ref().flatten() {
            match HostMessage::from_object(object, Attachments::default()) {
                Ok(message) => message.into_iter().for_each(|message| self.runner.handle_message(message, self.now)),
                Err(error) => self.runner.handle_malformed(&error, self.now),
            }
        }
    }

    fn reach_host(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Bytes(bytes) => self.host_decoder.push(&bytes),
            Parcel::End => {
                let reason = match self.host_decoder.end() {
                    StreamEnd::Clean => CloseReason::Closed,
                    StreamEnd::CutOff => CloseReason::CutOff,
                };
                self.host.handle_close(reason, self.now);
            }
        }
        for line in self.host_decoder.by_ref() {
            match line.map(|object| RunnerMessage::from_object(object, Attachments::default())) {
                Ok(Ok(message)) => message.into_iter().for_each(|message| self.host.handle_message(message, self.now)),
                Ok(Err(error)) => self.host.handle_misbehavior(error, self.now),
                Err(error) => self.host.handle_misbehavior(error, self.now),
            }
        }
    }
}
