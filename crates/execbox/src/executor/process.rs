//! The process executor: guests run in child processes.
//!
//! A child is a runner on its standard input and output: this program again, the `execbox` binary, or any
//! other that speaks the runner protocol. It gets no environment, no descriptor but its pipes, and no
//! longer life than this process; and where it does not stop, it is killed.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, io};

use execbox_core::error::{ExecuteError, ExecuteResult};
use execbox_core::pool::PoolOptions;
use execbox_core::protocol::host::HostOptions;
use futures_util::future::BoxFuture;

use crate::code::{self, CodeExecution, CodeExecutionOptions};
use crate::executor::pooled::{Pooled, Shells};
use crate::executor::{ExecuteRequest, Executor};
use crate::session::channel::JsonChannel;
use crate::session::serve;
use crate::transport::CommandTransport;
use crate::transport::command::IdleCommand;

/// Runs guests in child processes, which are kept warm for the next ones. The tools run here.
///
/// A child that does not stop when its execution is cancelled or times out is killed, after
/// [`HostOptions::cancel_grace`]. One that is killed from outside, prints garbage or exits fails its execution
/// with `internal_error`, and another takes its place. Children end with this process, however it ends.
/// Log lines come as they are logged, from a runner that knows how (`log` in `conformance/README.md`), and else with the result.
///
/// Cheap to clone; clones share their children. Needs a tokio runtime with time and I/O enabled.
///
/// ```no_run
/// use execbox::{ExecuteRequest, Executor, ProcessExecutor, RunnerCommand};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = ProcessExecutor::new(RunnerCommand::installed()?);
/// executor.prewarm(2).await?;
/// let result = executor.execute(ExecuteRequest::new("6 * 7")).await;
/// executor.dispose().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ProcessExecutor {
    pooled: Arc<Pooled<Processes>>,
}

/// Makes a [`ProcessExecutor`].
#[derive(Debug, Clone)]
#[must_use = "call build"]
pub struct ProcessExecutorBuilder {
    command: RunnerCommand,
    options: HostOptions,
    pool: PoolOptions,
    ephemeral: bool,
}

impl ProcessExecutor {
    /// Over children of that command: one for each core, at most 4.
    pub fn new(command: RunnerCommand) -> Self {
        Self::builder(command).build()
    }

    /// The same, with other options.
    pub fn builder(command: RunnerCommand) -> ProcessExecutorBuilder {
        let (options, pool) = (HostOptions::default(), crate::executor::pool::default_options());
        ProcessExecutorBuilder { command, options, pool, ephemeral: false }
    }
}

impl ProcessExecutorBuilder {
    /// How many children there may be, and who waits for how long.
    pub fn pool(mut self, pool: PoolOptions) -> Self {
        self.pool = pool;
        self
    }

    /// How patient the host is with a child.
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// A fresh child for every execution; never more at once than the pool's `max_size`.
    pub fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }

    /// The executor. Its children are started when they are needed.
    pub fn build(self) -> ProcessExecutor {
        let pooled = Pooled::new(Processes { command: self.command }, self.options, self.pool, self.ephemeral);
        ProcessExecutor { pooled: Arc::new(pooled) }
    }
}

impl Executor for ProcessExecutor {
    fn execute(&self, execution: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(self.pooled.execute(execution))
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        let pooled = Arc::clone(&self.pooled);
        code::Run::begin(source, options, |request, run| async move { pooled.run_code(request, run).await })
    }

    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        Box::pin(self.pooled.prewarm(count))
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.pooled.dispose())
    }
}

impl std::fmt::Debug for ProcessExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessExecutor").field("command", &self.pooled.shells.command).finish_non_exhaustive()
    }
}

/// How to start a runner on standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Why there is no command for a runner.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The binary is not there.
    #[error("there is no `execbox` on the PATH: install it, or name a runner with RunnerCommand::new")]
    NotInstalled,
    /// The system does not say.
    #[error("this program's own file cannot be found: {0}")]
    OwnFile(io::Error),
    /// This process is a child itself, and went on as if it were not.
    #[error("this process was started as a runner: call execbox::serve_if_runner() first in main")]
    NotServed,
}

impl RunnerCommand {
    /// That program, as it is; add its arguments with [`arg`](Self::arg).
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: Vec::new() }
    }

    /// The `execbox` binary that the PATH leads to.
    pub fn installed() -> Result<Self, CommandError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|folder| folder.join("execbox")).find(|file| file.is_file());
        Ok(Self::new(found.ok_or(CommandError::NotInstalled)?).arg("runner"))
    }

    /// This program itself. It must call [`serve_if_runner`](crate::serve_if_runner) first in its `main`.
    pub fn this_program() -> Result<Self, CommandError> {
        if serve::is_runner() {
            return Err(CommandError::NotServed); // Else children would start children without an end.
        }
        let program = env::current_exe().map_err(CommandError::OwnFile)?;
        Ok(Self::new(program).arg(serve::ARGUMENT))
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    fn spawn(&self) -> io::Result<IdleCommand> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().current_dir("/").stderr(Stdio::null());
        // What a terminal sends to this process's group (Ctrl-C) is for this process to deal with.
        command.process_group(0);
        IdleCommand::spawn(&mut command)
    }
}

struct Processes {
    command: RunnerCommand,
}

impl Shells for Processes {
    type Shell = IdleCommand;
    type Link = JsonChannel<CommandTransport>;

    const NAME: &'static str = "runner process";

    fn make(&self) -> BoxFuture<'_, io::Result<Self::Link>> {
        let command = self.command.clone();
        // To start a process may take a millisecond, for all of which the thread stands still.
        let spawning = tokio::task::spawn_blocking(move || command.spawn());
        Box::pin(async move { spawning.await??.open().map(JsonChannel::new) })
    }

    fn reopen(&self, shell: IdleCommand) -> io::Result<Self::Link> {
        shell.reopen().map(JsonChannel::new)
    }

    fn close(&self, link: Self::Link) -> Option<IdleCommand> {
        link.into_transport().into_idle()
    }
}
