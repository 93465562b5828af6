//! Runs in this process, each on a task of its own.

use execbox_core::contract::module::{CodeExecutionResult, Failure, ModuleRun, Request};

use super::execution::Run;
use crate::session::local;
use crate::session::parts::Parts;

/// Drives a run to its end.
pub(crate) async fn drive(parts: Parts, request: Request, mut run: Run) -> CodeExecutionResult {
    let condition = run.stop_condition();
    let started = ModuleRun::start(&*parts.language, request, &|| condition.reached().is_some());
    let (program, mut module) = match (started, condition.reached()) {
        (Ok(started), _) => started,
        (Err(_), Some(stop)) => return run.finish_stopped(&stop, None),
        (Err(failure), None) => return run.finish(Err(failure), None),
    };
    let mut guest = match parts.engine.start(program) {
        Ok(guest) => guest,
        Err(error) => return run.finish(Err(Failure::internal(error.to_string())), None),
    };
    let end = local::drive(&mut *guest, &mut module, &mut run, &condition).await;
    let memory_used_bytes = guest.peak_memory_bytes();
    drop(guest);
    match end {
        Ok(outcome) => run.finish(module.finish(outcome), memory_used_bytes),
        Err(stop) => run.finish_stopped(&stop, memory_used_bytes),
    }
}
