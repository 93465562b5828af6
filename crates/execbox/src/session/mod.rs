//! The drivers of both halves of the runner protocol: short loops around the state machines of
//! [`core::protocol`](execbox_core::protocol), and the channels that carry their messages.

pub(crate) mod channel;
pub(crate) mod host;
pub(crate) mod in_flight;
pub(crate) mod local;
pub(crate) mod parts;
pub(crate) mod runner;
pub(crate) mod serve;
pub(crate) mod turns;
pub(crate) mod wire;
