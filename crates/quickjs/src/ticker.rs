//! The thread that makes computing guests give way.
//!
//! While a guest computes, the epoch of its Wasmtime engine moves on every [`TICK`]; compiled code
//! looks at it in every loop and function. While none computes, the thread sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::EngineWeak;

/// How long a guest computes at most before it gives its thread back.
const TICK: Duration = Duration::from_millis(2);

/// How many ticks without a computing guest before the thread sleeps. It lingers, because waking it costs a guest
/// more than it costs to tick for a moment.
const LINGER: u32 = 50;

pub(crate) struct Ticker {
    state: Arc<State>,
    thread: Thread,
}

#[derive(Default)]
struct State {
    /// Guests that compute right now.
    computing: AtomicUsize,
    asleep: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    pub(crate) fn new(engine: &wasmtime::Engine) -> Self {
        let state = Arc::new(State::default());
        let (shared, engine) = (Arc::clone(&state), engine.weak());
        let thread = thread::Builder::new()
            .name("execbox-ticker".to_owned())
            .spawn(move || tick(&shared, &engine))
            .map(|handle| handle.thread().clone());
        // Without a thread no guest could be stopped, so there is nothing to go on with.
        let thread = thread.expect("the system refuses one more thread");
        Self { state, thread }
    }

    /// Runs `compute` with the epoch moving.
    pub(crate) fn while_ticking<R>(&self, compute: impl FnOnce() -> R) -> R {
        let _computing = self.enter();
        compute()
    }

    fn enter(&self) -> Computing<'_> {
        // Sequentially consistent, as is the other side: either the thread sees this guest, or this guest sees it asleep.
        self.state.computing.fetch_add(1, Ordering::SeqCst);
        if self.state.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Computing(&self.state.computing)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

struct Computing<'a>(&'a AtomicUsize);

impl Drop for Computing<'_> {
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
        idle = if state.computing.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        if idle >= LINGER {
            sleep(state);
            idle = 0;
        }
    }
}

fn sleep(state: &State) {
    state.asleep.store(true, Ordering::SeqCst);
    while state.computing.load(Ordering::SeqCst) == 0 && !state.stopped.load(Ordering::SeqCst) {
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
    fn the_thread_sleeps_while_no_guest_computes_and_wakes_when_one_does() {
        let engine = wasmtime::Engine::default();
        let ticker = Ticker::new(&engine);
        assert!(becomes(&ticker, true), "it sleeps when nothing computes");
        assert!(ticker.while_ticking(|| becomes(&ticker, false)), "it is awake while something does");
        assert!(becomes(&ticker, true), "and sleeps again");
    }
}
