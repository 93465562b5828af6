//! MCP on both sides: MCP servers as providers of tools for guests ([`upstream`]), and an MCP server that runs
//! code against providers ([`server`]). [`config`] reads which servers there are, [`servers`] keeps them connected.
//!
//! It names no engine: executors are given. It knows no rule of executions: what a provider, a limit or an error
//! is, is the library's.

mod backoff;
mod changes;
pub mod config;
mod filter;
mod secrets;
pub mod server;
pub mod servers;
mod text;
pub mod upstream;

pub use changes::Changes;
pub use filter::{Pattern, ToolFilter};
pub use rmcp;
pub use secrets::Secrets;

/// The examples of the book, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/gateway.md")]
struct Pages;
