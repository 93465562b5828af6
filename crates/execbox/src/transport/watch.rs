//! Watches the memory and the threads of child processes, and kills those that exceed their bounds.
//!
//! The limits that a child sets for itself do not count everything: not page tables, and not memory that is moved out of a
//! stack. The figures of the system count that, and the process cannot change them.

use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::child::Process;

/// How often children are checked, whether they execute programs or not.
const INTERVAL: Duration = Duration::from_millis(50);

/// What a child may have beyond its bound: what it starts with, and page tables.
const TOLERANCE: u64 = 128 << 20;

/// The most threads of a child. Runners have about ten.
const MAX_THREADS: u64 = 512;

/// The most bytes that are read of `/proc/PID/status`, which is shorter.
const MAX_STATUS: u64 = 16 << 10;

/// Watches a child for as long as it exists. Without effect where the system has no `/proc`, or hides the process.
pub(super) fn watch(process: &Arc<Process>) {
    static WATCHER: OnceLock<Option<&'static Watched>> = OnceLock::new();
    if let Some(watched) = WATCHER.get_or_init(start) {
        lock(&watched.processes).push(Arc::downgrade(process));
        watched.added.notify_one();
    }
}

/// The children that are watched.
#[derive(Default)]
struct Watched {
    processes: Mutex<Vec<Weak<Process>>>,
    added: Condvar,
}

fn start() -> Option<&'static Watched> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let watched: &'static Watched = Box::leak(Box::default());
    thread::Builder::new().name("execbox-watch".into()).spawn(|| watched.run()).ok().map(|_| watched)
}

impl Watched {
    fn run(&self) {
        loop {
            for process in self.running() {
                look_at(&process);
            }
            thread::sleep(INTERVAL);
        }
    }

    /// The children that have not ended. Waits until there is one.
    fn running(&self) -> Vec<Arc<Process>> {
        let mut processes = lock(&self.processes);
        loop {
            processes.retain(|process| process.strong_count() > 0);
            let running: Vec<_> =
                processes.iter().filter_map(Weak::upgrade).filter(|process| !process.is_ended()).collect();
            if !running.is_empty() {
                return running;
            }
            processes = self.added.wait(processes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look_at(process: &Process) {
    let Some(Usage { memory_bytes, threads }) = Usage::of(process.id()) else { return };
    let exceeds_memory = memory_bytes > process.max_memory().saturating_add(TOLERANCE);
    if exceeds_memory || threads > MAX_THREADS {
        process.end(exceeds_memory);
    }
}

/// The memory and the threads of a process.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    /// Memory that belongs to no file, resident or swapped out, and page tables.
    memory_bytes: u64,
    threads: u64,
}

impl Usage {
    fn of(process: u32) -> Option<Self> {
        let mut status = String::new();
        let file = File::open(format!("/proc/{process}/status")).ok()?;
        file.take(MAX_STATUS).read_to_string(&mut status).ok()?;
        Some(Self::read(&status))
    }

    fn read(status: &str) -> Self {
        let mut usage = Self { memory_bytes: 0, threads: 0 };
        for (name, value) in status.lines().filter_map(|line| line.split_once(':')) {
            let number = || value.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
            match name {
                "RssAnon" | "RssShmem" | "VmSwap" | "VmPTE" => usage.memory_bytes += number() << 10,
                "Threads" => usage.threads = number(),
                _ => {}
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_no_file_swap_page_tables_and_threads_count() {
        let status = "Name:\tx: RssAnon: 7 kB\nVmRSS:\t 90 kB\nRssAnon:\t  1 kB\nRssFile:\t 80 kB\nRssShmem:\t 2 kB\n\
                      VmPTE:\t 4 kB\nVmSwap:\t 8 kB\nThreads:\t3\nrubbish\nVmStk: x kB\n";
        assert_eq!(Usage::read(status), Usage { memory_bytes: 15 << 10, threads: 3 });
    }
}
