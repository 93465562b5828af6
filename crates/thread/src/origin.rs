//! Who changed a thread.

use serde::Serialize;

/// Who made a change. Guest code cannot forge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The application: [`ThreadState::emit`](crate::ThreadState::emit).
    Host,
    /// Guest code, through a [bridge](crate::Bridge).
    Guest,
}
