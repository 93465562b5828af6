//! The two contracts between a host and a guest, as functions over [`engine`](crate::engine) and [`program`](crate::program).
//!
//! - [`script`]: a script calls tools of providers, with JSON values ([`ExecuteResult`](crate::error::ExecuteResult)).
//! - [`module`]: `run_code`, ES modules with structured clones of values, functions and promises of the host.
//! - `explain`: what an engine's error means at its place in the source, for both.

mod explain;
pub mod module;
pub mod script;
