//! The thread that makes running guests yield.
//!
//! While a guest runs, the thread advances the epoch of its Wasmtime engine every [`TICK`]; compiled code checks the epoch
//! in every loop and function. While no guest runs, the thread sleeps. It starts with the first guest: until then, the process
//! may have only one thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::EngineWeak;

/// How long a guest runs at most before it yields its thread.
const TICK: Duration = Duration::from_millis(2);

/// How many ticks without a running guest before the thread sleeps. Waking it costs a guest more than a few idle ticks.
const LINGER: u32 = 50;

pub(crate) struct Ticker {
    state: Arc<State>,
    engine: EngineWeak,
    thread: OnceLock<Result<Thread, io::ErrorKind>>,
}

#[derive(Default)]
struct State {
    /// The number of guests that run.
    running: AtomicUsize,
    asleep: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    pub(crate) fn new(engine: &wasmtime::Engine) -> Self {
        Self { state: Arc::default(), engine: engine.weak(), thread: OnceLock::new() }
    }

    /// Starts the thread and waits until it runs, if it does not run yet. Without it, no guest could be interrupted.
    pub(crate) fn start(&self) -> Result<(), io::ErrorKind> {
        let thread = self.thread.get_or_init(|| {
            let (shared, engine) = (Arc::clone(&self.state), self.engine.clone());
            let thread = thread::Builder::new().name("execbox-ticker".to_owned());
            let (running, runs) = mpsc::channel();
            let run = move || {
                drop(running);
                tick(&shared, &engine);
            };
            let handle = thread.spawn(run).map_err(|error| error.kind())?;
            // A process that is confined after this may not allow the system calls that starting a thread takes.
            let _: Result<(), _> = runs.recv();
            Ok(handle.thread().clone())
        });
        thread.as_ref().map(|_| ()).map_err(|error| *error)
    }

    fn wake(&self) {
        if let Some(Ok(thread)) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Calls `run` while the epoch advances.
    pub(crate) fn while_ticking<R>(&self, run: impl FnOnce() -> R) -> R {
        let _running = self.enter();
        run()
    }

    fn enter(&self) -> Running<'_> {
        // Sequentially consistent, as in `sleep`: either the thread sees this guest, or this guest sees the thread asleep.
        self.state.running.fetch_add(1, Ordering::SeqCst);
        if self.state.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
        Running(&self.state.running)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        self.wake();
    }
}

struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn tick(state: &State, engine: &EngineWeak) {
    let mut idle = 0;
    while !state.stopped.load(Ordering::SeqCst) {
        thread::sleep(TICK);
        match engine.upgrade() {
            Some(engine) => engine.increment_epoch(),
            None => return,
        }
        idle = if state.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        if idle >= LINGER {
            sleep(state);
            idle = 0;
        }
    }
}

fn sleep(state: &State) {
    state.asleep.store(true, Ordering::SeqCst);
    while state.running.load(Ordering::SeqCst) == 0 && !state.stopped.load(Ordering::SeqCst) {
        thread::park();
    }
    state.asleep.store(false, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(ticker: &Ticker, asleep: bool) -> bool {
        (0..5000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            ticker.state.asleep.load(Ordering::SeqCst) == asleep
        })
    }

    #[test]
    fn the_thread_sleeps_while_no_guest_runs_and_wakes_when_one_does() {
        let engine = wasmtime::Engine::default();
        let ticker = Ticker::new(&engine);
        ticker.start().unwrap();
        assert!(becomes(&ticker, true), "it sleeps while no guest runs");
        assert!(ticker.while_ticking(|| becomes(&ticker, false)), "it wakes for a guest");
        assert!(becomes(&ticker, true), "it sleeps again");
    }
}
