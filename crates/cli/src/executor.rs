//! `--executor` and `--token-file`: behind which wall programs run.

use std::path::Path;
use std::sync::Arc;
use std::{env, io};

use execbox::core::error::ExecuteError;
use execbox::transport::{Address, AddressError, Token};
use execbox::{Executor, InlineExecutor, ProcessExecutor, RemoteExecutor, RunnerCommand, WorkerExecutor};

use crate::args::PlaceArguments;
use crate::token::{self, NoToken};

/// Where programs run.
pub(crate) struct Place {
    wall: Wall,
    /// What a remote runner is shown.
    token: Option<Token>,
}

/// Why there is no place for programs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error("--executor: {0}")]
    Wall(#[from] WallError),
    #[error(transparent)]
    Token(#[from] NoToken),
}

impl Place {
    /// The place that the command line says.
    pub(crate) fn read(arguments: &PlaceArguments) -> Result<Self, NoPlace> {
        Self::of(arguments.executor.as_deref().unwrap_or("inline"), arguments.token_file.as_deref())
    }

    /// The place of that name. The file is that of a remote runner's token.
    pub(crate) fn of(executor: &str, token_file: Option<&Path>) -> Result<Self, NoPlace> {
        let wall = Wall::parse(executor)?;
        let token = match wall {
            Wall::Remote(_) => token::read(token_file)?,
            Wall::Inline | Wall::Worker | Wall::Process => None,
        };
        Ok(Self { wall, token })
    }

    /// What runs programs there.
    pub(crate) fn executor(&self) -> Result<Arc<dyn Executor>, ExecuteError> {
        self.wall.executor(self.token.clone())
    }

    /// Does work with an executor, in this thread or from it.
    /// `has_io`: whether the work itself has to do with more than programs.
    pub(crate) fn run<T>(&self, has_io: bool, work: impl AsyncFnOnce(&dyn Executor) -> T) -> Result<T, ExecuteError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let is_small = self.wall == Wall::Inline && !has_io;
        let runtime = if is_small { runtime.enable_time() } else { runtime.enable_all() };
        let runtime = runtime.build().map_err(|error| ExecuteError::internal(error.to_string()))?;
        let executor = self.executor()?;
        Ok(runtime.block_on(work(&*executor)))
    }
}

/// A wall that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wall {
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
    fn parse(text: &str) -> Result<Self, WallError> {
        match (text, text.strip_prefix("remote=")) {
            ("inline", _) => Ok(Self::Inline),
            ("worker", _) => Ok(Self::Worker),
            ("process", _) => Ok(Self::Process),
            (_, Some(address)) => Ok(Self::Remote(address.parse()?)),
            _ => Err(WallError::Unknown(text.to_owned())),
        }
    }

    /// The executor behind this wall.
    fn executor(&self, token: Option<Token>) -> Result<Arc<dyn Executor>, ExecuteError> {
        let internal = |error: &dyn std::error::Error| ExecuteError::internal(error.to_string());
        Ok(match self {
            Self::Inline => Arc::new(InlineExecutor::new().map_err(|error| internal(&error))?),
            Self::Worker => Arc::new(WorkerExecutor::new().map_err(|error| internal(&error))?),
            Self::Process => Arc::new(ProcessExecutor::new(own_runner().map_err(|error| internal(&error))?)),
            Self::Remote(address) => Arc::new(RemoteExecutor::with_address(address.clone(), token)),
        })
    }
}

/// This very binary.
fn own_runner() -> io::Result<RunnerCommand> {
    Ok(RunnerCommand::new(env::current_exe()?).arg("runner"))
}
