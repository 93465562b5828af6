//! A parsed case. [`parse`](super::parse) reads it from text, in the notation of `conformance/README.md`;
//! [`play`](super::play) plays it.

use std::time::Duration;

use super::pattern::Expected;

/// One behavior of a runner, as an exchange of messages.
#[derive(Debug)]
pub(crate) struct Case {
    /// The section and the name in its file: `section/name`.
    pub(crate) name: String,
    /// The path of the file, for reports.
    pub(crate) file: String,
    /// The behavior in a sentence.
    pub(crate) title: String,
    pub(crate) level: Level,
    /// Whether a runner fails that omits or repeats `started`, which the specification only recommends to send once.
    pub(crate) needs_started: bool,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// The name of the file without its extension, that of a section of the specification.
    pub(crate) fn section(&self) -> &str {
        self.name.split_once('/').map_or("", |(section, _)| section)
    }
}

/// How binding the behavior is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// The specification requires the behavior, or the behavior follows from a requirement.
    Must,
    /// The specification recommends the behavior, or the behavior is robust.
    Should,
    /// Execbox has the behavior beyond the specification.
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

/// One step, and its line in the file.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) action: Action,
}

/// The action of the player, which is the host.
#[derive(Debug)]
pub(crate) enum Action {
    /// Sends bytes.
    Send(Vec<Piece>),
    /// Closes the sending direction.
    Close,
    /// Receives one message.
    Receive(Receive),
    /// Receives all of these messages, in any order. Each has its own line.
    ReceiveAll {
        group: Vec<(usize, Expected)>,
        within: Option<Duration>,
    },
    /// Accepts a message at any time from this step on, once.
    Allow(Expected),
    /// Receives nothing for this long; the end of the stream is accepted.
    ReceiveNothing(Duration),
    /// Receives the end of the stream.
    ReceiveEnd {
        within: Option<Duration>,
    },
    Wait(Duration),
    /// Resumes (`true`) or stops reading.
    Read(bool),
}

#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) expected: Expected,
    pub(crate) within: Option<Duration>,
    /// Whether tool calls that arrive before the message are skipped.
    pub(crate) eventually: bool,
}

/// A part of the bytes to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// The `callId` that the runner gave to the call of this name, as JSON; the name itself if there is no such call.
    CallId(String),
}
