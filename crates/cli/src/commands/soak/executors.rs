//! The executors under load.

use std::sync::Arc;

use execbox::{
    Executor, InlineExecutor, PoolOptions, ProcessExecutor, RemoteExecutor, Runner, RunnerCommand, WorkerExecutor,
};

use crate::engine::RunnerEngine;
use crate::error::{CommandError, SystemError};
use crate::listening::ListeningRunner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Inline,
    Worker,
    Process,
    Remote,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Worker => "worker",
            Self::Process => "process",
            Self::Remote => "remote",
        }
    }
}

/// An executor, and the runner that the remote one connects to.
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) executor: Arc<dyn Executor>,
    runner: Option<ListeningRunner>,
}

impl Named {
    /// The process of the runner that listens.
    pub(super) fn listening(&self) -> Option<u32> {
        self.runner.as_ref().map(ListeningRunner::process)
    }
}

/// Starts the executors, each for that many programs at once. `engine`: that of the processes of the process executor.
pub(super) fn start(kinds: &[Kind], jobs: u64, engine: RunnerEngine) -> Result<Vec<Arc<Named>>, CommandError> {
    kinds.iter().map(|kind| start_one(*kind, jobs, engine).map(Arc::new)).collect()
}

fn start_one(kind: Kind, jobs: u64, engine: RunnerEngine) -> Result<Named, CommandError> {
    let pool = PoolOptions { max_size: usize::try_from(jobs).unwrap_or(usize::MAX), ..PoolOptions::for_cores(1) };
    let runner = || Runner::new().map_err(|error| SystemError::Engine(error.to_string()));
    let mut listening = None;
    let executor: Arc<dyn Executor> = match kind {
        Kind::Inline => Arc::new(InlineExecutor::new().map_err(|error| SystemError::Engine(error.to_string()))?),
        Kind::Worker => {
            let builder = WorkerExecutor::builder(runner()?).map_err(|error| SystemError::Engine(error.to_string()))?;
            Arc::new(builder.pool(pool).build())
        }
        Kind::Process => {
            let command = engine.add_to(RunnerCommand::new(std::env::current_exe()?).arg("runner"));
            Arc::new(ProcessExecutor::builder(command).pool(pool).build())
        }
        Kind::Remote => {
            let (runner, address) = ListeningRunner::start()?;
            listening = Some(runner);
            Arc::new(RemoteExecutor::with_address(address, None))
        }
    };
    Ok(Named { kind, executor, runner: listening })
}
