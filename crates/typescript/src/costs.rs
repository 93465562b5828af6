//! What compiling one source costs: the work is metered, and the memory is charged to the budget of the caller.

use std::mem::size_of;

use execbox_core::budget::{Budget, Charge, Meter, Refused};
use execbox_core::language::CompileLimits;

use crate::Parse;
use crate::{Fault, ParseError};

/// The work of reading a token, beside its bytes. One unit is about the work of reading a byte.
const TOKEN: usize = 16;

/// The number of tokens between two charges of what the parser records. A token adds few records.
const TOKENS_PER_CHARGE: u32 = 512;

/// Memory that is charged while one source is compiled. Dropping it releases the charge.
pub(crate) struct Costs<'b> {
    work: Meter<'b>,
    kept: Charge,
    /// The part of `kept` that pays for the records of the parser.
    records: usize,
    tokens_until_charge: u32,
}

impl<'b> Costs<'b> {
    /// Begins the costs of a source of `length` bytes. The work is limited to 4 Mi units, plus about that of reading every byte
    /// as a token 16 times.
    pub(crate) fn new(length: usize, reading: &CompileLimits<'b>) -> Parse<Self> {
        let limit = (4 << 20) + 16 * TOKEN * length;
        Ok(Self {
            work: Meter::new(&Budget::new(usize::MAX), limit, reading.should_stop),
            kept: reading.budget.charge(0).map_err(ParseError::Exhausted)?,
            records: 0,
            tokens_until_charge: TOKENS_PER_CHARGE,
        })
    }

    /// Counts the reading of a token, with the bytes that were read for it, from byte `at` on.
    #[inline]
    pub(crate) fn look(&mut self, bytes: usize, at: u32) -> Parse<()> {
        self.work.spend(TOKEN + bytes).map_err(|refused| halt(refused, at))
    }

    /// Counts a token that is consumed. Returns whether it is time to charge the records.
    #[inline]
    pub(crate) fn consume(&mut self) -> bool {
        self.tokens_until_charge -= 1;
        let is_time = self.tokens_until_charge == 0;
        if is_time {
            self.tokens_until_charge = TOKENS_PER_CHARGE;
        }
        is_time
    }

    /// Counts `count` steps, each about as much work as a token.
    #[inline]
    pub(crate) fn steps(&mut self, count: usize) -> Parse<()> {
        self.work.spend(count.saturating_mul(TOKEN)).map_err(|refused| halt(refused, 0))
    }

    /// Charges records whose size is now `bytes`. Records that were discarded stay charged, because
    /// their tables keep their capacity.
    pub(crate) fn charge_records(&mut self, bytes: usize) -> Parse<()> {
        let more = bytes.saturating_sub(self.records);
        self.records += more;
        self.kept.add(more).map_err(ParseError::Exhausted)
    }

    /// Charges `bytes`, and counts the work of writing them.
    pub(crate) fn keep(&mut self, bytes: usize) -> Parse<()> {
        self.work.spend(bytes / 8).map_err(|refused| halt(refused, 0))?;
        self.kept.add(bytes).map_err(ParseError::Exhausted)
    }

    /// Charges `count` items of `T` in tables, and as many steps.
    pub(crate) fn keep_items<T>(&mut self, count: usize) -> Parse<()> {
        self.steps(count)?;
        self.keep(count.saturating_mul(TABLE_FACTOR * size_of::<T>()))
    }
}

/// Growing tables have up to twice the capacity that they need.
const TABLE_FACTOR: usize = 2;

fn halt(refused: Refused, at: u32) -> ParseError {
    match refused {
        Refused::TooLarge(_) => {
            let message = "source too ambiguous to parse; simplify nested parentheses, arrow functions and types";
            ParseError::Fatal(Fault::new(message, at as usize))
        }
        Refused::Exhausted(exhausted) => ParseError::Exhausted(exhausted),
        Refused::Stopped => ParseError::Stopped,
    }
}
