//! The drivers: short loops that connect guests and sessions with the embedder's functions, the clock and a channel.
//!
//! [`local`] drives guests in this process. [`remote`] and [`runner`] drive the two halves of the runner protocol, the state
//! machines of [`core::protocol`](execbox_core::protocol). [`script`] executes scripts with them; runs are in
//! [`code`](crate::code).
//!
//! ```text
//!   Executor                                                             Runner
//!   remote ────────────────────────┐
//!   worker  ─► pooled ─► pool ─────┼─► HostSession ◄─ channel ─► RunnerSession ─► Guest
//!   process ─►   "        "   ─────┘   tools, caller, clock │    engine, clock
//!                                                           │
//!               messages as they are (worker) ──────────────┤
//!               JSON over a Transport ──────────────────────┘─► stream · command · websocket · yours
//! ```
//!
//! A [transport](crate::transport) carries messages as text and does not interpret them. A [`channel`] carries typed messages; the
//! drivers know channels only. Whether a runner can be used again is decided by the session, and whether anything is left in its
//! pipes by the transport.

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
