//! The tokio runtime of the caller: whether it has what an executor needs.
//!
//! Tokio has no query for the drivers of a runtime, and panics where a missing one is used. So each driver is tried once, where
//! a panic is caught, before anything depends on it. If the driver is missing, the panic hook of the process reports it, too,
//! and a process that aborts on panics ends.

use std::cell::Cell;
use std::io;
use std::panic::catch_unwind;
use std::time::Duration;

use execbox_core::error::ExecuteError;
use tokio::net::UnixDatagram;
use tokio::runtime::{Handle, Id};

/// What the caller's runtime lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MissingRuntime {
    #[error("there is no tokio runtime: executors need one, built with enable_time")]
    Runtime,
    #[error("the tokio runtime has no timers: build it with enable_time")]
    Timers,
    #[error("the tokio runtime has no I/O: build it with enable_io")]
    Io,
}

impl From<MissingRuntime> for ExecuteError {
    fn from(missing: MissingRuntime) -> Self {
        Self::internal(missing.to_string())
    }
}

impl From<MissingRuntime> for io::Error {
    fn from(missing: MissingRuntime) -> Self {
        Self::other(missing)
    }
}

/// The current runtime, which has timers.
pub(crate) fn with_timers() -> Result<Handle, MissingRuntime> {
    let runtime = Handle::try_current().map_err(|_| MissingRuntime::Runtime)?;
    let timer = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO)));
    timer.map_err(|_panic| MissingRuntime::Timers)?;
    Ok(runtime)
}

/// Checks that the current runtime has timers and I/O.
pub(crate) fn check_io() -> Result<(), MissingRuntime> {
    // Trying takes four system calls.
    thread_local! { static CHECKED: Cell<Option<Id>> = const { Cell::new(None) }; }
    let runtime = with_timers()?.id();
    if CHECKED.get() != Some(runtime) {
        // A socket that the system refuses is no answer: whatever needs one fails with that error.
        let _ = catch_unwind(UnixDatagram::unbound).map_err(|_panic| MissingRuntime::Io)?;
        CHECKED.set(Some(runtime));
    }
    Ok(())
}
