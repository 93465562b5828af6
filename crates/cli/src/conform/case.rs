//! What a case is, once read. The text that it is read from is for [`parse`](super::parse), and is
//! described in `conformance/README.md`; playing it is for [`play`](super::play).

use std::time::Duration;

use super::pattern::Expected;

/// One behaviour of a runner, as a conversation.
#[derive(Debug)]
pub(crate) struct Case {
    /// `section/name`: its path without the ending.
    pub(crate) name: String,
    /// Its file, as it is shown.
    pub(crate) file: String,
    /// What it shows, in a sentence.
    pub(crate) title: String,
    pub(crate) level: Level,
    /// Whether it fails a runner that leaves `started` out or repeats it, which the specification only
    /// recommends not to.
    pub(crate) needs_started: bool,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// The directory that it stands in, named after a section of the specification.
    pub(crate) fn section(&self) -> &str {
        self.name.split_once('/').map_or("", |(section, _)| section)
    }
}

/// How binding the behaviour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// The specification demands it, or it follows from what it demands.
    Must,
    /// The specification recommends it, or robustness does.
    Should,
    /// Execbox does it, and the specification does not speak of it.
    Extension,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::Must, Self::Should, Self::Extension];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::Extension => "extension",
        }
    }
}

/// One step of a conversation, and the line of the file that it stands in.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) action: Action,
}

/// What the player does, as the host.
#[derive(Debug)]
pub(crate) enum Action {
    /// Sends bytes.
    Send(Vec<Piece>),
    /// Ends what it says.
    Close,
    /// Hears one message.
    Hear(Hear),
    /// Hears all of these, in any order. Each has its own line.
    HearAll { group: Vec<(usize, Expected)>, within: Option<Duration> },
    /// A message that may come at any time from here on, once.
    Allow(Expected),
    /// Hears nothing for that long; the end of the stream is nothing.
    HearNothing(Duration),
    /// Hears the end of the stream.
    HearEnd { within: Option<Duration> },
    /// Lets time pass.
    Wait(Duration),
    /// Stops reading, or goes on with it.
    Read(bool),
}

/// What to hear, and how.
#[derive(Debug)]
pub(crate) struct Hear {
    pub(crate) expected: Expected,
    pub(crate) within: Option<Duration>,
    /// Tool calls that come before it are passed over.
    pub(crate) eventually: bool,
}

/// A part of what is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// The `callId` that the runner gave to the call of this name, as JSON; the name itself, while there
    /// is no such call.
    CallId(String),
}
