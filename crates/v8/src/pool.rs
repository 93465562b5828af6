//! The threads of the engine, each with one isolate at a time.
//!
//! All threads start with the engine: a process that is locked later starts no more. A thread makes an isolate ahead while
//! fewer than the configured number are spare, runs one program in it, and disposes of it.
//!
//! Making an isolate takes longer than most programs, and slows down what runs beside it. So the next one is made when the
//! program that took the last one has ended or only waits, or has run for so long that it makes no difference.

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
use crate::resident::Resident;
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
        self.work.queue.add(program, shared);
    }

    /// A guest is about to compute.
    pub(crate) fn wake_ticker(&self) {
        self.work.ticker.wake();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.work.queue.close();
    }
}

/// The stack of a thread that runs guests. V8's own limit is about half of it; the rest is for native code.
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
        // A bug of this crate ends the program, and neither the thread nor the wait of the driver.
        let ran = catch_unwind(AssertUnwindSafe(|| program::run(isolate, *program, &shared, &work.ticker)));
        if ran.is_err() {
            shared.end(Outcome::Fault("a thread of the engine panicked".to_owned()), Duration::ZERO, 0);
        }
        work.queue.ended();
    }
}

// ---- Programs that wait, and spare isolates ------------------------------------------------------------------------------

/// The ticks for which a program computes before an isolate is made beside it: many times what making one takes. The first may
/// come at once.
const TICKS_ALONE: u32 = 12;

/// Where threads wait for programs, and programs for threads.
#[derive(Default)]
struct Queue {
    spares_wanted: usize,
    state: Mutex<State>,
    /// For threads that have a spare isolate.
    to_ready: Condvar,
    /// For the others.
    to_idle: Condvar,
}

#[derive(Default)]
struct State {
    programs: VecDeque<(Box<Program>, Arc<Shared>)>,
    /// Isolates that are spare or being made ahead. Each takes one of the programs that wait.
    spares: usize,
    /// Threads that wait with a spare isolate.
    ready: usize,
    /// No isolate is made ahead before that many ticks, as a program has begun that may end sooner.
    ticks_to_wait: u32,
    closed: bool,
}

/// What a thread is to do.
enum Next {
    Run(Box<Program>, Arc<Shared>),
    /// Make an isolate ahead, and say so by [`Queue::made`].
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

    /// Waits until there is something to do.
    fn next(&self, has_spare: bool) -> Next {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Next::Close;
            }
            if (has_spare || state.programs.len() > state.spares)
                && let Some((program, shared)) = state.programs.pop_front()
            {
                state.ticks_to_wait = TICKS_ALONE;
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

    /// The isolate that was to be made ahead is there.
    fn made(&self) {
        self.lock().ready += 1;
    }

    /// A program has ended. The thread that ran it asks for the next one.
    fn ended(&self) {
        self.lock().ticks_to_wait = 0;
    }

    fn tick(&self, has_computed: bool) {
        let mut state = self.lock();
        state.ticks_to_wait = if has_computed { state.ticks_to_wait.saturating_sub(1) } else { 0 };
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
    fn an_isolate_is_made_ahead_beside_a_program_that_runs_for_long() {
        let queue = queue_with_program();
        let ticks = (1..100).take_while(|_| {
            queue.tick(true);
            !wants_spare(&queue)
        });
        assert_eq!(ticks.count() + 1, TICKS_ALONE as usize);
        assert!(matches!(queue.next(false), Next::Make));
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
