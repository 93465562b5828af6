//! The binary as users and other programs meet it: its commands, the gateway, runners that listen, the jail and the pages.
//!
//! `cargo test --workspace --test binary -- run_code::` runs the tests of one module. Most tests wait for processes, servers and
//! files, and are one test binary, so that many run at once. Tests that count children of their own process, or measure memory,
//! are test binaries of their own.

mod bench;
mod command_line;
mod conform;
mod docs;
mod engines;
mod gateway;
mod hostile_hosts;
mod jail;
mod listen;
mod long_messages;
mod run;
mod run_code;
mod runner;
mod serve;
#[path = "../support/mod.rs"]
mod support;
mod tls;
