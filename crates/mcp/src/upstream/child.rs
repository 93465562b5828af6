//! Child processes that are MCP servers on their standard streams.
//!
//! Each child leads a process group of its own, so that what it starts ends with it (`npx` starts `node`). It is asked
//! to end by the end of its input, then by SIGTERM, then it is killed. If this process is killed, children learn it by
//! the end of their input, and only by that.

use std::collections::VecDeque;
use std::ffi::OsString;
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

use super::pipe::{Lost, Pipe};
use crate::Secrets;
use crate::text::cut;

/// A child process that is an MCP server on its standard streams.
///
/// Of this process's environment it gets what programs need to run at all (`PATH`, `HOME` and the like), and no
/// secrets: what else it needs is named in `env`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables, besides those that every child gets.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory. Default: this process's.
    pub directory: Option<PathBuf>,
    /// Who is told the lines of its standard error. Default: nobody; the last ones are told if it does not start.
    pub on_stderr: Option<OnLine>,
}

/// Is told lines as they come: without secrets and control characters, each cut to 400 characters. It must not block.
#[derive(Clone)]
pub struct OnLine(Arc<dyn Fn(&str) + Send + Sync>);

impl OnLine {
    /// Lines go to this function.
    pub fn new(told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(crate) fn tell(&self, line: &str) {
        self.0(line);
    }
}

/// Equal if they are clones of one.
impl PartialEq for OnLine {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OnLine {}

impl fmt::Debug for OnLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLine(…)")
    }
}

/// A child that runs, or did.
#[derive(Debug)]
pub(super) struct Child {
    gone: CancellationToken,
    silent: CancellationToken,
    words: Arc<Mutex<VecDeque<String>>>,
}

impl ChildCommand {
    /// Starts it. It is ended when the connection is lost, and the connection is lost when it ends.
    pub(super) fn spawn(&self, secrets: &Secrets, lost: &Lost) -> io::Result<(Pipe<ChildStdout, ChildStdin>, Child)> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().kill_on_drop(true).process_group(0);
        command.envs(INHERITED.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut process = command.spawn()?;
        let group = Group::led_by(&process)?;
        let no_stream = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdin = process.stdin.take().ok_or_else(no_stream)?;
        let stdout = process.stdout.take().ok_or_else(no_stream)?;
        let stderr = process.stderr.take().ok_or_else(no_stream)?;
        let child = Child { gone: CancellationToken::new(), silent: CancellationToken::new(), words: Arc::default() };
        let words = Words { last: Arc::clone(&child.words), on_line: self.on_stderr.clone(), secrets: secrets.clone() };
        let silent = child.silent.clone().drop_guard();
        tokio::spawn(async move {
            words.hear(stderr).await;
            drop(silent);
        });
        tokio::spawn(keep(process, group, lost.clone(), child.gone.clone()));
        Ok((Pipe::new(stdout, stdin, lost, Some(child.gone.clone())), child))
    }
}

impl Child {
    /// Waits until it is gone, and what it started is killed.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// The last lines of its standard error. Waits a moment for its end, and for lines that are on their way.
    pub(super) async fn last_words(&self) -> Vec<String> {
        let end = async {
            self.gone().await;
            self.silent.cancelled().await;
        };
        let _ = tokio::time::timeout(LINGER, end).await;
        self.words.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// A child and all that it started. Killed when dropped.
///
/// Its id is its own as long as anybody is in it. When nobody is, it is free; that another group has it by the time of
/// a signal would take the system to have used up all ids in between.
struct Group(Pid);

impl Group {
    fn led_by(process: &Process) -> io::Result<Self> {
        let id = process.id().and_then(|id| i32::try_from(id).ok());
        id.map(|id| Self(Pid::from_raw(id))).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn signal(&self, signal: Signal) {
        let _ = killpg(self.0, signal); // There may be nobody left in it.
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Stays with a process to its end, and sees that its group ends with it.
async fn keep(mut process: Process, group: Group, lost: Lost, gone: CancellationToken) {
    let gone = gone.drop_guard();
    let status = tokio::select! {
        status = process.wait() => status.ok(),
        () = lost.happened() => end(&mut process, &group).await,
    };
    if let Some(status) = status {
        lost.because(format!("its process ended ({status})"));
    }
    drop(group);
    drop(gone);
    // Somebody who left the group may hold its output open for ever.
    tokio::time::sleep(LINGER).await;
    lost.set();
}

/// Ends a process whose input has ended. The status is that of one that needed no signal.
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

/// What a child says on its standard error: all of it is read, little is kept.
struct Words {
    last: Arc<Mutex<VecDeque<String>>>,
    on_line: Option<OnLine>,
    secrets: Secrets,
}

impl Words {
    async fn hear(&self, stderr: impl AsyncRead + Unpin) {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        while let Ok(bytes @ [_, ..]) = stderr.fill_buf().await {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (part, used) = end.map_or((bytes, bytes.len()), |at| (&bytes[..at], at + 1));
            let room = MAX_RAW_LINE - line.len();
            line.extend(&part[..part.len().min(room)]);
            stderr.consume(used);
            if end.is_some() {
                self.keep(&std::mem::take(&mut line));
            }
        }
        self.keep(&line);
    }

    fn keep(&self, line: &[u8]) {
        let line = self.secrets.hide(String::from_utf8_lossy(line).into_owned());
        let line = cut(line.replace(char::is_control, " ").trim_end().to_owned(), MAX_LINE);
        if line.is_empty() {
            return;
        }
        if let Some(on_line) = &self.on_line {
            on_line.tell(&line);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back(line);
        if last.len() > MAX_LINES {
            last.pop_front();
        }
    }
}

/// What every child gets of this process's environment.
const INHERITED: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// How long a child has to end after each time that it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How long pipes may stay open after the process at their end.
const LINGER: Duration = Duration::from_millis(500);

/// How many of the last lines on standard error are kept, the characters of each, and the bytes in which secrets are
/// looked for.
const MAX_LINES: usize = 10;
const MAX_LINE: usize = 400;
const MAX_RAW_LINE: usize = 64 << 10;
