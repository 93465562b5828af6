//! What gateways need beside the library: approvals, clients with tokens of their own, reloading, and the state of those
//! that run.

pub(crate) mod always;
pub(crate) mod approvals;
pub(crate) mod clients;
pub(crate) mod policy;
pub(crate) mod reload;
pub(crate) mod running;
pub(crate) mod tool_source;
pub(crate) mod watch;
