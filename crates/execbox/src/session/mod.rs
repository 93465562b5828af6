//! The drivers: short loops that connect guests and sessions with the embedder's functions, the clock and a channel.
//!
//! [`local`] drives guests in this process. [`remote`] and [`runner`] drive the two halves of the runner protocol, the state
//! machines of [`core::protocol`](execbox_core::protocol). [`script`] executes scripts with them; runs are in
//! [`code`](crate::code).

pub(crate) mod channel;
pub(crate) mod host;
pub(crate) mod local;
pub(crate) mod parts;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod runner;
pub(crate) mod script;
pub(crate) mod serve;
pub(crate) mod spin;
pub(crate) mod stopwatch;
pub(crate) mod turns;
