//! `--executor` and `--token-file`: where programs run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use clap::Args;
use execbox::core::error::ExecuteError;
use execbox::transport::{Address, AddressError, Token};
use execbox::{
    Executor, HostOptions, InlineExecutor, ProcessExecutor, RemoteExecutor, Runner, RunnerCommand, WorkerExecutor,
};

use crate::token::{Role, TokenSource, TokenSourceError};

#[derive(Debug, Args)]
pub(crate) struct ExecutorArguments {
    /// Run the program there: inline, worker, process or remote=ADDRESS
    #[arg(long, value_name = "EXECUTOR", default_value_t = ExecutorKind::Inline)]
    executor: ExecutorKind,

    /// Present the token in FILE to the remote runner [default: the token in `EXECBOX_REMOTE_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "executor")]
    token_file: Option<PathBuf>,
}

/// A value of `--executor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExecutorKind {
    Inline,
    Worker,
    Process,
    Remote(Address),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutorKindError {
    #[error("expected inline, worker, process or remote=ADDRESS")]
    Unknown,
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl FromStr for ExecutorKind {
    type Err = ExecutorKindError;

    fn from_str(text: &str) -> Result<Self, ExecutorKindError> {
        match (text, text.strip_prefix("remote=")) {
            ("inline", _) => Ok(Self::Inline),
            ("worker", _) => Ok(Self::Worker),
            ("process", _) => Ok(Self::Process),
            (_, Some(address)) => Ok(Self::Remote(address.parse()?)),
            _ => Err(ExecutorKindError::Unknown),
        }
    }
}

impl fmt::Display for ExecutorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline => f.write_str("inline"),
            Self::Worker => f.write_str("worker"),
            Self::Process => f.write_str("process"),
            Self::Remote(address) => write!(f, "remote={address}"),
        }
    }
}

/// The grace period of a cancelled runner. Longer than the default: its last message has the peak memory, which is
/// printed, and on a busy machine it takes longer.
const CANCEL_GRACE: Duration = Duration::from_millis(250);

/// An executor that can be made.
pub(crate) struct ExecutorConfig {
    kind: ExecutorKind,
    /// For a remote runner.
    token: Option<Token>,
}

impl ExecutorConfig {
    pub(crate) fn read(arguments: &ExecutorArguments) -> Result<Self, TokenSourceError> {
        Self::new(arguments.executor.clone(), token_source("--token-file", arguments.token_file.as_deref()))
    }

    /// Reads the token only for a remote runner.
    pub(crate) fn new(kind: ExecutorKind, token: TokenSource<'_>) -> Result<Self, TokenSourceError> {
        let token = if matches!(kind, ExecutorKind::Remote(_)) { token.read()? } else { None };
        Ok(Self { kind, token })
    }

    pub(crate) fn executor(&self) -> Result<Arc<dyn Executor>, ExecuteError> {
        let internal = |error: &dyn std::error::Error| ExecuteError::internal(error.to_string());
        let options = HostOptions { cancel_grace: CANCEL_GRACE, ..HostOptions::default() };
        Ok(match &self.kind {
            ExecutorKind::Inline => Arc::new(InlineExecutor::new().map_err(|error| internal(&error))?),
            ExecutorKind::Worker => {
                let runner = Runner::new().map_err(|error| internal(&error))?;
                Arc::new(WorkerExecutor::builder(runner).options(options).build())
            }
            ExecutorKind::Process => {
                let command = own_runner().map_err(|error| internal(&error))?;
                Arc::new(ProcessExecutor::builder(command).options(options).build())
            }
            ExecutorKind::Remote(address) => {
                Arc::new(RemoteExecutor::with_address(address.clone(), self.token.clone()).options(options))
            }
        })
    }

    /// Runs `work` with an executor on a new runtime. `has_io`: whether `work` itself does I/O.
    pub(crate) fn run<T>(&self, has_io: bool, work: impl AsyncFnOnce(&dyn Executor) -> T) -> Result<T, ExecuteError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let needs_time_only = self.kind == ExecutorKind::Inline && !has_io;
        let runtime = if needs_time_only { runtime.enable_time() } else { runtime.enable_all() };
        let runtime = runtime.build().map_err(|error| ExecuteError::internal(error.to_string()))?;
        let executor = self.executor()?;
        Ok(runtime.block_on(work(&*executor)))
    }
}

/// Where the token for a remote runner is.
pub(crate) fn token_source<'a>(option: &'static str, file: Option<&'a Path>) -> TokenSource<'a> {
    TokenSource { role: Role::Remote, option, file }
}

/// This binary, as a runner process.
fn own_runner() -> io::Result<RunnerCommand> {
    Ok(RunnerCommand::new(env::current_exe()?).arg("runner"))
}
