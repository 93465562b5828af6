//! Plays a case: the host side of an exchange with a runner.
//!
//! Every line of the runner must be one that the case expects. `started` is only recommended: a missing or repeated one is
//! ignored, except in the cases about it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use execbox_core::text::cut;
use serde_json::{Map, Value as Json};
use tokio::time::Instant;

use super::case::{Action, Case, Piece, Receive};
use super::line::{Inbound, Lines};
use super::pattern::{Expected, Kind};
use super::peer::Target;

/// The time limit of a step without `within`.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for an optional `started`.
const STARTED_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to read after the last step.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// The maximum number of lines of the exchange that a failure shows.
const MAX_LINES: usize = 12;

/// The maximum number of characters of a line of the exchange.
const MAX_CHARS: usize = 300;

/// How a runner failed a case.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Failure {
    /// The line of the step.
    pub(crate) line: usize,
    pub(crate) expected: String,
    pub(crate) came: String,
    /// The difference of `came`, if it has the type of the expected message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) because: Option<String>,
    /// The last lines of the exchange.
    pub(crate) exchange: Vec<String>,
    /// The stderr tail of the runner.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) stderr: String,
}

/// Plays a case with a runner of its own. Time limits are multiplied by `time_factor`.
pub(crate) async fn play(case: &Case, target: &Target, time_factor: f64) -> Result<(), Failure> {
    let failed = |fault: Fault, exchange: Exchange, stderr: String| Failure {
        line: fault.line.unwrap_or(1),
        expected: fault.expected,
        came: fault.came,
        because: fault.because,
        exchange: exchange.lines.into(),
        stderr,
    };
    let peer = match target.connect().await {
        Ok(peer) => peer,
        Err(error) => {
            let fault = Fault::new("a connection to the runner", format!("an error: {error}"));
            return Err(failed(fault, Exchange::default(), String::new()));
        }
    };
    let mut player = Player {
        lines: Lines::new(peer),
        time_factor,
        is_lenient: !case.needs_started,
        allowed: Vec::new(),
        calls: HashMap::new(),
        call_ids: HashSet::new(),
        exchange: Exchange::default(),
    };
    match player.play(case).await {
        Ok(()) => Ok(()),
        Err(fault) => {
            player.lines.wait(Duration::from_millis(20)).await; // Waits for the rest of standard error.
            Err(failed(fault, player.exchange, player.lines.stderr().text()))
        }
    }
}

struct Player {
    lines: Lines,
    time_factor: f64,
    /// Whether `started` may be omitted and repeated.
    is_lenient: bool,
    /// Messages that are accepted at any time.
    allowed: Vec<Expected>,
    /// The ids of calls by their names in the case.
    calls: HashMap<String, String>,
    /// The ids of all calls since the last `done`.
    call_ids: HashSet<String>,
    exchange: Exchange,
}

struct Fault {
    /// The line of a message in a group; `None` for the line of the step.
    line: Option<usize>,
    expected: String,
    came: String,
    because: Option<String>,
}

impl Fault {
    fn new(expected: impl Into<String>, came: impl Into<String>) -> Self {
        Self { line: None, expected: expected.into(), came: came.into(), because: None }
    }

    fn because(self, reason: &impl ToString) -> Self {
        Self { because: Some(reason.to_string()), ..self }
    }
}

impl Player {
    async fn play(&mut self, case: &Case) -> Result<(), Fault> {
        for step in &case.steps {
            let at_step = |fault: Fault| Fault { line: fault.line.or(Some(step.line)), ..fault };
            self.step(&step.action).await.map_err(at_step)?;
        }
        let last = case.steps.last().map(|step| step.line);
        self.end().await.map_err(|fault| Fault { line: last, ..fault })
    }

    async fn step(&mut self, action: &Action) -> Result<(), Fault> {
        match action {
            Action::Send(pieces) => self.send(pieces).await?,
            Action::Close => {
                self.exchange.note("the host closes the connection");
                self.lines.close().await;
            }
            Action::Receive(receive) if self.is_lenient && receive.expected.is_started() => {
                self.receive_started().await;
            }
            Action::Receive(receive) => self.receive(receive).await?,
            Action::ReceiveAll { group, within } => self.receive_all(group, *within).await?,
            Action::Allow(expected) => self.allowed.push(expected.clone()),
            Action::ReceiveNothing(time) => self.receive_nothing(*time).await?,
            Action::ReceiveEnd { within } => self.receive_end(*within).await?,
            Action::Wait(time) => self.lines.wait(*time).await,
            Action::Read(reading) => self.lines.is_reading = *reading,
        }
        Ok(())
    }

    async fn send(&mut self, pieces: &[Piece]) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(piece) => bytes.extend(piece),
                Piece::CallId(name) => {
                    let id = self.calls.get(name).unwrap_or(name);
                    bytes.extend(Json::from(id.as_str()).to_string().bytes());
                }
            }
        }
        self.exchange.push('>', String::from_utf8_lossy(&bytes).trim_end_matches('\n'));
        let within = self.bound(None);
        if self.lines.send(&bytes, within).await {
            return Ok(());
        }
        Err(Fault::new("the runner to read the message", format!("nothing within {within:?}")))
    }

    async fn receive(&mut self, Receive { expected, within, eventually }: &Receive) -> Result<(), Fault> {
        let deadline = Deadline::new(self.bound(*within));
        loop {
            let message = self.message(&expected.text, &deadline).await?;
            match expected.check(&message) {
                Ok(()) => return self.settle(expected, &message),
                Err(_) if *eventually && Kind::of(&message) == Some(Kind::ToolCall) => {}
                Err(_) if self.is_allowed(&message)? => {}
                Err(mismatch) => return Err(Fault::new(&expected.text, text(&message)).because(&mismatch)),
            }
        }
    }

    async fn receive_all(&mut self, group: &[(usize, Expected)], within: Option<Duration>) -> Result<(), Fault> {
        let deadline = Deadline::new(self.bound(within));
        let mut left: VecDeque<_> = group.iter().collect();
        while let Some((line, first)) = left.front() {
            let others = if left.len() > 1 { ", or another of this group" } else { "" };
            let wanted = format!("{}{others}", first.text);
            let at_line = |fault: Fault| Fault { line: Some(*line), ..fault };
            let message = self.message(&wanted, &deadline).await.map_err(at_line)?;
            match left.iter().position(|(_, expected)| expected.check(&message).is_ok()) {
                Some(at) => {
                    if let Some((_, expected)) = left.remove(at) {
                        self.settle(expected, &message)?;
                    }
                }
                None if self.is_allowed(&message)? => {}
                None => return Err(at_line(Fault::new(wanted, text(&message)))),
            }
        }
        Ok(())
    }

    async fn receive_nothing(&mut self, time: Duration) -> Result<(), Fault> {
        let time = time.mul_f64(self.time_factor);
        let deadline = Deadline::new(time);
        loop {
            match self.inbound(&deadline).await {
                None | Some(Inbound::End) => return Ok(()),
                Some(inbound) => self.check_unexpected(inbound, &format!("nothing for {time:?}"))?,
            }
        }
    }

    async fn receive_end(&mut self, within: Option<Duration>) -> Result<(), Fault> {
        const EXPECTED: &str = "the runner to close the connection";
        let deadline = Deadline::new(self.bound(within));
        loop {
            match self.inbound(&deadline).await {
                Some(Inbound::End) => return Ok(()),
                None => return Err(Fault::new(EXPECTED, deadline.to_string())),
                Some(inbound) => self.check_unexpected(inbound, EXPECTED)?,
            }
        }
    }

    /// Closes the connection and checks that nothing unexpected follows.
    async fn end(&mut self) -> Result<(), Fault> {
        self.lines.close().await;
        let deadline = Deadline::new(CLOSE_TIMEOUT.mul_f64(self.time_factor));
        loop {
            match self.inbound(&deadline).await {
                None | Some(Inbound::End) => return Ok(()),
                Some(inbound) => self.check_unexpected(inbound, "nothing more")?,
            }
        }
    }

    /// Receives the `started` of a runner that sends one.
    async fn receive_started(&mut self) {
        let deadline = Deadline::new(STARTED_TIMEOUT.mul_f64(self.time_factor));
        match self.lines.receive(deadline.left()).await {
            Some(Inbound::Message(message)) if Kind::of(&message) == Some(Kind::Started) => {
                self.exchange.push('<', &text(&message));
            }
            Some(other) => self.lines.put_back(other),
            None => {}
        }
    }

    /// The next message.
    async fn message(&mut self, expected: &str, deadline: &Deadline) -> Result<Map<String, Json>, Fault> {
        match self.inbound(deadline).await {
            Some(Inbound::Message(message)) => Ok(message),
            Some(Inbound::InvalidFrame(fault, line)) => Err(invalid_frame(expected, &fault, &line)),
            Some(Inbound::End) => Err(Fault::new(expected, "the end of the connection")),
            None => Err(Fault::new(expected, deadline.to_string())),
        }
    }

    async fn inbound(&mut self, deadline: &Deadline) -> Option<Inbound> {
        let inbound = self.lines.receive(deadline.left()).await;
        match &inbound {
            Some(Inbound::Message(message)) => self.exchange.push('<', &text(message)),
            Some(Inbound::InvalidFrame(_, line)) => self.exchange.push('<', line),
            Some(Inbound::End) => self.exchange.note("the runner closed the connection"),
            None => {}
        }
        inbound
    }

    /// Fails unless `inbound` is allowed where nothing is expected.
    fn check_unexpected(&mut self, inbound: Inbound, expected: &str) -> Result<(), Fault> {
        match inbound {
            Inbound::End => Ok(()),
            Inbound::InvalidFrame(fault, line) => Err(invalid_frame(expected, &fault, &line)),
            Inbound::Message(message) if self.is_allowed(&message)? => Ok(()),
            Inbound::Message(message) => Err(Fault::new(expected, text(&message))),
        }
    }

    /// Whether a message that this step does not expect is accepted.
    fn is_allowed(&mut self, message: &Map<String, Json>) -> Result<bool, Fault> {
        if self.is_lenient && Kind::of(message) == Some(Kind::Started) {
            return Ok(true);
        }
        let Some(at) = self.allowed.iter().position(|allowed| allowed.check(message).is_ok()) else { return Ok(false) };
        let allowed = self.allowed.remove(at);
        self.settle(&allowed, message).map(|()| true)
    }

    /// Records the call of an expected message.
    fn settle(&mut self, expected: &Expected, message: &Map<String, Json>) -> Result<(), Fault> {
        match (Kind::of(message), message.get("callId")) {
            (Some(Kind::ToolCall), Some(Json::String(id))) => {
                if !self.call_ids.insert(id.clone()) {
                    let reason = format!("duplicate callId {id:?}");
                    return Err(Fault::new(&expected.text, text(message)).because(&reason));
                }
                if let Some(name) = &expected.call {
                    self.calls.insert(name.clone(), id.clone());
                }
            }
            (Some(Kind::Done), _) => self.call_ids.clear(),
            _ => {}
        }
        Ok(())
    }

    fn bound(&self, within: Option<Duration>) -> Duration {
        within.unwrap_or(STEP_TIMEOUT).mul_f64(self.time_factor)
    }
}

fn invalid_frame(expected: &str, fault: &str, line: &str) -> Fault {
    Fault::new(expected, cut(line, MAX_CHARS)).because(&fault)
}

fn text(message: &Map<String, Json>) -> String {
    cut(&serde_json::to_string(message).unwrap_or_default(), MAX_CHARS)
}

/// A time limit that has started.
struct Deadline {
    time: Duration,
    at: Instant,
}

impl Deadline {
    fn new(time: Duration) -> Self {
        Self { time, at: Instant::now() + time }
    }

    fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

impl std::fmt::Display for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nothing within {:?}", self.time)
    }
}

/// The last lines that both sides sent.
#[derive(Default)]
struct Exchange {
    lines: VecDeque<String>,
}

impl Exchange {
    fn push(&mut self, side: char, text: &str) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{side} {}", cut(text, MAX_CHARS)));
    }

    fn note(&mut self, note: &str) {
        self.push('-', note);
    }
}
