//! The gateway, `execbox mcp`, and the commands beside it.

mod always;
mod approvals;
mod certificates;
mod clients;
mod configuration;
mod doctor;
mod keyring;
mod login;
mod mcp;
mod reload;
mod run_gateway;
mod setup;
mod skipped_entries;
mod state;
