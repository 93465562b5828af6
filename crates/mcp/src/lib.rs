//! MCP on both sides: MCP servers as providers of tools for guests ([`upstream`]), and an MCP server that runs
//! code against providers ([`server`]).
//!
//! It names no engine: executors are given. It knows no rule of executions: what a provider, a limit or an error
//! is, is the library's.

mod changes;
mod secrets;
pub mod server;
mod text;
pub mod upstream;

pub use changes::Changes;
pub use rmcp;
pub use secrets::Secrets;
