//! Budgets: the memory and work that one client or guest may use.
//!
//! Outsiders are guests, runners, hosts of a listening runner, MCP servers and clients. Everything that is kept for one of
//! them is charged to its [`Budget`] before it is kept, and the [`Charge`] is kept as long as what it covers. Work whose
//! size an outsider chooses runs on a [`Meter`], which charges each step and asks from time to time whether to stop.
//!
//! # What bounds the memory of a program
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | what the program has in use | the memory limit: the allocator of the engine | `memory_limit`, which guest code cannot catch |
//! | calls and notifications from receipt to answer, with 512 bytes for each; what compiling and linking keep; the log of a run | the host memory: [`Program::budget`](crate::program::Program::budget) and [`CompileLimits`](crate::language::CompileLimits) | `memory_limit`; for one value that exceeds it alone, `serialization_error` |
//! | answers that the guest has not taken | 1 MiB and one answer; the memory limit while the guest waits in a synchronous call | no further answer is passed on; `memory_limit` |
//! | with a remote runner, all of that and the messages being read | 2 × the host memory + 8 MiB: [`HostSession::budget`](crate::protocol::host::HostSession::budget) | `internal_error` |
//! | a result as JSON, roughly counted; the result of a run as a tree | the host memory; 2 × the memory limit | `serialization_error`; an error of `to_json` |
//! | log lines of a script | two limits | dropped |
//!
//! ```
//! use execbox_core::budget::Budget;
//!
//! let budget = Budget::new(1000);
//! let charge = budget.charge(600)?;
//! let error = budget.charge(600).unwrap_err();
//! assert_eq!((error.limit, error.used, error.requested), (1000, 600, 600));
//! drop(charge);
//! assert!(budget.charge(600).is_ok());
//! assert_eq!(budget.peak(), 600);
//! # Ok::<_, execbox_core::budget::Exhausted>(())
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::text::bytes_text;

/// An account of what is kept for one outsider, in bytes. Cheap to clone; clones share the account.
#[derive(Clone)]
pub struct Budget(Arc<Account>);

struct Account {
    /// The budget that this one is a [part](Budget::part) of. Everything is charged to it, too.
    whole: Option<Budget>,
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// A budget does not cover a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} in use and {} more requested of {}", bytes_text(self.used as u64), bytes_text(self.requested as u64), bytes_text(self.limit as u64))]
pub struct Exhausted {
    /// The size of the budget in bytes.
    pub limit: usize,
    /// The bytes that were in use.
    pub used: usize,
    /// The bytes that were requested in addition.
    pub requested: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account { whole: None, limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }))
    }

    /// A budget of `limit` bytes for one of several outsiders, which together have no more than this budget.
    #[must_use]
    pub fn part(&self, limit: usize) -> Self {
        let whole = Some(self.clone());
        Self(Arc::new(Account { whole, limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }))
    }

    /// The size of the budget in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were in use at once.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Charges bytes until the [`Charge`] is dropped.
    ///
    /// # Errors
    /// The budget does not cover them; nothing is charged.
    pub fn charge(&self, bytes: usize) -> Result<Charge, Exhausted> {
        let mut charge = Charge { budget: Some(self.clone()), bytes: 0 };
        charge.add(bytes)?;
        Ok(charge)
    }

    /// Charges bytes for the lifetime of the budget.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub fn spend(&self, bytes: usize) -> Result<(), Exhausted> {
        let Account { whole, limit, used, peak } = &*self.0;
        if let Some(whole) = whole {
            whole.spend(bytes)?;
        }
        let add = |now: usize| now.checked_add(bytes).filter(|sum| sum <= limit);
        match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(before) => {
                peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => {
                if let Some(whole) = whole {
                    whole.give_back(bytes);
                }
                Err(Exhausted { limit: *limit, used, requested: bytes })
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.0.whole {
            whole.give_back(bytes);
        }
    }
}

impl Drop for Account {
    /// Gives back to the whole what was spent for the lifetime of this part.
    fn drop(&mut self) {
        if let Some(whole) = &self.whole {
            whole.give_back(*self.used.get_mut());
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {})", self.used(), self.limit())
    }
}

/// Bytes that are charged to a [`Budget`] until this is dropped.
#[derive(Debug, Default)]
#[must_use = "dropping it gives the bytes back"]
pub struct Charge {
    /// `None` if the bytes are charged to no budget.
    budget: Option<Budget>,
    bytes: usize,
}

impl Charge {
    /// An empty charge, for memory that another charge covers.
    pub fn none() -> Self {
        Self::default()
    }

    /// How many bytes are charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges more.
    ///
    /// # Errors
    /// The budget does not cover it; what was charged before stays charged.
    pub fn add(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.budget.as_ref().map_or(Ok(()), |budget| budget.spend(bytes))?;
        self.bytes += bytes;
        Ok(())
    }

    /// Charges the bytes to `budget` instead, if it covers them.
    pub fn move_to(&mut self, budget: &Budget) {
        if let Ok(charge) = budget.charge(self.bytes) {
            *self = charge;
        }
    }

    /// Leaves the bytes charged for the lifetime of the budget.
    pub fn keep(mut self) {
        self.budget = None;
    }

    /// Gives back everything beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        if let Some(budget) = &self.budget {
            budget.give_back(surplus);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// A piece of work whose size an outsider chooses. Every step is charged before it is taken.
pub struct Meter<'a> {
    charge: Charge,
    /// The most that this piece of work may spend.
    limit: usize,
    spent: usize,
    /// The part of the charge that the work may use before it is checked again.
    checked: usize,
    should_stop: &'a dyn Fn() -> bool,
    refusal: Option<Refused>,
}

/// Why a [`Meter`] does not allow a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The piece of work exceeds its own limit, in bytes.
    #[error("it takes more than {}", bytes_text(*.0 as u64))]
    TooLarge(usize),
    /// The step, together with all that is kept for the outsider, exceeds the budget.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The caller asked to stop.
    #[error("it was stopped")]
    Stopped,
}

/// How many bytes of work are done between two checks: about a tenth of a millisecond.
const BETWEEN_CHECKS: usize = 64 << 10;

impl<'a> Meter<'a> {
    /// Work on behalf of the owner of `budget` that may spend at most `limit`. `should_stop` is called every 64 KiB.
    pub fn new(budget: &Budget, limit: usize, should_stop: &'a dyn Fn() -> bool) -> Self {
        let charge = Charge { budget: Some(budget.clone()), bytes: 0 };
        Self { charge, limit, spent: 0, checked: 0, should_stop, refusal: None }
    }

    /// Work that keeps nothing, and may spend at most `limit`.
    pub fn alone(limit: usize) -> Meter<'static> {
        Meter { charge: Charge::none(), limit, spent: 0, checked: 0, should_stop: &|| false, refusal: None }
    }

    /// How much may still be spent at most.
    pub fn left(&self) -> usize {
        let own = self.limit - self.spent;
        let Some(budget) = &self.charge.budget else { return own };
        let free = budget.limit().saturating_sub(budget.used()) + (self.charge.bytes - self.spent);
        free.min(own)
    }

    /// Charges a step of the work, before it is done.
    ///
    /// # Errors
    /// The step exceeds a limit, or the caller asked to stop. The work must end.
    #[inline]
    pub fn spend(&mut self, bytes: usize) -> Result<(), Refused> {
        match self.spent.checked_add(bytes) {
            Some(spent) if spent <= self.checked => {
                self.spent = spent;
                Ok(())
            }
            _ => self.check(bytes),
        }
    }

    /// The last refusal, for callers that get it as text.
    pub fn refusal(&self) -> Option<Refused> {
        self.refusal
    }

    #[cold]
    fn check(&mut self, bytes: usize) -> Result<(), Refused> {
        let checked = self.grant(bytes);
        self.refusal = checked.err();
        checked
    }

    fn grant(&mut self, bytes: usize) -> Result<(), Refused> {
        let spent = self.spent.checked_add(bytes).filter(|spent| *spent <= self.limit);
        let spent = spent.ok_or(Refused::TooLarge(self.limit))?;
        if (self.should_stop)() {
            return Err(Refused::Stopped);
        }
        let ahead = spent.saturating_add(BETWEEN_CHECKS).min(self.limit);
        let exactly = spent - self.charge.bytes.min(spent);
        if self.charge.add(ahead - self.charge.bytes.min(ahead)).is_err() {
            self.charge.add(exactly)?;
        }
        self.checked = self.charge.bytes.min(ahead);
        self.spent = spent;
        Ok(())
    }

    /// Gives back a part of what was spent, for bytes that are not kept.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_sub(bytes);
    }

    /// What was spent, to be kept as long as the result of the work.
    pub fn finish(mut self) -> Charge {
        self.charge.shrink_to(self.spent);
        self.charge
    }
}

impl fmt::Debug for Meter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("spent", &self.spent).field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_charge_is_given_back_when_it_is_dropped() {
        let budget = Budget::new(10);
        let mut first = budget.charge(4).unwrap();
        let second = budget.charge(6).unwrap();
        assert_eq!(first.add(1), Err(Exhausted { limit: 10, used: 10, requested: 1 }));
        assert_eq!((first.bytes(), budget.used()), (4, 10));
        drop(second);
        first.add(1).unwrap();
        first.shrink_to(2);
        assert_eq!((budget.used(), budget.peak()), (2, 10));
        budget.spend(1).unwrap();
        drop(first);
        assert_eq!(budget.used(), 1, "spent for good");
        assert!(budget.charge(usize::MAX).is_err());
    }

    #[test]
    fn parts_share_the_whole() {
        let whole = Budget::new(10);
        let (first, second) = (whole.part(8), whole.part(8));
        let charge = first.charge(6).unwrap();
        assert_eq!(first.spend(3), Err(Exhausted { limit: 8, used: 6, requested: 3 }));
        assert_eq!(second.spend(5), Err(Exhausted { limit: 10, used: 6, requested: 5 }));
        second.spend(4).unwrap();
        assert_eq!((whole.used(), first.used(), second.used()), (10, 6, 4));
        drop(charge);
        assert_eq!((whole.used(), first.used()), (4, 0));
        drop(second);
        assert_eq!(whole.used(), 0, "what was spent for its lifetime is given back");
    }

    #[test]
    fn a_meter_distinguishes_its_own_limit_from_the_budget() {
        let budget = Budget::new(1000);
        let never = || false;
        let mut work = Meter::new(&budget, 100, &never);
        assert_eq!(work.left(), 100);
        work.spend(60).unwrap();
        assert_eq!(work.spend(41), Err(Refused::TooLarge(100)));
        assert_eq!(work.spend(usize::MAX), Err(Refused::TooLarge(100)));
        work.spend(40).unwrap();
        let charge = work.finish();
        assert_eq!((charge.bytes(), budget.used()), (100, 100));
        let mut other = Meter::new(&budget, 2000, &never);
        assert_eq!(other.left(), 900);
        let exhausted = Exhausted { limit: 1000, used: 100, requested: 901 };
        assert_eq!(other.spend(901), Err(Refused::Exhausted(exhausted)));
        other.spend(900).unwrap();
        assert_eq!(budget.used(), 1000);
        drop((charge, other));
        assert_eq!((budget.used(), budget.peak()), (0, 1000));
    }

    #[test]
    fn a_meter_asks_whether_to_stop() {
        let budget = Budget::new(usize::MAX);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let mut work = Meter::new(&budget, usize::MAX, &stop);
        let taken = (0..1000).take_while(|_| work.spend(1 << 10).is_ok()).count();
        assert!((3 * 64..=3 * 65).contains(&taken), "{taken}");
        assert_eq!(work.spend(1 << 20), Err(Refused::Stopped));
    }
}
