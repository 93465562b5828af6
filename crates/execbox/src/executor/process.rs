//! The process executor: guests run in child processes.
//!
//! A child is a runner on its standard input and output: this program, the `execbox` binary, or any other program that
//! implements the runner protocol. It inherits no environment and no descriptor but its pipes, ends with this process, and is
//! killed if it does not stop.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt, io};

use execbox_jail::{Mode, Policy, Status};
use futures_util::future::BoxFuture;

use crate::executor::pooled::{Pooled, PooledBuilder, RunnerFactory, impl_executor};
use crate::executor::self_test::{self, SelfTestCheck};
use crate::runtime;
use crate::session::channel::JsonChannel;
use crate::session::process::{self, Probe};
use crate::transport::CommandTransport;
use crate::transport::child::Child;
use crate::transport::command::IdleCommand;
use crate::transport::readiness::{PollFlags, wait};

/// Runs guests in child processes, which are reused. Tools run in this process.
///
/// A child that does not stop when its request is cancelled or times out is killed after
/// [`HostOptions::cancel_grace`](crate::HostOptions::cancel_grace). If a child exits, is killed or sends an invalid message,
/// its request fails with `internal_error`, and another child takes its place. Children end with this process, however it
/// ends.
///
/// Log lines arrive while the guest runs if the runner supports that (`log` in `crates/cli/conformance/README.md`), and
/// otherwise with the result.
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
/// executor.close().await;
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

/// How long a child may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer to a probe, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

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
    memory_bytes: u64,
}

/// Why a command for a runner cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No directory of PATH contains the binary.
    #[error("`execbox` not found in PATH; install it, or name a runner with RunnerCommand::new")]
    NotInstalled,
    /// The operating system does not report the path of this program.
    #[error("cannot find the file of this program: {0}")]
    OwnFile(#[source] io::Error),
    /// This program has not called [`serve_if_runner`](crate::serve_if_runner): a child would run its `main` again.
    #[error("this program is not a runner yet; call execbox::serve_if_runner() first in main")]
    NotServed,
    /// This program has called [`serve_if_runner`](crate::serve_if_runner) inside a tokio runtime, as under `#[tokio::main]`: a
    /// child must be locked before the threads of the runtime are started.
    #[error("{}", process::SERVED_IN_RUNTIME)]
    ServedInRuntime,
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
            memory_bytes: Policy::default().memory_bytes.unwrap_or(u64::MAX),
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
    /// [`CommandError::NotServed`] if the program has called neither [`serve_if_runner`](crate::serve_if_runner) nor
    /// [`serve_if_runner_with`](crate::serve_if_runner_with), [`CommandError::ServedInRuntime`] or
    /// [`CommandError::OwnFile`].
    pub fn this_program() -> Result<Self, CommandError> {
        match process::serves() {
            Some(true) => {}
            Some(false) => return Err(CommandError::ServedInRuntime),
            None => return Err(CommandError::NotServed),
        }
        let program = env::current_exe().map_err(CommandError::OwnFile)?;
        Ok(Self::new(program).arg(process::ARGUMENT))
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

    /// Sets an environment variable of the child. By default the environment is empty.
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

    /// Sets whether children may run guests although the system lacks a layer of the [jail](crate::jail). Default: that of the
    /// program, which is [`Mode::BestEffort`] for `execbox runner` and for [`serve_if_runner`](crate::serve_if_runner).
    /// [`Executor::self_test`](crate::Executor::self_test) reports what is missing.
    ///
    /// Adds the arguments `--jail MODE`: the program must understand them.
    #[must_use]
    pub fn jail(self, mode: Mode) -> Self {
        self.args(["--jail".to_owned(), mode.to_string()])
    }

    /// Sets the most memory that a child can have, in bytes. Default: 4 GiB.
    ///
    /// The child limits its private memory itself, beyond what it starts with. This process checks its children every 50 ms,
    /// and kills one that has 128 MiB more than that, page tables and shared memory included; the program fails with
    /// `memory_limit`. Linux only.
    ///
    /// Adds the arguments `--jail-memory BYTES`: the program must understand them.
    #[must_use]
    pub fn jail_memory(self, bytes: u64) -> Self {
        let command = self.args(["--jail-memory".to_owned(), bytes.to_string()]);
        Self { memory_bytes: bytes, ..command }
    }

    /// [`jail_memory`](Self::jail_memory) for guests with at most this memory limit: four times as much, for fragmentation
    /// and for values on their way, 512 MiB for the runner and a message, and what its engine maps beside guests.
    ///
    /// `engine_bytes` is 0 for QuickJS. For `--engine v8`, which maps 128 MiB for the machine code of each isolate, it is 384
    /// MiB, and 128 MiB more for each of `--warm` after the first.
    #[must_use]
    pub fn memory_of_guests(self, limit: u64, engine_bytes: u64) -> Self {
        self.jail_memory(limit.saturating_mul(4).saturating_add(512 << 20).saturating_add(engine_bytes))
    }

    /// Starts a child that reports how it is locked, and ends. Blocks until then.
    ///
    /// # Errors
    /// The child cannot be started, or the program does not understand `--probe report`.
    pub fn jail_report(&self) -> io::Result<execbox_jail::Report> {
        Ok(serde_json::from_str(&self.probe(Probe::Report)?)?)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.environment).current_dir(&self.directory);
        // In a group of its own: Ctrl-C in a terminal signals this process, which decides about its children.
        command.stderr(Stdio::null()).process_group(0);
        command
    }

    fn spawn(&self) -> io::Result<IdleCommand> {
        IdleCommand::spawn(&mut self.command(), self.memory_bytes)
    }

    /// Starts children that try what the jail refuses. Blocks.
    fn check_jail(&self) -> (Option<execbox_jail::Report>, Vec<SelfTestCheck>) {
        let report = match self.jail_report() {
            Ok(report) => report,
            Err(error) => return self_test::no_jail(&format!("the runner does not report its jail: {error}")),
        };
        let is_off = report.layers.iter().all(|layer| matches!(layer.status, Status::Off(_)));
        if is_off {
            let (_, checks) = self_test::no_jail("the jail is off");
            return (Some(report), checks);
        }
        let refused = |probe| match self.probe(probe) {
            // The attempt ended the process.
            Ok(answer) if answer.is_empty() || answer.starts_with(process::REFUSED) => Ok(()),
            Ok(answer) => Err(answer),
            Err(error) => Err(error.to_string()),
        };
        let mut checks: Vec<SelfTestCheck> =
            self_test::REFUSED.iter().map(|(probe, check)| SelfTestCheck::new(check, refused(*probe))).collect();
        checks.push(SelfTestCheck::new(self_test::OUTGROWN, self.outgrow()));
        (Some(report), checks)
    }

    /// Starts a child that has more memory than this process lets it have.
    fn outgrow(&self) -> Result<(), String> {
        match self.probe_with(Probe::Growth, 0) {
            // The child was killed, or the limit of its jail is that low.
            Ok(answer) if answer.is_empty() || answer.starts_with(process::REFUSED) => Ok(()),
            Ok(answer) => Err(answer),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Starts a child that makes an attempt instead of serving, and returns what it prints.
    fn probe(&self, probe: Probe) -> io::Result<String> {
        self.probe_with(probe, self.memory_bytes)
    }

    fn probe_with(&self, probe: Probe, max_memory: u64) -> io::Result<String> {
        let mut command = self.command();
        let (_child, stdin, stdout) = Child::spawn_watched(command.arg("--probe").arg(probe.name()), max_memory)?;
        let mut answer = String::new();
        let mut stdout = File::from(stdout).take(MAX_ANSWER);
        if !wait(stdout.get_ref(), PollFlags::POLLIN, Some(PROBE_TIMEOUT))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stdout.read_to_string(&mut answer)?;
        drop(stdin);
        Ok(answer.trim_end().to_owned())
    }
}

/// Omits the values of environment variables, which may be secret.
impl fmt::Debug for RunnerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerCommand")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.keys())
            .field("directory", &self.directory)
            .field("memory_bytes", &self.memory_bytes)
            .finish()
    }
}

struct RunnerProcesses {
    command: RunnerCommand,
}

impl RunnerFactory for RunnerProcesses {
    type Idle = IdleCommand;
    type Busy = JsonChannel<CommandTransport>;

    const NEEDS_IO: bool = true;

    /// The name of the file only: its path is the host's.
    fn describe(&self) -> String {
        format!("runner process \"{}\"", self.command.program.file_name().unwrap_or_default().display())
    }

    fn start(&self) -> BoxFuture<'_, io::Result<Self::Busy>> {
        let command = self.command.clone();
        // Starting a process blocks for up to a millisecond.
        let spawning = tokio::task::spawn_blocking(move || command.spawn());
        Box::pin(async move { Ok(JsonChannel::new(spawning.await??.open())) })
    }

    fn activate(&self, runner: IdleCommand) -> io::Result<Self::Busy> {
        runner.reopen().map(JsonChannel::new)
    }

    fn deactivate(&self, runner: Self::Busy) -> Option<IdleCommand> {
        runner.into_transport().into_idle()
    }

    fn check_jail(&self) -> BoxFuture<'_, (Option<execbox_jail::Report>, Vec<SelfTestCheck>)> {
        let command = self.command.clone();
        Box::pin(async move {
            let runtime = match runtime::with_timers() {
                Ok(runtime) => runtime,
                Err(missing) => return self_test::no_jail(&missing.to_string()),
            };
            let checking = runtime.spawn_blocking(move || command.check_jail());
            checking.await.unwrap_or_else(|error| self_test::no_jail(&error.to_string()))
        })
    }
}
