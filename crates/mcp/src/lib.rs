//! MCP on both sides: MCP servers as providers of tools for guests ([`upstream`]), and an MCP server that runs
//! code against providers ([`server`]).
//!
//! It names no engine: executors are given.

pub mod server;
pub mod upstream;
