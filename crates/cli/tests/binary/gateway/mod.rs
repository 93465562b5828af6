//! The gateway, `execbox mcp`, and the commands beside it, with the real binary. One test binary: most of these tests wait for
//! servers, files and people, so that many can run at once.

mod approvals;
mod configuration;
mod login;
mod mcp;
mod reload;
mod state;
#[path = "../support/mod.rs"]
mod support;
