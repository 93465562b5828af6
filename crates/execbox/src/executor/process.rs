//! The process executor: guests run in child processes.
//!
//! A child is a runner on its standard input and output: this program, the `execbox` binary, or any other program that
//! implements the runner protocol. It inherits no environment and no descriptor but its pipes, ends with this process, and is
//! killed if it does not stop.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, fmt, io};

use futures_util::future::BoxFuture;

use crate::executor::pooled::{Pooled, PooledBuilder, RunnerFactory, impl_executor};
use crate::session::channel::JsonChannel;
use crate::session::serve;
use crate::transport::CommandTransport;
use crate::transport::command::IdleCommand;

/// Runs guests in child processes, which are reused. Tools run in this process.
///
/// A child that does not stop when its request is cancelled or times out is killed after
/// [`HostOptions::cancel_grace`](crate::HostOptions::cancel_grace). If a child exits, is killed or sends an invalid message,
/// its request fails with `internal_error`, and another child takes its place. Children end with this process, however it
/// ends.
///
/// Log lines arrive while the guest runs if the runner supports that (`log` in `conformance/README.md`), and otherwise with
/// the result.
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
pub struct ProcessExecutor(Arc<Pooled<RunnerProcesses>>);

impl ProcessExecutor {
    /// Creates an executor with the default pool, whose children are started with `command`.
    pub fn new(command: RunnerCommand) -> Self {
        Self::builder(command).build()
    }

    /// Builds an executor whose children are started with `command`.
    pub fn builder(command: RunnerCommand) -> PooledBuilder<Self> {
        PooledBuilder::new(|settings| Self(Pooled::new(RunnerProcesses { command }, settings)))
    }
}

impl_executor!(ProcessExecutor);

impl fmt::Debug for ProcessExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessExecutor").field("command", &self.0.factory.command).finish_non_exhaustive()
    }
}

/// A command that starts a runner on standard input and output.
///
/// The child starts with an empty environment, in the directory `/`, in a process group of its own, and with its standard
/// error discarded. Grant what it needs:
///
/// ```
/// use execbox::RunnerCommand;
///
/// let command = RunnerCommand::new("/usr/local/bin/my-runner")
///     .arg("--stdio")
///     .env("LANG", "C.UTF-8")
///     .envs(std::env::vars_os().filter(|(name, _)| name == "PATH"))
///     .current_dir("/var/empty");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RunnerCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    directory: PathBuf,
}

/// Why there is no command for a runner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No directory of PATH contains the binary.
    #[error("`execbox` not found in PATH; install it, or name a runner with RunnerCommand::new")]
    NotInstalled,
    /// The operating system does not tell the path of this program.
    #[error("cannot find the file of this program: {0}")]
    OwnFile(#[source] io::Error),
    /// This process was started as a runner itself and has not become one.
    #[error("this process was started as a runner; call execbox::serve_if_runner() first in main")]
    NotServed,
}

impl RunnerCommand {
    /// A command that starts `program` without arguments.
    ///
    /// `program` should be an absolute path: there is no PATH in the child's environment, and its directory is another.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: PathBuf::from("/"),
        }
    }

    /// `execbox runner`, with the binary `execbox` from PATH.
    ///
    /// # Errors
    /// [`CommandError::NotInstalled`].
    pub fn installed() -> Result<Self, CommandError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|folder| folder.join("execbox")).find(|file| file.is_file());
        Ok(Self::new(found.ok_or(CommandError::NotInstalled)?).arg("runner"))
    }

    /// This program, started again as a runner. It must call [`serve_if_runner`](crate::serve_if_runner) first in `main`.
    ///
    /// # Errors
    /// [`CommandError::NotServed`] in a process that is a runner itself, or [`CommandError::OwnFile`].
    pub fn this_program() -> Result<Self, CommandError> {
        if serve::is_runner() {
            return Err(CommandError::NotServed); // Otherwise each child would start children of its own.
        }
        let program = env::current_exe().map_err(CommandError::OwnFile)?;
        Ok(Self::new(program).arg(serve::ARGUMENT))
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of the child. By default it has none.
    #[must_use]
    pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs([(name, value)])
    }

    /// Sets environment variables of the child. Pass [`std::env::vars_os`] for those of this process.
    #[must_use]
    pub fn envs(mut self, variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>) -> Self {
        let variables =
            variables.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
        self.environment.extend(variables);
        self
    }

    /// Sets the directory of the child. Default `/`.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    fn spawn(&self) -> io::Result<IdleCommand> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.environment).current_dir(&self.directory);
        // In a group of its own: Ctrl-C in a terminal signals this process, which decides about its children.
        command.stderr(Stdio::null()).process_group(0);
        IdleCommand::spawn(&mut command)
    }
}

/// Without the values of environment variables, which may be secret.
impl fmt::Debug for RunnerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerCommand")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.keys())
            .field("directory", &self.directory)
            .finish()
    }
}

struct RunnerProcesses {
    command: RunnerCommand,
}

impl RunnerFactory for RunnerProcesses {
    type Idle = IdleCommand;
    type Busy = JsonChannel<CommandTransport>;

    const NAME: &'static str = "runner process";

    fn start(&self) -> BoxFuture<'_, io::Result<Self::Busy>> {
        let command = self.command.clone();
        // Starting a process blocks for up to a millisecond.
        let spawning = tokio::task::spawn_blocking(move || command.spawn());
        Box::pin(async move { spawning.await??.open().map(JsonChannel::new) })
    }

    fn activate(&self, runner: IdleCommand) -> io::Result<Self::Busy> {
        runner.reopen().map(JsonChannel::new)
    }

    fn deactivate(&self, runner: Self::Busy) -> Option<IdleCommand> {
        runner.into_transport().into_idle()
    }
}
