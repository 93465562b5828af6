//! Helpers for tests of the binary: [`transcript`], [`session`]s of MCP clients, processes, their children, and signals.

#![allow(dead_code)] // each test crate uses a part of them

pub(crate) mod session;
pub(crate) mod transcript;

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use execbox::{PoolOptions, PooledBuilder, ProcessExecutor, RunnerCommand};
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
pub(crate) use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// An executor over children of the binary under test.
pub(crate) fn processes(max_size: usize) -> PooledBuilder<ProcessExecutor> {
    let command = RunnerCommand::new(env!("CARGO_BIN_EXE_execbox")).arg("runner");
    ProcessExecutor::builder(command)
        .pool(PoolOptions::default().max_size(max_size).queue_timeout(Duration::from_mins(10)))
}

/// A line of a process's status, in KiB.
pub(crate) fn status_kib(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// The running children of a process, the youngest last.
pub(crate) fn children(of: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut children: Vec<u32> = processes.filter(|id| parent(*id) == Some(of)).collect();
    children.sort_unstable();
    children
}

/// The parent of a process; `None` if the process has ended.
fn parent(id: u32) -> Option<u32> {
    let (state, parent) = state_and_parent(format!("/proc/{id}/stat"))?;
    // The first thread may have ended while others have not.
    let ended = state == 'Z' && fs::read_dir(format!("/proc/{id}/task")).ok()?.count() <= 1;
    if ended { None } else { Some(parent) }
}

/// Whether a thread of a process runs or waits for a processor.
pub(crate) fn computes(id: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return false };
    threads.flatten().filter_map(|thread| state_and_parent(thread.path().join("stat"))).any(|(state, _)| state == 'R')
}

fn state_and_parent(stat: impl AsRef<Path>) -> Option<(char, u32)> {
    let stat = fs::read_to_string(stat).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Whether a process runs.
pub(crate) fn is_alive(id: u32) -> bool {
    parent(id).is_some()
}

/// Whether a process exists, running or as a zombie.
pub(crate) fn exists(id: u32) -> bool {
    fs::exists(format!("/proc/{id}")).unwrap()
}

pub(crate) fn send(signal: Signal, to: u32) {
    let _ = nix::sys::signal::kill(Pid::from_raw(to.try_into().unwrap()), signal);
}

/// A terminal for processes: the side of the test, and that of the processes. Other processes that the tests start do not keep
/// it open.
pub(crate) fn terminal() -> (PtyMaster, File) {
    let terminal = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let mut options = File::options();
    let options = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let theirs = options.open(ptsname_r(&terminal).unwrap()).unwrap();
    (terminal, theirs)
}

/// Waits for a condition, for as long as a busy machine may take.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_mins(2), "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
