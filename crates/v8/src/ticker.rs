//! The thread that looks at computing guests every [`TICK`].
//!
//! It interrupts V8 in their isolates, on whose threads [`Isolate::tick`](crate::isolate) then reads the clock and the memory,
//! and wakes the driver. While no guest computes, it sleeps.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use v8::{IsolateHandle, UnsafeRawIsolatePtr};

/// What V8 calls on the thread of a guest.
pub(crate) type OnTick = unsafe extern "C" fn(UnsafeRawIsolatePtr, *mut std::ffi::c_void);

const TICK: Duration = Duration::from_millis(2);

/// How many ticks without a computing guest before the thread sleeps. Waking it costs a guest more than a few idle ticks.
const LINGER: u32 = 50;

pub(crate) struct Ticker {
    watched: Mutex<Vec<Arc<Watched>>>,
    /// The number of guests that compute.
    computing: AtomicUsize,
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// A guest that the ticker looks at while it computes.
struct Watched {
    isolate: IsolateHandle,
    computes: AtomicBool,
    /// It was interrupted, and has not looked yet: V8 would keep any number of requests.
    is_due: AtomicBool,
}

impl Ticker {
    /// Starts the thread, which runs as long as the process.
    pub(crate) fn start(on_tick: OnTick) -> io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            watched: Mutex::default(),
            computing: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let (running, runs) = mpsc::channel::<()>();
        let shared = Arc::downgrade(&ticker);
        let run = move || {
            drop(running);
            while let Some(ticker) = shared.upgrade() {
                ticker.work(on_tick);
            }
        };
        let handle = thread::Builder::new().name("execbox-ticker".to_owned()).spawn(run)?;
        *ticker.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle.thread().clone());
        // A process that is locked after this does not allow what starting a thread takes.
        let _ = runs.recv();
        Ok(ticker)
    }

    /// Looks at this isolate until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>, isolate: IsolateHandle) -> Watch {
        let watched = Arc::new(Watched { isolate, computes: AtomicBool::new(false), is_due: AtomicBool::new(false) });
        self.lock().push(Arc::clone(&watched));
        Watch { ticker: Arc::clone(self), watched }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ticks until no guest has computed for a while, and sleeps until one does.
    fn work(&self, on_tick: OnTick) {
        let mut idle = 0;
        while idle < LINGER {
            thread::sleep(TICK);
            idle = if self.computing.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
            for watched in self.lock().iter().filter(|watched| watched.computes.load(Ordering::SeqCst)) {
                if !watched.is_due.swap(true, Ordering::SeqCst) {
                    watched.isolate.request_interrupt(on_tick, std::ptr::null_mut());
                }
            }
        }
        self.asleep.store(true, Ordering::SeqCst);
        while self.computing.load(Ordering::SeqCst) == 0 {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
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
        // Sequentially consistent, as in `work`: either the thread sees this guest, or this guest sees the thread asleep.
        self.ticker.computing.fetch_add(1, Ordering::SeqCst);
        if self.ticker.asleep.load(Ordering::SeqCst)
            && let Some(thread) = &*self.ticker.thread.lock().unwrap_or_else(PoisonError::into_inner)
        {
            thread.unpark();
        }
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
