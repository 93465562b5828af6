//! What a host checks of every runner, under both contracts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Misbehavior;
use crate::budget::{Budget, Charge};
use crate::engine::CallId;
use crate::error::{StackFrame, bounded_stack};
use crate::language::Position;
use crate::mailbox::CALL_COST;
use crate::program::Limits;
use crate::unawaited::{CallPlace, MAX_PLACES, UnawaitedCalls};
use crate::usage::Usage;

/// The budget of a session: what the runner may make this host keep, messages that are being read included.
///
/// A guest's inputs stay within its memory limit, and so does its result. The rest is for messages around them, and for
/// runners that count otherwise.
pub(super) fn session_budget(limits: &Limits) -> Budget {
    Budget::new(limits.host_memory_len().saturating_mul(2).saturating_add(8 << 20))
}

/// The calls that are not settled, with what the contract keeps of each. Their number and the size of their inputs are
/// bounded.
#[derive(Debug)]
pub(super) struct PendingCalls<T> {
    calls: BTreeMap<CallId, HeldCall<T>>,
    max_calls: usize,
    budget: Budget,
}

#[derive(Debug)]
struct HeldCall<T> {
    kept: T,
    _charge: Charge,
}

impl<T> PendingCalls<T> {
    /// No calls. What is kept of calls is charged to `budget`.
    pub(super) fn new(limits: &Limits, budget: Budget) -> Self {
        // As many as fit into the guest's memory by the count of `Mailbox`; a minimum for runners that count otherwise.
        Self { calls: BTreeMap::new(), max_calls: (limits.memory_len() / CALL_COST).max(1024), budget }
    }

    pub(super) fn insert(&mut self, id: CallId, kept: T, input_bytes: usize) -> Result<(), Misbehavior> {
        if self.calls.len() >= self.max_calls {
            return Err(Misbehavior::TooManyCalls(self.max_calls));
        }
        let charge = self.budget.charge(CALL_COST + input_bytes).map_err(Misbehavior::TooMuchInput)?;
        self.calls.insert(id, HeldCall { kept, _charge: charge });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// What is kept of the calls, in their order.
    pub(super) fn kept(&self) -> impl Iterator<Item = &T> {
        self.calls.values().map(|call| &call.kept)
    }

    pub(super) fn remove(&mut self, id: CallId) -> Option<T> {
        self.calls.remove(&id).map(|call| call.kept)
    }
}

/// What a runner reports of unawaited calls; `None` if it cannot be, as the program made only `made` calls. Only functions
/// that the program has, and places in it, remain.
pub(super) fn checked_calls(
    calls: UnawaitedCalls,
    made: u64,
    has_function: impl Fn(&CallPlace) -> bool,
    has_place: impl Fn(&StackFrame) -> bool,
) -> Option<UnawaitedCalls> {
    let UnawaitedCalls { waited_for, unanswered, mut places } = calls;
    if waited_for.checked_add(unanswered).is_none_or(|count| count > made) {
        return None;
    }
    places.truncate(MAX_PLACES); // a runner sends no more
    places.retain(|place| has_function(place) && place.calls <= made);
    for place in &mut places {
        place.at = bounded_stack(place.at.take().into_iter()).pop().filter(&has_place);
    }
    UnawaitedCalls::new(waited_for, unanswered, places)
}

/// Whether a source of `len` bytes can contain that position.
pub(super) fn can_contain(len: usize, at: Position) -> bool {
    [at.line, at.column].into_iter().all(|number| (1..=len + 1).contains(&(number as usize)))
}

/// Describes the fault if a runner reports too early that a limit was reached. `elapsed` and `usage` are what this host
/// measured. A report may be early by one percent, as clocks differ.
pub(super) fn too_early(limits: &Limits, usage: &Usage, elapsed: Duration) -> Option<String> {
    let timeout = limits.stops_after(usage);
    let [timeout_ms, elapsed_ms] = [timeout, elapsed].map(|time| time.as_millis());
    let is_early = elapsed < timeout.saturating_sub(timeout / 100);
    is_early.then(|| format!("the runner reported a timeout after {elapsed_ms} of {timeout_ms} ms"))
}
