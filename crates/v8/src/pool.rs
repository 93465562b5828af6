//! The threads of the engine, each with one isolate at a time.
//!
//! All threads start with the engine: a process that is locked later starts no more. A thread makes an isolate ahead while
//! fewer than the configured number are spare, runs one program in it, and disposes of it.
//!
//! Guests have threads of their own because V8 cannot yield in the middle of a computation. A second stack on the thread of the
//! driver was tried, which could be left there: V8 14.6 checks that it is on the stack that the system has given the thread, and
//! ends the process where it is not.
//!
//! Making an isolate takes 1.7 ms of a processor, longer than most programs. It changes the memory map of the process, which slows
//! down programs that run at the same time. V8 ends the process if there is no memory for an isolate, such as while a program
//! takes much in a single step. So the next isolate is made when all programs have ended or only wait.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use execbox_core::engine::Outcome;
use execbox_core::program::Program;

use crate::isolate::Isolate;
use crate::resident::Resident;
use crate::shared::{Shared, Used};
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
    queue: Arc<Queue>,
}

impl Pool {
    /// Starts `threads` threads.
    pub(crate) fn start(
        snapshot: Snapshot,
        threads: usize,
        spares_wanted: usize,
        resident: Option<Resident>,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue { spares_wanted, ..Queue::default() });
        let at_tick = {
            let queue = Arc::clone(&queue);
            move |has_computed| queue.tick(has_computed)
        };
        let work = Work { snapshot, ticker: Ticker::start(resident, run::on_tick, at_tick)?, queue };
        let pool = Self { work: Arc::new(work), guests: AtomicUsize::new(0) };
        for number in 1..=threads {
            let work = Arc::clone(&pool.work);
            let thread = thread::Builder::new().name(format!("execbox-v8-{number}")).stack_size(STACK_BYTES);
            let (running, runs) = mpsc::channel::<()>();
            thread.spawn(move || {
                drop(running);
                serve(&work);
            })?;
            // A process that is locked afterwards cannot start threads.
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
        self.work.queue.add(program, shared);
    }

    /// Wakes the ticker for a guest that is about to compute.
    pub(crate) fn wake_ticker(&self) {
        self.work.ticker.wake();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.work.queue.close();
    }
}

/// The stack of a thread that runs guests, in bytes. V8's own limit is about half of it; the rest is for native code.
pub(crate) const STACK_BYTES: usize = 4 << 20;

/// Runs programs until the pool is closed.
fn serve(work: &Arc<Work>) {
    let mut spare = None;
    loop {
        let (program, shared) = match work.queue.next(spare.is_some()) {
            Next::Run(program, shared) => (program, shared),
            Next::Make => {
                spare = Some(Isolate::new(&work.snapshot));
                work.queue.made();
                continue;
            }
            Next::Close => return,
        };
        let isolate = spare.take().unwrap_or_else(|| Isolate::new(&work.snapshot));
        // A panic, which is a bug of this crate, ends the program. The thread continues, and the driver gets an outcome.
        let ran = catch_unwind(AssertUnwindSafe(|| program::run(isolate, *program, &shared, &work.ticker)));
        if ran.is_err() {
            shared.end(Outcome::Fault("a thread of the engine panicked".to_owned()), Used::default());
        }
        work.queue.ended();
    }
}

// ---- Programs that wait, and spare isolates ------------------------------------------------------------------------------

/// The number of ticks without a computing program before an isolate is made while a program runs. One tick is not enough: it
/// may have checked before the program began.
const QUIET_TICKS: u32 = 2;

/// A queue where threads wait for programs, and programs for threads.
#[derive(Default)]
struct Queue {
    spares_wanted: usize,
    state: Mutex<State>,
    /// Wakes threads that have a spare isolate.
    to_ready: Condvar,
    /// Wakes the other threads.
    to_idle: Condvar,
}

#[derive(Default)]
struct State {
    programs: VecDeque<(Box<Program>, Arc<Shared>)>,
    /// The number of isolates that are spare or being made ahead. Each takes one of the programs that wait.
    spares: usize,
    /// The number of threads that wait with a spare isolate.
    ready: usize,
    /// The number of programs that have begun and not ended.
    running: usize,
    /// The number of ticks without a computing program that must pass before an isolate is made ahead.
    ticks_to_wait: u32,
    closed: bool,
}

/// The next task of a thread.
enum Next {
    Run(Box<Program>, Arc<Shared>),
    /// Make an isolate ahead, then call [`Queue::made`].
    Make,
    Close,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, program: Program, shared: Arc<Shared>) {
        let mut state = self.lock();
        state.programs.push_back((Box::new(program), shared));
        let waiting = state.programs.len();
        if state.ready >= waiting {
            drop(state);
            self.to_ready.notify_one();
        } else if state.spares < waiting {
            drop(state);
            self.to_idle.notify_one();
        }
    }

    /// Waits for the next task of a thread.
    fn next(&self, has_spare: bool) -> Next {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Next::Close;
            }
            if (has_spare || state.programs.len() > state.spares)
                && let Some((program, shared)) = state.programs.pop_front()
            {
                state.running += 1;
                state.ticks_to_wait = QUIET_TICKS;
                if has_spare {
                    state.spares -= 1;
                    state.ready -= 1;
                }
                return Next::Run(program, shared);
            }
            if !has_spare && state.wants_spare(self.spares_wanted) {
                state.spares += 1;
                return Next::Make;
            }
            let wakes = if has_spare { &self.to_ready } else { &self.to_idle };
            state = wakes.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that the isolate that a thread made ahead is ready.
    fn made(&self) {
        self.lock().ready += 1;
    }

    /// Notes that a program has ended. The thread that ran it asks for the next task.
    fn ended(&self) {
        let mut state = self.lock();
        state.running -= 1;
        if state.running == 0 {
            state.ticks_to_wait = 0;
        }
    }

    fn tick(&self, has_computed: bool) {
        let mut state = self.lock();
        if !has_computed {
            state.ticks_to_wait = state.ticks_to_wait.saturating_sub(1);
        } else if state.running > 0 {
            state.ticks_to_wait = 1;
        }
        if state.wants_spare(self.spares_wanted) {
            drop(state);
            self.to_idle.notify_one();
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.to_ready.notify_all();
        self.to_idle.notify_all();
    }
}

impl State {
    fn wants_spare(&self, wanted: usize) -> bool {
        self.spares < wanted && self.ticks_to_wait == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use execbox_core::language::Code;
    use execbox_core::program::{Limits, Source};

    fn queue_with(spares_wanted: usize) -> Queue {
        Queue { spares_wanted, ..Queue::default() }
    }

    fn add(queue: &Queue) {
        let source = Source::Script { name: "<script>".to_owned(), code: Code::from("1") };
        let program = Program::new(source, Vec::new(), Limits::default());
        let shared = Shared::new(&program);
        queue.add(program, shared);
    }

    /// Whether a thread without an isolate is to make one ahead.
    fn wants_spare(queue: &Queue) -> bool {
        queue.lock().wants_spare(queue.spares_wanted)
    }

    fn with_spare(queue: &Queue) {
        assert!(matches!(queue.next(false), Next::Make));
        queue.made();
    }

    /// A queue whose only spare isolate was taken by a program.
    fn queue_with_program() -> Queue {
        let queue = queue_with(1);
        with_spare(&queue);
        add(&queue);
        assert!(matches!(queue.next(true), Next::Run(..)));
        queue
    }

    #[test]
    fn a_program_takes_the_spare_isolate_and_no_other_is_made_until_it_has_ended() {
        let queue = queue_with_program();
        assert!(!wants_spare(&queue));
        queue.ended();
        assert!(wants_spare(&queue));
    }

    #[test]
    fn no_isolate_is_made_ahead_while_a_program_computes() {
        let queue = queue_with_program();
        for _ in 0..100 {
            queue.tick(true);
            assert!(!wants_spare(&queue));
        }
        queue.ended();
        assert!(matches!(queue.next(false), Next::Make));
    }

    #[test]
    fn no_isolate_is_made_ahead_when_one_of_two_programs_has_ended_and_the_other_computes() {
        let queue = queue_with_program();
        add(&queue);
        assert!(matches!(queue.next(false), Next::Run(..)));
        queue.ended();
        queue.tick(true);
        assert!(!wants_spare(&queue));
        queue.ended();
        assert!(wants_spare(&queue));
    }

    #[test]
    fn a_tick_that_looked_before_a_program_began_does_not_count() {
        let queue = queue_with_program();
        queue.tick(false);
        assert!(!wants_spare(&queue));
        queue.tick(true);
        assert!(!wants_spare(&queue));
    }

    #[test]
    fn an_isolate_is_made_ahead_while_a_program_waits() {
        let queue = queue_with_program();
        queue.tick(true);
        assert!(!wants_spare(&queue));
        queue.tick(false);
        assert!(wants_spare(&queue));
    }

    #[test]
    fn a_program_waits_for_an_isolate_that_is_being_made() {
        let queue = queue_with(2);
        assert!(matches!(queue.next(false), Next::Make));
        add(&queue);
        assert!(matches!(queue.next(false), Next::Make), "the first isolate is for the program");
        queue.made();
        assert!(matches!(queue.next(true), Next::Run(..)));
    }

    #[test]
    fn a_program_without_an_isolate_is_for_any_thread() {
        let queue = queue_with(1);
        with_spare(&queue);
        add(&queue);
        add(&queue);
        assert!(matches!(queue.next(false), Next::Run(..)));
        assert!(matches!(queue.next(true), Next::Run(..)));
    }

    #[test]
    fn threads_end_when_the_line_is_closed() {
        let queue = queue_with(1);
        add(&queue);
        queue.close();
        assert!(matches!(queue.next(true), Next::Close));
        assert!(matches!(queue.next(false), Next::Close));
    }
}
