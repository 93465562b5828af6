//! Helpers of all tables: checks, costs, pages, and conversions from and to the database.

use execbox_core::value::Value;
use serde_json::Value as Json;

use crate::error::{NameProblem, Named, Stored, ThreadError};
use crate::limits::{NAME_BYTES, ThreadLimits};

/// The bytes that each row counts in addition to its names and content, so that the number of rows is bounded.
pub(crate) const ROW_BYTES: u64 = 256;
/// The default and the largest number of rows of a page.
pub(crate) const PAGE_ROWS: u32 = 100;
pub(crate) const MAX_PAGE_ROWS: u32 = 1_000;

/// The bytes that a row with `bytes` bytes of names and content counts against its thread.
pub(crate) fn row_cost(bytes: usize) -> u64 {
    (bytes as u64).saturating_add(ROW_BYTES)
}

pub(crate) fn check_size(what: Stored, size: usize, limit: u64) -> Result<(), ThreadError> {
    let size = size as u64;
    if size > limit { Err(ThreadError::TooLarge { what, size, limit }) } else { Ok(()) }
}

pub(crate) fn check_name(what: Named, name: &str) -> Result<(), ThreadError> {
    let problem = match name {
        "" => NameProblem::Empty,
        long if long.len() > NAME_BYTES => NameProblem::TooLong(long.len()),
        name if name.contains(char::is_control) => NameProblem::ControlCharacter,
        _ => return Ok(()),
    };
    Err(ThreadError::Name { what, problem })
}

/// The number of rows of a page.
pub(crate) fn page_rows(limit: Option<u32>) -> u32 {
    limit.unwrap_or(PAGE_ROWS).min(MAX_PAGE_ROWS)
}

/// The bytes left in a page. The first row always fits.
pub(crate) struct PageBudget {
    left: u64,
    first: bool,
}

impl PageBudget {
    pub(crate) fn new(limits: &ThreadLimits) -> Self {
        Self { left: limits.page_bytes, first: true }
    }

    /// Takes a row of `bytes` bytes. Returns false if it is not part of the page.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes as u64);
        let fits = left.is_some() || self.first;
        self.first = false;
        self.left = left.unwrap_or(0);
        fits
    }
}

/// Converts a number of the database, which is never negative.
pub(crate) fn from_db(number: i64) -> Result<u64, ThreadError> {
    u64::try_from(number).map_err(ThreadError::damaged)
}

/// Converts a number to the 63 bits of the database, saturating.
pub(crate) fn to_db(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Encodes JSON for storage. Fails if it nests too deep to be read again; `what` names it in that error.
pub(crate) fn json_text(json: &Json, what: &str) -> Result<String, ThreadError> {
    Value::from_json(Some(json), what)?;
    Ok(json.to_string())
}

pub(crate) fn stored_json(text: &str) -> Result<Json, ThreadError> {
    serde_json::from_str(text).map_err(ThreadError::damaged)
}
