//! The end of the process where V8 cannot continue for want of memory.
//!
//! V8 and the C++ library call back on the thread that needs memory, which cannot go on. The drivers can: each learns that its
//! program is over, passes that on to its host with what the program logged and reported, and drops the guest. Then the process
//! ends with the exit status [`MEMORY_LIMIT_EXIT_CODE`]. A host that does not read delays that for [`MAX_WAIT`] at most.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use execbox_core::engine::MEMORY_LIMIT_EXIT_CODE;
use v8::OomDetails;

use crate::memory::Memory;
use crate::run::thread_cpu_time;
use crate::shared::{Shared, Used};

/// The maximum time that the process waits for its drivers before it ends.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// How often it checks for them.
const INTERVAL: Duration = Duration::from_micros(500);

/// The memory that drivers get when the process has no more, in bytes.
const RESERVE_BYTES: usize = 4 << 20;

unsafe extern "C" {
    /// `v8::base::SetPrintStackTrace`, which the crate `v8` does not bind: sets a function that V8 calls just before it ends
    /// the process.
    #[link_name = "_ZN2v84base18SetPrintStackTraceEPFvvE"]
    fn set_before_abort(function: unsafe extern "C" fn());

    /// `std::set_new_handler`: sets a function that C++ calls when an allocation has failed.
    #[link_name = "_ZSt15set_new_handlerPFvvE"]
    fn set_new_handler(function: unsafe extern "C" fn()) -> *mut c_void;
}

/// Set when V8 has found a fault of its own.
static IS_FAULTY: AtomicBool = AtomicBool::new(false);

/// The programs that have an isolate, in the whole process.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

struct Program {
    shared: Arc<Shared>,
    memory: Arc<Memory>,
    thread: ThreadId,
    /// The CPU time of the thread when the program began.
    began: Duration,
}

impl Program {
    /// A program that this thread is about to run.
    fn new(shared: &Arc<Shared>, memory: &Arc<Memory>) -> Self {
        let (shared, memory) = (Arc::clone(shared), Arc::clone(memory));
        Self { shared, memory, thread: thread::current().id(), began: thread_cpu_time() }
    }

    fn exhaust(&self) {
        // The jail does not let a thread read the CPU clock of another: the last time that the program noted remains.
        let is_here = thread::current().id() == self.thread;
        let cpu_time = if is_here { thread_cpu_time().saturating_sub(self.began) } else { Duration::ZERO };
        self.shared.exhaust(Used { cpu_time, peak_memory_bytes: self.memory.exhaust() });
    }
}

/// Memory that is allocated and not used.
static RESERVE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn reserve() -> MutexGuard<'static, Vec<u8>> {
    RESERVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn programs() -> MutexGuard<'static, Vec<Program>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a program that has an isolate on this thread, until it is dropped. Without such a program, the process itself has too little memory
/// for V8, so no program has caused its end.
pub(crate) struct HasProgram(Arc<Shared>);

impl HasProgram {
    pub(crate) fn new(shared: &Arc<Shared>, memory: &Arc<Memory>) -> Self {
        programs().push(Program::new(shared, memory));
        Self(Arc::clone(shared))
    }
}

impl Drop for HasProgram {
    fn drop(&mut self) {
        programs().retain(|program| !Arc::ptr_eq(&program.shared, &self.0));
    }
}

/// Handles the exhaustion of memory in the cases that V8 does not report for an isolate: while one is made, in a thread of V8 or
/// in the C++ library, and where a single object would be larger than V8 can make it. Call it after V8 was started.
pub(crate) fn handle() {
    *reserve() = Vec::with_capacity(RESERVE_BYTES);
    v8::V8::set_fatal_error_handler(|_: &str, _: i32, _: &str| IS_FAULTY.store(true, Ordering::SeqCst));
    // SAFETY: the functions take a pointer to a function without arguments, which they keep. V8 has set its own before.
    unsafe {
        set_before_abort(before_abort);
        set_new_handler(out_of_memory);
    }
}

/// Called by V8 when an isolate is out of memory: ends the process, as V8 requires.
pub(crate) unsafe extern "C" fn of_isolate(_location: *const c_char, _details: &OomDetails) {
    end_process(|| true);
}

/// V8 ends the process for one of two reasons. For a check that failed, it has called the handler of fatal errors before. For
/// want of memory and for sizes that it does not support, it calls nothing else.
unsafe extern "C" fn before_abort() {
    if !IS_FAULTY.load(Ordering::SeqCst) && !programs().is_empty() {
        end_process(|| true);
    }
}

/// Handles a failed allocation of C++. Does not return: C++ would try again.
unsafe extern "C" fn out_of_memory() {
    if !programs().is_empty() {
        end_process(|| true);
    }
    std::process::abort();
}

/// Ends the process when the drivers have passed on that their programs are over, after [`MAX_WAIT`], or when `may_wait` returns
/// false.
pub(crate) fn end_process(may_wait: impl Fn() -> bool) -> ! {
    *reserve() = Vec::new();
    // The program's thread holds no lock while it is in V8, so this cannot wait for the thread that it runs on.
    programs().iter().for_each(Program::exhaust);
    let until = Instant::now() + MAX_WAIT;
    while programs().iter().any(|program| !program.shared.is_stopped()) && Instant::now() < until && may_wait() {
        thread::sleep(INTERVAL);
    }
    // SAFETY: `_exit` has no preconditions. `exit` would run the handlers of libraries while other threads use them.
    unsafe { libc::_exit(MEMORY_LIMIT_EXIT_CODE) }
}
