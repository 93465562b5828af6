//! The threads of the engine, each with one isolate at a time.
//!
//! All threads start with the engine: a process that is locked later starts no more. A thread makes an isolate ahead while
//! fewer than the configured number are spare, runs one program in it, and disposes of it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use execbox_core::engine::Outcome;
use execbox_core::program::Program;

use crate::isolate::Isolate;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::ticker::Ticker;
use crate::{program, run};

pub(crate) struct Pool {
    work: Arc<Work>,
    guests: AtomicUsize,
}

/// What the threads share.
struct Work {
    snapshot: Snapshot,
    ticker: Arc<Ticker>,
    spares_wanted: usize,
    queue: Mutex<Queue>,
    /// For threads that have a spare isolate.
    to_ready: Condvar,
    /// For the others.
    to_idle: Condvar,
}

#[derive(Default)]
struct Queue {
    programs: VecDeque<(Program, Arc<Shared>)>,
    /// Isolates that are spare or being made ahead.
    spares: usize,
    /// Threads that wait with a spare isolate.
    ready: usize,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads.
    pub(crate) fn start(snapshot: Snapshot, threads: usize, spares_wanted: usize) -> io::Result<Self> {
        let ticker = Ticker::start(run::on_tick)?;
        let work = Work {
            snapshot,
            ticker,
            spares_wanted,
            queue: Mutex::default(),
            to_ready: Condvar::new(),
            to_idle: Condvar::new(),
        };
        let pool = Self { work: Arc::new(work), guests: AtomicUsize::new(0) };
        for number in 1..=threads {
            let work = Arc::clone(&pool.work);
            let thread = thread::Builder::new().name(format!("execbox-v8-{number}")).stack_size(STACK_BYTES);
            let (running, runs) = mpsc::channel::<()>();
            thread.spawn(move || {
                drop(running);
                serve(&work);
            })?;
            // A process that is locked after this does not allow what starting a thread takes.
            let _ = runs.recv();
        }
        Ok(pool)
    }

    /// Counts one more guest. Returns how many there were.
    pub(crate) fn enter(&self) -> usize {
        self.guests.fetch_add(1, Ordering::SeqCst)
    }

    /// Counts one guest less.
    pub(crate) fn leave(&self) {
        self.guests.fetch_sub(1, Ordering::SeqCst);
    }

    /// Runs a program on the next thread that is free.
    pub(crate) fn run(&self, program: Program, shared: Arc<Shared>) {
        let mut queue = self.work.lock();
        queue.programs.push_back((program, shared));
        let to = if queue.ready >= queue.programs.len() { &self.work.to_ready } else { &self.work.to_idle };
        to.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.work.lock().closed = true;
        self.work.to_ready.notify_all();
        self.work.to_idle.notify_all();
    }
}

/// The stack of a thread that runs guests. V8's own limit is about half of it; the rest is for native code.
pub(crate) const STACK_BYTES: usize = 4 << 20;

impl Work {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next program. `spare` is made if one is wanted meanwhile. `None` when the pool is closed.
    fn next(&self, spare: &mut Option<Isolate>) -> Option<(Program, Arc<Shared>)> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            // Threads with an isolate come first.
            if (spare.is_some() || queue.ready < queue.programs.len())
                && let Some(next) = queue.programs.pop_front()
            {
                if spare.is_some() {
                    queue.spares -= 1;
                    queue.ready -= 1;
                    self.to_idle.notify_one(); // another thread makes the next one
                }
                return Some(next);
            }
            if spare.is_none() && queue.spares < self.spares_wanted {
                queue.spares += 1;
                drop(queue);
                *spare = Some(Isolate::new(&self.snapshot));
                queue = self.lock();
                queue.ready += 1;
                continue;
            }
            let wakes = if spare.is_some() { &self.to_ready } else { &self.to_idle };
            queue = wakes.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs programs until the pool is closed.
fn serve(work: &Arc<Work>) {
    loop {
        let mut spare = None;
        let Some((program, shared)) = work.next(&mut spare) else { return };
        let isolate = spare.unwrap_or_else(|| Isolate::new(&work.snapshot));
        // A bug of this crate ends the program, and neither the thread nor the wait of the driver.
        let ran = catch_unwind(AssertUnwindSafe(|| program::run(isolate, program, &shared, &work.ticker)));
        if ran.is_err() {
            shared.end(Outcome::Fault("a thread of the engine panicked".to_owned()), Duration::ZERO, 0);
        }
    }
}
