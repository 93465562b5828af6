//! The thread that looks at computing guests every [`TICK`].
//!
//! It interrupts V8 in their isolates, on whose threads [`on_tick`](crate::run::on_tick) then reads the clock and the memory,
//! and wakes the driver. While no guest computes, it sleeps.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use v8::{IsolateHandle, UnsafeRawIsolatePtr};

use crate::memory::Memory;
use crate::resident::Resident;

/// What V8 calls on the thread of a guest.
pub(crate) type OnTick = unsafe extern "C" fn(UnsafeRawIsolatePtr, *mut std::ffi::c_void);

const TICK: Duration = Duration::from_millis(2);

/// How many ticks without a computing guest before the thread sleeps. Waking it costs a guest more than a few idle ticks.
const LINGER: u32 = 50;

pub(crate) struct Ticker {
    watched: Mutex<Vec<Arc<Watched>>>,
    /// The number of guests that compute.
    computing: AtomicUsize,
    /// A guest has begun to compute since the last tick.
    has_computed: AtomicBool,
    asleep: AtomicBool,
    /// A guest is about to compute.
    woken: AtomicBool,
    thread: OnceLock<Thread>,
    /// The memory of the process, where the system tells it, and what it was when there was no guest.
    resident: Option<Resident>,
    base: AtomicUsize,
}

/// A guest that the ticker looks at while it computes.
struct Watched {
    isolate: IsolateHandle,
    memory: Arc<Memory>,
    computes: AtomicBool,
    /// It was interrupted, and has not looked yet: V8 would keep any number of requests.
    is_due: AtomicBool,
}

impl Ticker {
    /// Starts the thread, which runs as long as the process. It also calls `at_tick`, and tells it whether a guest has computed
    /// since the last tick.
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
        // A process that is locked after this does not allow what starting a thread takes.
        let _ = runs.recv();
        Ok(ticker)
    }

    /// Looks at this isolate until the guard is dropped.
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

    /// Whether the process has more memory than it may have for its guests.
    fn is_over_limit(&self, guests: &[Arc<Watched>]) -> bool {
        let Some(now) = self.private_bytes() else { return false };
        let allowed = guests.iter().fold(0_usize, |sum, guest| sum.saturating_add(guest.memory.max_process_bytes()));
        now.saturating_sub(self.base.load(Ordering::Relaxed)) > allowed
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
            if computing().next().is_some() && self.is_over_limit(&all) {
                computing().for_each(|watched| watched.memory.end());
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

    /// Wakes the thread, for a guest that is about to compute: the guest's own thread has more urgent things to do.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            self.woken.store(true, Ordering::SeqCst);
            thread.unpark();
        }
    }
}

/// An isolate that the ticker looks at. Dropped at its end.
pub(crate) struct Watch {
    ticker: Arc<Ticker>,
    watched: Arc<Watched>,
}

impl Watch {
    /// A tick has come.
    pub(crate) fn served(&self) {
        self.watched.is_due.store(false, Ordering::SeqCst);
    }

    /// Calls `compute`, while ticks interrupt it.
    pub(crate) fn computing<R>(&self, compute: impl FnOnce() -> R) -> R {
        self.watched.computes.store(true, Ordering::SeqCst);
        self.ticker.has_computed.store(true, Ordering::SeqCst);
        // Sequentially consistent, as in `work`: either the thread sees this guest, or this guest sees the thread asleep.
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
