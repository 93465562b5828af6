//! Child processes that are killed with their handle.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::watch;

/// A child process. Dropping it kills and reaps it.
#[derive(Debug)]
pub(crate) struct Child {
    process: Arc<Process>,
}

/// What the handle of a child, its watcher and its reaper share.
#[derive(Debug)]
pub(super) struct Process {
    id: u32,
    inner: Mutex<process::Child>,
    max_memory: u64,
    /// Whether the handle was dropped, or the exit status is known.
    is_ended: AtomicBool,
    exceeded_memory: AtomicBool,
}

impl Child {
    /// Starts `command`. Returns the pipes to its standard input and output.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        Self::start(command, u64::MAX)
    }

    /// [`spawn`](Self::spawn), and kills the child soon after it has more than that memory, in bytes, or hundreds of threads.
    pub(crate) fn spawn_watched(command: &mut Command, max_memory: u64) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let started = Self::start(command, max_memory)?;
        watch::watch(&started.0.process);
        Ok(started)
    }

    fn start(command: &mut Command, max_memory: u64) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let mut inner = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = inner.stdin.take().map(OwnedFd::from);
        let stdout = inner.stdout.take().map(OwnedFd::from);
        let process = Process {
            id: inner.id(),
            inner: Mutex::new(inner),
            max_memory,
            is_ended: AtomicBool::new(false),
            exceeded_memory: AtomicBool::new(false),
        };
        let child = Self { process: Arc::new(process) };
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok((child, stdin, stdout))
    }

    /// How the process has ended; `None` while it runs, or if that is unknown.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        let status = self.process.lock().try_wait().ok()??;
        self.process.is_ended.store(true, Ordering::Relaxed);
        Some(status)
    }

    /// Whether the process was killed because it had more memory than it may have.
    pub(crate) fn exceeded_memory(&self) -> bool {
        self.process.exceeded_memory.load(Ordering::Acquire)
    }
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn max_memory(&self) -> u64 {
        self.max_memory
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// Kills the process, which exceeds a bound.
    pub(super) fn end(&self, exceeds_memory: bool) {
        self.exceeded_memory.fetch_or(exceeds_memory, Ordering::Release);
        // Without effect if the exit status is known: the id may belong to another process by then.
        let _ = self.lock().kill();
    }

    fn lock(&self) -> MutexGuard<'_, process::Child> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.is_ended.store(true, Ordering::Relaxed);
        let _ = self.process.lock().kill();
        reap(Arc::clone(&self.process));
    }
}

/// Waits for the exit of a killed process on a background thread, so that dropping a child does not block.
fn reap(process: Arc<Process>) {
    static REAPER: OnceLock<Option<Sender<Arc<Process>>>> = OnceLock::new();
    let reaper = REAPER.get_or_init(|| {
        let (killed, processes) = mpsc::channel::<Arc<Process>>();
        let run = move || {
            for process in processes {
                let _ = process.lock().wait();
            }
        };
        thread::Builder::new().name("execbox-reaper".into()).spawn(run).ok().map(|_| killed)
    });
    match reaper {
        Some(reaper) => drop(reaper.send(process)),
        None => drop(process.lock().wait()),
    }
}
