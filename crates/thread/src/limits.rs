//! Bounds on the content of a thread.

use crate::origin::Origin;

/// The longest path, in bytes, normalized or not.
pub(crate) const PATH_BYTES: usize = 1_024;
/// The longest thread id, role, event name, or name of an environment variable, in bytes.
pub(crate) const NAME_BYTES: usize = 256;
/// Bounds on the content of each thread of a store, in bytes.
///
/// All but `page_bytes` apply to writes: a store that is opened with smaller limits keeps its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadLimits {
    /// The whole thread. Each file, message, event and environment value counts its name, its content and 256 bytes.
    /// Default 256 MiB.
    pub thread_bytes: u64,
    /// The size up to which guest code can fill the thread; the rest up to `thread_bytes` is reserved for the application.
    /// Default 192 MiB.
    pub guest_bytes: u64,
    /// One file. Default 8 MiB, which fits in one message to every executor.
    pub file_bytes: u64,
    /// The content of one message, as JSON. Default 1 MiB.
    pub message_bytes: u64,
    /// The data of one event, as JSON. Default 256 KiB.
    pub event_bytes: u64,
    /// One environment value. Default 64 KiB.
    pub env_bytes: u64,
    /// The content of one page of messages or events. A page ends before the row that would exceed it, but has at least one
    /// row. Default 8 MiB.
    pub page_bytes: u64,
}

impl ThreadLimits {
    execbox_core::setters! {
        thread_bytes: u64,
        guest_bytes: u64,
        file_bytes: u64,
        message_bytes: u64,
        event_bytes: u64,
        env_bytes: u64,
        page_bytes: u64,
    }
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
    /// The limit of the whole thread for a write of `origin`.
    pub(crate) fn thread_limit(&self, origin: Origin) -> u64 {
        match origin {
            Origin::Host => self.thread_bytes,
            Origin::Guest => self.thread_bytes.min(self.guest_bytes),
        }
    }
}
