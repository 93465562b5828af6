//! A running program, without its guest: the contract, what the program has used, and its clock.
//!
//! [`Execution`] holds every rule about when a program has to stop. Its driver polls the guest and moves events, answers and
//! time; the drivers are the local one of the crate `execbox` and [`RunnerSession`](crate::protocol::runner::RunnerSession).
//!
//! ```text
//!   driver                                      Execution
//!   the guest computed ─── handle_computed ───► CPU time, the end of a wait
//!   the guest did ──────── handle_event ──────► calls, notices, settlements; what the contract counts
//!   the host answered ──── handle_answer ─────► settlements; bytes received
//!   the guest waits ────── handle_waiting ────► the beginning of a wait; stuck programs
//!   time passed ────────── handle_timeout ────► timeout, limit on waiting
//!                          take_timer ────────► the timer of the guest
//! ```
//!
//! A method that fails with a [`Stop`] has decided that the program is over: the driver drops the guest and passes the stop
//! to [`Execution::finish`]. Apart from the contract, the state is plain data.

use std::time::Duration;

use crate::contract::stop::Stop;
use crate::contract::{Action, Contract, Request};
use crate::engine::{Event, NoRoom, Outcome, Pending, Settlement};
use crate::language::Language;
use crate::program::Program;
use crate::usage::UsageLimiter;

/// How long the clock of a program may be paused in total, so that a guest is not kept without end.
pub const MAX_PAUSE: Duration = Duration::from_hours(1);

/// The time of one program. It begins when the program is accepted, and can be paused while the guest waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    accepted: Duration,
    /// When the timeout has passed; `None` if that is beyond the range of time. Each pause moves it.
    deadline: Option<Duration>,
    /// Since when the guest only waits.
    waits_since: Option<Duration>,
    is_paused: bool,
    /// How long the pauses that are over took together.
    paused: Duration,
}

impl Clock {
    /// The clock of a program that is accepted at this time and may take `timeout`.
    pub fn new(accepted: Duration, timeout: Duration) -> Self {
        let deadline = accepted.checked_add(timeout);
        Self { accepted, deadline, waits_since: None, is_paused: false, paused: Duration::ZERO }
    }

    /// The time since the program was accepted, pauses included.
    pub fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.accepted)
    }

    /// When the timeout will have passed if nothing changes. A pause is assumed to take as long as it may.
    pub fn deadline(&self) -> Option<Duration> {
        let is_standing = self.is_paused && self.waits_since.is_some();
        self.deadline?.checked_add(if is_standing { self.pause_left() } else { Duration::ZERO })
    }

    /// Whether the timeout has passed.
    pub fn is_late(&self, now: Duration) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Whether the clock is paused. A paused clock still counts the time in which the guest computes.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Begins a wait of the guest, unless one has begun.
    pub fn begin_wait(&mut self, now: Duration) {
        self.waits_since.get_or_insert(now);
    }

    /// Ends the wait of the guest. Returns how long it took by this clock; `None` if no wait had begun, or a pause covers it.
    pub fn end_wait(&mut self, now: Duration) -> Option<Duration> {
        let waited = now.saturating_sub(self.waits_since.take()?);
        if !self.is_paused {
            return Some(waited);
        }
        let paused = waited.min(self.pause_left());
        self.paused += paused;
        self.deadline = self.deadline.and_then(|deadline| deadline.checked_add(paused));
        Some(waited.saturating_sub(paused)).filter(|counted| !counted.is_zero())
    }

    /// Pauses or resumes the clock. Returns what [`end_wait`](Self::end_wait) does for the wait until now; the wait continues.
    pub fn set_paused(&mut self, is_paused: bool, now: Duration) -> Option<Duration> {
        let was_waiting = self.waits_since.is_some();
        let waited = self.end_wait(now);
        self.waits_since = Some(now).filter(|_| was_waiting);
        self.is_paused = is_paused;
        waited
    }

    fn pause_left(&self) -> Duration {
        MAX_PAUSE.saturating_sub(self.paused)
    }
}

/// What a driver measures while sources are compiled.
pub struct CompileTimer<'a> {
    /// Returns the time, by the clock of the program.
    pub now: &'a dyn Fn() -> Duration,
    /// Returns the CPU time since compiling began.
    pub cpu_time: &'a dyn Fn() -> Duration,
    /// Returns why the program must stop, apart from its limits; `None` if it need not.
    pub stopped: &'a dyn Fn() -> Option<Stop>,
}

/// Why sources did not become a program.
#[derive(Debug)]
pub enum CompileFailure<E> {
    /// The program was stopped, or has reached a limit.
    Stopped(Stop),
    /// The sources are invalid.
    Invalid(E),
}

/// Compiles the sources of a request. The time counts: [`Execution::handle_computed`] is next.
///
/// # Errors
/// The sources are invalid, or compiling takes too long.
pub fn compile<R: Request>(
    request: R,
    language: &dyn Language,
    clock: &Clock,
    timer: &CompileTimer<'_>,
) -> Result<(Program, R::Contract), CompileFailure<R::Error>> {
    let limits = *request.limits();
    let stop = || {
        (timer.stopped)()
            .or_else(|| clock.is_late((timer.now)()).then_some(Stop::TimedOut))
            .or_else(|| UsageLimiter::new(&limits, 0).compute((timer.cpu_time)()).err().map(Stop::Limit))
    };
    request
        .start(language, &|| stop().is_some())
        .map_err(|error| stop().map_or(CompileFailure::Invalid(error), CompileFailure::Stopped))
}

/// A running program of the contract `C`, without its guest.
#[derive(Debug)]
pub struct Execution<C: Contract + ?Sized> {
    clock: Clock,
    /// When the guest asked to be woken.
    timer: Option<Duration>,
    contract: Box<C>,
}

impl<C: Contract + ?Sized> Execution<C> {
    /// A program that was started. Its clock began when it was accepted, as reading the source takes time, too.
    pub fn new(contract: Box<C>, clock: Clock) -> Self {
        Self { clock, timer: None, contract }
    }

    pub(crate) fn contract_mut(&mut self) -> &mut C {
        &mut self.contract
    }

    /// The clock of the program, which began when it was accepted.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When [`handle_timeout`](Self::handle_timeout) and [`take_timer`](Self::take_timer) are due, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.clock.deadline().into_iter().chain(self.wait_end()).chain(self.timer).min()
    }

    /// When the guest will have waited for as long as it may; `None` if it does not wait or has no limit, or during a pause.
    fn wait_end(&self) -> Option<Duration> {
        let since = self.clock.waits_since.filter(|_| !self.clock.is_paused)?;
        since.checked_add(self.contract.usage().wait_left()?)
    }

    /// Handles that the guest has computed for `cpu_time`, from `began` on. To be called before what it did in that time is
    /// handled: if this fails, that is too late.
    ///
    /// # Errors
    /// The guest has computed or waited for too long.
    pub fn handle_computed(&mut self, began: Duration, cpu_time: Duration) -> Result<(), Stop> {
        self.end_wait(began)?;
        self.contract.usage_mut().compute(cpu_time).map_err(Stop::Limit)
    }

    /// Handles the most memory that the guest has used so far, if the engine measures it. To be called after each turn.
    pub fn handle_peak_memory(&mut self, bytes: Option<u64>) {
        self.contract.usage_mut().set_peak_memory(bytes);
    }

    /// Handles what the guest did. `clock` returns the time, and is also called while a large value is converted.
    ///
    /// # Errors
    /// The timeout has passed, or the program has reached another limit.
    pub fn handle_event(
        &mut self,
        event: Event,
        clock: &dyn Fn() -> Duration,
    ) -> Result<Action<C::Call, C::Notice>, Stop> {
        let now = clock();
        self.check_timeout(now)?;
        if let Event::Timer(after) = event {
            self.timer = after.and_then(|after| now.checked_add(after));
            return Ok(Action::Ignore);
        }
        let is_late = || self.clock.is_late(clock());
        self.contract.event(event, self.clock.elapsed(now), &is_late)
    }

    /// Handles the host's answer to a call or promise, and ends the wait of the guest. Returns how to settle it in the guest;
    /// `None` if it is not pending.
    ///
    /// # Errors
    /// The program has reached a limit: the guest must not receive it.
    pub fn handle_answer(
        &mut self,
        pending: C::Pending,
        answer: C::Answer,
        now: Duration,
    ) -> Result<Option<(Pending, Settlement)>, Stop> {
        let Some((pending, settlement)) = self.contract.settlement(pending, answer) else { return Ok(None) };
        self.end_wait(now)?;
        self.contract.usage_mut().answer(settlement.bytes()).map_err(Stop::Limit)?;
        Ok(Some((pending, settlement)))
    }

    /// Handles how many bytes of settlements a guest has not taken in because it is blocked in a synchronous call or is not
    /// polled.
    ///
    /// # Errors
    /// The bytes exceed the memory limit of the guest.
    pub fn handle_unread(&self, bytes: usize) -> Result<(), Stop> {
        if bytes > self.contract.limits().memory_len() { Err(Stop::HostMemory(NoRoom::Answers)) } else { Ok(()) }
    }

    /// Handles that the guest waits and has taken in all that was settled.
    ///
    /// # Errors
    /// The guest would wait forever.
    pub fn handle_waiting(&mut self, now: Duration) -> Result<(), Stop> {
        self.clock.begin_wait(now);
        if self.timer.is_some() {
            return Ok(());
        }
        self.contract.stuck().map_or(Ok(()), Err)
    }

    /// Pauses the clock while the guest waits, or resumes it: see [`MAX_PAUSE`].
    ///
    /// # Errors
    /// The timeout has passed, or the guest has waited for too long.
    pub fn set_paused(&mut self, is_paused: bool, now: Duration) -> Result<(), Stop> {
        self.check_timeout(now)?;
        let waited = self.clock.set_paused(is_paused, now);
        self.count_wait(waited)
    }

    /// Checks the timeout and the limit on waiting.
    ///
    /// # Errors
    /// The timeout has passed, or the guest has waited for too long.
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Stop> {
        self.check_timeout(now)?;
        if self.wait_end().is_some_and(|end| now >= end) { self.end_wait(now) } else { Ok(()) }
    }

    /// Takes the timer of the guest if it is due. If it returns true, the guest is to be [woken](crate::engine::Guest::wake). To be
    /// called after [`handle_timeout`](Self::handle_timeout).
    pub fn take_timer(&mut self, now: Duration) -> bool {
        self.timer.take_if(|due| now >= *due).is_some()
    }

    /// Handles the end of the program: the outcome of the guest, or why it was stopped.
    pub fn finish(mut self, end: Result<Outcome, Stop>, now: Duration) -> C::End {
        self.contract.finish(end, self.clock.elapsed(now))
    }

    fn check_timeout(&self, now: Duration) -> Result<(), Stop> {
        if self.clock.is_late(now) { Err(Stop::TimedOut) } else { Ok(()) }
    }

    /// Ends the wait of the guest, and counts it.
    fn end_wait(&mut self, now: Duration) -> Result<(), Stop> {
        let waited = self.clock.end_wait(now);
        self.count_wait(waited)
    }

    fn count_wait(&mut self, waited: Option<Duration>) -> Result<(), Stop> {
        waited.map_or(Ok(()), |waited| self.contract.usage_mut().wait(waited)).map_err(Stop::Limit)
    }
}
