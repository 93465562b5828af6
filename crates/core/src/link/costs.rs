//! What linking costs: lookups are metered, and memory is charged to the budget of the caller.

use super::limits::MAX_STEPS;
use crate::budget::{Budget, Charge, Exhausted, Meter, Refused};
use crate::language::CompileLimits;

/// The costs of linking one graph.
#[derive(Debug)]
pub(super) struct Costs<'a> {
    pub(super) budget: Budget,
    /// What is kept until the graph is linked.
    pub(super) kept: Charge,
    lookups: Meter<'a>,
}

/// The work of a lookup, as bytes on the meter.
const LOOKUP: usize = 64;

impl<'a> Costs<'a> {
    pub(super) fn new(reading: &CompileLimits<'a>) -> Result<Self, Exhausted> {
        let lookups = Meter::new(&Budget::new(usize::MAX), MAX_STEPS * LOOKUP, reading.should_stop);
        Ok(Self { budget: reading.budget.clone(), kept: reading.budget.charge(0)?, lookups })
    }

    /// Counts a lookup of a name or a module.
    pub(super) fn step(&mut self) -> Result<(), Refused> {
        self.lookups.spend(LOOKUP)
    }
}
