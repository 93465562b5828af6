//! The origin of changes of a thread.

use serde::Serialize;

/// The side that made a change: the application or guest code. Guest code cannot forge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Origin {
    /// The application: [`ThreadState::emit`](crate::ThreadState::emit).
    Host,
    /// Guest code, through a [bridge](crate::Bridge).
    Guest,
}
