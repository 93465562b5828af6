//! How much a thread may hold, and how much of it is given out at once.

use crate::error::{NameProblem, Named, Stored, ThreadError};
use crate::events::Origin;

/// The longest path, in bytes, normalised or not.
pub(crate) const PATH_BYTES: usize = 1_024;
/// The longest thread id, role, event name, or name of an environment variable, in bytes.
pub(crate) const NAME_BYTES: usize = 256;
/// What everything that is stored counts beside its own bytes, so that small things cannot be without number.
pub(crate) const ROW_BYTES: u64 = 256;
/// How many rows a query gives that does not say, and how many at most.
pub(crate) const PAGE_ROWS: u32 = 100;
pub(crate) const MAX_PAGE_ROWS: u32 = 1_000;

/// Bounds on what each thread of a store may hold. All are in bytes.
///
/// They hold for what is written from now on: a store that is opened with smaller limits keeps what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLimits {
    /// Everything of one thread together; each file, message, event and environment value counts 256 more than its name
    /// and content. By default 256 MiB.
    pub thread_bytes: u64,
    /// How full guest code may make a thread, at most `thread_bytes`: what is beyond is left to the application. By default
    /// 192 MiB.
    pub guest_bytes: u64,
    /// One file. By default 8 MiB, which crosses every wall in one message.
    pub file_bytes: u64,
    /// One message's content, as JSON. By default 1 MiB.
    pub message_bytes: u64,
    /// One event's data, as JSON. By default 256 KiB.
    pub event_bytes: u64,
    /// One environment value. By default 64 KiB.
    pub env_bytes: u64,
    /// The content of one page of messages or events. A page ends before the row that would exceed it, and has one row at
    /// least. By default 8 MiB.
    pub page_bytes: u64,
}

impl Default for ThreadLimits {
    fn default() -> Self {
        Self {
            thread_bytes: 256 << 20,
            guest_bytes: 192 << 20,
            file_bytes: 8 << 20,
            message_bytes: 1 << 20,
            event_bytes: 256 << 10,
            env_bytes: 64 << 10,
            page_bytes: 8 << 20,
        }
    }
}

impl ThreadLimits {
    /// What a thread may hold when something of that origin is added.
    pub(crate) fn thread_limit(&self, origin: Origin) -> u64 {
        match origin {
            Origin::Host => self.thread_bytes,
            Origin::Guest => self.thread_bytes.min(self.guest_bytes),
        }
    }
}

/// What a row with that many bytes of names and content counts against its thread.
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

/// How many rows a query gives.
pub(crate) fn page_rows(asked: Option<u32>) -> u32 {
    asked.unwrap_or(PAGE_ROWS).min(MAX_PAGE_ROWS)
}

/// Ends a page where its bytes are used up; the first row always fits.
pub(crate) struct PageBudget {
    left: u64,
    first: bool,
}

impl PageBudget {
    pub(crate) fn new(limits: &ThreadLimits) -> Self {
        Self { left: limits.page_bytes, first: true }
    }

    /// Whether a row of that many bytes is still part of the page.
    pub(crate) fn has_room_for(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes as u64);
        let fits = left.is_some() || self.first;
        self.first = false;
        self.left = left.unwrap_or(0);
        fits
    }
}
