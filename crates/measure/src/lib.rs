//! Measurements that the binary `execbox`, its benchmarks and the project's own tools share. The interface is not stable: it
//! changes with them.
//!
//! The crate exists because nothing can use the modules of a binary, because the binary must not depend on tools of the project,
//! and because setting an option of the allocator is `unsafe`, which the crate of the binary forbids.
//!
//! - [`allocator`]: the allocator of all of them, so that figures agree
//! - [`budget`], [`samples`], [`mod@unit`]: how often something is measured, and the figures
//! - [`programs`]: executions whose results are checked; [`typescript`]: generated sources
//! - [`memory`]: guests that wait at the same time; [`processes`]: the memory of processes
//! - [`head`]: the machine and the build that figures depend on

pub mod allocator;
pub mod budget;
pub mod head;
pub mod memory;
pub mod processes;
pub mod programs;
pub mod samples;
pub mod typescript;
pub mod unit;
