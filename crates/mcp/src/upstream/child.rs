//! Child processes that are MCP servers on their standard streams.
//!
//! Each child leads its own process group, so that its descendants end with it (`npx` starts `node`). A child is ended
//! by closing its standard input, then by SIGTERM, then by SIGKILL. If this process is killed, a child notices it only by
//! the end of its input.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::ServerFailure;
use super::answers::Answers;
use super::pipe::{Disconnect, Pipe};
use super::unasked::Unasked;
use crate::Secrets;
use crate::text::truncate;

/// A child process that is an MCP server on its standard streams.
///
/// The process inherits a few environment variables that most programs need (`PATH`, `HOME`, `LANG`, `TMPDIR` and others),
/// and gets those of `env`. Other variables, which may be secrets, are not inherited, and neither are descriptors: starting a
/// child marks all descriptors of this process but the standard ones as close-on-exec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildCommand {
    /// The program to start.
    pub program: OsString,
    /// The arguments of the program.
    pub args: Vec<OsString>,
    /// Environment variables, in addition to the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// Environment variables that are not inherited.
    pub unset: Vec<OsString>,
    /// The working directory. Default: that of this process.
    pub directory: Option<PathBuf>,
    /// Receives the lines of the program's standard error. Default: none; the last lines are part of the error if the program
    /// fails to start.
    pub on_stderr: Option<LineSink>,
}

impl ChildCommand {
    /// The program to start, without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    execbox_core::setters! {
        env: Vec<(OsString, OsString)>,
        unset: Vec<OsString>,
        directory: impl Into<Option<PathBuf>>,
        on_stderr: impl Into<Option<LineSink>>,
    }
}

/// A function that receives lines as they arrive, without secrets and control characters, each truncated to 400
/// characters. It must not block.
#[derive(Clone)]
pub struct LineSink(Arc<dyn Fn(&str) + Send + Sync>);

impl LineSink {
    /// Creates a sink that calls this function with each line.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    pub(crate) fn send(&self, line: &str) {
        self.0(line);
    }
}

/// Clones of the same sink are equal.
impl PartialEq for LineSink {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LineSink {}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineSink(…)")
    }
}

/// A child process, running or ended. Clones are the same process.
#[derive(Debug, Clone)]
pub(super) struct Child {
    gone: CancellationToken,
    stderr_closed: CancellationToken,
    stderr_tail: Arc<Mutex<VecDeque<String>>>,
}

impl ChildCommand {
    /// Starts the process. It is ended when `disconnect` is triggered, and triggers it when it ends.
    pub(super) fn spawn(
        &self,
        secrets: &Secrets,
        answers: &Answers,
        unasked: &Unasked,
        disconnect: &Disconnect,
    ) -> io::Result<(Pipe<ChildStdout, ChildStdin>, Child)> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().kill_on_drop(true).process_group(0);
        let inherited = INHERITED.iter().filter(|name| !self.unset.iter().any(|unset| unset == **name));
        command.envs(inherited.filter_map(|name| std::env::var_os(name).map(|value| (name, value))));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        // The parent of this process may have left descriptors open that a program would inherit.
        close_fds::set_fds_cloexec(3, &[]);
        let mut process = command.spawn()?;
        let group = Group::led_by(&process)?;
        let no_stream = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdin = process.stdin.take().ok_or_else(no_stream)?;
        let stdout = process.stdout.take().ok_or_else(no_stream)?;
        let stderr = process.stderr.take().ok_or_else(no_stream)?;
        let child = Child {
            gone: CancellationToken::new(),
            stderr_closed: CancellationToken::new(),
            stderr_tail: Arc::default(),
        };
        let (lines, sink) = (Arc::clone(&child.stderr_tail), self.on_stderr.clone());
        let tail = StderrTail { lines, sink, secrets: secrets.clone() };
        let stderr_closed = child.stderr_closed.clone().drop_guard();
        tokio::spawn(async move {
            tail.read(stderr).await;
            drop(stderr_closed);
        });
        tokio::spawn(supervise(process, group, disconnect.clone(), child.clone()));
        Ok((Pipe::new(stdout, stdin, answers, unasked, disconnect, Some(child.gone.clone())), child))
    }
}

impl Child {
    /// Waits until the process has ended and its descendants are killed.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// The last lines of standard error. Waits up to [`LINGER`] for the process and its output to end.
    pub(super) async fn stderr_tail(&self) -> Vec<String> {
        let end = async {
            self.gone().await;
            self.stderr_closed.cancelled().await;
        };
        let _ = tokio::time::timeout(LINGER, end).await;
        self.stderr_lines()
    }

    /// The last lines of standard error so far.
    fn stderr_lines(&self) -> Vec<String> {
        self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The process group of a child. Killed when dropped.
///
/// The id is in use while the group has members. Afterwards it could only be reused if the system assigned all other ids
/// before the next signal.
struct Group(Pid);

impl Group {
    fn led_by(process: &Process) -> io::Result<Self> {
        let id = process.id().and_then(|id| i32::try_from(id).ok());
        id.map(|id| Self(Pid::from_raw(id))).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn signal(&self, signal: Signal) {
        let _ = killpg(self.0, signal); // The group may be empty.
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Waits for the end of a process, or ends it on disconnect, and then kills its group.
async fn supervise(mut process: Process, group: Group, disconnect: Disconnect, child: Child) {
    let gone = child.gone.clone().drop_guard();
    let status = tokio::select! {
        status = process.wait() => status.ok(),
        () = disconnect.triggered() => end(&mut process, &group).await,
    };
    drop(group);
    if let Some(status) = status {
        let _ = tokio::time::timeout(STDERR_WAIT, child.stderr_closed.cancelled()).await;
        let failure = ServerFailure::temporary(format!("process ended ({status})"));
        disconnect.set_failure(ServerFailure { stderr: child.stderr_lines(), ..failure });
    }
    drop(gone);
    // A process that has left the group may keep the output open indefinitely.
    tokio::time::sleep(LINGER).await;
    disconnect.trigger();
}

/// Ends a process whose input is closed. Returns its status if it needed no signal.
async fn end(process: &mut Process, group: &Group) -> Option<ExitStatus> {
    if let Ok(status) = tokio::time::timeout(GRACE, process.wait()).await {
        return status.ok();
    }
    group.signal(Signal::SIGTERM);
    if tokio::time::timeout(GRACE, process.wait()).await.is_err() {
        group.signal(Signal::SIGKILL);
        let _ = process.wait().await;
    }
    None
}

/// Reads all of the standard error of a child and keeps the last lines.
struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    sink: Option<LineSink>,
    secrets: Secrets,
}

impl StderrTail {
    async fn read(&self, stderr: impl AsyncRead + Unpin) {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        while let Ok(bytes @ [_, ..]) = stderr.fill_buf().await {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (part, used) = end.map_or((bytes, bytes.len()), |at| (&bytes[..at], at + 1));
            let room = MAX_RAW_LINE - line.len();
            line.extend(&part[..part.len().min(room)]);
            stderr.consume(used);
            if end.is_some() {
                self.push(&std::mem::take(&mut line));
            }
        }
        self.push(&line);
    }

    fn push(&self, line: &[u8]) {
        let line = self.secrets.redact(String::from_utf8_lossy(line).into_owned());
        let line = truncate(line.replace(char::is_control, " ").trim_end().to_owned(), MAX_LINE);
        if line.is_empty() {
            return;
        }
        if let Some(sink) = &self.sink {
            sink.send(&line);
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > MAX_LINES {
            lines.pop_front();
        }
    }
}

/// The environment variables that every child inherits.
const INHERITED: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// How long a child may take to end after its input is closed, and again after SIGTERM: together less than the second within
/// which a gateway ends.
const GRACE: Duration = Duration::from_millis(300);

/// How long output may remain open after the process has ended.
const LINGER: Duration = Duration::from_millis(500);

/// How long the end of a process is not reported while its standard error is read.
const STDERR_WAIT: Duration = Duration::from_millis(100);

/// How many lines of standard error are kept, the characters of each, and the bytes in which secrets are searched for.
const MAX_LINES: usize = 10;
const MAX_LINE: usize = 400;
const MAX_RAW_LINE: usize = 64 << 10;
