//! `--executor`: which wall.

use std::env;
use std::io;

use execbox::core::error::ExecuteError;
use execbox::transport::{Address, AddressError, Token};
use execbox::{Executor, InlineExecutor, ProcessExecutor, RemoteExecutor, RunnerCommand, WorkerExecutor};

/// A wall that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wall {
    Inline,
    Worker,
    Process,
    Remote(Address),
}

/// A word that names no wall.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WallError {
    #[error("{0:?} is no executor: write inline, worker, process or remote=ADDRESS")]
    Unknown(String),
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl Wall {
    pub(crate) fn parse(text: &str) -> Result<Self, WallError> {
        match (text, text.strip_prefix("remote=")) {
            ("inline", _) => Ok(Self::Inline),
            ("worker", _) => Ok(Self::Worker),
            ("process", _) => Ok(Self::Process),
            (_, Some(address)) => Ok(Self::Remote(address.parse()?)),
            _ => Err(WallError::Unknown(text.to_owned())),
        }
    }

    /// The executor behind this wall.
    pub(crate) fn executor(&self, token: Option<Token>) -> Result<Box<dyn Executor>, ExecuteError> {
        let internal = |error: &dyn std::error::Error| ExecuteError::internal(error.to_string());
        Ok(match self {
            Self::Inline => Box::new(InlineExecutor::new().map_err(|error| internal(&error))?),
            Self::Worker => Box::new(WorkerExecutor::new().map_err(|error| internal(&error))?),
            Self::Process => Box::new(ProcessExecutor::new(own_runner().map_err(|error| internal(&error))?)),
            Self::Remote(address) => Box::new(RemoteExecutor::to(address.clone(), token)),
        })
    }
}

/// This very binary.
fn own_runner() -> io::Result<RunnerCommand> {
    Ok(RunnerCommand::new(env::current_exe()?).arg("runner"))
}
