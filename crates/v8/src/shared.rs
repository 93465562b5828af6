//! The state that the thread of a guest and its driver share.
//!
//! ```text
//!  driver (poll_turn, settle)             thread of the engine, one program at a time
//!    program ──► Pool::run ─────────────► takes its spare isolate, or makes one from the snapshot
//!    waker ◄──── phase, mailbox ◄──────── computes until it waits; calls and log lines into the mailbox
//!    settle ───► inbox ─────────────────► settles promises, runs microtasks, computes on
//!    Done ◄───── outcome ◄─────────────── ends
//!    drop ──────────────────────────────► disposes of the isolate, makes the next spare one
//!                ticker ──── 2 ms ──────► on the program's thread: CPU time, memory, the driver's waker
//! ```

use std::collections::VecDeque;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use execbox_core::awake::Awake;
use execbox_core::engine::{Event, Outcome, Settlement};
use execbox_core::mailbox::Mailbox;
use execbox_core::program::Program;
use v8::IsolateHandle;

/// A guest, as its thread and its driver share it.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the guest's thread.
    to_guest: Condvar,
    /// Wakes a driver that sleeps, for events or when the guest no longer computes.
    to_driver: Condvar,
    /// Whether the phase is `Computing`, for a driver that polls without sleeping.
    computes: AtomicBool,
    /// Set when the guest must end because it was interrupted or dropped.
    stopped: AtomicBool,
}

#[allow(clippy::struct_excessive_bools)] // independent of each other
pub(crate) struct State {
    pub(crate) mailbox: Mailbox,
    pub(crate) phase: Phase,
    /// Settlements that the guest has not taken.
    inbox: VecDeque<(Settled, Settlement)>,
    inbox_bytes: usize,
    /// Whether the timer of the guest is due.
    is_woken: bool,
    /// The answer to the synchronous call that blocks the guest.
    answer: Option<Settlement>,
    pub(crate) waker: Option<Waker>,
    /// Whether the driver sleeps until it is notified.
    driver_sleeps: bool,
    /// When the driver has taken events the last time; `None` if there were none. Events that follow soon are taken together.
    events_taken: Option<Instant>,
    /// Whether the driver sleeps so that events gather.
    events_gather: bool,
    /// The isolate that runs the program.
    isolate: Option<IsolateHandle>,
    pub(crate) used: Used,
    /// Whether the process ends, because its memory is exhausted. The phase no longer changes.
    pub(crate) ends_process: bool,
}

/// What a program has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) cpu_time: Duration,
    pub(crate) peak_memory_bytes: u64,
}

impl Used {
    /// Replaces this by what was measured later. Neither decreases.
    fn add(&mut self, later: Self) {
        self.cpu_time = self.cpu_time.max(later.cpu_time);
        self.peak_memory_bytes = self.peak_memory_bytes.max(later.peak_memory_bytes);
    }
}

/// The current activity of a guest.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The guest has not begun, or computes.
    Computing,
    /// The guest waits for settlements.
    Waiting,
    /// The guest waits for the answer to a synchronous call.
    Blocked,
    /// The guest has ended. The outcome is taken once.
    Done(Option<Outcome>),
}

/// The target of a settlement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Settled {
    /// The call in this slot.
    Call(u32),
    /// The promise of the host with this number.
    Promise(u32),
}

/// What a guest that waited finds when it is resumed.
pub(crate) struct Resumed {
    pub(crate) settlements: VecDeque<(Settled, Settlement)>,
    /// Whether the timer of the guest is due.
    pub(crate) is_woken: bool,
}

/// The error of a program that was interrupted or dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped;

/// The handle of the synchronous call in the mailbox; no slot has this number.
pub(crate) const SYNC_CALL: u32 = u32::MAX;

impl Shared {
    pub(crate) fn new(program: &Program) -> Arc<Self> {
        let state = State {
            mailbox: Mailbox::new(&program.limits, program.budget.clone()),
            phase: Phase::Computing,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            is_woken: false,
            answer: None,
            waker: None,
            driver_sleeps: false,
            events_taken: None,
            events_gather: false,
            isolate: None,
            used: Used::default(),
            ends_process: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            to_guest: Condvar::new(),
            to_driver: Condvar::new(),
            computes: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
        })
    }

    /// Locks the state for what the guest does. Unlocking wakes the driver if there are events that it has not taken: the guest
    /// may compute for long after it.
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { state: self.state(), wake: DriverWake::none(self) }
    }

    /// Locks the state. Code that holds this lock leaves the state consistent even if it panics, so a poisoned lock is usable.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- The driver's side ----------------------------------------------------------------------------------------

    /// Adds a settlement, which takes effect when the guest is [resumed](Self::resume).
    pub(crate) fn settle(&self, settled: Settled, settlement: Settlement) {
        let mut state = self.state();
        if matches!(settled, Settled::Call(SYNC_CALL)) {
            state.answer = Some(settlement);
            return;
        }
        state.inbox_bytes += settlement.bytes() + mem::size_of::<(Settled, Settlement)>();
        state.inbox.push_back((settled, settlement));
    }

    /// Wakes the guest for its timer, when it is [resumed](Self::resume).
    pub(crate) fn wake_for_timer(&self) {
        self.state().is_woken = true;
    }

    pub(crate) fn unread_bytes(&self) -> usize {
        let state = self.state();
        state.inbox_bytes + state.answer.as_ref().map_or(0, Settlement::bytes)
    }

    /// Resumes a guest that waits, which then takes its settlements.
    pub(crate) fn resume(&self, mut state: MutexGuard<'_, State>) {
        state.phase = Phase::Computing;
        self.computes.store(true, Ordering::SeqCst);
        drop(state);
        self.to_guest.notify_one();
    }

    /// Waits for a guest that computes until it pauses or there are events, for at most [`BRIEFLY`].
    pub(crate) fn wait_briefly(&self, awake: &mut Awake) -> MutexGuard<'_, State> {
        if awake.begin() {
            let since = Instant::now();
            while self.computes.load(Ordering::SeqCst) && since.elapsed() < AWAKE {
                thread::yield_now(); // the guest may be on this processor
            }
            awake.end(since.elapsed(), AWAKE);
        }
        let mut state = self.state();
        if matches!(state.phase, Phase::Computing) && !state.mailbox.has_events() {
            state.driver_sleeps = true;
            state = self.to_driver.wait_timeout(state, BRIEFLY).unwrap_or_else(PoisonError::into_inner).0;
            state.driver_sleeps = false;
        }
        state
    }

    /// Waits for a guest that computes until it pauses, if the driver has taken events less than [`GATHER`] ago.
    pub(crate) fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let left = state.events_taken.map_or(Duration::ZERO, |taken| GATHER.saturating_sub(taken.elapsed()));
        if matches!(state.phase, Phase::Computing) && !left.is_zero() {
            (state.driver_sleeps, state.events_gather) = (true, true);
            state = self.to_driver.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            (state.driver_sleeps, state.events_gather) = (false, false);
        }
        state
    }

    /// Takes the events of the guest.
    pub(crate) fn take_events(&self, events: &mut Vec<Event>) {
        let mut state = self.state();
        if state.mailbox.has_events() {
            state.events_taken = Some(Instant::now());
            state.mailbox.take_events(events);
        }
    }

    /// Ends the guest in any phase.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let state = self.state();
        if let Some(isolate) = &state.isolate {
            isolate.terminate_execution();
        }
        self.wake_driver(state);
        self.to_guest.notify_one();
    }

    // ---- The guest's side -----------------------------------------------------------------------------------------

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Notes that the program runs in this isolate from now on. Fails if the program was stopped before.
    pub(crate) fn begin(&self, isolate: IsolateHandle) -> Result<(), Stopped> {
        // `stop` sets `stopped` before it reads the isolate: either it finds this isolate, or the check below sees `stopped`.
        self.state().isolate = Some(isolate);
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    /// Waits for settlements, and takes them.
    pub(crate) fn wait(&self, used: Used) -> Result<Resumed, Stopped> {
        let mut state = self.pause(Phase::Waiting, used);
        while !self.is_stopped() && !state.ends_process {
            if !matches!(state.phase, Phase::Waiting) {
                state.inbox_bytes = 0;
                let settlements = mem::take(&mut state.inbox);
                return Ok(Resumed { settlements, is_woken: mem::take(&mut state.is_woken) });
            }
            state = self.to_guest.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Err(Stopped)
    }

    /// Waits for the answer to a synchronous call.
    pub(crate) fn wait_for_answer(&self, used: Used) -> Result<Settlement, Stopped> {
        let mut state = self.pause(Phase::Blocked, used);
        while !self.is_stopped() && !state.ends_process {
            if !matches!(state.phase, Phase::Blocked)
                && let Some(answer) = state.answer.take()
            {
                return Ok(answer);
            }
            state = self.to_guest.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Err(Stopped)
    }

    fn pause(&self, phase: Phase, used: Used) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.enter(phase);
        state.used.add(used);
        self.wake_driver(state);
        self.computes.store(false, Ordering::SeqCst);
        self.state()
    }

    /// Notes what a guest that continues to compute has used.
    pub(crate) fn note(&self, used: Used) {
        let mut state = self.state();
        state.used.add(used);
        self.wake_driver(state);
    }

    /// Notes that the program has ended.
    pub(crate) fn end(&self, outcome: Outcome, used: Used) {
        let mut state = self.state();
        state.isolate = None;
        state.enter(Phase::Done(Some(outcome)));
        state.used.add(used);
        self.wake_driver(state);
        self.computes.store(false, Ordering::SeqCst);
    }

    /// Ends a program that has not ended, as the process ends for want of memory. Its thread may never return from V8.
    pub(crate) fn exhaust(&self, used: Used) {
        let mut state = self.state();
        state.used.add(used);
        state.isolate = None;
        if !matches!(state.phase, Phase::Done(_)) {
            state.enter(Phase::Done(Some(Outcome::OutOfMemory)));
        }
        state.ends_process = true;
        self.wake_driver(state);
        self.computes.store(false, Ordering::SeqCst);
    }

    /// Wakes the driver after unlocking the state.
    fn wake_driver(&self, mut state: MutexGuard<'_, State>) {
        let wake = state.wake_driver(self);
        drop(state);
        drop(wake);
    }

    /// Waits until the driver has dropped the guest, which it does after it has passed the outcome on.
    pub(crate) fn wait_for_drop(&self) {
        let state = self.state();
        let _ = self.to_guest.wait_timeout_while(state, MAX_WAIT_FOR_DROP, |_| !self.is_stopped());
    }
}

/// How long the driver polls for a guest without sleeping: waking it takes longer than most guests compute.
const AWAKE: Duration = Duration::from_micros(50);

/// How long the driver waits on its own thread for a guest that was started or resumed. Most guests compute for a shorter time,
/// and waking a thread that waits takes less time than waking its runtime. Guests on other engines compute on that thread for
/// longer.
const BRIEFLY: Duration = Duration::from_millis(5);

/// The minimum time between two wakes of the driver for events: a program may log thousands of lines in it.
const GATHER: Duration = Duration::from_millis(1);

/// The maximum time that a guest's thread waits for its driver to drop it. A driver that keeps the guest for longer does not
/// keep its memory.
const MAX_WAIT_FOR_DROP: Duration = Duration::from_millis(20);

/// The state, as the guest's thread has [locked](Shared::lock) it.
pub(crate) struct Locked<'a> {
    state: MutexGuard<'a, State>,
    /// Dropped after the state is unlocked.
    wake: DriverWake<'a>,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.state.mailbox.has_events() && !self.state.events_gather {
            self.wake = self.state.wake_driver(self.wake.shared);
        }
    }
}

/// Wakes the driver when it is dropped. Waking runs foreign code, which may drop the guest and so lock the state.
struct DriverWake<'a> {
    shared: &'a Shared,
    waker: Option<Waker>,
    sleeps: bool,
}

impl<'a> DriverWake<'a> {
    fn none(shared: &'a Shared) -> Self {
        Self { shared, waker: None, sleeps: false }
    }
}

impl Drop for DriverWake<'_> {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        if self.sleeps {
            self.shared.to_driver.notify_one();
        }
    }
}

impl State {
    /// Takes what wakes the driver, so that it is woken once until it polls the guest again.
    fn wake_driver<'a>(&mut self, shared: &'a Shared) -> DriverWake<'a> {
        DriverWake { shared, waker: self.waker.take(), sleeps: mem::take(&mut self.driver_sleeps) }
    }

    fn enter(&mut self, phase: Phase) {
        if !self.ends_process {
            self.phase = phase;
        }
    }

    /// Whether a guest that waits can continue: what it waits for has arrived.
    pub(crate) fn can_go_on(&self) -> bool {
        match self.phase {
            Phase::Waiting => self.is_woken || !self.inbox.is_empty(),
            Phase::Blocked => self.answer.is_some(),
            Phase::Computing | Phase::Done(_) => false,
        }
    }
}
