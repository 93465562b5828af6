//! Child processes that end with their owner.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// A child process and the pipes to it. Dropping it kills it, and no zombie is left.
#[derive(Debug)]
pub(crate) struct Child {
    process: Option<process::Child>,
}

impl Child {
    /// Starts `command`, with pipes for its standard input and output, which are given along.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = process.stdin.take().map(OwnedFd::from);
        let stdout = process.stdout.take().map(OwnedFd::from);
        let child = Self { process: Some(process) };
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok((child, stdin, stdout))
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

/// Waits for the end of a process that was killed, on a thread of this program's own: the kernel may take a
/// while, and whoever drops a child does not.
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
