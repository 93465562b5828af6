//! Playing a case: the host's half of its conversation, and what comes of it.
//!
//! Every line that a runner says has to be one that the case expects. `started` is recommended only, so
//! but for the cases about it, one that is missing and one too many are passed over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value as Json};
use tokio::time::Instant;

use super::case::{Action, Case, Hear, Piece};
use super::line::{Heard, Lines};
use super::pattern::{Expected, Kind, clip};
use super::peer::Target;

/// How long a runner may take for what comes next, if the case does not say.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a `started` that need not come is waited for.
const STARTED_PATIENCE: Duration = Duration::from_secs(1);

/// How long a runner may go on after the last step, and be heard.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// How many lines of the exchange are kept: the last ones.
const KEPT_LINES: usize = 12;

/// How much of a line is kept.
const KEPT_CHARACTERS: usize = 300;

/// How a runner failed a case.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Failure {
    /// The step at which it did.
    pub(crate) line: usize,
    pub(crate) expected: String,
    pub(crate) came: String,
    /// What is wrong with what came, if it nearly was what was expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) because: Option<String>,
    /// The last lines of the exchange.
    pub(crate) exchange: Vec<String>,
    /// The end of what the runner wrote to its standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) stderr: String,
}

/// Plays a case with a runner of its own. Times are multiplied by `patience`.
pub(crate) async fn play(case: &Case, target: &Target, patience: f64) -> Result<(), Failure> {
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
            let fault = Fault::new("a runner to speak to", format!("an error: {error}"));
            return Err(failed(fault, Exchange::default(), String::new()));
        }
    };
    let mut player = Player {
        lines: Lines::new(peer),
        patience,
        is_lenient: !case.needs_started,
        allowed: Vec::new(),
        calls: HashMap::new(),
        call_ids: HashSet::new(),
        exchange: Exchange::default(),
    };
    match player.play(case).await {
        Ok(()) => Ok(()),
        Err(fault) => {
            player.lines.wait(Duration::from_millis(20)).await; // For the last of its standard error.
            Err(failed(fault, player.exchange, player.lines.stderr().text()))
        }
    }
}

struct Player {
    lines: Lines,
    patience: f64,
    /// Whether `started` may be left out and repeated.
    is_lenient: bool,
    /// Messages that may come.
    allowed: Vec<Expected>,
    /// The ids of calls, by the names that the case gives to them.
    calls: HashMap<String, String>,
    /// The ids of all calls since the last `done`.
    call_ids: HashSet<String>,
    exchange: Exchange,
}

/// What went wrong.
struct Fault {
    /// In a group; else it is the step's.
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
                self.exchange.note("the host closes");
                self.lines.close().await;
            }
            Action::Hear(hear) if self.is_lenient && hear.expected.is_started() => self.pass_started().await,
            Action::Hear(hear) => self.hear(hear).await?,
            Action::HearAll { group, within } => self.hear_all(group, *within).await?,
            Action::Allow(expected) => self.allowed.push(expected.clone()),
            Action::HearNothing(time) => self.hear_nothing(*time).await?,
            Action::HearEnd { within } => self.hear_end(*within).await?,
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
        Err(Fault::new("the runner to read what is sent", format!("nothing within {within:?}")))
    }

    async fn hear(&mut self, Hear { expected, within, eventually }: &Hear) -> Result<(), Fault> {
        let deadline = Deadline::new(self.bound(*within));
        loop {
            let message = self.message(&expected.text, &deadline).await?;
            match expected.check(&message) {
                Ok(()) => return self.settle(expected, &message),
                Err(_) if *eventually && Kind::of(&message) == Some(Kind::ToolCall) => {}
                Err(_) if self.may_come(&message)? => {}
                Err(mismatch) => return Err(Fault::new(&expected.text, text(&message)).because(&mismatch)),
            }
        }
    }

    async fn hear_all(&mut self, group: &[(usize, Expected)], within: Option<Duration>) -> Result<(), Fault> {
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
                None if self.may_come(&message)? => {}
                None => return Err(at_line(Fault::new(wanted, text(&message)))),
            }
        }
        Ok(())
    }

    async fn hear_nothing(&mut self, time: Duration) -> Result<(), Fault> {
        let time = time.mul_f64(self.patience);
        let deadline = Deadline::new(time);
        loop {
            match self.heard(&deadline).await {
                None | Some(Heard::End) => return Ok(()),
                Some(heard) => self.pass_over(heard, &format!("nothing for {time:?}"))?,
            }
        }
    }

    async fn hear_end(&mut self, within: Option<Duration>) -> Result<(), Fault> {
        const EXPECTED: &str = "the runner to end the connection";
        let deadline = Deadline::new(self.bound(within));
        loop {
            match self.heard(&deadline).await {
                Some(Heard::End) => return Ok(()),
                None => return Err(Fault::new(EXPECTED, deadline.to_string())),
                Some(heard) => self.pass_over(heard, EXPECTED)?,
            }
        }
    }

    /// Hangs up, and makes sure that nothing more is said than was expected.
    async fn end(&mut self) -> Result<(), Fault> {
        self.lines.close().await;
        let deadline = Deadline::new(LAST_WORDS.mul_f64(self.patience));
        loop {
            match self.heard(&deadline).await {
                None | Some(Heard::End) => return Ok(()),
                Some(heard) => self.pass_over(heard, "nothing more")?,
            }
        }
    }

    /// The `started` of a runner that sends one.
    async fn pass_started(&mut self) {
        let deadline = Deadline::new(STARTED_PATIENCE.mul_f64(self.patience));
        match self.lines.hear(deadline.left()).await {
            Some(Heard::Message(message)) if Kind::of(&message) == Some(Kind::Started) => {
                self.exchange.push('<', &text(&message));
            }
            Some(other) => self.lines.unhear(other),
            None => {}
        }
    }

    /// The next message.
    async fn message(&mut self, expected: &str, deadline: &Deadline) -> Result<Map<String, Json>, Fault> {
        match self.heard(deadline).await {
            Some(Heard::Message(message)) => Ok(message),
            Some(Heard::Garbage(fault, line)) => Err(garbage(expected, &fault, line)),
            Some(Heard::End) => Err(Fault::new(expected, "the end of the connection")),
            None => Err(Fault::new(expected, deadline.to_string())),
        }
    }

    async fn heard(&mut self, deadline: &Deadline) -> Option<Heard> {
        let heard = self.lines.hear(deadline.left()).await;
        match &heard {
            Some(Heard::Message(message)) => self.exchange.push('<', &text(message)),
            Some(Heard::Garbage(_, line)) => self.exchange.push('<', line),
            Some(Heard::End) => self.exchange.note("the runner has ended the connection"),
            None => {}
        }
        heard
    }

    /// Passes over something where nothing was expected.
    fn pass_over(&mut self, heard: Heard, expected: &str) -> Result<(), Fault> {
        match heard {
            Heard::End => Ok(()),
            Heard::Garbage(fault, line) => Err(garbage(expected, &fault, line)),
            Heard::Message(message) if self.may_come(&message)? => Ok(()),
            Heard::Message(message) => Err(Fault::new(expected, text(&message))),
        }
    }

    /// Whether a message that is not expected now is one that may come.
    fn may_come(&mut self, message: &Map<String, Json>) -> Result<bool, Fault> {
        if self.is_lenient && Kind::of(message) == Some(Kind::Started) {
            return Ok(true);
        }
        let Some(at) = self.allowed.iter().position(|allowed| allowed.check(message).is_ok()) else { return Ok(false) };
        let allowed = self.allowed.remove(at);
        self.settle(&allowed, message).map(|()| true)
    }

    /// Learns from a message that is as expected.
    fn settle(&mut self, expected: &Expected, message: &Map<String, Json>) -> Result<(), Fault> {
        match (Kind::of(message), message.get("callId")) {
            (Some(Kind::ToolCall), Some(Json::String(id))) => {
                if !self.call_ids.insert(id.clone()) {
                    let reason = format!("there was a call with the callId {id:?} before");
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
        within.unwrap_or(PATIENCE).mul_f64(self.patience)
    }
}

fn garbage(expected: &str, fault: &str, line: String) -> Fault {
    Fault::new(expected, clip(line, KEPT_CHARACTERS)).because(&fault)
}

fn text(message: &Map<String, Json>) -> String {
    clip(serde_json::to_string(message).unwrap_or_default(), KEPT_CHARACTERS)
}

/// Until when something must have come.
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

/// The last lines of what both sides said.
#[derive(Default)]
struct Exchange {
    lines: VecDeque<String>,
}

impl Exchange {
    fn push(&mut self, side: char, text: &str) {
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{side} {}", clip(text.to_owned(), KEPT_CHARACTERS)));
    }

    fn note(&mut self, note: &str) {
        self.push('-', note);
    }
}
