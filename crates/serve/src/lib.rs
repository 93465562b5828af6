//! The embedding service: an application's use of `execbox` over one connection, as JSON-RPC 2.0 in both directions, one message
//! per line.
//!
//! ```text
//!  application                                          service
//!    │ initialize, add_provider, execute, run_code, …  ──►  │  connection ─► session ─► executor
//!    │ ◄──  call_tool, call_function, approve, event        │      ▲                        │
//!    │ answers, cancel, report_progress  ──►                │      └── outbox ◄── peer ◄────┘
//! ```
//!
//! - `messages`: all messages as types, from which [`schema`] is made. `rpc`: JSON-RPC itself.
//! - `connection`: the loop that reads and writes. `wait`: for its next message. `outbox`: what waits to be written. `peer`: requests to the application.
//! - `session`: what the methods do. `execution`: `execute` and `run_code`. `tools`, `functions`, `policy`, `events`: what of an
//!   execution crosses to the application.
//!
//! # What a change must keep
//!
//! - The application is trusted, and makes mistakes: each has an answer that says what is wrong, and nothing panics.
//! - Guests are hostile: what the application sends for a program is charged to the program, and what programs send to an
//!   application that does not read is bounded.
//! - A connection that ends takes its executions with it.

mod connection;
mod events;
mod execution;
mod functions;
mod limits;
mod messages;
mod outbox;
mod peer;
mod policy;
mod rpc;
mod schema;
mod service;
mod session;
mod tools;
mod wait;

pub use schema::schema;
pub use service::{ServerReport, ServerSource, Service};
