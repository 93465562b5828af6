//! `--executor`, `--engine`, `--token-file` and `--jail`: the executor and the engine of programs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use execbox::jail::Mode;
use execbox::transport::{Address, AddressError, ConnectOptions};
use execbox::{
    Executor, FallbackExecutor, HostOptions, InlineExecutor, Limits, PoolOptions, ProcessExecutor, RemoteExecutor,
    Runner, WorkerExecutor,
};
use execbox_core::error::ExecuteError;

use crate::error::{CliError, CommandError};
use crate::options::engine::{Engine, EngineArguments, EngineChoice, RunnerEngine, own_runner};
use crate::options::jail;
use crate::options::tls::{ClientTlsArguments, ClientTlsOptions};
use crate::options::token::{Role, TokenSource};

#[derive(Debug, Args)]
#[command(next_help_heading = "Isolation")]
pub(crate) struct ExecutorArguments {
    /// Run the program inline, on a worker, in a process or at remote=ADDRESS [default: inline]
    ///
    /// With `--engine v8`, the default is process.
    #[arg(long, value_name = "EXECUTOR")]
    executor: Option<ExecutorKind>,

    #[command(flatten)]
    engine: EngineArguments,

    /// Present the token in FILE to the remote runner [default: `$EXECBOX_REMOTE_TOKEN`]
    #[arg(long, value_name = "FILE", requires = "executor", hide_short_help = true)]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: ClientTlsArguments,

    /// Lock child processes: `required`, `best-effort` or `off`
    ///
    /// `required` fails if the system lacks a layer, `best-effort` uses the layers that the system has.
    #[arg(long, value_name = "MODE", default_value_t = Mode::default(), hide_short_help = true)]
    jail: Mode,
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

/// Why an executor cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutorError {
    #[error("--jail {0} needs --executor process: other executors have no process of their own to lock")]
    NothingToLock(Mode),
    #[error("--engine {0} needs --executor process, got {1}: a program can end the process that it runs in")]
    EngineNeedsProcess(Engine, ExecutorKind),
    #[error(
        "--engine {0} is not supported with a remote executor: its runner chooses the engine (`execbox runner --engine ENGINE`)"
    )]
    RemoteEngine(EngineChoice),
}

impl CliError for ExecutorError {}

/// The grace period of a cancelled runner. Longer than the default: its last message contains the peak memory, which is
/// printed, and takes longer on a busy machine.
const CANCEL_GRACE: Duration = Duration::from_millis(250);

/// The configuration of an executor.
pub(crate) struct ExecutorConfig {
    kind: ExecutorKind,
    /// The engine of child processes.
    engine: RunnerEngine,
    fallback: Option<Fallback>,
    /// How a remote runner is connected to.
    connect: ConnectOptions,
    jail: Mode,
    /// The memory limit of the programs, in bytes.
    memory_bytes: u64,
    /// The number of programs that run at once on workers or in processes. Default: the number of cores, at most 4.
    max_programs: Option<usize>,
}

/// The engine of the child processes that start a program again. A program is started again if it has computed for the budget
/// before its first call.
struct Fallback {
    engine: RunnerEngine,
    budget: Duration,
}

impl ExecutorConfig {
    pub(crate) fn read(arguments: &ExecutorArguments, limits: &Limits) -> Result<Self, CommandError> {
        let token = token_source("--token-file", arguments.token_file.as_deref());
        let engine = arguments.engine.choice()?;
        let is_v8 = engine == Some(EngineChoice::One(Engine::V8));
        let default = if is_v8 { ExecutorKind::Process } else { ExecutorKind::Inline };
        let remote = RemoteSource { token, tls: arguments.tls.options() };
        Self::new(arguments.executor.clone().unwrap_or(default), engine, remote, arguments.jail, limits)
    }

    /// Checks that the options fit together. What `remote` names is read for a remote runner only.
    pub(crate) fn new(
        kind: ExecutorKind,
        engine: Option<EngineChoice>,
        remote: RemoteSource<'_>,
        jail: Mode,
        limits: &Limits,
    ) -> Result<Self, CommandError> {
        let (engine, fallback) = match (engine, &kind) {
            (Some(choice), ExecutorKind::Remote(_)) => return Err(ExecutorError::RemoteEngine(choice).into()),
            (Some(EngineChoice::One(engine @ Engine::V8)), ExecutorKind::Inline | ExecutorKind::Worker) => {
                return Err(ExecutorError::EngineNeedsProcess(engine, kind).into());
            }
            (Some(EngineChoice::One(engine)), _) => (engine, None),
            (Some(EngineChoice::Auto(budget)), _) => {
                (Engine::QuickJs, Some(Fallback { engine: RunnerEngine::new(Engine::V8, None)?, budget }))
            }
            (None, _) => (Engine::QuickJs, None),
        };
        let engine = RunnerEngine::new(engine, None)?;
        if jail == Mode::Required && kind != ExecutorKind::Process {
            return Err(ExecutorError::NothingToLock(jail).into());
        }
        let address = if let ExecutorKind::Remote(address) = &kind { Some(address) } else { None };
        let RemoteSource { token, tls } = remote;
        let connect = tls.read(address, token)?;
        Ok(Self { kind, engine, fallback, connect, jail, memory_bytes: limits.memory_bytes, max_programs: None })
    }

    /// Sets the number of programs that run at once on workers or in processes. A program that waits for a call counts.
    pub(crate) fn with_max_programs(self, max: usize) -> Self {
        Self { max_programs: Some(max), ..self }
    }

    fn pool(&self) -> PoolOptions {
        let pool = PoolOptions::default();
        pool.max_size(self.max_programs.unwrap_or(pool.max_size))
    }

    pub(crate) fn executor(&self) -> Result<Arc<dyn Executor>, ExecuteError> {
        let executor = self.first_executor()?;
        match &self.fallback {
            None => Ok(executor),
            Some(Fallback { engine, budget }) => {
                Ok(Arc::new(FallbackExecutor::new(executor, self.processes(*engine)?).budget(*budget)))
            }
        }
    }

    fn first_executor(&self) -> Result<Arc<dyn Executor>, ExecuteError> {
        Ok(match &self.kind {
            ExecutorKind::Inline => Arc::new(InlineExecutor::new().map_err(|error| internal(&error))?),
            ExecutorKind::Worker => {
                let runner = Runner::new().map_err(|error| internal(&error))?;
                let builder = WorkerExecutor::builder(runner).map_err(|error| internal(&error))?;
                Arc::new(builder.options(options()).pool(self.pool()).build())
            }
            ExecutorKind::Process => self.processes(self.engine)?,
            ExecutorKind::Remote(address) => {
                Arc::new(RemoteExecutor::with_address(address.clone(), self.connect.clone()).options(options()))
            }
        })
    }

    fn processes(&self, engine: RunnerEngine) -> Result<Arc<dyn Executor>, ExecuteError> {
        let command = engine.add_to(own_runner().map_err(|error| internal(&error))?).jail(self.jail);
        let command = command.memory_of_guests(self.memory_bytes, engine.own_memory());
        if self.jail == Mode::BestEffort {
            jail::note_missing_layers(&command);
        }
        Ok(Arc::new(ProcessExecutor::builder(command).options(options()).pool(self.pool()).build()))
    }

    /// Runs `work` with an executor on a new runtime. `has_io` states whether `work` itself does I/O.
    pub(crate) fn run<T>(
        &self,
        has_io: bool,
        work: impl AsyncFnOnce(Arc<dyn Executor>) -> T,
    ) -> Result<T, ExecuteError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let needs_time_only = self.kind == ExecutorKind::Inline && self.fallback.is_none() && !has_io;
        let runtime = if needs_time_only { runtime.enable_time() } else { runtime.enable_all() };
        let runtime = runtime.build().map_err(|error| ExecuteError::internal(error.to_string()))?;
        let executor = self.executor()?;
        Ok(runtime.block_on(work(executor)))
    }
}

fn options() -> HostOptions {
    HostOptions::default().cancel_grace(CANCEL_GRACE)
}

fn internal(error: &dyn std::error::Error) -> ExecuteError {
    ExecuteError::internal(error.to_string())
}

/// Where the options of connections to a remote runner are read from.
pub(crate) struct RemoteSource<'a> {
    pub(crate) token: TokenSource<'a>,
    pub(crate) tls: ClientTlsOptions,
}

/// The source of the token for a remote runner.
pub(crate) fn token_source<'a>(option: &'static str, file: Option<&'a Path>) -> TokenSource<'a> {
    TokenSource { role: Role::Remote, option, file }
}
