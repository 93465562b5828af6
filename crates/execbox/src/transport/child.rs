//! Child processes that are killed with their handle.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// A child process. Dropping it kills and reaps it.
#[derive(Debug)]
pub(crate) struct Child {
    process: Option<process::Child>,
}

impl Child {
    /// Starts `command`. Returns the pipes to its standard input and output.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = process.stdin.take().map(OwnedFd::from);
        let stdout = process.stdout.take().map(OwnedFd::from);
        let child = Self { process: Some(process) };
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok((child, stdin, stdout))
    }

    /// How the process has ended; `None` while it runs, or if that is unknown.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.try_wait().ok()?
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            reap(process);
        }
    }
}

/// Waits for the exit of a killed process on a background thread, so that dropping a child does not block.
fn reap(mut process: process::Child) {
    static REAPER: OnceLock<Option<Sender<process::Child>>> = OnceLock::new();
    let reaper = REAPER.get_or_init(|| {
        let (killed, processes) = mpsc::channel::<process::Child>();
        let run = move || {
            for mut process in processes {
                let _ = process.wait();
            }
        };
        thread::Builder::new().name("execbox-reaper".into()).spawn(run).ok().map(|_| killed)
    });
    match reaper {
        Some(reaper) => drop(reaper.send(process)),
        None => drop(process.wait()),
    }
}
