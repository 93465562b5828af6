//! The thread that checks computing guests every [`TICK`].
//!
//! The ticker interrupts V8 in the isolates of these guests, on whose threads [`on_tick`](crate::run::on_tick) then reads the
//! clock and the memory, and wakes the driver. While no guest computes, the ticker sleeps.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use v8::{IsolateHandle, UnsafeRawIsolatePtr};

use crate::exhaustion;
use crate::memory::Memory;
use crate::resident::Resident;

/// The callback of an interrupt, which V8 calls on the thread of a guest.
pub(crate) type OnTick = unsafe extern "C" fn(UnsafeRawIsolatePtr, *mut std::ffi::c_void);

const TICK: Duration = Duration::from_millis(2);

/// The number of ticks without a computing guest before the thread sleeps. Waking it costs a guest more than a few idle ticks.
const LINGER: u32 = 50;

pub(crate) struct Ticker {
    watched: Mutex<Vec<Arc<Watched>>>,
    /// The number of guests that compute.
    computing: AtomicUsize,
    /// Whether a guest has begun to compute since the last tick.
    has_computed: AtomicBool,
    asleep: AtomicBool,
    /// Set when a guest is about to compute.
    woken: AtomicBool,
    thread: OnceLock<Thread>,
    /// The memory of the process, where the system reports it, and `base`, its value without guests.
    resident: Option<Resident>,
    base: AtomicUsize,
}

/// A guest that the ticker checks while it computes.
struct Watched {
    isolate: IsolateHandle,
    memory: Arc<Memory>,
    computes: AtomicBool,
    /// Whether an interrupt was requested and not served. Prevents further requests, of which V8 would keep any number.
    is_due: AtomicBool,
}

impl Ticker {
    /// Starts the thread, which runs as long as the process. At each tick, the thread calls `at_tick` with whether a guest has
    /// computed since the last tick.
    pub(crate) fn start(
        resident: Option<Resident>,
        on_tick: OnTick,
        at_tick: impl Fn(bool) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            watched: Mutex::default(),
            computing: AtomicUsize::new(0),
            has_computed: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            thread: OnceLock::new(),
            resident,
            base: AtomicUsize::new(0),
        });
        let (running, runs) = mpsc::channel::<()>();
        let shared = Arc::downgrade(&ticker);
        let run = move || {
            drop(running);
            while let Some(ticker) = shared.upgrade() {
                ticker.work(on_tick, &at_tick);
            }
        };
        let handle = thread::Builder::new().name("execbox-ticker".to_owned()).spawn(run)?;
        let _ = ticker.thread.set(handle.thread().clone());
        // A process that is locked afterwards cannot start threads.
        let _ = runs.recv();
        Ok(ticker)
    }

    /// Checks this isolate at each tick until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>, isolate: IsolateHandle, memory: Arc<Memory>) -> Watch {
        let (computes, is_due) = (AtomicBool::new(false), AtomicBool::new(false));
        let watched = Arc::new(Watched { isolate, memory, computes, is_due });
        let mut all = self.lock();
        if all.is_empty() {
            self.base.store(self.private_bytes().unwrap_or(usize::MAX), Ordering::Relaxed);
        }
        all.push(Arc::clone(&watched));
        drop(all);
        Watch { ticker: Arc::clone(self), watched }
    }

    fn private_bytes(&self) -> Option<usize> {
        self.resident.as_ref()?.private_bytes()
    }

    /// Whether the process uses more than `factor` times the memory that its guests may use together.
    fn is_over_limit(&self, guests: &[Arc<Watched>], factor: usize) -> bool {
        let Some(now) = self.private_bytes() else { return false };
        let allowed = guests.iter().fold(0_usize, |sum, guest| sum.saturating_add(guest.memory.max_process_bytes()));
        now.saturating_sub(self.base.load(Ordering::Relaxed)) > allowed.saturating_mul(factor)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ticks until no guest has computed for a while, and sleeps until one does.
    fn work(&self, on_tick: OnTick, at_tick: &impl Fn(bool)) {
        let mut idle = 0;
        while idle < LINGER {
            thread::sleep(TICK);
            let computes = self.computing.load(Ordering::SeqCst) != 0;
            at_tick(self.has_computed.swap(computes, Ordering::SeqCst) || computes);
            idle = if computes { 0 } else { idle + 1 };
            let all = self.lock();
            let computing = || all.iter().filter(|watched| watched.computes.load(Ordering::SeqCst));
            if computing().next().is_some() && self.is_over_limit(&all, 1) {
                let in_vain = computing().filter(|watched| watched.memory.end()).count();
                if in_vain > 0 {
                    // The program goes on taking memory meanwhile.
                    exhaustion::end_process(|| !self.is_over_limit(&all, 2));
                }
            }
            for watched in computing() {
                if !watched.is_due.swap(true, Ordering::SeqCst) {
                    watched.isolate.request_interrupt(on_tick, std::ptr::null_mut());
                }
            }
        }
        self.asleep.store(true, Ordering::SeqCst);
        while self.computing.load(Ordering::SeqCst) == 0 && !self.woken.swap(false, Ordering::SeqCst) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes the thread, for a guest that is about to compute.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            self.woken.store(true, Ordering::SeqCst);
            thread.unpark();
        }
    }
}

/// An isolate that the ticker checks until this guard is dropped.
pub(crate) struct Watch {
    ticker: Arc<Ticker>,
    watched: Arc<Watched>,
}

impl Watch {
    /// Notes that the interrupt of a tick was served.
    pub(crate) fn served(&self) {
        self.watched.is_due.store(false, Ordering::SeqCst);
    }

    /// Calls `compute`, while ticks interrupt it.
    pub(crate) fn computing<R>(&self, compute: impl FnOnce() -> R) -> R {
        self.watched.computes.store(true, Ordering::SeqCst);
        self.ticker.has_computed.store(true, Ordering::SeqCst);
        // Sequentially consistent, as in `work`: either the thread sees this guest, or this guest sees that the thread sleeps.
        self.ticker.computing.fetch_add(1, Ordering::SeqCst);
        self.ticker.wake();
        let result = compute();
        self.ticker.computing.fetch_sub(1, Ordering::SeqCst);
        self.watched.computes.store(false, Ordering::SeqCst);
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ticker.lock().retain(|watched| !Arc::ptr_eq(watched, &self.watched));
    }
}
