//! A process that is a runner on standard input and output: how it is locked, and how it serves its host.
//!
//! Such a process ends with its host in three ways, each of which is sufficient: its host kills it when the handle is dropped
//! ([`transport`](crate::transport)); the runner reads the end of standard input; and a thread waits for that end alone, in case
//! the runner does not read ([`watch_host`]). A parent-death signal is not used, because it is bound to the thread that started
//! the child.
//!
//! In a process that is locked, the engine is made between `confine` and `seal`, and no file is opened there. Each thread runs before
//! `seal`. A runner that listens opens its socket before `prepare`.

use std::io::{self, Write as _, stdin};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::str::FromStr;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use std::{env, fs, process, thread};

use execbox_core::engine::{Engine, Guest, StartError};
use execbox_core::language::{CompileLimits, Language};
use execbox_core::program::Program;
use execbox_jail::{Confined, Incomplete, Jail, Mode, Policy, Prepared, Report, Sockets};
use tokio::runtime::Handle;

use crate::events::Observation;
use crate::request::ExecuteRequest;
use crate::session::runner::Runner;
use crate::session::script::execute_here;
use crate::transport::readiness::{PollFlags, wait};
use crate::transport::{BoundListener, Transport, stdio, stdio_needs_threads};

/// The argument that starts a program as [its own runner](crate::RunnerCommand::this_program).
pub(crate) const ARGUMENT: &str = "execbox-runner";

/// The longest time that a runner process outlives its host. Longer than a runner needs to close.
const ORPHAN_GRACE: Duration = Duration::from_millis(1500);

/// How many descriptors a listening runner needs beside those of its hosts, handshakes included.
const OWN_DESCRIPTORS: u64 = 512;

/// Set by the first call of [`serve_if_runner_with`]: whether children of this program can serve there, instead of running its
/// `main` again. They cannot inside a runtime.
static SERVES: OnceLock<bool> = OnceLock::new();

/// Why children of this program cannot serve, if it calls [`serve_if_runner_with`] inside a runtime.
pub(crate) const SERVED_IN_RUNTIME: &str =
    "execbox::serve_if_runner() was called inside a runtime; call it first in main, before the runtime is made";

/// Whether children of this program can serve; `None` if it has not called [`serve_if_runner_with`].
pub(crate) fn serves() -> Option<bool> {
    SERVES.get().copied()
}

/// Serves and exits if this process was started as a runner of its own program
/// ([`RunnerCommand::this_program`](crate::RunnerCommand::this_program)); otherwise does nothing.
///
/// Call it first in `main`, before opening files, starting threads or making a tokio runtime:
///
/// ```no_run
/// # #[allow(clippy::needless_doctest_main)]
/// fn main() {
///     execbox::serve_if_runner();
///     // … the program
/// }
/// ```
///
/// The process enters the [jail](crate::jail), as far as the system has it; see
/// [`RunnerCommand::jail`](crate::RunnerCommand::jail).
#[cfg(feature = "standard")]
pub fn serve_if_runner() {
    serve_if_runner_with(|| Runner::with_max_guests(1).map_err(io::Error::other));
}

/// [`serve_if_runner`] with another runner. `runner` must not start threads: it is called before the jail is closed.
pub fn serve_if_runner_with(runner: impl FnOnce() -> io::Result<Runner>) {
    let is_in_runtime = Handle::try_current().is_ok();
    let _ = SERVES.set(!is_in_runtime);
    if env::args_os().nth(1).is_none_or(|first| first != ARGUMENT) {
        return;
    }
    let served = match is_in_runtime {
        true => Err(io::Error::other(SERVED_IN_RUNTIME)),
        false => RunnerProcessOptions::parse(env::args().skip(2)).and_then(|options| serve(options, runner)),
    };
    if let Err(error) = &served {
        let _ = writeln!(io::stderr(), "execbox runner: {error}");
    }
    process::exit(i32::from(served.is_err()));
}

fn serve(options: RunnerProcessOptions, runner: impl FnOnce() -> io::Result<Runner>) -> io::Result<()> {
    let prepared = RunnerProcess::prepare(options);
    let runner = runner()?;
    let confined = prepared.confine(&*runner.parts.language);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async { confined.seal(&runner).await?.serve(&runner).await });
    // If standard input is a file, reading it occupies a thread that cannot be interrupted.
    runtime.shutdown_background();
    served
}

/// How a runner process is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunnerProcessOptions {
    /// Whether the process may serve although a layer of the jail is missing.
    pub jail: Mode,
    /// The most memory of the process, in bytes. Default: that of [`Policy`].
    pub memory_bytes: Option<u64>,
    /// Whether the engine compiles programs while they run: see [`Policy::compiles`]. Default: no.
    pub compiles: bool,
    /// What the process does instead of serving. Default: it serves.
    pub probe: Option<Probe>,
    /// Whether the process executes many programs at once, so that the default of `memory_bytes` is no limit. Default: no.
    pub is_shared: bool,
}

impl RunnerProcessOptions {
    execbox_core::setters! {
        jail: Mode,
        memory_bytes: impl Into<Option<u64>>,
        compiles: bool,
        probe: impl Into<Option<Probe>>,
        is_shared: bool,
    }
}

/// What a runner process does instead of serving, for self-tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// Prints the report of the jail as JSON.
    Report,
    /// Opens a directory.
    File,
    /// Opens a socket.
    Socket,
    /// Starts a process.
    Process,
    /// Starts a thread.
    Thread,
    /// Allocates more memory than the process may have.
    Memory,
    /// Uses memory that the process may have, until its host ends it.
    Growth,
}

impl Probe {
    const ALL: [Self; 7] =
        [Self::Report, Self::File, Self::Socket, Self::Process, Self::Thread, Self::Memory, Self::Growth];

    /// The value of `--probe`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::File => "file",
            Self::Socket => "socket",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Memory => "memory",
            Self::Growth => "growth",
        }
    }

    /// Prints the answer, unless the attempt ends the process.
    fn run(self, report: &Report, options: RunnerProcessOptions) -> io::Result<()> {
        let answer = match self {
            Self::Report => serde_json::to_string(report)?,
            Self::File => outcome(fs::read_dir("/").map(drop)),
            Self::Socket => outcome(UdpSocket::bind(("127.0.0.1", 0)).map(drop)),
            Self::Process => outcome(process::Command::new("/bin/true").spawn().map(drop)),
            Self::Thread => outcome(thread::Builder::new().spawn(|| ()).map(drop)),
            Self::Memory => outcome(allocate(options.memory_bytes.or(Policy::default().memory_bytes))),
            Self::Growth => outcome(grow()),
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{answer}").and_then(|()| stdout.flush())
    }
}

fn outcome(attempt: io::Result<()>) -> String {
    attempt.map_or_else(|error| format!("{REFUSED}: {}", error.kind()), |()| "permitted".to_owned())
}

/// Allocates `limit` bytes and what the process may have started with, without using them.
fn allocate(limit: Option<u64>) -> io::Result<()> {
    const STARTED_WITH: u64 = 2 << 30;
    let bytes = usize::try_from(limit.unwrap_or_default().saturating_add(STARTED_WITH)).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Uses memory for as long as a host may need to notice it.
fn grow() -> io::Result<()> {
    const ENOUGH: usize = 256 << 20;
    const NOTICED: Duration = Duration::from_secs(10);
    let mut used = Vec::<u8>::new();
    used.try_reserve_exact(ENOUGH).map_err(|_| io::ErrorKind::OutOfMemory)?;
    used.resize(ENOUGH, 1);
    thread::sleep(NOTICED);
    drop(std::hint::black_box(used));
    Ok(())
}

/// The beginning of a probe's answer if the attempt failed.
pub(crate) const REFUSED: &str = "refused";

/// A text that is not the name of a [`Probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected report, file, socket, process, thread, memory or growth")]
pub struct UnknownProbe;

impl FromStr for Probe {
    type Err = UnknownProbe;

    fn from_str(text: &str) -> Result<Self, UnknownProbe> {
        Self::ALL.into_iter().find(|probe| probe.name() == text).ok_or(UnknownProbe)
    }
}

impl RunnerProcessOptions {
    /// Reads the arguments that [`RunnerCommand`](crate::RunnerCommand) adds.
    fn parse(mut arguments: impl Iterator<Item = String>) -> io::Result<Self> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| invalid(format!("{name} needs a value")))?;
            let unknown = |expected: &str| invalid(format!("invalid {name} {value:?}: {expected}"));
            match name.as_str() {
                "--jail" => {
                    let mode = value.parse::<Mode>().map_err(|error| unknown(&error.to_string()));
                    options.jail = mode?;
                }
                "--jail-memory" => {
                    options.memory_bytes = Some(value.parse().map_err(|_| unknown("expected a number of bytes"))?);
                }
                "--probe" => {
                    let probe = value.parse::<Probe>().map_err(|error| unknown(&error.to_string()));
                    options.probe = Some(probe?);
                }
                _ => return Err(invalid(format!("unknown argument {name:?}"))),
            }
        }
        Ok(options)
    }
}

/// A runner process that serves one host, on standard input and output. Three steps, in this order:
///
/// ```no_run
/// use execbox::{Runner, RunnerProcess, RunnerProcessOptions, TypeScript};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let process = RunnerProcess::prepare(RunnerProcessOptions::default()); // first in main
/// let runner = Runner::with_max_guests(1)?; // opens files
/// let process = process.confine(&TypeScript); // before any thread is started
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// runtime.block_on(async {
///     let process = process.seal(&runner).await?;
///     process.serve(&runner).await
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// [`serve_if_runner`](crate::serve_if_runner) takes these steps.
#[derive(Debug)]
#[must_use = "the process is not locked before `seal`"]
pub struct RunnerProcess {
    options: RunnerProcessOptions,
    /// Whether its host is the process at the other end of standard input.
    has_host: bool,
    jail: Option<Prepared>,
}

/// A [`RunnerProcess`] that can open no more files.
#[derive(Debug)]
#[must_use = "the process is not locked before `seal`"]
pub struct ConfinedRunnerProcess {
    options: RunnerProcessOptions,
    jail: Option<Confined>,
}

/// A [`RunnerProcess`] that is locked.
#[must_use = "call serve"]
pub struct SealedRunnerProcess {
    options: RunnerProcessOptions,
    report: Report,
    transport: Option<Box<dyn Transport>>,
}

impl RunnerProcess {
    /// Closes all descriptors except the three standard ones, and enters the jail as far as that is possible before the
    /// engine is loaded.
    ///
    /// Call it first in `main`: it closes descriptors of the whole process.
    pub fn prepare(options: RunnerProcessOptions) -> Self {
        let threads = stdio_needs_threads();
        let mut policy = Policy::default();
        policy.threads = threads;
        policy.memory_bytes = options.memory_bytes.or(policy.memory_bytes.filter(|_| !options.is_shared));
        policy.compiles = options.compiles;
        Self::with_policy(options, true, policy)
    }

    /// [`prepare`](Self::prepare) for a process that accepts connections of at most `max_connections` hosts. The listener is
    /// the one descriptor that stays open. The memory of the process is not limited by default.
    ///
    /// Create the runner by [`Runner::with_max_guests`]: the jail does not let the engine of [`Runner::new`] grow. All threads
    /// of the runtime must run before [`seal_listening`](ConfinedRunnerProcess::seal_listening): none can be started after it,
    /// and an attempt ends the process.
    pub fn prepare_listening(options: RunnerProcessOptions, listener: &BoundListener, max_connections: usize) -> Self {
        let mut policy = Policy::default();
        policy.memory_bytes = options.memory_bytes;
        policy.compiles = options.compiles;
        policy.descriptors = OWN_DESCRIPTORS + 2 * max_connections as u64;
        policy.sockets = Sockets::Listening(listener.as_raw_fd());
        Self::with_policy(options, false, policy)
    }

    fn with_policy(options: RunnerProcessOptions, has_host: bool, policy: Policy) -> Self {
        if options.jail == Mode::Off {
            // Without a list of descriptors, those that were inherited stay open.
            let _ = execbox_jail::close_inherited_except(policy.sockets);
            return Self { options, has_host, jail: None };
        }
        Self { options, has_host, jail: Some(Jail::prepare(policy)) }
    }

    /// Takes away files and privileges. From then on a process with one host ends soon after its standard input has ended,
    /// whatever it is doing.
    ///
    /// Call it before any thread is started: an engine that opens files is loaded before, one that starts threads after. The
    /// language of the runner opens its files here.
    pub fn confine(self, language: &dyn Language) -> ConfinedRunnerProcess {
        // A parser that recurses looks up where the stack of its thread ends.
        let _ = language.script("(0)", &CompileLimits::default());
        let jail = self.jail.map(Prepared::confine);
        if self.has_host {
            watch_host();
        }
        ConfinedRunnerProcess { options: self.options, jail }
    }
}

impl ConfinedRunnerProcess {
    /// Has the runner execute an empty script, and then closes the jail: the process can do nothing but execute programs.
    ///
    /// Call it on the runtime that serves.
    ///
    /// # Errors
    /// Standard input or output is not open.
    pub async fn seal(self, runner: &Runner) -> io::Result<SealedRunnerProcess> {
        let options = self.options;
        let transport = match options.probe {
            Some(_) => None,
            None => Some(stdio()?),
        };
        Ok(SealedRunnerProcess { options, report: self.close(runner).await, transport })
    }

    /// [`seal`](Self::seal) for a process that listens already.
    ///
    /// # Errors
    /// All layers of the jail are required, and one is missing.
    pub async fn seal_listening(self, runner: &Runner) -> Result<Report, Incomplete> {
        let mode = self.options.jail;
        let report = self.close(runner).await;
        report.check(mode).map(|()| report)
    }

    async fn close(self, runner: &Runner) -> Report {
        let Some(jail) = self.jail else { return Report::off("--jail off") };
        // Engines do one-time work when they are first used. If that fails, so do executions, with an error for the host.
        let _ = execute_here(&runner.parts, ExecuteRequest::new(""), Observation::default()).await;
        jail.seal()
    }
}

impl SealedRunnerProcess {
    /// What the system enforces.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Fails if all layers of the jail are required and one is missing.
    ///
    /// # Errors
    /// [`Incomplete`], which names the layer and a remedy.
    pub fn check(&self) -> Result<(), Incomplete> {
        self.report.check(self.options.jail)
    }

    /// The transport over standard input and output, for a process that serves something else than a runner, such as an
    /// application that executes programs with [`InlineExecutor::of_runner`](crate::InlineExecutor::of_runner).
    ///
    /// # Errors
    /// All layers of the jail are required, and one is missing; or the process has a [probe](RunnerProcessOptions::probe).
    pub fn into_transport(self) -> io::Result<Box<dyn Transport>> {
        self.check().map_err(io::Error::other)?;
        self.transport.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Serves the host until it closes its side. If the [`check`](Self::check) fails, no program is executed: the host gets
    /// that error as the result of each.
    ///
    /// # Errors
    /// The transport fails, or the check does.
    pub async fn serve(self, runner: &Runner) -> io::Result<()> {
        let checked = self.check();
        let Some(transport) = self.transport else {
            return self.options.probe.map_or(Ok(()), |probe| probe.run(&self.report, self.options));
        };
        match checked {
            Ok(()) => runner.serve(transport).await,
            Err(incomplete) => {
                let refuse = Arc::new(Refuse(incomplete.to_string()));
                Runner::with_engine(refuse, Arc::clone(&runner.parts.language)).serve(transport).await?;
                Err(io::Error::other(incomplete))
            }
        }
    }
}

impl std::fmt::Debug for SealedRunnerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedRunnerProcess")
            .field("options", &self.options)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// An engine that fails to start every program, with this reason.
struct Refuse(String);

impl Engine for Refuse {
    fn name(&self) -> &'static str {
        "none"
    }

    fn start(&self, _: Program) -> Result<Box<dyn Guest>, StartError> {
        Err(StartError::Failed(self.0.clone()))
    }
}

/// Starts the thread that ends the process soon after its standard input has ended, whatever the process is doing. Returns
/// when the thread runs.
fn watch_host() {
    let (running, runs) = mpsc::channel::<()>();
    let watch = move || {
        drop(running);
        // Only the end of the other side wakes this thread.
        if wait(&stdin(), PollFlags::empty(), None).is_ok() {
            thread::sleep(ORPHAN_GRACE);
            process::exit(0);
        }
    };
    // Without the thread, the runner ends when it reads the end of standard input.
    if thread::Builder::new().name("execbox-host-watch".into()).spawn(watch).is_ok() {
        let _: Result<(), _> = runs.recv();
    }
}
