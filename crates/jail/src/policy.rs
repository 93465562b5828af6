//! What a locked process may still use, and whether an incomplete lock is acceptable.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a locked process may still use. The default is for a process with one host on pipes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The most private writable memory, in bytes (`RLIMIT_DATA`), beyond what the process has when it is prepared.
    /// Default: 4 GiB. `None`: no limit.
    pub memory_bytes: Option<u64>,
    /// The size of the largest file that is written, in bytes (`RLIMIT_FSIZE`). Files in memory count. Default: 64 MiB.
    pub file_bytes: u64,
    /// The most open descriptors (`RLIMIT_NOFILE`). Default: 64.
    pub descriptors: u64,
    /// Whether threads may be started after [`Confined::seal`](crate::Confined::seal). Default: no.
    pub threads: bool,
    /// Whether the process compiles programs after sealing. Memory can then be made executable, and opening a file fails
    /// instead of killing the process: the libraries of such an engine try that when they first need a setting of the system.
    /// Default: no.
    pub compiles: bool,
    /// What may be done with sockets. New sockets cannot be made after sealing in any case. Default: nothing.
    pub sockets: Sockets,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            memory_bytes: Some(4 << 30),
            file_bytes: 64 << 20,
            descriptors: 64,
            threads: false,
            compiles: false,
            sockets: Sockets::None,
        }
    }
}

/// What a locked process may do with sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sockets {
    /// Only to read and write inherited sockets.
    None,
    /// To accept connections at the listening socket with this descriptor, which stays open when the process is prepared. Open
    /// the socket before: it belongs to the network in which it was made, and the process then needs neither network nor files.
    Listening(i32),
}

impl Sockets {
    pub(crate) fn listener(self) -> Option<i32> {
        match self {
            Self::None => None,
            Self::Listening(descriptor) => Some(descriptor),
        }
    }
}

/// Whether a process may start although a layer is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// Every layer that the policy asks for must be enforced.
    Required,
    /// What the kernel refuses is reported.
    #[default]
    BestEffort,
    /// Nothing is locked.
    Off,
}

/// A text that is not a [`Mode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected required, best-effort or off")]
pub struct UnknownMode;

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "required" => Ok(Self::Required),
            "best-effort" => Ok(Self::BestEffort),
            "off" => Ok(Self::Off),
            _ => Err(UnknownMode),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "required",
            Self::BestEffort => "best-effort",
            Self::Off => "off",
        })
    }
}
